package ipam

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// step runs one IPAM plugin. It keeps nothing between calls.
type step struct {
	name   string
	plugin delegate.Plugin
	said   []string // what the plugin has warned of before any work
}

func (s *step) Name() string { return "ipam" }

// Unchecked is for PLUGIN validate, as package skel has it: the section is the program's, or the Go value's that has no
// Validate.
func (s *step) Unchecked() string {
	switch p := s.plugin.(type) {
	case delegate.Exec:
		return fmt.Sprintf("ipam, which the program %q checks", s.name)
	case delegate.InProcess:
		if p.Validate == nil {
			return fmt.Sprintf("ipam, which %q checks when it is called", s.name)
		}
	}
	return ""
}

func (s *step) Add(ctx context.Context, req *netconf.Request) error {
	own := req.As(netconf.Add)
	own.Prev = nil // an IPAM plugin's result is its addresses alone, in a chain too
	result, err := s.call(ctx, own)
	if err != nil {
		return err
	}
	if err := checkAnswer(result); err != nil {
		return &Error{Op: netconf.Add, Plugin: s.name, Network: req.Network.Name, Err: err}
	}
	s.take(req, result)
	return nil
}

// take appends the answer to the result. An IPAM plugin has no interfaces (SPEC, section 5 "Delegated
// plugins (IPAM)"), and an index would be one into another list.
func (s *step) take(req *netconf.Request, result *types100.Result) {
	for _, ip := range result.IPs {
		req.AddIP(-1, ip.Address, ip.Gateway)
	}
	for _, route := range result.Routes {
		req.AddRoute(route)
	}
	if !result.DNS.IsEmpty() {
		req.Result.DNS = result.DNS
	}
	if len(result.Interfaces) > 0 { // without any, an index would have been out of range
		warn(req, "the IPAM plugin's answer names interfaces: they are ignored", "plugin", s.name)
	}
}

func (s *step) Check(ctx context.Context, req *netconf.Request) error {
	return s.forward(ctx, req.As(netconf.Check))
}

func (s *step) Del(ctx context.Context, req *netconf.Request) error {
	own, err := inKnownVersion(req.As(netconf.Del))
	if err != nil {
		return err
	}
	err = s.forward(ctx, own)
	if noDaemon(err) {
		warn(req, "the IPAM plugin's daemon is not there, and with it what it had leased: the leases end by themselves", "plugin", s.name, "error", err.Error())
		return nil
	}
	return err
}

// inKnownVersion is the request in the newest version, where its own is one that the IPAM plugin would
// refuse (code 1), again at each try: what was leased before the configuration was changed is released
// all the same.
func inKnownVersion(req *netconf.Request) (*netconf.Request, error) {
	known := version.All.SupportedVersions()
	if slices.Contains(known, req.Network.CNIVersion) {
		return req, nil
	}
	newest := known[len(known)-1]
	warn(req, "the IPAM plugin is called in another version", "cniVersion", req.Network.CNIVersion, "instead", newest)
	config, err := netconf.Patch(req.Config, "cniVersion", json.RawMessage(strconv.Quote(newest)))
	if err != nil {
		return nil, err
	}
	network, err := netconf.ParseNetwork(config)
	own := req.As(req.Command)
	own.Network, own.Config = network, config
	if err != nil {
		warn(req, "goes on: "+err.Error()) // as Parse did
	}
	return own, nil
}

func (s *step) GC(ctx context.Context, req *netconf.Request) error {
	own, err := withWholeList(req.As(netconf.GC))
	if err != nil {
		return err
	}
	return s.forward(ctx, own)
}

// withWholeList is the request with all that lives under both names of the list, where the newer one says less:
// host-local reads that one only, and takes an absent list for an empty one.
func withWholeList(req *netconf.Request) (*netconf.Request, error) {
	const key, oldKey = "cni.dev/valid-attachments", "cni.dev/attachments"
	var newer struct {
		List []types.GCAttachment `json:"cni.dev/valid-attachments"`
	}
	lives := req.Network.ValidAttachments
	if err := json.Unmarshal(req.Config, &newer); err != nil {
		return nil, req.Invalid(key, "%w", err)
	}
	if lives == nil || newer.List != nil && slices.Equal(newer.List, lives) {
		return req, nil
	}
	list, err := json.Marshal(lives)
	if err != nil {
		return nil, req.Invalid(key, "%w", err)
	}
	config := req.Config
	for _, k := range []string{key, oldKey} {
		if config, err = netconf.Patch(config, k, list); err != nil {
			return nil, err
		}
	}
	own := req.As(netconf.GC)
	own.Config = config
	return own, nil
}

func (s *step) Status(ctx context.Context, req *netconf.Request) error {
	return s.forward(ctx, req.As(netconf.Status))
}

func (s *step) forward(ctx context.Context, req *netconf.Request) error {
	_, err := s.call(ctx, req)
	return err
}

// call calls the plugin with CNI_ARGS as they came; if it cannot read them, once more with those that it
// can. What upstream's library reads arguments with (types.LoadArgs) fails at a '=' in a value and, without
// IgnoreUnknown, at a key that was meant for somebody else. It fails on DEL too, so an address could
// never be released. It reads them before it does anything.
func (s *step) call(ctx context.Context, req *netconf.Request) (*types100.Result, error) {
	req = s.quieter(req)
	result, err := s.plugin.Call(ctx, req)
	if err != nil && unreadable(err, req.Command) {
		again := req.As(req.Command)
		again.Args = readable(req.Args)
		if strings.Contains(err.Error(), badValue) {
			again.Args = netconf.Args{"IgnoreUnknown": "1"} // a lease is found by container and interface
		}
		if !maps.Equal(again.Args, req.Args) {
			// The values, which stand in the plugin's error too, may be secrets: their keys say enough.
			warn(req, "the IPAM plugin cannot read CNI_ARGS: called again with what it can", "plugin", s.name, "args", strings.Join(slices.Sorted(maps.Keys(again.Args)), ";"))
			result, err = s.plugin.Call(ctx, again)
		}
	}
	switch {
	case delegate.NotRun(err):
		err = netconf.Unchanged(placed(req, err)) // a DEL would not find the program either
	case noDaemon(err):
		err = netconf.Unchanged(netconf.Errorf(netconf.CodeTryAgainLater, "%w", err)) // nothing was asked; its own code is 999
	}
	return result, err
}

// quieter is the request without the warnings that were given already.
func (s *step) quieter(req *netconf.Request) *netconf.Request {
	if len(s.said) == 0 {
		return req
	}
	own := req.As(req.Command)
	own.Warn = func(msg string, args ...any) {
		if !slices.Contains(s.said, msg) {
			warn(req, msg, args...)
		}
	}
	return own
}

// noDaemon tells whether an error of the reference dhcp plugin says that no daemon listens on its socket. The daemon
// keeps its leases in memory: without one there is nothing to release, now or when it has come back, and who took it off
// the node for good could not delete a pod.
func noDaemon(err error) bool {
	if err == nil || !strings.Contains(err.Error(), "error dialing DHCP daemon: ") {
		return false
	}
	return strings.Contains(err.Error(), "connect: no such file or directory") || strings.Contains(err.Error(), "connect: connection refused")
}

// placed says where the configuration names the plugin. The code stays: 7 would say that the configuration is wrong.
func placed(req *netconf.Request, err error) error {
	at := req.Invalid("ipam.type", "%w", err)
	if e, ok := at.(*netconf.Error); ok {
		e.Code = netconf.Code(err)
	}
	return at
}

// unreadable tells whether an error of upstream's library says that it cannot read CNI_ARGS at all, or on DEL,
// where no value matters, one of them.
func unreadable(err error, command netconf.Command) bool {
	text := err.Error()
	return strings.Contains(text, "ARGS: invalid pair") || strings.Contains(text, "ARGS: unknown args") ||
		command == netconf.Del && strings.Contains(text, badValue)
}

const badValue = "ARGS: error parsing value"

func readable(args netconf.Args) netconf.Args {
	out := netconf.Args{"IgnoreUnknown": "1"}
	for key, value := range args { // an IgnoreUnknown of the caller's own counts
		if !strings.Contains(value, "=") {
			out[key] = value
		}
	}
	return out
}
