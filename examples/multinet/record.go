package main

import (
	"bytes"
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

// The record of a container is package delegate's. This file is about those that multus has left in the same folder, for
// the pods that it attached before it was replaced.

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
	// List is a network that was read from a file. Bytes has then only those keys of its plugins that CNI defines.
	List struct {
		Name, CNIVersion string
		DisableCheck     bool
		Plugins          []struct{ Bytes []byte }
	} `json:"CNINetworkConfigList"`
}

// network is the network as it was configured.
func (n *multusNetwork) network(version string) (*delegate.Network, error) {
	text := n.Bytes
	if len(n.List.Plugins) > 0 {
		whole := delegate.Network{Name: n.List.Name, CNIVersion: n.List.CNIVersion, DisableCheck: n.List.DisableCheck}
		for _, plugin := range n.List.Plugins {
			whole.Plugins = append(whole.Plugins, plugin.Bytes)
		}
		var err error
		if text, err = whole.Bytes(); err != nil {
			return nil, err
		}
	}
	return selection.Network(text, n.Name[strings.LastIndexByte(n.Name, '/')+1:], version)
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
	cache := readCache(m.cacheDir(), req.ContainerID)
	if req.Netns == "" { // a GC's: by it otherNames tells who is dead
		req = req.As(req.Command)
		req.Netns = sandbox(cache)
	}
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
		errs = append(errs, remove(ctx, c.path))
	}
	return netconf.Join(errs...)
}

// adoptAll is adopt of all that multus has left, so that GC knows what lives. damaged is about the dead whose record cannot
// be used, and who are detached here.
func (m multinet) adoptAll(ctx context.Context, req *netconf.Request) (damaged, err error) {
	entries, err := os.ReadDir(m.CNIDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, netconf.Errorf(netconf.CodeBadStore, "%w", err)
	}
	var errs, detached []error
	for _, entry := range entries {
		if netconf.CheckName(entry.Name()) != nil || !entry.Type().IsRegular() || strings.HasSuffix(entry.Name(), asideEnding) {
			continue
		}
		own, lives := dead(req, entry.Name(), "eth0"), false
		for _, a := range req.Network.ValidAttachments {
			if a.ContainerID == own.ContainerID {
				own.IfName, lives = a.IfName, true
			}
		}
		err := m.adopt(ctx, own)
		if errors.Is(err, delegate.ErrBadRecord) && !lives {
			if text, _ := readRecord(m.multusFile(own)); bytes.HasPrefix(text, []byte("[")) { // what cannot be read is left
				detached = append(detached, m.detachAll(ctx, own))
			}
			continue // or it is no record: whose it is nobody knows
		}
		errs = append(errs, err)
	}
	return netconf.Join(detached...), netconf.Join(errs...)
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
		network, err := n.network(req.Network.CNIVersion)
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

const (
	asideEnding = ".bad" // of a record that cannot be used
	maxAside    = 16     // of those in the folder; the oldest go
)

// setAside moves a record of multus' out of the way, for a person to look at.
func (m multinet) setAside(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := netconf.Before(ctx, "rename "+path); err != nil {
		return err
	}
	if err := os.Rename(path, path+asideEnding); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return netconf.Errorf(netconf.CodeBadStore, "%w", err)
	}
	return m.pruneAside(ctx)
}

// pruneAside removes the oldest of what was set aside; the records of package delegate have a limit of their own.
func (m multinet) pruneAside(ctx context.Context) error {
	entries, err := os.ReadDir(m.CNIDir)
	if err != nil {
		return netconf.Errorf(netconf.CodeBadStore, "%w", err)
	}
	var all []fs.FileInfo
	for _, entry := range entries {
		if id, is := strings.CutSuffix(entry.Name(), asideEnding); !is || netconf.CheckName(id) != nil || !entry.Type().IsRegular() {
			continue
		}
		if info, err := entry.Info(); err == nil { // what is gone is gone
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	var errs []error
	for _, old := range all[:max(0, len(all)-maxAside)] {
		errs = append(errs, remove(ctx, filepath.Join(m.CNIDir, old.Name())))
	}
	return netconf.Join(errs...)
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
