package netconf

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

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
	Log              json.RawMessage            `json:"log"`                       // not of the specification: what skel logs, and where. Here, so that it is no unknown key

	bytes json.RawMessage
}

// IPAM is the ipam section of a configuration, as far as the calling plugin knows it.
type IPAM struct {
	Type string `json:"type"` // the plugin's name; empty means no addresses
}

// ParseNetwork reads the specification's keys of a configuration. Errors carry code 6 and, where
// they are about a key, its JSON path, line and column; the network then holds what did decode.
func ParseNetwork(config []byte) (Network, error) {
	n, errs := parseNetwork(config)
	return n, Join(errs...)
}

func parseNetwork(config []byte) (Network, []error) {
	n := &Network{}
	var errs []error
	if err := checkJSON("configuration", config); err != nil {
		errs = []error{err}
	} else {
		d := decoder{op: "configuration", src: config, quiet: true}
		d.top(n)
		errs = d.failures()
	}
	n.bytes = config
	if n.CNIVersion == "" {
		n.CNIVersion = oldest // SPEC 0.1.0 to 0.2.0 had no such key
	}
	n.ValidAttachments = union(n.ValidAttachments, n.Attachments)
	return *n, errs
}

// oldest is the version of a configuration that names none.
const oldest = "0.1.0"

// union is a with what only b has: an attachment that either list calls alive is alive. It is nil if
// both are. libcni sends the same list twice.
func union(a, b []types.GCAttachment) []types.GCAttachment {
	if a == nil || len(b) == 0 || slices.Equal(a, b) {
		if a == nil {
			return b
		}
		return a
	}
	have := make(map[types.GCAttachment]bool, len(a))
	for _, x := range a {
		have[x] = true
	}
	out := slices.Clone(a)
	for _, x := range b {
		if !have[x] {
			out = append(out, x)
		}
	}
	return out
}

// Bytes is the configuration that the network was read from, byte for byte.
func (n Network) Bytes() json.RawMessage { return n.bytes }

// Is tells whether the configuration's version is at least the given one.
func (n Network) Is(atLeast string) bool { return compareVersions(n.CNIVersion, atLeast) >= 0 }

// compareVersions compares two dotted numbers, as cmp.Compare does; a part that is missing or no
// number counts as 0.
func compareVersions(a, b string) int {
	for range 3 {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if m, n := number(x), number(y); m != n {
			return m - n
		}
	}
	return 0
}

func number(s string) int {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// Patch returns the configuration with a top-level key set to a JSON value, or without it where the
// value is nil. Every other byte stays as it is: a number above 2^53 survives, and so do key order and white
// space, which a round trip through a map (as libcni's InjectConf) loses. Of a key that is
// there more than once all are removed and one is written. The original is not touched.
func Patch(config []byte, key string, value json.RawMessage) (json.RawMessage, error) {
	if err := checkJSON("configuration", config); err != nil {
		return nil, err
	}
	if value != nil && !json.Valid(value) {
		return nil, Errorf(CodeDecodingFailure, "patch %q: the value is not JSON", key)
	}
	name, err := json.Marshal(key)
	if err != nil {
		return nil, Errorf(CodeInternal, "patch %q: %w", key, err)
	}
	ms := members(config, 0)
	start := skipSpace(config, 0) + 1 // behind the brace: each member is taken with the space before and behind it
	out := append(make([]byte, 0, len(config)+len(name)+len(value)+2), config[:start]...)
	empty, end := true, start
	comma := func() {
		if !empty {
			out = append(out, ',')
		}
		empty = false
	}
	for i, m := range ms {
		if end = m.end; i < len(ms)-1 {
			end = skipSpace(config, m.end)
		}
		if m.key != key {
			comma()
			out = append(out, config[start:end]...)
		}
		start = end + 1 // behind the comma
	}
	if value != nil {
		comma()
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, config[end:]...), nil
}
