package link

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

// PortVLANs are the VLANs of a port of a bridge that filters them ([Bridge].VLANFiltering). The zero value leaves the
// port what the bridge gives to each: its default VLAN, 1 by the kernel's choice, untagged. Otherwise the port is in
// these VLANs and in no other.
type PortVLANs struct {
	Untagged    int         // 1 to 4094: what the container sends without a tag is of this VLAN, whose frames it gets without a tag; 0: what is untagged is dropped
	Tagged      []VLANRange // VLANs whose frames pass with their tag; one that is Untagged too is untagged
	KeepDefault bool        // the port stays in the bridge's default VLAN too, whose frames it gets without a tag
}

// VLANRange are the VLANs from First to Last, both included, 1 to 4094.
type VLANRange struct{ First, Last int }

// The flags of a port's VLAN, of linux/if_bridge.h: what comes without a tag is of it; what leaves has none.
const (
	vlanPVID     = 1 << 1
	vlanUntagged = 1 << 2
)

// none tells whether nothing is asked for.
func (p PortVLANs) none() bool { return p.Untagged == 0 && len(p.Tagged) == 0 }

// Valid is an error with code 7 for a number that no VLAN has, or a range that ends before it begins.
func (p PortVLANs) Valid() error {
	bad := func(format string, args ...any) error {
		return &Error{Op: "bridge vlan", Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, format, args...)}
	}
	if p.Untagged < 0 || p.Untagged > maxVLAN {
		return bad("VLAN %d is out of range: expected 1 to %d", p.Untagged, maxVLAN)
	}
	for _, r := range p.Tagged {
		if r.First < 1 || r.Last > maxVLAN || r.First > r.Last {
			return bad("VLANs %d to %d: expected a range in 1 to %d", r.First, r.Last, maxVLAN)
		}
	}
	return nil
}

// want are the VLANs of a port with their flags, on a bridge with a default VLAN, or 0 for none.
func (p PortVLANs) want(standard uint16) map[uint16]uint16 {
	out := map[uint16]uint16{}
	for _, r := range p.Tagged {
		for id := r.First; id <= r.Last; id++ {
			out[uint16(id)] = 0
		}
	}
	if _, there := out[standard]; p.KeepDefault && standard != 0 && !there {
		out[standard] = vlanUntagged
	}
	if p.Untagged != 0 {
		out[uint16(p.Untagged)] = vlanPVID | vlanUntagged
	}
	return out
}

// run is a row of VLANs with the same flags: the kernel takes it in one message.
type run struct{ first, last, flags uint16 }

func runsOf(vlans map[uint16]uint16) (runs []run) {
	for _, id := range slices.Sorted(maps.Keys(vlans)) {
		flags := vlans[id]
		if n := len(runs) - 1; n >= 0 && runs[n].last+1 == id && runs[n].flags == flags && flags&vlanPVID == 0 {
			runs[n].last = id
			continue
		}
		runs = append(runs, run{id, id, flags})
	}
	return runs
}

func (r run) String() string {
	text := fmt.Sprint(r.first)
	if r.last != r.first {
		text += fmt.Sprintf("-%d", r.last)
	}
	if r.flags&vlanPVID != 0 {
		text += " pvid"
	}
	if r.flags&vlanUntagged != 0 {
		text += " untagged"
	}
	return text
}

func noFiltering(name string, err error) error {
	return &Error{Op: "bridge vlan", Name: name, Err: fmt.Errorf("the kernel's bridges do not filter VLANs (CONFIG_BRIDGE_VLAN_FILTERING): %w", err)}
}

// filtering is an error for a bridge that filters no VLANs: there the VLANs of a port mean nothing, and containers of
// different ones reach each other. The kernel says nothing of filtering if it lacks it.
func filtering(bridge netlink.Link) error {
	b, ok := bridge.(*netlink.Bridge)
	name := bridge.Attrs().Name
	switch {
	case !ok:
		return badLink(name, "is a link of kind %s, expected a bridge", bridge.Type())
	case b.VlanFiltering == nil:
		return noFiltering(name, ErrNotSupported)
	case !*b.VlanFiltering:
		return badLink(name, "the bridge does not filter VLANs: who made it has to turn that on, for it may change what reaches its other ports")
	}
	return nil
}

// standard is the VLAN that a bridge gives to each new port; 0 is none.
func standard(bridge netlink.Link) uint16 {
	if b, ok := bridge.(*netlink.Bridge); ok && b.VlanDefaultPVID != nil {
		return *b.VlanDefaultPVID
	}
	return 0
}

// apply brings a port from the VLANs that it has to those that it is to have. The one without a tag comes last, for one with PVID
// takes that from the one before.
func (p PortVLANs) apply(ctx context.Context, n *NS, port, bridge netlink.Link, have map[uint16]uint16) error {
	name, want := port.Attrs().Name, p.want(standard(bridge))
	missing, surplus := map[uint16]uint16{}, map[uint16]uint16{}
	for id, flags := range want {
		if had, there := have[id]; !there || had != flags {
			missing[id] = flags
		}
	}
	for id := range have {
		if _, wanted := want[id]; !wanted {
			surplus[id] = 0
		}
	}
	for _, r := range runsOf(surplus) {
		if err := alter(ctx, "bridge vlan del", name, func() error { return delVLANs(n, port, r) }); err != nil {
			return err
		}
	}
	runs := runsOf(missing)
	slices.SortStableFunc(runs, func(a, b run) int { return int(a.flags&vlanPVID) - int(b.flags&vlanPVID) })
	for _, r := range runs {
		if err := alter(ctx, "bridge vlan add", name, func() error { return addVLANs(n, port, r, false) }); err != nil {
			return err
		}
	}
	return nil
}

// verify compares the VLANs of a port.
func (p PortVLANs) verify(n *NS, port, bridge netlink.Link) error {
	if p.none() {
		return nil
	}
	name := port.Attrs().Name
	if err := filtering(bridge); err != nil {
		return different(name, "VLAN filtering of its bridge", "on", err)
	}
	have, err := vlansOf(n, port)
	if err != nil {
		return err
	}
	if want := p.want(standard(bridge)); !maps.Equal(have, want) {
		return different(name, "the VLANs of the port", runsOf(want), runsOf(have))
	}
	return nil
}
