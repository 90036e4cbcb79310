package ipam

import (
	"context"
	"maps"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// step runs one IPAM plugin. It keeps nothing between calls.
type step struct {
	name   string
	plugin delegate.Plugin
}

func (s *step) Name() string { return "ipam" }

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
	indexed := len(result.Interfaces) > 0
	for _, ip := range result.IPs {
		indexed = indexed || ip.Interface != nil
		req.AddIP(-1, ip.Address, ip.Gateway)
	}
	for _, route := range result.Routes {
		req.AddRoute(route)
	}
	if !result.DNS.IsEmpty() {
		req.Result.DNS = result.DNS
	}
	if indexed {
		warn(req, "the IPAM plugin's answer names interfaces: they are ignored", "plugin", s.name)
	}
}

func (s *step) Check(ctx context.Context, req *netconf.Request) error {
	return s.forward(ctx, req.As(netconf.Check))
}

func (s *step) Del(ctx context.Context, req *netconf.Request) error {
	return s.forward(ctx, req.As(netconf.Del))
}

func (s *step) GC(ctx context.Context, req *netconf.Request) error {
	return s.forward(ctx, req.As(netconf.GC))
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
	result, err := s.plugin.Call(ctx, req)
	if err != nil && (strings.Contains(err.Error(), "ARGS: invalid pair") || strings.Contains(err.Error(), "ARGS: unknown args")) {
		again := req.As(req.Command)
		again.Args = readable(req.Args)
		if !maps.Equal(again.Args, req.Args) {
			warn(req, "the IPAM plugin cannot read CNI_ARGS: called again with what it can", "plugin", s.name, "args", again.Args.String(), "error", err.Error())
			result, err = s.plugin.Call(ctx, again)
		}
	}
	if delegate.NotRun(err) {
		err = netconf.Unchanged(placed(req, err)) // a DEL would not find the program either
	}
	return result, err
}

// placed says where the configuration names the plugin. The code stays: 7 would say that the configuration is wrong.
func placed(req *netconf.Request, err error) error {
	at := req.Invalid("ipam.type", "%w", err)
	if e, ok := at.(*netconf.Error); ok {
		e.Code = netconf.Code(err)
	}
	return at
}

func readable(args netconf.Args) netconf.Args {
	out := netconf.Args{"IgnoreUnknown": "1"}
	for key, value := range args { // an IgnoreUnknown of the caller's own counts
		if !strings.Contains(value, "=") {
			out[key] = value
		}
	}
	return out
}
