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
// record that is damaged, which is why. An error is a record of multus' that cannot be taken over just now.
func (m multinet) lost(ctx context.Context, req *netconf.Request) (lost bool, why, err error) {
	why = m.adopt(ctx, req)
	if why != nil && !errors.Is(why, delegate.ErrBadRecord) {
		return false, nil, why
	}
	_, err = m.records().Load(ctx, req)
	switch {
	case errors.Is(err, delegate.ErrBadRecord):
		return true, err, nil
	case errors.Is(err, delegate.ErrNoRecord):
		return why != nil || req.Prev != nil, why, nil
	}
	return false, nil, nil // there is one, or the DEL by it says what is wrong
}

// detachLost detaches a container without a record from what can be known of its networks: what multus' libcni remembers,
// and the default network. why is a record that was damaged; it is moved aside and, as leases may remain of networks that
// nobody knows, an error: once, for no retry will mend it.
func (m multinet) detachLost(ctx context.Context, req *netconf.Request, why error) error {
	var all []delegate.Attachment
	for _, c := range readCache(m.cacheDir(), req.ContainerID) {
		if a, err := c.attachment(req); err == nil {
			all = append(all, a)
		}
	}
	complete := len(all) > 0
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
	errs := []error{setAside(ctx, m.multusFile(req))}
	if len(all) > 0 {
		errs = append(errs, m.detach(ctx, req, all))
	}
	if why != nil && !complete {
		errs = append(errs, netconf.Errorf(netconf.CodeBadStore, "networks beside the default one may still have addresses of the container until GC: %w", why))
	}
	return netconf.Join(errs...)
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
