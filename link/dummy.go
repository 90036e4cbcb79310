package link

import (
	"context"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// Dummy is a link in the container that leads nowhere: it holds addresses, which the container reaches itself, and drops
// what is sent out of it. It is for services that bind to an address of their own, and for routing daemons that announce it.
// It lives in the container's namespace alone and goes with it: there is nothing on the host for GC.
type Dummy struct {
	MTU int         // bytes, 68 to 65535; 0 is the kernel's 1500
	MAC netconf.MAC // hardware address; nil: the kernel chooses one
}

const dummyKind = "dummy"

// Name is "dummy".
func (Dummy) Name() string { return dummyKind }

// Create makes the link o.IfName in the container, down. What has the name already is an error that Is
// netconf.ErrExists; an MTU out of range has code 7; a kernel without dummy gives ErrNotSupported. After another error
// there may be a part, which Delete takes away.
func (d Dummy) Create(ctx context.Context, _, container *NS, o Owner) (netlink.Link, error) {
	if err := checkMTU(o.IfName, d.MTU); err != nil {
		return nil, err
	}
	return create(ctx, o, container, container, &netlink.Dummy{LinkAttrs: attrs(o, o.IfName, d.MTU, d.MAC)})
}

// Ensure is Create where the link is not there. One of the owner's is brought back to its MTU and hardware address, as
// far as d has them, and up; one of another kind is an error that Is netconf.ErrDifferent, one of somebody else's an error
// that Is netconf.ErrExists.
func (d Dummy) Ensure(ctx context.Context, host, container *NS, o Owner) (netlink.Link, error) {
	l, err := find(container, o.IfName)
	switch {
	case err != nil:
		return nil, err
	case l == nil:
		return d.Create(ctx, host, container, o)
	case !o.Owns(l):
		return nil, taken(o.IfName, l)
	case l.Type() != dummyKind:
		return nil, different(o.IfName, "the kind", dummyKind, l.Type())
	}
	if err := converge(ctx, container, l, o.Alias(""), d.MTU, d.MAC); err != nil {
		return nil, err
	}
	return find(container, o.IfName)
}

// Verify compares the link with what a dummy is, and its MTU and hardware address with want where that is not nil. A
// difference Is netconf.ErrDifferent.
func (Dummy) Verify(_ context.Context, _, container *NS, o Owner, want *types100.Interface) error {
	l, err := find(container, o.IfName)
	if err != nil {
		return err
	}
	return verify(l, o.IfName, dummyKind, o, want)
}

// Delete takes the link away, if it is the owner's; container may be nil, or have gone.
func (Dummy) Delete(ctx context.Context, _, container *NS, o Owner) error {
	return claim{Owner: o}.removeInside(ctx, container)
}

// Add is Create, with the link noted in the result.
func (d Dummy) Add(ctx context.Context, req *netconf.Request) error {
	p, err := entering(req, dummyKind)
	if err != nil {
		return err
	}
	l, err := d.Create(ctx, p.host, p.container, p.Owner)
	if err != nil {
		return err
	}
	req.AddInterface(describe(l, req.Netns))
	return nil
}

// Check is Verify against the prevResult.
func (d Dummy) Check(ctx context.Context, req *netconf.Request) error {
	p, want, err := checking(req)
	if err != nil {
		return err
	}
	return d.Verify(ctx, p.host, p.container, p.Owner, want)
}

// Del is Delete.
func (Dummy) Del(ctx context.Context, req *netconf.Request) error {
	p, err := leaving(req, dummyKind)
	if p == nil {
		return err
	}
	return p.removeInside(ctx, p.container)
}
