package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/examples/multinet/selection"
	"github.com/cnikit/cnikit/netconf"
)

// The record of a container is package delegate's. This file is about the others: multus' own, which it has left in the
// same folder for the pods that it attached before it was replaced, and what can be known where a record is lost.

// multusFile is multus' record of a container.
func (m multinet) multusFile(req *netconf.Request) string {
	return filepath.Join(m.CNIDir, req.ContainerID)
}

// multusNetwork is an element of multus' record, as far as a DEL needs it.
type multusNetwork struct {
	Name     string   // of the network, "namespace/name" of a definition
	Bytes    []byte   // its configuration
	IfName   string   `json:"ifnameRequest"`
	MAC      string   `json:"macRequest"`
	GUID     string   `json:"infinibandGUIDRequest"`
	IPs      []string `json:"ipRequest"`
	DeviceID string   `json:"deviceID"`
}

// adopt makes a record of multus' one, if there is one, and then removes that.
func (m multinet) adopt(ctx context.Context, req *netconf.Request) error {
	path := m.multusFile(req)
	text, err := readRecord(path)
	if text == nil {
		return err
	}
	damaged := func(err error) error {
		return netconf.Errorf(netconf.CodeBadStore, "%q: multus' record: %w: %w", path, delegate.ErrBadRecord, err)
	}
	attachments, err := fromMultus(text, req)
	if err != nil {
		return damaged(err)
	}
	cache := m.cache(req.ContainerID)
	for i, a := range attachments {
		for _, c := range cache {
			if c.IfName == a.IfName && c.Network == a.Network.Name {
				attachments[i].Result = c.Result
			}
		}
	}
	switch err := m.records().Adopt(ctx, attachments, req); {
	case err == nil, errors.Is(err, netconf.ErrExists):
	case !netconf.IsUnchanged(err):
		req.Warn("a result of multus' is left out", "error", err.Error())
	case netconf.Code(err) == netconf.CodeInvalidNetworkConfig: // multus took names of interfaces that are none
		return damaged(err)
	default:
		return err
	}
	errs := []error{remove(ctx, path)}
	for _, c := range cache {
		if filepath.Dir(filepath.Dir(c.path)) == m.CNIDir { // it is multus', not the runtime's
			errs = append(errs, remove(ctx, c.path))
		}
	}
	return netconf.Join(errs...)
}

// adoptAll is adopt of all that multus has left, so that GC knows what lives.
func (m multinet) adoptAll(ctx context.Context, req *netconf.Request) error {
	entries, err := os.ReadDir(m.CNIDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return netconf.Errorf(netconf.CodeBadStore, "%w", err)
	}
	var errs []error
	for _, entry := range entries {
		if netconf.CheckName(entry.Name()) != nil || !entry.Type().IsRegular() || strings.HasSuffix(entry.Name(), asideEnding) {
			continue
		}
		own := req.As(netconf.Del)
		own.ContainerID, own.IfName, own.Netns = entry.Name(), "eth0", ""
		lives := false
		for _, a := range req.Network.ValidAttachments {
			if a.ContainerID == own.ContainerID {
				own.IfName, lives = a.IfName, true
			}
		}
		err := m.adopt(ctx, own)
		if errors.Is(err, delegate.ErrBadRecord) && !lives { // the networks' GC frees what it had
			req.Warn("a dead container's record cannot be used", "error", err.Error())
			err = setAside(ctx, m.multusFile(own))
		}
		errs = append(errs, err)
	}
	return netconf.Join(errs...)
}

// fromMultus reads multus' record. It passed what the runtime asks for on to all networks.
func fromMultus(text []byte, req *netconf.Request) ([]delegate.Attachment, error) {
	var list []*multusNetwork
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("no networks")
	}
	var all []delegate.Attachment
	for i, n := range list {
		if n == nil {
			return nil, fmt.Errorf("network %d: null", i)
		}
		network, err := selection.Network(n.Bytes, n.Name[strings.LastIndexByte(n.Name, '/')+1:], req.Network.CNIVersion)
		if err != nil {
			return nil, fmt.Errorf("network %d: %w", i, err)
		}
		a := delegate.Attachment{Network: network, IfName: n.IfName, RuntimeConfig: map[string]json.RawMessage{}}
		switch {
		case i == 0:
			a.IfName = req.IfName
		case a.IfName == "":
			a.IfName = fmt.Sprintf("net%d", i)
		}
		for key, value := range req.Network.RuntimeConfig {
			a.RuntimeConfig[key] = value
		}
		if err := n.requests(&a); err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// requests puts into an attachment what the pod asked for; ips and mac multus passed on in CNI_ARGS too.
func (n *multusNetwork) requests(a *delegate.Attachment) error {
	for key, value := range map[string]any{"mac": n.MAC, "infinibandGUID": n.GUID, "ips": n.IPs, "deviceID": n.DeviceID} {
		text, err := json.Marshal(value)
		if err != nil {
			return err // cannot be: it was read from JSON
		}
		if s := string(text); s != `""` && s != "null" && s != "[]" {
			a.RuntimeConfig[key] = text
		}
	}
	a.Args = netconf.Args{}
	if n.MAC != "" {
		a.Args["MAC"] = n.MAC
	}
	if len(n.IPs) > 0 {
		a.Args["IP"] = strings.Join(n.IPs, ",")
	}
	return nil
}

// lost tells whether the container has no usable record though it was attached: the runtime knows a result, or there is a
// record that is damaged, which is why.
func (m multinet) lost(ctx context.Context, req *netconf.Request) (lost bool, why error) {
	why = m.adopt(ctx, req)
	_, err := m.records().Load(ctx, req)
	switch {
	case errors.Is(err, delegate.ErrBadRecord):
		return true, err
	case errors.Is(err, delegate.ErrNoRecord):
		return why != nil || req.Prev != nil, why
	}
	return false, nil // there is one, or records.Del says what is wrong
}

// detachLost detaches a container without a record from what can be known of its networks: what libcni remembers, and
// the default networks. why is a record that was damaged; it is moved aside and, as leases may remain of networks that
// nobody knows, an error: once, for no retry will mend it.
func (m multinet) detachLost(ctx context.Context, req *netconf.Request, why error) error {
	var all []delegate.Attachment
	for _, c := range m.cache(req.ContainerID) {
		if c.Network == req.Network.Name { // the runtime's, of this plugin
			continue
		}
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
			first := delegate.Attachment{Network: known[0].Network, IfName: req.IfName, Result: req.Network.PrevResult, RuntimeConfig: req.Network.RuntimeConfig}
			all = append([]delegate.Attachment{first}, all...)
		}
	}
	errs := []error{setAside(ctx, m.multusFile(req))}
	if len(all) > 0 { // by a record, so that what fails is not forgotten
		errs = append(errs, m.records().Adopt(ctx, all, req), m.records().Del(ctx, m.plugins(), req))
	}
	if why != nil && !complete {
		errs = append(errs, netconf.Errorf(netconf.CodeBadStore, "networks beside the default one may still have addresses of the container until GC: %w", why))
	}
	return netconf.Join(errs...)
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

// cache is what libcni remembers of a container: in multus' folder of that multus', in its own that of the runtime.
func (m multinet) cache(containerID string) []cached {
	var all []cached
	for _, dir := range []string{filepath.Join(m.CNIDir, "results"), "/var/lib/cni/results"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it is a way out, where there is one
		}
		for _, entry := range entries {
			if !strings.Contains(entry.Name(), "-"+containerID+"-") {
				continue
			}
			c := cached{path: filepath.Join(dir, entry.Name())}
			if text, err := readRecord(c.path); err == nil && json.Unmarshal(text, &c) == nil && c.ContainerID == containerID {
				all = append(all, c)
			}
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

// asideEnding is of a record that cannot be used.
const asideEnding = ".bad"

func setAside(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := netconf.Before(ctx, "rename "+path); err != nil {
		return err
	}
	if err := os.Rename(path, path+asideEnding); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return netconf.Errorf(netconf.CodeBadStore, "%w", err)
	}
	return nil
}

func remove(ctx context.Context, path string) error {
	if err := netconf.Before(ctx, "remove "+path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return netconf.Errorf(netconf.CodeBadStore, "%w", err)
	}
	return nil
}

// readRecord reads a file of another program's; nil, nil if there is none. What is no file, or larger than a
// configuration may be, is none.
func readRecord(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() > netconf.MaxConfig) {
		return nil, nil
	}
	if err != nil {
		return nil, netconf.Errorf(netconf.CodeBadStore, "%w", err)
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, netconf.Errorf(netconf.CodeBadStore, "%w", err)
	}
	return text, nil
}
