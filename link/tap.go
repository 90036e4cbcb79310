package link

import (
	"context"
	"net"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// Tap is a link in the container whose other end is a program: who opens /dev/net/tun with its name, as a virtual machine's
// monitor does, gets the frames that are sent out of it, and sends what it receives. It stays when the program ends. Until
// one has opened it, it has no carrier, and duplicate address detection would not end: its [Addresses] do without (DADOff).
// It lives in the container's namespace alone and goes with it: there is nothing on
// the host for GC.
//
// It is born whole: until all is set that is set here, it is gone when the process that makes it dies.
type Tap struct {
	UID        *uint32     // the user who may open it besides root; nil: any who may open /dev/net/tun, if there is no GID either
	GID        *uint32     // the group whose members may open it; nil: any, as with UID; with both one must be both
	MultiQueue bool        // it may be opened several times, a queue each; it must be opened so then, and must not be otherwise
	Bridge     string      // it is a port of this bridge in the container, which must be there; empty: it stands alone
	MTU        int         // bytes, 68 to 65521; 0 is the kernel's 1500
	MAC        netconf.MAC // hardware address of the container's side, not of the machine behind it; nil: the kernel chooses one
}

const (
	tapName = "tap"
	tapKind = "tuntap" // netlink's word for the kernel's kind tun, which has the modes tun and tap

	tapMode       netlink.TuntapMode = 0x0002 // IFF_TAP of linux/if_tun.h
	tapMultiQueue netlink.TuntapFlag = 0x0100 // IFF_MULTI_QUEUE
	tapMaxMTU                        = 65521  // maxMTU without the header of Ethernet
)

// Name is "tap".
func (Tap) Name() string { return tapName }

// Create makes the link o.IfName in the container, down. What has the name already is an error that Is
// netconf.ErrExists; an MTU out of range, and a bridge that is missing or no bridge, have code 7; a kernel without tun, or a
// machine without /dev/net/tun, gives ErrNotSupported. After an error nothing is left.
func (t Tap) Create(ctx context.Context, _, container *NS, o Owner) (netlink.Link, error) {
	if t.MTU > tapMaxMTU {
		return nil, badLink(o.IfName, "mtu %d is out of range: expected %d to %d", t.MTU, minMTU, tapMaxMTU)
	}
	if err := netconf.Join(checkName(o.IfName), checkMTU(o.IfName, t.MTU)); err != nil {
		return nil, err
	}
	bridge, err := t.bridge(container)
	if err != nil {
		return nil, err
	}
	there, err := find(container, o.IfName)
	if err != nil {
		return nil, err
	}
	if there != nil {
		return nil, taken(o.IfName, there)
	}
	if err := t.birth(ctx, container, o, bridge); err != nil {
		return nil, err
	}
	l, err := find(container, o.IfName)
	if err == nil && l == nil {
		err = different(o.IfName, "the link", "there", "gone")
	}
	return l, err
}

// bridge looks the bridge up, in the container; nil if there is to be none.
func (t Tap) bridge(container *NS) (netlink.Link, error) {
	return Veth{Bridge: t.Bridge}.bridge(container)
}

// dress gives a new link what marks and describes it, while it is gone if this fails.
func (t Tap) dress(ctx context.Context, container *NS, o Owner, bridge netlink.Link) error {
	l, err := find(container, o.IfName)
	if err == nil && l == nil {
		err = different(o.IfName, "the link", "there", "gone")
	}
	if err != nil {
		return err
	}
	h, name := container.Handle(), o.IfName
	for _, s := range []struct {
		needed bool
		op     string
		do     func() error
	}{
		{true, "link alias", func() error { return h.LinkSetAlias(l, o.Alias("")) }},
		{true, "link group", func() error { return h.LinkSetGroup(l, int(o.Group())) }},
		{t.MAC != nil, "link address", func() error { return h.LinkSetHardwareAddr(l, net.HardwareAddr(t.MAC)) }},
		{t.MTU != 0, "link mtu", func() error { return h.LinkSetMTU(l, t.MTU) }},
	} {
		if s.needed {
			if err := alter(ctx, s.op, name, s.do); err != nil {
				return err
			}
		}
	}
	return t.join(ctx, container, l, bridge)
}

// join makes the link the bridge's port.
func (t Tap) join(ctx context.Context, container *NS, l, bridge netlink.Link) error {
	if bridge == nil || l.Attrs().MasterIndex == bridge.Attrs().Index {
		return nil
	}
	return alter(ctx, "link master", l.Attrs().Name, func() error { return container.Handle().LinkSetMaster(l, bridge) })
}

// Ensure is Create where the link is not there. One of the owner's is brought back to its bridge, MTU and hardware address,
// as far as t has them, and up; a user, group or number of queues that differs is an error that Is netconf.ErrDifferent:
// a program may hold it open. One of somebody else's is an error that Is netconf.ErrExists.
func (t Tap) Ensure(ctx context.Context, host, container *NS, o Owner) (netlink.Link, error) {
	l, err := find(container, o.IfName)
	switch {
	case err != nil:
		return nil, err
	case l == nil:
		return t.Create(ctx, host, container, o)
	case !o.Owns(l):
		return nil, taken(o.IfName, l)
	}
	if err := t.verify(l, o.IfName); err != nil {
		return nil, err
	}
	bridge, err := t.bridge(container)
	if err != nil {
		return nil, err
	}
	if err := t.join(ctx, container, l, bridge); err != nil {
		return nil, err
	}
	if err := converge(ctx, container, l, o.Alias(""), t.MTU, t.MAC); err != nil {
		return nil, err
	}
	return find(container, o.IfName)
}

// Verify compares the link with t, and its MTU and hardware address with want where that is not nil. A difference Is
// netconf.ErrDifferent. Whether a program has it open does not matter. The user 0 and none are not told apart, nor the
// groups: netlink does not.
func (t Tap) Verify(_ context.Context, _, container *NS, o Owner, want *types100.Interface) error {
	l, err := find(container, o.IfName)
	if err != nil {
		return err
	}
	err = verify(l, o.IfName, tapKind, o, want)
	if l == nil || l.Type() != tapKind {
		return err
	}
	return netconf.Join(err, t.verify(l, o.IfName), t.verifyBridge(container, l))
}

// verify compares what only a tap has.
func (t Tap) verify(l netlink.Link, name string) error {
	have, ok := l.(*netlink.Tuntap)
	if !ok || have.Mode != tapMode {
		return different(name, "the kind", tapName, l.Type())
	}
	var errs []error
	if want := orZero(t.UID); want != have.Owner {
		errs = append(errs, different(name, "the user", want, have.Owner))
	}
	if want := orZero(t.GID); want != have.Group {
		errs = append(errs, different(name, "the group", want, have.Group))
	}
	if multi := have.Flags&tapMultiQueue != 0; multi != t.MultiQueue {
		errs = append(errs, different(name, "several queues", t.MultiQueue, multi))
	}
	return netconf.Join(errs...)
}

func orZero(id *uint32) uint32 {
	if id == nil {
		return 0
	}
	return *id
}

func (t Tap) verifyBridge(container *NS, l netlink.Link) error {
	return Veth{Bridge: t.Bridge}.verifyPort(container, l, nil)
}

// Delete takes the link away, if it is the owner's, also from a program that has it open; container may be nil, or have
// gone.
func (t Tap) Delete(ctx context.Context, _, container *NS, o Owner) error {
	return claim{Owner: o}.removeInside(ctx, container)
}

// Add is Create, with the link noted in the result.
func (t Tap) Add(ctx context.Context, req *netconf.Request) error {
	p, err := entering(req, tapName)
	if err != nil {
		return err
	}
	l, err := t.Create(ctx, p.host, p.container, p.Owner)
	if err != nil {
		return err
	}
	req.AddInterface(describe(l, req.Netns))
	return nil
}

// Check is Verify against the prevResult.
func (t Tap) Check(ctx context.Context, req *netconf.Request) error {
	p, want, err := checking(req)
	if err != nil {
		return err
	}
	return t.Verify(ctx, p.host, p.container, p.Owner, want)
}

// Del is Delete.
func (t Tap) Del(ctx context.Context, req *netconf.Request) error {
	p, err := leaving(req, tapName)
	if p == nil {
		return err
	}
	return p.removeInside(ctx, p.container)
}
