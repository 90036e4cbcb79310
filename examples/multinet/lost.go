package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/examples/multinet/selection"
	"github.com/cnikit/cnikit/netconf"
)

// lost tells whether the container has no usable record though it was attached: the runtime knows a result, or there is a
// record that is damaged. why is what is damaged, the whole record or a part of it. An error is a record of multus' that
// cannot be taken over just now.
func (m multinet) lost(ctx context.Context, req *netconf.Request) (lost bool, why, err error) {
	why = m.adopt(ctx, req)
	if why != nil && !errors.Is(why, delegate.ErrBadRecord) {
		return false, nil, why
	}
	rec, err := m.records().Load(ctx, req)
	switch {
	case errors.Is(err, delegate.ErrBadRecord):
		return true, err, nil
	case errors.Is(err, delegate.ErrNoRecord):
		return why != nil || req.Prev != nil, why, nil
	case err == nil:
		return false, netconf.Join(rec.Bad...), nil
	}
	return false, nil, nil // the DEL by it says what is wrong
}

// detachLost detaches a container without a record from what can be known of its networks: what multus' libcni remembers,
// which is complete, and the default network.
func (m multinet) detachLost(ctx context.Context, req *netconf.Request) (complete bool, err error) {
	var all []delegate.Attachment
	for _, c := range readCache(m.cacheDir(), req.ContainerID) {
		if a, err := c.attachment(req); err == nil {
			all = append(all, a)
		}
	}
	complete = len(all) > 0
	if !slices.ContainsFunc(all, func(a delegate.Attachment) bool { return a.IfName == req.IfName }) {
		known, err := m.networks(ctx, req, nil, nil)
		if err != nil {
			req.Warn("a default network is not detached", "error", err.Error())
		}
		if len(known) > 0 {
			first := delegate.Attachment{Network: known[0].Network, IfName: req.IfName, Result: ownResult(req), RuntimeConfig: req.Network.RuntimeConfig}
			all = append([]delegate.Attachment{first}, all...)
		}
	}
	errs := []error{m.setAside(ctx, m.multusFile(req))}
	if len(all) > 0 {
		errs = append(errs, m.detach(ctx, req, all))
	}
	return complete, netconf.Join(errs...)
}

// detachDamaged detaches, in a GC, the dead whose records cannot be used, as their DEL would.
func (m multinet) detachDamaged(ctx context.Context, req *netconf.Request) error {
	all, err := m.records().Stale(req.Network.Name, req.Network.ValidAttachments)
	errs := []error{err}
	for _, rec := range all {
		if !rec.Busy && (rec.Err != nil && rec.ContainerID != "" || len(rec.Bad) > 0) {
			errs = append(errs, m.detachAll(ctx, dead(req, rec.ContainerID, rec.IfName)))
		}
	}
	return netconf.Join(errs...)
}

// dead is the DEL of a container that a GC is about.
func dead(req *netconf.Request, containerID, ifname string) *netconf.Request {
	own := req.As(netconf.Del)
	own.ContainerID, own.IfName, own.Netns = containerID, ifname, ""
	own.Prev, own.Args = nil, nil
	return own
}

// detach detaches by a record, so that what fails is not forgotten; where the disk takes none, without.
func (m multinet) detach(ctx context.Context, req *netconf.Request, all []delegate.Attachment) error {
	err := m.records().Adopt(ctx, all, req)
	if netconf.IsUnchanged(err) {
		return netconf.Join(err, delegate.Set{Attachments: all, Plugins: m.plugins()}.Del(ctx, req))
	}
	if err != nil {
		req.Warn("DEL goes on without a result", "error", err.Error())
	}
	return m.records().Del(ctx, m.plugins(), req)
}

// cached is what libcni remembers of one network of a container (its kind cniCacheV1).
type cached struct {
	ContainerID    string                     `json:"containerId"`
	Network        string                     `json:"networkName"`
	IfName         string                     `json:"ifName"`
	Config         []byte                     `json:"config"`
	Args           [][2]string                `json:"cniArgs"`
	CapabilityArgs map[string]json.RawMessage `json:"capabilityArgs"`
	Result         json.RawMessage            `json:"result"`

	path string
}

// runtimeCache is libcni's folder in a runtime. It has the runtime's networks, the container's loopback too, which are not
// ours to detach.
const runtimeCache = "/var/lib/cni/results"

// cacheDir is libcni's folder in multus.
func (m multinet) cacheDir() string { return filepath.Join(m.CNIDir, "results") }

// ownResult is what this plugin, and so the default network, answered: the prevResult, or what the runtime remembers.
func ownResult(req *netconf.Request) json.RawMessage {
	result := req.Network.PrevResult
	if len(result) > 0 {
		return result
	}
	for _, c := range readCache(runtimeCache, req.ContainerID) {
		if c.Network == req.Network.Name && c.IfName == req.IfName {
			result = c.Result
		}
	}
	return result
}

// readCache is what libcni remembers of a container in a folder; what cannot be read is not there: it is a way out.
func readCache(dir, containerID string) []cached {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var all []cached
	for _, entry := range entries {
		if !strings.Contains(entry.Name(), "-"+containerID+"-") {
			continue
		}
		c := cached{path: filepath.Join(dir, entry.Name())}
		if text, err := readRecord(c.path); err == nil && json.Unmarshal(text, &c) == nil && c.ContainerID == containerID {
			all = append(all, c)
		}
	}
	return all
}

// sandbox is the namespace of a container, as the results say it; empty where none does.
func sandbox(cache []cached) string {
	for _, c := range cache {
		var result struct{ Interfaces []struct{ Sandbox string } }
		if json.Unmarshal(c.Result, &result) != nil {
			continue // it is left out, and said, when the record is made
		}
		for _, in := range result.Interfaces {
			if in.Sandbox != "" {
				return in.Sandbox
			}
		}
	}
	return ""
}

func (c cached) attachment(req *netconf.Request) (delegate.Attachment, error) {
	network, err := selection.Network(c.Config, c.Network, req.Network.CNIVersion)
	a := delegate.Attachment{Network: network, IfName: c.IfName, Result: c.Result, RuntimeConfig: c.CapabilityArgs, Args: netconf.Args{}}
	for _, pair := range c.Args {
		if netconf.CheckArg(pair[0], pair[1]) == nil {
			a.Args[pair[0]] = pair[1]
		}
	}
	return a, err
}
