package link

import (
	"context"
	"errors"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// Macvlan is a link in the container with a hardware address of its own on the segment of a parent link.
// It lives in the container's namespace alone and goes with it: there is nothing on the host for GC.
type Macvlan struct {
	Parent     Parent      // the link that it shares
	Mode       MacvlanMode // how those on the same parent reach each other; default: bridge
	MTU        int         // bytes, 68 to the parent's; 0 is the parent's
	MAC        netconf.MAC // hardware address; nil: the kernel chooses one
	BcQueueLen uint32      // length of the parent's queue for broadcasts; the longest of those on it counts. 0 is the kernel's 1000

	// Chained takes what is not given from the prevResult, if there is one: without a name the parent is its one
	// interface, and without an ipam section the link gets its addresses, those that are not on an interface of the
	// container. Default: a prevResult is passed on as it came.
	Chained bool
}

// MacvlanMode says how the macvlans on one parent reach each other.
type MacvlanMode string

// The modes of a macvlan.
const (
	MacvlanBridge   MacvlanMode = ""         // directly; "bridge" in a configuration
	MacvlanPrivate  MacvlanMode = "private"  // not at all
	MacvlanVEPA     MacvlanMode = "vepa"     // through the switch that the parent is connected to
	MacvlanPassthru MacvlanMode = "passthru" // there is only one, which takes the parent over
)

var macvlanModes = choices[MacvlanMode, netlink.MacvlanMode]{
	{"bridge", netlink.MACVLAN_MODE_BRIDGE},
	{"private", netlink.MACVLAN_MODE_PRIVATE},
	{"vepa", netlink.MACVLAN_MODE_VEPA},
	{"passthru", netlink.MACVLAN_MODE_PASSTHRU},
}

// String is the name of the mode as in a configuration.
func (m MacvlanMode) String() string { return macvlanModes.name(m) }

// Expects lists the names.
func (MacvlanMode) Expects() string { return netconf.Choice(macvlanModes.names()...) }

// UnmarshalText reads the name of a mode; no text is bridge.
func (m *MacvlanMode) UnmarshalText(text []byte) error { return macvlanModes.parse(text, m) }

// MarshalText writes the name of the mode.
func (m MacvlanMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

const macvlanKind = "macvlan"

// Name is "macvlan".
func (m Macvlan) Name() string { return macvlanKind }

// Create makes the link o.IfName in the container, down. What has the name already is an error that Is
// netconf.ErrExists; a parent that is missing or taken, and an MTU below 68 or above the parent's, have code 7.
// After another error there may be a part, which Delete takes away.
func (m Macvlan) Create(ctx context.Context, host, container *NS, o Owner) (netlink.Link, error) {
	l, _, err := m.create(ctx, host, container, o, macvlanKind)
	return l, err
}

// create makes a link of one of the two kinds that are macvlans to the kernel.
func (m Macvlan) create(ctx context.Context, host, container *NS, o Owner, kind string) (made, parent netlink.Link, err error) {
	via := m.Parent.ns(host, container)
	if parent, err = m.Parent.find(via); err != nil {
		return nil, nil, err
	}
	p := parent.Attrs()
	if err := fitsParent(o.IfName, m.MTU, p); err != nil {
		return nil, nil, err
	}
	mode, err := macvlanModes.kernel("mode", m.Mode)
	if err != nil {
		return nil, nil, &Error{Op: "link add", Name: o.IfName, Err: err}
	}
	a := attrs(o, o.IfName, m.MTU, m.MAC)
	a.ParentIndex = p.Index
	if made, err = create(ctx, o, via, container, m.message(kind, a, mode)); err != nil {
		err = m.explain(err, via, p, o.IfName)
	}
	return made, parent, err
}

// message is what asks the kernel for the link.
func (m Macvlan) message(kind string, a netlink.LinkAttrs, mode netlink.MacvlanMode) netlink.Link {
	l := netlink.Macvlan{LinkAttrs: a, Mode: mode, BCQueueLen: m.BcQueueLen}
	if kind == macvtapKind {
		return &netlink.Macvtap{Macvlan: l}
	}
	return &l
}

// explain says what the kernel means when it refuses the parent, or the mode on it.
func (m Macvlan) explain(err error, via *NS, parent *netlink.LinkAttrs, name string) error {
	refusal := refused(err, via, parent, name, ipvlanKind)
	switch {
	case refusal != nil:
		return refusal
	case !errors.Is(err, syscall.EINVAL):
		return err
	case m.Mode == MacvlanPassthru:
		return badLink(name, "mode %s on the parent link %q: %w: it wants a parent without other macvlans", m.Mode, parent.Name, err)
	}
	return badLink(name, "mode %s on the parent link %q: %w: perhaps another macvlan has taken it over", m.Mode, parent.Name, err)
}

// Ensure is Create where the link is not there. One of the owner's is brought back to its MTU, hardware address and
// broadcast queue, as far as m has them, and up; a parent or mode that differs is an error that Is
// netconf.ErrDifferent: that cannot be changed under a live link. One of somebody else's is an error
// that Is netconf.ErrExists.
func (m Macvlan) Ensure(ctx context.Context, host, container *NS, o Owner) (netlink.Link, error) {
	return m.ensure(ctx, host, container, o, macvlanKind)
}

func (m Macvlan) ensure(ctx context.Context, host, container *NS, o Owner, kind string) (netlink.Link, error) {
	l, err := find(container, o.IfName)
	switch {
	case err != nil:
		return nil, err
	case l == nil:
		made, _, err := m.create(ctx, host, container, o, kind)
		return made, err
	case !o.Owns(l):
		return nil, taken(o.IfName, l)
	}
	have, err := asMacvlan(l, o.IfName, kind)
	if err != nil {
		return nil, err
	}
	if err := m.verify(have, host, container, o.IfName); err != nil {
		return nil, err
	}
	if err := converge(ctx, container, l, o.Alias(""), m.MTU, m.MAC); err != nil {
		return nil, err
	}
	if m.BcQueueLen != 0 && m.BcQueueLen != have.BCQueueLen {
		err := alter(ctx, "link queue", o.IfName, func() error { return setQueue(container, l, m.BcQueueLen) })
		if err != nil {
			return nil, err
		}
	}
	return find(container, o.IfName)
}

// Verify compares the link with m, and its MTU and hardware address with want where that is not nil. A
// difference Is netconf.ErrDifferent.
func (m Macvlan) Verify(_ context.Context, host, container *NS, o Owner, want *types100.Interface) error {
	return m.compare(host, container, o, macvlanKind, want)
}

func (m Macvlan) compare(host, container *NS, o Owner, kind string, want *types100.Interface) error {
	l, err := find(container, o.IfName)
	if err != nil {
		return err
	}
	err = verify(l, o.IfName, kind, o, want)
	if l == nil || l.Type() != kind {
		return err
	}
	have, kindErr := asMacvlan(l, o.IfName, kind)
	if kindErr != nil {
		return netconf.Join(err, kindErr)
	}
	if m.BcQueueLen != 0 && m.BcQueueLen != have.BCQueueLen {
		err = netconf.Join(err, different(o.IfName, "the length of the broadcast queue", m.BcQueueLen, have.BCQueueLen))
	}
	return netconf.Join(err, m.verify(have, host, container, o.IfName))
}

// asMacvlan is what both kinds have in common.
func asMacvlan(l netlink.Link, name, kind string) (*netlink.Macvlan, error) {
	switch have := l.(type) {
	case *netlink.Macvlan:
		if kind == macvlanKind {
			return have, nil
		}
	case *netlink.Macvtap:
		if kind == macvtapKind {
			return &have.Macvlan, nil
		}
	}
	return nil, different(name, "the kind", kind, l.Type())
}

// verify compares what cannot be changed under a live link.
func (m Macvlan) verify(have *netlink.Macvlan, host, container *NS, name string) error {
	var errs []error
	if mode := macvlanModes.value(have.Mode); mode.String() != m.Mode.String() {
		errs = append(errs, different(name, "the mode", m.Mode, mode))
	}
	return netconf.Join(append(errs, m.Parent.verify(have, m.Parent.ns(host, container)))...)
}

// Delete takes the link away, if it is the owner's; container may be nil, or have gone.
func (m Macvlan) Delete(ctx context.Context, _, container *NS, o Owner) error {
	return claim{Owner: o}.removeInside(ctx, container)
}

// Add is Create, with the link noted in the result.
func (m Macvlan) Add(ctx context.Context, req *netconf.Request) error {
	return m.add(ctx, req, macvlanKind)
}

func (m Macvlan) add(ctx context.Context, req *netconf.Request, kind string) error {
	p, err := entering(req, kind)
	if err != nil {
		return err
	}
	if m.Chained {
		if m.Parent, err = m.Parent.chained(req); err != nil {
			return err
		}
	}
	l, parent, err := m.create(ctx, p.host, p.container, p.Owner, kind)
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
func (m Macvlan) Check(ctx context.Context, req *netconf.Request) error {
	p, want, err := checking(req)
	if err != nil {
		return err
	}
	return m.Verify(ctx, p.host, p.container, p.Owner, want)
}

// Del is Delete.
func (m Macvlan) Del(ctx context.Context, req *netconf.Request) error {
	return m.del(ctx, req, macvlanKind)
}

func (m Macvlan) del(ctx context.Context, req *netconf.Request, kind string) error {
	p, err := leaving(req, kind)
	if p == nil {
		return err
	}
	return p.removeInside(ctx, p.container)
}

// Status is an error with code 50 when the parent is not there. One inside a container, or of a
// prevResult, cannot be asked for.
func (m Macvlan) Status(_ context.Context, req *netconf.Request) error {
	if m.Chained && m.Parent.Name == "" {
		return nil
	}
	return m.Parent.status(req, nil)
}
