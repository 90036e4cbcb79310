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

// Veth is a pair of links: one in the container, and one on the host, whose name is derived from the owner
// ([Owner.HostName] with [HostRole]). Without a bridge the host routes to it; see [HostRoutes].
type Veth struct {
	Bridge   string      // the host's end is a port of this bridge, which must be there; empty: it stands alone
	Hairpin  bool        // the port may send a packet back where it came from; of no meaning without a bridge
	Isolated bool        // the port does not reach the bridge's other isolated ports; of no meaning without a bridge
	Fixed    bool        // the bridge learns no address behind the port, and knows that of the container's end for good: a container that sends with another's takes nothing from it; of no meaning without a bridge
	VLANs    PortVLANs   // what the port carries, of a bridge that filters VLANs; zero: the bridge's default. Without a bridge an error
	Down     bool        // the container's end stays down: who is in the container sets it up; Verify takes both
	MTU      int         // bytes, 68 to 65535, of both ends; 0 is the bridge's, without one the kernel's 1500
	MAC      netconf.MAC // hardware address of the container's end; nil: the kernel chooses one
}

// HostRole is the role of the host's end of a pair in its alias and its name.
const HostRole = "host"

const vethKind = "veth"

// Name is "veth".
func (v Veth) Name() string { return vethKind }

// Create makes the pair: the container's end in the container as o.IfName, down; the host's end up and, if
// there is a bridge, its port. A name that is taken on either side is an error that Is netconf.ErrExists;
// a bridge that is missing, is no bridge, or filters no VLANs though there are some, has code 7; a kernel whose bridges
// cannot, ErrNotSupported. After another error there may be a part, which Delete
// takes away.
func (v Veth) Create(ctx context.Context, host, container *NS, o Owner) (outer, inner netlink.Link, err error) {
	bridge, err := v.bridge(host)
	if err != nil {
		return nil, nil, err
	}
	if err := v.birth(ctx, host, container, o, v.mtu(bridge)); err != nil {
		return nil, nil, err
	}
	if outer, err = christen(ctx, host, o.HostName(HostRole), o, HostRole); err != nil {
		return nil, nil, err
	}
	if inner, err = christen(ctx, container, o.IfName, o, ""); err != nil {
		return nil, nil, err
	}
	return outer, inner, v.connect(ctx, host, outer, inner, bridge)
}

// bridge looks the bridge up; nil if there is to be none.
func (v Veth) bridge(host *NS) (netlink.Link, error) {
	if err := v.VLANs.Valid(); err != nil {
		return nil, err
	}
	if v.Bridge == "" {
		if !v.VLANs.none() {
			return nil, badLink(v.Bridge, "VLANs need a bridge")
		}
		return nil, nil
	}
	if err := checkBridge(v.Bridge); err != nil {
		return nil, err
	}
	l, err := find(host, v.Bridge)
	switch {
	case err != nil:
		return nil, err
	case l == nil:
		return nil, badLink(v.Bridge, "there is no such bridge")
	case l.Type() != bridgeKind:
		return nil, badLink(v.Bridge, "is a link of kind %s, expected a bridge", l.Type())
	}
	if !v.VLANs.none() {
		return l, filtering(l)
	}
	return l, nil
}

func (v Veth) mtu(bridge netlink.Link) int {
	if v.MTU == 0 && bridge != nil {
		return bridge.Attrs().MTU
	}
	return v.MTU
}

// birth makes both ends with one message, each in its namespace under its final name. The length of the container's end's queue
// is the kernel's: netlink takes 0 for one, with which a queueing discipline that goes by it has no room for a packet.
func (v Veth) birth(ctx context.Context, host, container *NS, o Owner, mtu int) error {
	if err := netconf.Join(checkName(o.IfName), checkMTU(o.IfName, mtu)); err != nil {
		return err
	}
	name := o.HostName(HostRole)
	l := &netlink.Veth{LinkAttrs: attrs(o, name, mtu, nil), PeerName: o.IfName, PeerHardwareAddr: net.HardwareAddr(v.MAC), PeerTxQLen: -1}
	if !container.Is(host) {
		l.PeerNamespace = netlink.NsFd(container.Fd())
	}
	err := alter(ctx, "link add", name, func() error { return host.Handle().LinkAdd(l) })
	if !errors.Is(err, syscall.EEXIST) {
		return err
	}
	there, lookErr := find(container, o.IfName)
	if lookErr == nil && there != nil {
		return taken(o.IfName, there)
	}
	there, lookErr = find(host, name)
	return netconf.Join(taken(name, there), lookErr)
}

// connect sets the host's end up, on its bridge. The pair has a carrier when the container's end is up too.
func (v Veth) connect(ctx context.Context, host *NS, outer, inner, bridge netlink.Link) error {
	name := outer.Attrs().Name
	if err := quiet(ctx, host, name); err != nil {
		return err
	}
	is := portMode{}
	if bridge != nil {
		var err error
		if is, err = v.join(ctx, host, outer, bridge); err != nil {
			return err
		}
		if err := v.port(ctx, host, outer, is); err != nil {
			return err
		}
	}
	if outer.Attrs().Flags&net.FlagUp == 0 {
		if err := up(ctx, host, outer); err != nil {
			return err
		}
	}
	if bridge == nil || !v.Fixed {
		return nil
	}
	mac := inner.Attrs().HardwareAddr
	if v.MAC != nil {
		mac = net.HardwareAddr(v.MAC)
	}
	return alter(ctx, "bridge table", name, func() error { return fix(host, outer, mac) })
}

// portMode is how a port of a bridge differs from a new one.
type portMode struct{ hairpin, isolated, fixed bool }

// join makes the host's end a port of the bridge, with its VLANs, and says what it is as a port. It is down then, if it
// is new: nothing passes in a VLAN that it has not.
func (v Veth) join(ctx context.Context, host *NS, outer, bridge netlink.Link) (is portMode, err error) {
	name, have := outer.Attrs().Name, map[uint16]uint16{}
	if outer.Attrs().MasterIndex != bridge.Attrs().Index {
		err = alter(ctx, "link master", name, func() error { return host.Handle().LinkSetMaster(outer, bridge) })
		if id := standard(bridge); id != 0 {
			have[id] = vlanPVID | vlanUntagged
		}
	} else if is, err = portFlags(host, outer); err == nil && !v.VLANs.none() {
		have, err = vlansOf(host, outer)
	}
	if err != nil || v.VLANs.none() {
		return is, err
	}
	return is, v.VLANs.apply(ctx, host, outer, bridge, have)
}

// port sets how the port differs from a new one.
func (v Veth) port(ctx context.Context, host *NS, outer netlink.Link, is portMode) error {
	h := host.Handle()
	for _, s := range []struct {
		is, want bool
		op       string
		do       func() error
	}{
		{is.hairpin, v.Hairpin, "bridge port hairpin", func() error { return h.LinkSetHairpin(outer, v.Hairpin) }},
		{is.isolated, v.Isolated, "bridge port isolated", func() error { return setIsolated(host, outer, v.Isolated) }},
		{is.fixed, v.Fixed, "bridge port learning", func() error { return setLearning(host, outer, !v.Fixed) }},
	} {
		if s.is != s.want {
			if err := alter(ctx, s.op, outer.Attrs().Name, s.do); err != nil {
				return err
			}
		}
	}
	return nil
}

// Ensure is Create where the container has no such link. A pair of the owner's is brought back to its labels, bridge,
// MTU and hardware address, and up. A link of somebody else's is an error that Is netconf.ErrExists.
func (v Veth) Ensure(ctx context.Context, host, container *NS, o Owner) (outer, inner netlink.Link, err error) {
	inner, err = find(container, o.IfName)
	switch {
	case err != nil:
		return nil, nil, err
	case inner == nil:
		return v.Create(ctx, host, container, o)
	case !o.Owns(inner):
		return nil, nil, taken(o.IfName, inner)
	}
	if outer, err = v.other(host, inner); err != nil {
		return nil, nil, err
	}
	bridge, err := v.bridge(host)
	if err != nil {
		return nil, nil, err
	}
	if err := v.connect(ctx, host, outer, inner, bridge); err != nil {
		return nil, nil, err
	}
	if err := converge(ctx, host, outer, o.Alias(HostRole), v.mtu(bridge), nil); err != nil {
		return nil, nil, err
	}
	if v.Down {
		inner.Attrs().Flags |= net.FlagUp // as far as converge is concerned
	}
	if err := converge(ctx, container, inner, o.Alias(""), v.mtu(bridge), v.MAC); err != nil {
		return nil, nil, err
	}
	if outer, err = find(host, outer.Attrs().Name); err != nil {
		return nil, nil, err
	}
	inner, err = find(container, o.IfName)
	return outer, inner, err
}

// other is the host's end of the pair that inner is an end of. Each end knows the other's index.
func (v Veth) other(host *NS, inner netlink.Link) (netlink.Link, error) {
	outer, err := findIndex(host, inner.Attrs().ParentIndex)
	if err != nil {
		return nil, err
	}
	if outer == nil || outer.Type() != vethKind || outer.Attrs().ParentIndex != inner.Attrs().Index {
		return nil, different(inner.Attrs().Name, "the other end", "on the host", "not there")
	}
	return outer, nil
}

// Verify compares both ends with v, and their MTUs and hardware addresses with those that the result want,
// if it is not nil, has for them. A difference Is netconf.ErrDifferent.
func (v Veth) Verify(_ context.Context, host, container *NS, o Owner, want *types100.Result) error {
	inner, err := find(container, o.IfName)
	if err != nil {
		return err
	}
	if v.Down && inner != nil {
		inner.Attrs().Flags |= net.FlagUp // as far as verify is concerned
	}
	err = verify(inner, o.IfName, vethKind, o, named(want, o.IfName, true))
	if inner == nil || inner.Type() != vethKind {
		return err
	}
	outer, lookErr := v.other(host, inner)
	if lookErr != nil {
		return netconf.Join(err, lookErr)
	}
	name := outer.Attrs().Name
	return netconf.Join(err, verify(outer, name, vethKind, o, named(want, name, false)), v.verifyPort(host, outer, inner))
}

// verifyPort compares what makes the host's end a port of the bridge.
func (v Veth) verifyPort(host *NS, outer, inner netlink.Link) error {
	if v.Bridge == "" {
		return nil
	}
	name := outer.Attrs().Name
	bridge, err := find(host, v.Bridge)
	if err != nil {
		return err
	}
	if bridge == nil || bridge.Attrs().Index != outer.Attrs().MasterIndex {
		have := "none"
		master, err := findIndex(host, outer.Attrs().MasterIndex)
		if outer.Attrs().MasterIndex != 0 && err == nil && master != nil {
			have = master.Attrs().Name
		}
		return different(name, "the bridge", v.Bridge, have)
	}
	return netconf.Join(v.verifyMode(host, outer, inner), v.VLANs.verify(host, outer, bridge))
}

// verifyMode compares how the port differs from a new one, as far as it is asked to.
func (v Veth) verifyMode(host *NS, outer, inner netlink.Link) error {
	if !v.Hairpin && !v.Isolated && !v.Fixed {
		return nil
	}
	name := outer.Attrs().Name
	is, err := portFlags(host, outer)
	switch {
	case err != nil:
		return err
	case v.Hairpin && !is.hairpin:
		return different(name, "hairpin mode", "on", "off")
	case v.Isolated && !is.isolated:
		return different(name, "port isolation", "on", "off")
	case v.Fixed && !is.fixed:
		return different(name, "learning", "off", "on")
	case !v.Fixed:
		return nil
	}
	mac := inner.Attrs().HardwareAddr
	known, err := isFixed(host, outer, mac)
	if err == nil && !known {
		err = different(name, "the address known behind the port", mac, "none")
	}
	return err
}

// Delete takes the pair away, if it is the owner's; container may be nil, or have gone.
func (v Veth) Delete(ctx context.Context, host, container *NS, o Owner) error {
	return v.remove(ctx, host, container, claim{Owner: o})
}

// remove takes the pair away by the end on the host, which the kernel lets nobody in the container
// rename or label; one that another plugin made, and which has no mark, by the end in the container.
func (v Veth) remove(ctx context.Context, host, container *NS, c claim) error {
	l, err := v.outer(host, c.Owner)
	if err != nil {
		return err
	}
	if l != nil {
		return remove(ctx, host, l) // and with it the other end
	}
	return c.removeInside(ctx, container)
}

// outer finds the host's end of the owner's pair, by its mark alone; nil if there is none.
func (v Veth) outer(host *NS, o Owner) (netlink.Link, error) {
	if o.Network == "" { // the name cannot be derived
		return labelled(host, o)
	}
	l, err := find(host, o.HostName(HostRole))
	if err != nil || l != nil && o.Owns(l) {
		return l, err
	}
	return nil, nil
}

// labelled finds the link on the host that is an attachment's of any network.
func labelled(host *NS, o Owner) (netlink.Link, error) {
	links, err := whole(host.Handle().LinkList)
	if err != nil {
		return nil, &Error{Op: "link list", Err: err}
	}
	for _, l := range links {
		if lab, ok := parseAlias(l.Attrs().Alias); ok && lab.of(o) && l.Type() == vethKind {
			return l, nil
		}
	}
	return nil, nil
}

// Add is Create, with the host's end and then the container's noted in the result.
func (v Veth) Add(ctx context.Context, req *netconf.Request) error {
	p, err := entering(req, vethKind)
	if err != nil {
		return err
	}
	outer, inner, err := v.Create(ctx, p.host, p.container, p.Owner)
	if err != nil {
		return err
	}
	req.AddInterface(describe(outer, ""))
	req.AddInterface(describe(inner, req.Netns))
	return nil
}

// Check is Verify against the prevResult.
func (v Veth) Check(ctx context.Context, req *netconf.Request) error {
	p, _, err := checking(req)
	if err != nil {
		return err
	}
	return v.Verify(ctx, p.host, p.container, p.Owner, req.Prev)
}

// Del is Delete.
func (v Veth) Del(ctx context.Context, req *netconf.Request) error {
	p, err := leaving(req, vethKind)
	if p == nil {
		return err
	}
	return v.remove(ctx, p.host, p.container, p.claim)
}

// GC takes away the pairs of the network whose attachment is not in the list of valid ones.
func (v Veth) GC(ctx context.Context, req *netconf.Request) error { return collect(ctx, req) }
