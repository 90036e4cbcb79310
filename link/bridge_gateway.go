package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

// The gateway of a VLAN of a bridge is a VLAN link on the bridge, BRIDGE.VLAN: one link, whose hardware address is the bridge's.
// Like the bridge it is shared, and stays. The reference plugin makes a pair, one end a port of the bridge, with
// the same name on the other: where that is there already it is used.

func (g Gateway) vlanName() string { return fmt.Sprintf("%s.%d", g.bridge().name(), g.VLAN) }

// checkVLAN is an error with code 7 for a number that no VLAN has, or a name that would be too long.
func (g Gateway) checkVLAN() error {
	if err := (PortVLANs{Untagged: g.VLAN}).Valid(); err != nil || g.VLAN == 0 {
		return err
	}
	if err := netconf.CheckIfName(g.vlanName()); err != nil {
		return badLink(g.bridge().name(), "the gateway of VLAN %d needs a link %q: %w", g.VLAN, g.vlanName(), err)
	}
	return nil
}

// holder finds the link that has the gateway's addresses; nil if it is not there. The bridge has them itself if its own
// side is in the VLAN without a tag, as it is in its default one.
func (g Gateway) holder(host *NS, bridge netlink.Link) (netlink.Link, error) {
	if g.VLAN == 0 {
		return bridge, nil
	}
	if err := filtering(bridge); err != nil {
		return nil, err
	}
	name := g.vlanName()
	l, err := find(host, name)
	if err != nil {
		return nil, err
	}
	if l == nil {
		if standard(bridge) == uint16(g.VLAN) {
			return bridge, nil
		}
		return nil, nil
	}
	if have, ok := l.(*netlink.Vlan); ok && have.VlanId == g.VLAN && have.ParentIndex == bridge.Attrs().Index || l.Type() == vethKind {
		return l, nil
	}
	return nil, badLink(name, "is a link of kind %s, expected VLAN %d of the bridge %q", l.Type(), g.VLAN, bridge.Attrs().Name)
}

// hold is holder, and makes the VLAN's link if it is not there. It has the marks of the bridge.
func (g Gateway) hold(ctx context.Context, host *NS, bridge netlink.Link) (netlink.Link, error) {
	l, err := g.holder(host, bridge)
	if err != nil || l != nil {
		return l, err
	}
	name, b := g.vlanName(), bridge.Attrs()
	a := netlink.NewLinkAttrs()
	a.Name, a.ParentIndex, a.Group = name, b.Index, b.Group
	made := &netlink.Vlan{LinkAttrs: a, VlanId: g.VLAN, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}
	err = alter(ctx, "link add", name, func() error { return lacking(made, host.Handle().LinkAdd(made)) })
	if err != nil && !errors.Is(err, syscall.EEXIST) { // another call was faster
		return nil, err
	}
	if l, err = g.holder(host, bridge); err == nil && l == nil {
		err = &Error{Op: "link add", Name: name, Err: fmt.Errorf("it is gone again: %w", syscall.ENODEV)}
	}
	return l, err
}

// raise sets the VLAN's link up, and lets the bridge's own side into the VLAN.
func (g Gateway) raise(ctx context.Context, host *NS, bridge, l netlink.Link) error {
	if l.Type() != vlanKind || l.Attrs().Index == bridge.Attrs().Index {
		return nil
	}
	b, id := bridge.Attrs(), uint16(g.VLAN)
	err := alter(ctx, "bridge vlan add", b.Name, func() error { return addVLANs(host, bridge, run{id, id, 0}, true) })
	if err != nil {
		return err
	}
	if l.Attrs().Flags&net.FlagUp == 0 {
		if err := quiet(ctx, host, l.Attrs().Name); err != nil {
			return err
		}
	}
	return converge(ctx, host, l, b.Alias, 0, nil)
}

// verifyVLAN compares the link of the VLAN, but for its addresses.
func (g Gateway) verifyVLAN(host *NS, bridge, l netlink.Link) error {
	if l == nil {
		return different(g.vlanName(), "the link", "there", "gone")
	}
	name, id := l.Attrs().Name, uint16(g.VLAN)
	if l.Attrs().Flags&net.FlagUp == 0 {
		return different(name, "the state", "up", "down")
	}
	if l.Type() != vlanKind {
		return nil
	}
	have, err := vlansOf(host, bridge)
	if err != nil {
		return err
	}
	if flags, there := have[id]; !there || flags&vlanUntagged != 0 {
		return different(bridge.Attrs().Name, fmt.Sprintf("VLAN %d of the bridge's own side", g.VLAN), "tagged", runsOf(have))
	}
	return nil
}
