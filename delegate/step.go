package delegate

import (
	"context"
	"encoding/json"
	"slices"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
)

// Step is another plugin as one step of an attachment. It satisfies skel's Step, Collector, Prober and Namer:
//
//	skel.Steps{
//		link.Macvlan{...}, ipam.FromConfig(req), link.Addresses{},
//		delegate.Step{Config: json.RawMessage(`{"type":"tuning","sysctl":{"net.core.somaxconn":"500"}}`)},
//		mine{},
//	}
//
// On ADD the plugin gets what was made so far (req.Prev and req.Result) as its prevResult, as in a list of plugins, and
// its answer takes the place of that: what it says of interfaces, addresses and routes that were in req.Prev goes
// there, the rest is req.Result, and what is printed in the end is the answer and what later steps add. A plugin that
// got no prevResult, since there was nothing yet or the version has none (below 0.3.0), has its answer appended to
// req.Result. On CHECK and DEL it gets req.Prev, on rollback what was made so far, and on DEL it is called also
// where there is none. GC and STATUS are passed on.
//
// A step is not for IPAM plugins: their answer has no interfaces, and package ipam does more for them.
type Step struct {
	// Config is the plugin's configuration, as it would stand in a list of plugins: "type" is needed, name and
	// cniVersion are the request's, runtimeConfig is what req has for the capabilities that Config declares.
	Config  json.RawMessage
	Plugins Registry // which types are Go values; nil: all are programs
}

// Name is the plugin's type, for skel's errors and logs; "delegate" where there is none.
func (s Step) Name() string {
	if name, _ := typeOf(s.Config); name != "" { // what is wrong is told by the verbs
		return name
	}
	return "delegate"
}

// network is the list of this plugin alone.
func (s Step) network(req *netconf.Request) *Network {
	return &Network{Name: req.Network.Name, CNIVersion: req.Network.CNIVersion, Plugins: []json.RawMessage{s.Config}}
}

// Add calls the plugin's ADD; see [Step]. There is no DEL of it after an error: skel calls Del then. An error that
// says that nothing has run (see [NotRun]) says that nothing was changed, too (netconf.Unchanged).
func (s Step) Add(ctx context.Context, req *netconf.Request) error {
	n := s.network(req)
	prev, err := soFar(n, req.As(netconf.Add))
	if err != nil {
		return netconf.Unchanged(err)
	}
	answer, ran, err := n.addOne(ctx, s.Plugins, req.As(netconf.Add), s.Config, prev)
	switch {
	case err != nil && !ran:
		return netconf.Unchanged(err)
	case err != nil:
		return err
	case prev == nil:
		err = req.AppendResult(answer.JSON)
	case req.Prev == nil:
		s.compare(req, answer)
		err = req.SetResult(answer.JSON)
	default:
		s.compare(req, answer)
		err = s.take(req, answer)
	}
	if err != nil { // cannot be: the answer was found good
		return &Error{Op: netconf.Add, Plugin: s.Name(), Network: req.Network.Name, Err: err}
	}
	return nil
}

// compare warns of an answer that leaves out what was made before.
func (s Step) compare(req *netconf.Request, answer Result) {
	had := 0
	for _, r := range []*types100.Result{req.Prev, req.Result} {
		if r != nil {
			had += len(r.Interfaces)
		}
	}
	if len(answer.Interfaces) < had {
		warn(req, "the delegate's result leaves out interfaces that were there before", "plugin", s.Name(), "before", had, "now", len(answer.Interfaces))
	}
}

// soFar is the result of the steps so far as the plugin's prevResult; nil where there is nothing yet, and where
// the version has none.
func soFar(n *Network, req *netconf.Request) (json.RawMessage, error) {
	r := req.Result
	if !n.hasPrev(req.Command) || req.Prev == nil && (r == nil || len(r.Interfaces)+len(r.IPs)+len(r.Routes) == 0 && r.DNS.IsEmpty()) {
		return nil, nil
	}
	prev, err := encode(req)
	if err != nil {
		return nil, &Error{Op: req.Command, Plugin: Step{Config: n.Plugins[0]}.Name(), Network: n.Name, Err: err}
	}
	return prev, nil
}

// Check calls the plugin's CHECK with the request's prevResult.
func (s Step) Check(ctx context.Context, req *netconf.Request) error {
	return s.forward(ctx, req.As(netconf.Check))
}

// Del calls the plugin's DEL, with the prevResult if there is one. A Config without a type made nothing and is
// warned about.
func (s Step) Del(ctx context.Context, req *netconf.Request) error {
	req = req.As(netconf.Del)
	n := s.network(req).deletable(req)
	own := req.As(netconf.Del)
	own.Network.CNIVersion = n.version()
	prev, err := soFar(n, own)
	if err != nil {
		warn(req, "DEL goes on without a prevResult", "plugin", s.Name(), "error", err.Error())
	}
	return n.del(ctx, s.Plugins, req, 1, prev)
}

// GC calls the plugin's GC with the request's list of living attachments.
func (s Step) GC(ctx context.Context, req *netconf.Request) error {
	return s.network(req).GC(ctx, s.Plugins, req)
}

// Status calls the plugin's STATUS.
func (s Step) Status(ctx context.Context, req *netconf.Request) error {
	return s.forward(ctx, req.As(netconf.Status))
}

func (s Step) forward(ctx context.Context, req *netconf.Request) error {
	n := s.network(req)
	if req.Command == netconf.Status {
		req = detached(req)
	}
	prev, err := n.prev(req)
	if err != nil {
		return err
	}
	return n.run(ctx, s.Plugins, req, s.Config, prev)
}

// take puts an answer, which has in it what was made before, in the place of that, Prev and Result. The two are
// changed where they are: other copies of the request have them too. With Prev goes what types100 does not know.
func (s Step) take(req *netconf.Request, answer Result) error {
	before := req.Prev
	if err := req.SetPrev(answer.JSON); err != nil {
		return err
	}
	if err := req.SetResult(nil); err != nil {
		return err
	}
	first, rest := divide(req.Prev, before)
	*before, *req.Result = first, *rest
	req.Prev = before
	return nil
}

// divide takes a result apart: what stands in for before, which it begins with, and the rest, so that the two
// printed together are the whole again. Where that cannot be, since an address of a new interface is among those of
// what came before, all of it stands in for before.
func divide(all, before *types100.Result) (first types100.Result, rest *types100.Result) {
	n := min(len(before.Interfaces), len(all.Interfaces))
	onNew := func(ip *types100.IPConfig) bool { return ip.Interface != nil && *ip.Interface >= n }
	ips := len(all.IPs)
	for ips > 0 && (onNew(all.IPs[ips-1]) || all.IPs[ips-1].Interface == nil && ips > len(before.IPs)) {
		ips--
	}
	if slices.ContainsFunc(all.IPs[:ips], onNew) {
		return *all, &types100.Result{}
	}
	routes := min(len(before.Routes), len(all.Routes))
	first = types100.Result{CNIVersion: all.CNIVersion, Interfaces: all.Interfaces[:n:n], IPs: all.IPs[:ips:ips], Routes: all.Routes[:routes:routes], DNS: all.DNS}
	rest = &types100.Result{CNIVersion: all.CNIVersion, Interfaces: all.Interfaces[n:], IPs: all.IPs[ips:], Routes: all.Routes[routes:], DNS: all.DNS}
	for _, ip := range rest.IPs {
		if ip.Interface != nil {
			ip.Interface = types100.Int(*ip.Interface - n)
		}
	}
	return first, rest
}
