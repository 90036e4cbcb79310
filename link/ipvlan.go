package link

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// IPvlan is a link in the container that shares the hardware address of a parent link: the kernel sorts packets by
// their IP address. It is for networks that allow one address on a port, as most clouds and some switches do.
// It lives in the container's namespace alone and goes with it: there is nothing on the host for GC.
//
// It has no hardware address of its own to be set. When the parent's changes, as a bond's does when it fails over, or
// the parent's MTU, so does the link's.
//
// In the modes l3 and l3s the host routes for the container: there is no ARP, no broadcast and no multicast. So the
// kernel does no duplicate address detection there, whatever [Addresses] is told, and announces nothing; but in all
// modes it refuses an address that another ipvlan on the same parent has. A gateway says no more there than that the
// destination is out of the link: who has its address, if anybody, is never asked, and the host's routes lead on. The routes of
// IPAM are made and reported as they are, for they do no harm, and a configuration may serve all modes.
type IPvlan struct {
	Parent Parent     // the link that it shares; an ipvlan stands for its own parent
	Mode   IPvlanMode // on which layer the kernel passes packets on; default: l2
	Flag   IPvlanFlag // how those on the same parent reach each other; default: bridge
	MTU    int        // bytes, 68 to the parent's; 0 is the parent's

	// Chained takes what is not given from the prevResult, if there is one, as the reference plugin does: without a
	// name the parent is its one interface, and without an ipam section the link gets its addresses, those that are not
	// on an interface of the container. Default: a prevResult is passed on as it came.
	Chained bool
}

// IPvlanMode says on which layer the kernel passes the packets of an ipvlan on. One parent has one mode.
type IPvlanMode string

// The modes of an ipvlan.
const (
	IPvlanL2  IPvlanMode = ""    // frames, as on a switch; "l2" in a configuration
	IPvlanL3  IPvlanMode = "l3"  // packets, routed by the parent's namespace, past its netfilter on the way in
	IPvlanL3S IPvlanMode = "l3s" // as l3, and netfilter and conntrack of the parent's namespace see both ways
)

var ipvlanModes = choices[IPvlanMode, netlink.IPVlanMode]{
	{"l2", netlink.IPVLAN_MODE_L2},
	{"l3", netlink.IPVLAN_MODE_L3},
	{"l3s", netlink.IPVLAN_MODE_L3S},
}

// String is the name of the mode as in a configuration.
func (m IPvlanMode) String() string { return ipvlanModes.name(m) }

// Expects lists the names.
func (IPvlanMode) Expects() string { return netconf.Choice(ipvlanModes.names()...) }

// UnmarshalText reads the name of a mode; no text is l2.
func (m *IPvlanMode) UnmarshalText(text []byte) error { return ipvlanModes.parse(text, m) }

// MarshalText writes the name of the mode.
func (m IPvlanMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// IPvlanFlag says how the ipvlans on one parent reach each other. One parent has one flag. Linux 4.15.
type IPvlanFlag string

// The flags of an ipvlan.
const (
	IPvlanBridge  IPvlanFlag = ""        // directly; "bridge" in a configuration
	IPvlanPrivate IPvlanFlag = "private" // not at all
	IPvlanVEPA    IPvlanFlag = "vepa"    // through the switch, or router, that the parent is connected to
)

var ipvlanFlags = choices[IPvlanFlag, netlink.IPVlanFlag]{
	{"bridge", netlink.IPVLAN_FLAG_BRIDGE},
	{"private", netlink.IPVLAN_FLAG_PRIVATE},
	{"vepa", netlink.IPVLAN_FLAG_VEPA},
}

// String is the name of the flag as in a configuration.
func (f IPvlanFlag) String() string { return ipvlanFlags.name(f) }

// Expects lists the names.
func (IPvlanFlag) Expects() string { return netconf.Choice(ipvlanFlags.names()...) }

// UnmarshalText reads the name of a flag; no text is bridge.
func (f *IPvlanFlag) UnmarshalText(text []byte) error { return ipvlanFlags.parse(text, f) }

// MarshalText writes the name of the flag.
func (f IPvlanFlag) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

const ipvlanKind = "ipvlan"

// Name is "ipvlan".
func (m IPvlan) Name() string { return ipvlanKind }

// Create makes the link o.IfName in the container, down. What has the name already is an error that Is
// netconf.ErrExists; a parent that is missing or taken, or has an ipvlan of another mode or flag, and an MTU below 68 or
// above the parent's, have code 7; a kernel without ipvlan gives ErrNotSupported. After another error there may be a
// part, which Delete takes away.
func (m IPvlan) Create(ctx context.Context, host, container *NS, o Owner) (netlink.Link, error) {
	l, _, err := m.create(ctx, host, container, o)
	return l, err
}

func (m IPvlan) create(ctx context.Context, host, container *NS, o Owner) (made, parent netlink.Link, err error) {
	via := m.Parent.ns(host, container)
	if parent, err = m.Parent.find(via); err != nil {
		return nil, nil, err
	}
	p := parent.Attrs()
	if err := fitsParent(o.IfName, m.MTU, p); err != nil {
		return nil, nil, err
	}
	l := &netlink.IPVlan{LinkAttrs: attrs(o, o.IfName, m.MTU, nil)}
	l.ParentIndex = p.Index
	if l.Mode, err = ipvlanModes.kernel("mode", m.Mode); err == nil {
		l.Flag, err = ipvlanFlags.kernel("flag", m.Flag)
	}
	if err != nil {
		return nil, nil, &Error{Op: "link add", Name: o.IfName, Err: err}
	}
	if err := m.agree(via, parent, o.IfName); err != nil {
		return nil, nil, err
	}
	if made, err = create(ctx, o, via, container, l); err != nil {
		return nil, nil, m.explain(err, via, p, o.IfName)
	}
	if err := introduce(ctx, via, container); err != nil {
		return nil, nil, err
	}
	return made, parent, m.still(container, p.Name, o.IfName)
}

// still is an error with code 11 if another call has changed mode or flag since this one looked at the parent.
func (m IPvlan) still(container *NS, parent, name string) error {
	l, err := find(container, name)
	if err != nil || l == nil {
		return netconf.Join(err, different(name, "the link", "there", "gone"))
	}
	if errs := m.differences(l, name); len(errs) > 0 {
		return &Error{Op: "link add", Name: name, Err: netconf.Errorf(netconf.CodeTryAgainLater,
			"the parent link %q was given to another network at the same time: %v", parent, netconf.Join(errs...))}
	}
	return nil
}

// agree is an error with code 7 if the parent has an ipvlan of another mode or flag. The kernel keeps both with the
// parent, and those of the link made last count for all: a second network would change the first one's live links.
//
// Those in another namespace are found if it has a number in the parent's, as it has after an ADD of this package, or
// with a veth. One that nobody can see is changed; and so is one that is made between the look and the creation.
func (m IPvlan) agree(via *NS, parent netlink.Link, name string) error {
	other, err := sharing(via, parent)
	if err != nil || other == nil {
		return err
	}
	mode, flag := ipvlanModes.value(other.Mode), ipvlanFlags.value(other.Flag)
	if mode.String() == m.Mode.String() && flag.String() == m.Flag.String() {
		return nil
	}
	return badLink(name, "mode %s, flag %s: the parent link %q has the ipvlan %q%s with mode %s, flag %s, and can have only one of each",
		m.Mode, m.Flag, parent.Attrs().Name, other.Attrs().Name, labelText(other), mode, flag)
}

// noL3S is ENOTSUPP of linux/errno.h, which is not EOPNOTSUPP and not meant for programs.
const noL3S = syscall.Errno(524)

// explain says what the kernel means when it refuses the parent, or the mode.
func (m IPvlan) explain(err error, via *NS, parent *netlink.LinkAttrs, name string) error {
	if errors.Is(err, noL3S) {
		return &Error{Op: "link add", Name: name, Err: fmt.Errorf("mode %s: %w (CONFIG_IPVLAN_L3S)", m.Mode, ErrNotSupported)}
	}
	if refusal := refused(err, via, parent, name, macvlanKind); refusal != nil {
		return refusal
	}
	return err
}

// Ensure is Create where the link is not there. One of the owner's is brought back to its MTU, as far as m has it, and
// up; a parent, mode or flag that differs is an error that Is netconf.ErrDifferent: to change mode or flag would
// change those of all links on the parent. One of somebody else's is an error that Is netconf.ErrExists.
func (m IPvlan) Ensure(ctx context.Context, host, container *NS, o Owner) (netlink.Link, error) {
	l, err := find(container, o.IfName)
	switch {
	case err != nil:
		return nil, err
	case l == nil:
		return m.Create(ctx, host, container, o)
	case !o.Owns(l):
		return nil, taken(o.IfName, l)
	}
	if err := m.verify(l, host, container, o.IfName); err != nil {
		return nil, err
	}
	if err := converge(ctx, container, l, o.Alias(""), m.MTU, nil); err != nil {
		return nil, err
	}
	return find(container, o.IfName)
}

// Verify compares the link with m, and its MTU with want where that is not nil. A difference Is
// netconf.ErrDifferent. The hardware address is the parent's, whatever it is now.
func (m IPvlan) Verify(_ context.Context, host, container *NS, o Owner, want *types100.Interface) error {
	l, err := find(container, o.IfName)
	if err != nil {
		return err
	}
	if want != nil {
		without := *want
		without.Mac = ""
		want = &without
	}
	err = verify(l, o.IfName, ipvlanKind, o, want)
	if l == nil || l.Type() != ipvlanKind {
		return err
	}
	return netconf.Join(err, m.verify(l, host, container, o.IfName))
}

// verify compares what only an ipvlan has.
func (m IPvlan) verify(l netlink.Link, host, container *NS, name string) error {
	if _, ok := l.(*netlink.IPVlan); !ok {
		return different(name, "the kind", ipvlanKind, l.Type())
	}
	return netconf.Join(append(m.differences(l, name), m.Parent.verify(l, m.Parent.ns(host, container)))...)
}

// differences compares mode and flag.
func (m IPvlan) differences(l netlink.Link, name string) (errs []error) {
	have, ok := l.(*netlink.IPVlan)
	if !ok {
		return []error{different(name, "the kind", ipvlanKind, l.Type())}
	}
	if mode := ipvlanModes.value(have.Mode); mode.String() != m.Mode.String() {
		errs = append(errs, different(name, "the mode", m.Mode, mode))
	}
	if flag := ipvlanFlags.value(have.Flag); flag.String() != m.Flag.String() {
		errs = append(errs, different(name, "the flag", m.Flag, flag))
	}
	return errs
}

// Delete takes the link away, if it is the owner's; container may be nil, or have gone.
func (m IPvlan) Delete(ctx context.Context, _, container *NS, o Owner) error {
	return claim{Owner: o}.removeInside(ctx, container)
}

// Add is Create, with the link noted in the result.
func (m IPvlan) Add(ctx context.Context, req *netconf.Request) error {
	p, err := entering(req, ipvlanKind)
	if err != nil {
		return err
	}
	if m.Chained {
		if m.Parent, err = m.Parent.chained(req); err != nil {
			return err
		}
	}
	l, parent, err := m.create(ctx, p.host, p.container, p.Owner)
	if err != nil {
		return err
	}
	warnDown(req, parent)
	req.AddInterface(describe(l, req.Netns))
	if m.Chained {
		inherit(req)
	}
	return nil
}

// Check is Verify against the prevResult.
func (m IPvlan) Check(ctx context.Context, req *netconf.Request) error {
	p, want, err := checking(req)
	if err != nil {
		return err
	}
	return m.Verify(ctx, p.host, p.container, p.Owner, want)
}

// Del is Delete.
func (m IPvlan) Del(ctx context.Context, req *netconf.Request) error {
	p, err := leaving(req, ipvlanKind)
	if p == nil {
		return err
	}
	return p.removeInside(ctx, p.container)
}

// Status is an error with code 50 when the parent is not there, or has an ipvlan of another mode or flag. One inside a
// container cannot be asked for, nor one that the prevResult may name: STATUS has none.
func (m IPvlan) Status(_ context.Context, req *netconf.Request) error {
	if m.Chained && m.Parent.Name == "" {
		return nil
	}
	return m.Parent.status(req, func(host *NS, parent netlink.Link) error { return m.agree(host, parent, parent.Attrs().Name) })
}

// inherit gives the new link the addresses of the prevResult that no interface in the container has, and the routes if
// these are all: they move from the prevResult to this plugin's own, where Addresses finds them.
func inherit(req *netconf.Request) {
	if req.Prev == nil || req.Network.IPAM.Type != "" {
		return
	}
	inside := func(ip *types100.IPConfig) bool {
		all := req.Prev.Interfaces
		i := ip.Interface
		return i != nil && *i >= 0 && *i < len(all) && all[*i] != nil && all[*i].Sandbox != ""
	}
	var stay []*types100.IPConfig
	for _, ip := range req.Prev.IPs {
		switch {
		case ip == nil: // only a caller in-process can give that
		case inside(ip):
			stay = append(stay, ip)
		default:
			req.AddIP(-1, ip.Address, ip.Gateway)
		}
	}
	req.Prev.IPs = stay
	if len(stay) > 0 {
		return
	}
	for _, r := range req.Prev.Routes {
		req.AddRoute(r)
	}
	req.Prev.Routes = nil
}
