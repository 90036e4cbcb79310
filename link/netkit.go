package link

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// Netkit is a pair of links as [Veth]: one in the container, and one on the host, whose name is derived from the owner
// ([Owner.HostName] with [HostRole]). A packet goes from one end to the other without a queue on its way, and programs
// (BPF) of the host's may decide about it on the end in the container, where nobody in the container can take them off. The
// host routes to it; see [HostRoutes]. The kernel has it since Linux 6.7.
type Netkit struct {
	Mode NetkitMode  // which layer it carries; default: l3
	MTU  int         // bytes, 68 to 65535, of both ends; 0 is the kernel's 1500
	MAC  netconf.MAC // hardware address of the container's end in mode l2; nil: the kernel chooses one
}

// NetkitMode says which layer a pair carries.
type NetkitMode string

// The modes of a netkit.
const (
	NetkitL3 NetkitMode = ""   // packets alone: no hardware addresses, and nobody is asked for them; "l3" in a configuration
	NetkitL2 NetkitMode = "l2" // frames of Ethernet, with ARP and neighbour discovery
)

// netlink's zero is the mode l2, the kernel's own default l3.
var netkitModes = choices[NetkitMode, netlink.NetkitMode]{
	{"l3", netlink.NETKIT_MODE_L3},
	{"l2", netlink.NETKIT_MODE_L2},
}

// String is the name of the mode as in a configuration.
func (m NetkitMode) String() string { return netkitModes.name(m) }

// Expects lists the names.
func (NetkitMode) Expects() string { return netconf.Choice(netkitModes.names()...) }

// UnmarshalText reads the name of a mode; no text is l3.
func (m *NetkitMode) UnmarshalText(text []byte) error { return netkitModes.parse(text, m) }

// MarshalText writes the name of the mode.
func (m NetkitMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

const netkitKind = "netkit"

// Name is "netkit".
func (Netkit) Name() string { return netkitKind }

// Valid is an error with code 7 for a mode that is none, an MTU that no link has, and a hardware address in mode l3. It looks
// at nothing else.
func (k Netkit) Valid() error {
	mode, err := netkitModes.kernel("mode", k.Mode)
	if err != nil {
		return &Error{Op: "link", Name: netkitKind, Err: err}
	}
	if mode != netlink.NETKIT_MODE_L2 && k.MAC != nil {
		return badLink(netkitKind, "hardware address %s: a netkit of mode %s has none", net.HardwareAddr(k.MAC), k.Mode)
	}
	return checkMTU(netkitKind, k.MTU)
}

// Create makes the pair: the container's end in the container as o.IfName, down; the host's end up. A name that is taken on
// either side is an error that Is netconf.ErrExists; what Valid refuses has code 7; a kernel without netkit gives
// ErrNotSupported. After another error there may be a part, which Delete takes away.
func (k Netkit) Create(ctx context.Context, host, container *NS, o Owner) (outer, inner netlink.Link, err error) {
	if err := k.birth(ctx, host, container, o); err != nil {
		return nil, nil, err
	}
	if outer, err = christen(ctx, host, o.HostName(HostRole), o, HostRole); err != nil {
		return nil, nil, err
	}
	if inner, err = christen(ctx, container, o.IfName, o, ""); err != nil {
		return nil, nil, err
	}
	return outer, inner, k.ready(ctx, host, container, o, outer, inner)
}

// birth makes both ends with one message, each in its namespace under its final name. The kernel takes no group for the end in
// the container: until it has its label, the host's end, which has one, tells whose it is.
func (k Netkit) birth(ctx context.Context, host, container *NS, o Owner) error {
	if err := netconf.Join(k.Valid(), checkName(o.IfName)); err != nil {
		return err
	}
	there, err := find(container, o.IfName)
	if err != nil {
		return err
	}
	if there != nil {
		return taken(o.IfName, there)
	}
	name := o.HostName(HostRole)
	mode, err := netkitModes.kernel("mode", k.Mode)
	if err != nil {
		return err
	}
	l := &netlink.Netkit{LinkAttrs: attrs(o, name, k.MTU, nil), Mode: mode, Scrub: netlink.NETKIT_SCRUB_DEFAULT, PeerScrub: netlink.NETKIT_SCRUB_DEFAULT}
	peer := netlink.NewLinkAttrs()
	peer.Name, peer.MTU, peer.HardwareAddr = o.IfName, k.MTU, net.HardwareAddr(k.MAC)
	if !container.Is(host) {
		peer.Namespace = netlink.NsFd(container.Fd())
	}
	l.SetPeerAttrs(&peer)
	err = alter(ctx, "link add", name, func() error { return lacking(l, host.Handle().LinkAdd(l)) })
	if !errors.Is(err, syscall.EEXIST) {
		return err
	}
	if there, err = find(container, o.IfName); err == nil && there != nil {
		return taken(o.IfName, there) // another call was faster
	}
	there, lookErr := find(host, name)
	return netconf.Join(taken(name, there), err, lookErr)
}

// ready gives the container's end its group and sets the host's up. The pair has a carrier when the container's is up too.
func (k Netkit) ready(ctx context.Context, host, container *NS, o Owner, outer, inner netlink.Link) error {
	if inner.Attrs().Group != o.Group() {
		err := alter(ctx, "link group", o.IfName, func() error { return container.Handle().LinkSetGroup(inner, int(o.Group())) })
		if err != nil {
			return err
		}
	}
	if err := quiet(ctx, host, outer.Attrs().Name); err != nil {
		return err
	}
	if outer.Attrs().Flags&net.FlagUp != 0 {
		return nil
	}
	return up(ctx, host, outer)
}

// Ensure is Create where the container has no such link. A pair of the owner's is brought back to its labels, MTU and hardware
// address, as far as k has them, and up; a mode that differs is an error that Is netconf.ErrDifferent: that cannot be changed
// under a live link. A link of somebody else's is an error that Is netconf.ErrExists.
func (k Netkit) Ensure(ctx context.Context, host, container *NS, o Owner) (outer, inner netlink.Link, err error) {
	if err := k.Valid(); err != nil {
		return nil, nil, err
	}
	inner, err = find(container, o.IfName)
	switch {
	case err != nil:
		return nil, nil, err
	case inner == nil:
		return k.Create(ctx, host, container, o)
	case !o.Owns(inner):
		return nil, nil, taken(o.IfName, inner)
	}
	if outer, err = k.other(host, inner); err == nil {
		err = k.verify(inner)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := k.ready(ctx, host, container, o, outer, inner); err != nil {
		return nil, nil, err
	}
	if err := converge(ctx, host, outer, o.Alias(HostRole), k.MTU, nil); err != nil {
		return nil, nil, err
	}
	if err := converge(ctx, container, inner, o.Alias(""), k.MTU, k.MAC); err != nil {
		return nil, nil, err
	}
	if outer, err = find(host, outer.Attrs().Name); err != nil {
		return nil, nil, err
	}
	inner, err = find(container, o.IfName)
	return outer, inner, err
}

// other is the host's end of the pair that inner is an end of. Each end knows the other's index.
func (Netkit) other(host *NS, inner netlink.Link) (netlink.Link, error) {
	outer, err := findIndex(host, inner.Attrs().ParentIndex)
	if err != nil {
		return nil, err
	}
	if outer == nil || outer.Type() != netkitKind || outer.Attrs().ParentIndex != inner.Attrs().Index {
		return nil, different(inner.Attrs().Name, "the other end", "on the host", "not there")
	}
	return outer, nil
}

// Verify compares both ends with k, and their MTUs and hardware addresses with those that the result want, if it is not nil,
// has for them. A difference Is netconf.ErrDifferent.
func (k Netkit) Verify(_ context.Context, host, container *NS, o Owner, want *types100.Result) error {
	inner, err := find(container, o.IfName)
	if err != nil {
		return err
	}
	err = verify(inner, o.IfName, netkitKind, o, named(want, o.IfName, true))
	if inner == nil || inner.Type() != netkitKind {
		return err
	}
	outer, lookErr := k.other(host, inner)
	if lookErr != nil {
		return netconf.Join(err, lookErr)
	}
	name := outer.Attrs().Name
	return netconf.Join(err, k.verify(inner), verify(outer, name, netkitKind, o, named(want, name, false)))
}

// verify compares what only a netkit has.
func (k Netkit) verify(inner netlink.Link) error {
	name := inner.Attrs().Name
	have, ok := inner.(*netlink.Netkit)
	if !ok {
		return different(name, "the kind", netkitKind, inner.Type())
	}
	var errs []error
	if mode := netkitModes.value(have.Mode); mode.String() != k.Mode.String() {
		errs = append(errs, different(name, "the mode", k.Mode, mode))
	}
	if have.IsPrimary() { // the programs would be the container's
		errs = append(errs, different(name, "the end of the pair", "the peer", "the primary"))
	}
	return netconf.Join(errs...)
}

// Delete takes the pair away, if it is the owner's; container may be nil, or have gone.
func (k Netkit) Delete(ctx context.Context, host, container *NS, o Owner) error {
	return k.remove(ctx, host, container, claim{Owner: o})
}

// remove takes the pair away by the end on the host, which the kernel lets nobody in the container rename or label.
func (k Netkit) remove(ctx context.Context, host, container *NS, c claim) error {
	l, err := k.outer(host, c.Owner)
	if err != nil {
		return err
	}
	if l != nil {
		return remove(ctx, host, l) // and with it the other end
	}
	return c.removeInside(ctx, container)
}

// outer finds the host's end of the owner's pair, by its mark alone; nil if there is none.
func (Netkit) outer(host *NS, o Owner) (netlink.Link, error) {
	if o.Network != "" {
		l, err := find(host, o.HostName(HostRole))
		if err != nil || l != nil && o.Owns(l) {
			return l, err
		}
		return nil, nil
	}
	links, err := whole(host.Handle().LinkList) // the name cannot be derived
	if err != nil {
		return nil, &Error{Op: "link list", Err: err}
	}
	for _, l := range links {
		if lab, ok := parseAlias(l.Attrs().Alias); ok && lab.of(o) && l.Type() == netkitKind {
			return l, nil
		}
	}
	return nil, nil
}

// Add is Create, with the host's end and then the container's noted in the result.
func (k Netkit) Add(ctx context.Context, req *netconf.Request) error {
	p, err := entering(req, netkitKind)
	if err != nil {
		return err
	}
	outer, inner, err := k.Create(ctx, p.host, p.container, p.Owner)
	if err != nil {
		return err
	}
	req.AddInterface(describe(outer, ""))
	req.AddInterface(describe(inner, req.Netns))
	return nil
}

// Check is Verify against the prevResult.
func (k Netkit) Check(ctx context.Context, req *netconf.Request) error {
	p, _, err := checking(req)
	if err != nil {
		return err
	}
	return k.Verify(ctx, p.host, p.container, p.Owner, req.Prev)
}

// Del is Delete.
func (k Netkit) Del(ctx context.Context, req *netconf.Request) error {
	p, err := leaving(req, netkitKind)
	if p == nil {
		return err
	}
	return k.remove(ctx, p.host, p.container, p.claim)
}

// GC takes away the pairs of the network whose attachment is not in the list of valid ones.
func (Netkit) GC(ctx context.Context, req *netconf.Request) error { return collect(ctx, req) }
