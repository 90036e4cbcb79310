package link

import (
	"context"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// stateKey is what a chained plugin's addresses are kept under in req.State.
const stateKey = "link.addresses."

func (a Addresses) name(req *netconf.Request) string { return ifName(req, a.Interface) }

// asked is the step with what the caller asks for.
func (a Addresses) asked(req *netconf.Request) Addresses {
	if metric := req.DefaultMetric(); metric > 0 {
		a.DefaultMetric, a.ranked = metric, true
	}
	return a
}

// Add puts the addresses and routes of req.Result on the interface and sets it up. It writes the interface
// into those addresses, and into the routes what was decided about them: metric, scope, and in a chained
// plugin the gateway. In a chained plugin, whose interface is in req.Prev, the addresses move there, since
// Result has no index for it. An address that is on the interface already is an error that Is
// netconf.ErrExists.
func (a Addresses) Add(ctx context.Context, req *netconf.Request) error {
	name := a.name(req)
	index, chained := netconf.Attached(req.Result, name), false
	if index < 0 {
		index, chained = netconf.Attached(req.Prev, name), true
	}
	plan, n, err := a.prepare(req, index, chained)
	switch {
	case err != nil && !chained && req.Network.IPAM.Type == dhcp:
		return err // Del has to see to it that the lease can be released
	case err != nil:
		return netconf.Unchanged(err)
	}
	if chained {
		err = plan.Ensure(ctx, n, name) // prepare has looked
	} else {
		err = plan.Create(ctx, n, name)
	}
	if err != nil {
		return err
	}
	for _, r := range plan.Routes {
		r.report(req.Prev != nil)
	}
	assign(req, index, chained)
	return nil
}

// prepare is what an Add does before it changes anything on the link. Its errors are not rolled back: in a second
// ADD of a chained plugin Del would take away what the first one, which lives, has kept in req.State.
func (a Addresses) prepare(req *netconf.Request, index int, chained bool) (*AddressPlan, *NS, error) {
	name := a.name(req)
	if index < 0 {
		return nil, nil, &Error{Op: "add addresses to", Name: name, Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig,
			"no interface of this name with a sandbox is in the result: the step that makes the link comes first")}
	}
	plan, err := a.asked(req).Plan(name, req.Result, req.Prev)
	if err == nil {
		err = req.Rejected()
	}
	if err != nil {
		return nil, nil, err
	}
	plan.Warn = req.Warn
	n, err := Container(req)
	if err != nil || !chained {
		return plan, n, err
	}
	if err = plan.absent(n, name); err == nil {
		err = keep(req, stateKey+name, plan)
	}
	return plan, n, err
}

// assign gives the addresses that IPAM left without an interface theirs.
func assign(req *netconf.Request, index int, chained bool) {
	var others []*types100.IPConfig
	for _, ip := range req.Result.IPs {
		switch {
		case ip.Interface != nil:
			others = append(others, ip)
			continue
		case chained:
			req.Prev.IPs = append(req.Prev.IPs, ip)
		default:
			others = append(others, ip)
		}
		own := index
		ip.Interface = &own
	}
	req.Result.IPs = others
}

// Check compares the interface with req.Prev: it is up, and each address and route of it is there with
// all its attributes. What is there besides is nobody's business.
func (a Addresses) Check(ctx context.Context, req *netconf.Request) error {
	name := a.name(req)
	if netconf.Attached(req.Prev, name) < 0 {
		return &Error{Op: "check addresses of", Name: name, Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig,
			"no interface of this name with a sandbox is in the prevResult")}
	}
	n, err := Container(req)
	if err != nil {
		return err
	}
	return a.asked(req).made(name, req.Prev).Verify(ctx, n, name)
}

// Del takes the addresses and routes off the interface, if it is still there: those that a chained Add
// kept in req.State; else, in a rollback, those of req.Result; else those of req.Prev, from a link that
// carries this attachment's label, for on another the prevResult does not tell ours from those of the plugin
// that made it. Without any of these, or without a namespace, nothing is left to do: they go with the
// link. A link with another attachment's label is left alone. Where the IPAM plugin is "dhcp", which asks for the
// addresses to be there while it releases them, they are left to go with the link too, and in a rollback put there where
// they are not; but not in a chained plugin.
func (a Addresses) Del(ctx context.Context, req *netconf.Request) error {
	name := a.name(req)
	plan := &AddressPlan{}
	there, known, err := left(req, stateKey+name, plan)
	if err != nil {
		return err
	}
	labelled := false
	switch {
	case known:
	case there: // a chained Add's: which were its own nobody knows any more, and they go with the link
		return forget(req, stateKey+name)
	case req.Network.IPAM.Type == dhcp:
		return a.forRelease(ctx, req)
	case netconf.Attached(req.Result, name) >= 0:
		plan = a.asked(req).made(name, req.Result)
	case netconf.Attached(req.Prev, name) >= 0 && (req.Result == nil || len(req.Result.IPs) == 0):
		plan, labelled = a.asked(req).made(name, req.Prev), true
	default: // also the rollback of a chained Add that did not come to save
		return nil
	}
	if req.Netns != "" {
		if err := a.remove(ctx, req, plan, labelled); err != nil && !Gone(err) {
			return err
		}
	}
	if !there {
		return nil
	}
	return forget(req, stateKey+name)
}

// remove deletes the plan, if the link's label does not forbid it.
func (a Addresses) remove(ctx context.Context, req *netconf.Request, plan *AddressPlan, labelled bool) error {
	n, err := Container(req)
	if err != nil {
		return err
	}
	name := a.name(req)
	alias, err := aliasOf(n, name)
	if err != nil {
		return err
	}
	l, ok := parseAlias(alias)
	if ok && !l.of(OwnerOf(req)) || !ok && labelled {
		return nil
	}
	plan.Warn = req.Warn
	return plan.Delete(ctx, n, name)
}
