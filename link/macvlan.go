package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
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
	BcQueueLen uint32      // length of the parent's queue for broadcasts; 0 is the kernel's 1000
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

// macvlanModes are netlink's names, in the order in which an error lists them.
var macvlanModes = []struct {
	mode   MacvlanMode
	kernel netlink.MacvlanMode
}{
	{MacvlanBridge, netlink.MACVLAN_MODE_BRIDGE},
	{MacvlanPrivate, netlink.MACVLAN_MODE_PRIVATE},
	{MacvlanVEPA, netlink.MACVLAN_MODE_VEPA},
	{MacvlanPassthru, netlink.MACVLAN_MODE_PASSTHRU},
}

// String is the name of the mode as in a configuration.
func (m MacvlanMode) String() string {
	if m == MacvlanBridge {
		return "bridge"
	}
	return string(m)
}

// UnmarshalText reads the name of a mode; no text is bridge.
func (m *MacvlanMode) UnmarshalText(text []byte) error {
	var names []string
	for _, known := range macvlanModes {
		if string(text) == string(known.mode) || string(text) == known.mode.String() {
			*m = known.mode
			return nil
		}
		names = append(names, known.mode.String())
	}
	return fmt.Errorf("unknown mode %q: expected %s", text, strings.Join(names, ", "))
}

// MarshalText writes the name of the mode.
func (m MacvlanMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

func (m MacvlanMode) kernel() (netlink.MacvlanMode, error) {
	for _, known := range macvlanModes {
		if m == known.mode || string(m) == known.mode.String() {
			return known.kernel, nil
		}
	}
	return 0, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "unknown mode %q", m)
}

// macvlanModeOf is the mode that a link has; one that no configuration can ask for keeps its number.
func macvlanModeOf(l *netlink.Macvlan) MacvlanMode {
	i := slices.IndexFunc(macvlanModes, func(k struct {
		mode   MacvlanMode
		kernel netlink.MacvlanMode
	}) bool {
		return k.kernel == l.Mode
	})
	if i < 0 {
		return MacvlanMode(fmt.Sprintf("%d", l.Mode))
	}
	return macvlanModes[i].mode
}

const macvlanKind = "macvlan"

// Name is "macvlan".
func (m Macvlan) Name() string { return macvlanKind }

// Create makes the link o.IfName in the container, down. What has the name already is an error that Is
// netconf.ErrExists; a parent that is missing or taken, and an MTU below 68 or above the parent's, have code 7.
// After another error there may be a part, which Delete takes away.
func (m Macvlan) Create(ctx context.Context, host, container *NS, o Owner) (netlink.Link, error) {
	l, _, err := m.create(ctx, host, container, o)
	return l, err
}

func (m Macvlan) create(ctx context.Context, host, container *NS, o Owner) (made, parent netlink.Link, err error) {
	via := m.Parent.ns(host, container)
	if parent, err = m.Parent.find(via); err != nil {
		return nil, nil, err
	}
	p := parent.Attrs()
	if m.MTU != 0 && (m.MTU < minMTU || m.MTU > p.MTU) {
		return nil, nil, badLink(o.IfName, "mtu %d is out of range: expected %d to %d, which is that of the parent link %q", m.MTU, minMTU, p.MTU, p.Name)
	}
	mode, err := m.Mode.kernel()
	if err != nil {
		return nil, nil, &Error{Op: "link add", Name: o.IfName, Err: err}
	}
	l := &netlink.Macvlan{LinkAttrs: attrs(o, o.IfName, m.MTU, m.MAC), Mode: mode, BCQueueLen: m.BcQueueLen}
	l.ParentIndex = p.Index
	if made, err = create(ctx, o, via, container, l); err != nil {
		err = m.explain(err, via, p, o.IfName)
	}
	return made, parent, err
}

// explain says what the kernel means when it finds the parent busy, or the mode impossible.
func (m Macvlan) explain(err error, via *NS, parent *netlink.LinkAttrs, name string) error {
	switch {
	case errors.Is(err, syscall.EBUSY):
		by := "it has links of another kind, such as ipvlan"
		if parent.MasterIndex != 0 {
			by = "it is a port"
			if master, lookErr := findIndex(via, parent.MasterIndex); lookErr == nil && master != nil {
				by = fmt.Sprintf("it is a port of the %s %q", master.Type(), master.Attrs().Name)
			}
		}
		return badLink(name, "mode %s: the parent link %q is busy: %s: %w", m.Mode, parent.Name, by, err)
	case !errors.Is(err, syscall.EINVAL):
		return err
	case parent.EncapType != "ether": // netlink's word; the loopback has another
		return badLink(name, "the parent link %q is no Ethernet link, but %s: %w", parent.Name, parent.EncapType, err)
	case m.Mode == MacvlanPassthru:
		return badLink(name, "mode %s on the parent link %q: %w: it wants a parent without other macvlans", m.Mode, parent.Name, err)
	}
	return badLink(name, "mode %s on the parent link %q: %w: perhaps another macvlan has taken it over", m.Mode, parent.Name, err)
}

// Ensure is Create where the link is not there. One of the owner's is brought back to its MTU and hardware
// address, as far as m has them, and up; a parent or mode that differs is an error that Is
// netconf.ErrDifferent: that cannot be changed under a live link. One of somebody else's is an error
// that Is netconf.ErrExists.
func (m Macvlan) Ensure(ctx context.Context, host, container *NS, o Owner) (netlink.Link, error) {
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
	if err := converge(ctx, container, l, o.Alias(""), m.MTU, m.MAC); err != nil {
		return nil, err
	}
	return find(container, o.IfName)
}

// Verify compares the link with m, and its MTU and hardware address with want where that is not nil. A
// difference Is netconf.ErrDifferent.
func (m Macvlan) Verify(_ context.Context, host, container *NS, o Owner, want *types100.Interface) error {
	l, err := find(container, o.IfName)
	if err != nil {
		return err
	}
	err = verify(l, o.IfName, macvlanKind, o, want)
	if l == nil || l.Type() != macvlanKind {
		return err
	}
	return netconf.Join(err, m.verify(l, host, container, o.IfName))
}

// verify compares what only a macvlan has.
func (m Macvlan) verify(l netlink.Link, host, container *NS, name string) error {
	have, ok := l.(*netlink.Macvlan)
	if !ok {
		return different(name, "the kind", macvlanKind, l.Type())
	}
	var errs []error
	if mode := macvlanModeOf(have); mode.String() != m.Mode.String() {
		errs = append(errs, different(name, "the mode", m.Mode, mode))
	}
	return netconf.Join(append(errs, m.Parent.verify(l, m.Parent.ns(host, container)))...)
}

// Delete takes the link away, if it is the owner's; container may be nil, or have gone.
func (m Macvlan) Delete(ctx context.Context, _, container *NS, o Owner) error {
	return claim{Owner: o}.removeInside(ctx, container)
}

// Add is Create, with the link noted in the result.
func (m Macvlan) Add(ctx context.Context, req *netconf.Request) error {
	p, err := entering(req, macvlanKind)
	if err != nil {
		return err
	}
	l, parent, err := m.create(ctx, p.host, p.container, p.Owner)
	if err != nil {
		return err
	}
	if parent.Attrs().Flags&net.FlagUp == 0 && req.Warn != nil {
		req.Warn("the parent link is down: nothing passes until it is set up", "parent", parent.Attrs().Name)
	}
	req.AddInterface(describe(l, req.Netns))
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
	p, err := leaving(req, macvlanKind)
	if p == nil {
		return err
	}
	return p.removeInside(ctx, p.container)
}

// Status is an error with code 50 when the parent is not there. One inside a container cannot be asked for.
func (m Macvlan) Status(_ context.Context, req *netconf.Request) error { return m.Parent.status(req) }
