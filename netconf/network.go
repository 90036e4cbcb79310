package netconf

import (
	"encoding/json"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
)

// Network is a network configuration as one plugin gets it: the keys that the specification defines
// (SPEC, section 1), typed. The plugin's own keys are read with Decode.
type Network struct {
	CNIVersion       string                     `json:"cniVersion"`                // "0.1.0" if absent or empty
	Name             string                     `json:"name"`                      // the network's name
	Type             string                     `json:"type"`                      // the plugin's name
	Capabilities     map[string]bool            `json:"capabilities"`              // what the plugin says it can do; libcni leaves it in
	RuntimeConfig    map[string]json.RawMessage `json:"runtimeConfig"`             // from the runtime, by capability; not sent on GC and STATUS
	Args             map[string]json.RawMessage `json:"args"`                      // from the runtime, unasked; "cni" is the usual member
	IPMasq           bool                       `json:"ipMasq"`                    // masquerade what leaves the network
	IPAM             IPAM                       `json:"ipam"`                      // the address plugin; its other keys are its own
	DNS              types.DNS                  `json:"dns"`                       // the network's DNS settings
	PrevResult       json.RawMessage            `json:"prevResult"`                // as received; Request.Prev is it decoded
	ValidAttachments []types.GCAttachment       `json:"cni.dev/valid-attachments"` // GC: what lives. nil: absent or null; empty: nothing lives
	Attachments      []types.GCAttachment       `json:"cni.dev/attachments"`       // the same under its name in SPEC 1.1.0 as of 2024; ParseNetwork merges it

	bytes json.RawMessage
}

// IPAM is the ipam section of a configuration, as far as the calling plugin knows it.
type IPAM struct {
	Type string `json:"type"` // the plugin's name; empty means no addresses
}

// ParseNetwork reads the specification's keys of a configuration. Errors carry code 6 and, where
// they are about a key, its JSON path, line and column; the network then holds what did decode.
func ParseNetwork(config []byte) (Network, error) {
	n := &Network{}
	err := checkJSON(config)
	if err == nil {
		d := decoder{src: config, quiet: true}
		d.top(n)
		err = Join(d.errs...)
	}
	n.bytes = config
	if n.CNIVersion == "" {
		n.CNIVersion = "0.1.0" // SPEC 0.1.0 to 0.2.0 had no such key
	}
	if n.ValidAttachments == nil {
		n.ValidAttachments = n.Attachments
	}
	return *n, err
}

// Bytes is the configuration that the network was read from, byte for byte.
func (n Network) Bytes() json.RawMessage { return n.bytes }

// Is tells whether the configuration's version is at least the given one.
func (n Network) Is(atLeast string) bool { return compareVersions(n.CNIVersion, atLeast) >= 0 }

// raw is the value of a key of the configuration as it stands there.
func (n Network) raw(key string) json.RawMessage {
	for _, m := range members(n.bytes, 0) {
		if m.key == key {
			return m.value(n.bytes)
		}
	}
	return nil
}

// compareVersions compares two dotted numbers, as cmp.Compare does; a part that is no number counts as 0.
func compareVersions(a, b string) int {
	var x, y [3]int
	_, _ = fmt.Sscanf(a, "%d.%d.%d", &x[0], &x[1], &x[2])
	_, _ = fmt.Sscanf(b, "%d.%d.%d", &y[0], &y[1], &y[2])
	for i := range x {
		if x[i] != y[i] {
			return x[i] - y[i]
		}
	}
	return 0
}

// Patch returns the configuration with a top-level key set to a JSON value, or without it where the
// value is nil. Every other byte stays as it is: a number above 2^53 survives, and so do key order and white
// space, which a round trip through a map (as libcni's InjectConf) loses. Of a key that is
// there more than once all are removed and one is written. The original is not touched.
func Patch(config []byte, key string, value json.RawMessage) (json.RawMessage, error) {
	if err := checkJSON(config); err != nil {
		return nil, err
	}
	if value != nil && !json.Valid(value) {
		return nil, Errorf(CodeDecodingFailure, "patch %q: the value is not JSON", key)
	}
	out := make([]byte, 0, len(config)+len(key)+len(value)+4)
	ms := members(config, 0)
	kept, end := 0, skipSpace(config, 0)+1
	out = append(out, config[:end]...) // up to and with the brace
	for i, m := range ms {
		if m.key == key {
			continue
		}
		start := end // with the white space that stands before the member
		if i > 0 {
			start = skipSpace(config, ms[i-1].end) + 1
		}
		if kept > 0 {
			out = append(out, ',')
		}
		out = append(out, config[start:m.end]...)
		kept++
	}
	if value != nil {
		if kept > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(key)
		if err != nil {
			return nil, fmt.Errorf("patch %q: %w", key, err)
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	last := end
	if len(ms) > 0 {
		last = ms[len(ms)-1].end
	}
	return append(out, config[last:]...), nil
}
