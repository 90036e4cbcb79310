package route

import (
	"context"
	"net/netip"
	"slices"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// Attachment is an interface of the pod, as far as default routes are concerned.
type Attachment struct {
	IfName   string
	Result   *types100.Result // what its plugins answered; only its addresses are looked at
	Asked    bool             // it has the key default-route
	Gateways []netip.Addr     // its value; none: what its plugins made is kept
}

// Owner says who has the default routes of one family.
type Owner struct {
	IfName   string
	V6       bool
	Gateways []netip.Addr // in order of preference; none: as its plugins made them
}

// Changes is what has to be done: at most one owner for each family; none where nobody asked.
type Changes []Owner

// Plan says what follows from what the attachments ask for. That no two ask for one family has been checked before; the
// first one has it.
func Plan(attachments []Attachment) Changes {
	var changes Changes
	for _, v6 := range []bool{false, true} {
		for _, a := range attachments {
			if o := (Owner{a.IfName, v6, a.gateways(v6)}); len(o.Gateways) > 0 || a.keeps(v6) {
				changes = append(changes, o)
				break
			}
		}
	}
	return changes
}

func (a Attachment) gateways(v6 bool) []netip.Addr {
	var list []netip.Addr
	for _, gw := range a.Gateways {
		if gw = gw.Unmap(); gw.Is6() == v6 {
			list = append(list, gw)
		}
	}
	return list
}

// keeps tells whether the attachment is to keep its own default routes of a family, which it can only have if it has an
// address of it. A network of IPv4 alone that says [] leaves the pod its way out by IPv6.
func (a Attachment) keeps(v6 bool) bool {
	return a.Asked && len(a.Gateways) == 0 && a.Result != nil && slices.ContainsFunc(a.Result.IPs, func(ip *types100.IPConfig) bool {
		return (ip.Address.IP.To4() == nil) == v6
	})
}

// Changed is what was done. A nil one is nothing.
type Changed struct {
	netns    string
	owners   Changes
	replaced []link.Replaced
	now      []link.LinkRoute // all default routes, as the kernel has them then
}

// Apply makes it so, in the namespace of that path, and reads back what the kernel has then. After an error the routes are
// as they were. A gateway that the interface has no way to is an error with code 7.
func (c Changes) Apply(ctx context.Context, netns string) (*Changed, error) {
	n, err := link.Open(netns)
	if err != nil {
		return nil, err
	}
	done := &Changed{netns: netns, owners: c}
	if err = done.apply(ctx, n); err != nil {
		err = netconf.Join(err, done.restore(context.WithoutCancel(ctx), n))
		done = nil
	}
	return done, netconf.Join(err, n.Close())
}

func (c *Changed) apply(ctx context.Context, n *link.NS) error {
	for _, o := range c.owners {
		want, err := o.routes(n)
		if err != nil {
			return err
		}
		replaced, err := want.Ensure(ctx, n)
		if err != nil {
			return err
		}
		c.replaced = append(c.replaced, replaced)
	}
	for _, v6 := range []bool{false, true} {
		now, err := link.Defaults(n, v6)
		if err != nil {
			return err
		}
		c.now = append(c.now, now...)
	}
	for _, o := range c.owners {
		if err := o.check(c.now); err != nil {
			return err
		}
	}
	return nil
}

// routes are the routes by the owner's gateways. What its plugins said of a route by the same gateway (an MTU, that it is on
// the link) stays.
func (o Owner) routes(n *link.NS) (link.DefaultRoutes, error) {
	want := link.DefaultRoutes{Link: o.IfName, V6: o.V6}
	before, err := link.Defaults(n, o.V6)
	if err != nil {
		return want, err
	}
	first := 0
	dst := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if o.V6 {
		first = 1024 // what the kernel makes of none
		dst = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	for i, gw := range o.Gateways {
		r := link.Route{Dst: dst, Gateway: gw}
		for _, b := range before {
			if b.Link == o.IfName && b.Gateway == gw {
				r = b.Route
			}
		}
		r.Metric = first + i
		want.Routes = append(want.Routes, r)
	}
	return want, nil
}

// check compares what the kernel has with what was wanted: that only the owner's are there, and each gateway's.
func (o Owner) check(now []link.LinkRoute) error {
	for _, r := range now {
		if r.Link != o.IfName && r.Dst.Addr().Is6() == o.V6 {
			return netconf.Errorf(netconf.CodeTryAgainLater, "a default route out of %q came while those of %q were made: %s", r.Link, o.IfName, r.Route)
		}
	}
	for _, gw := range o.Gateways {
		if !slices.ContainsFunc(now, func(r link.LinkRoute) bool { return r.Gateway == gw }) {
			return netconf.Errorf(netconf.CodeTryAgainLater, "the default route of %q by %s went while it was made", o.IfName, gw)
		}
	}
	return nil
}

// Undo gives everybody his routes back, as far as the links are still there.
func (c *Changed) Undo(ctx context.Context) error {
	if c == nil {
		return nil
	}
	n, err := link.Open(c.netns)
	if link.Gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return netconf.Join(c.restore(ctx, n), n.Close())
}

func (c *Changed) restore(ctx context.Context, n *link.NS) error {
	var errs []error
	for _, r := range slices.Backward(c.replaced) {
		errs = append(errs, r.Restore(ctx, n))
	}
	return netconf.Join(errs...)
}
