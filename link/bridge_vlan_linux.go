package link

import (
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

// addVLANs puts a port of a bridge into VLANs; self is for the bridge's own side.
func addVLANs(n *NS, port netlink.Link, r run, self bool) error {
	last := r.last
	if last == r.first {
		last = 0 // netlink's word for no range
	}
	return n.Handle().BridgeVlanAddRange(port, r.first, last, r.flags&vlanPVID != 0, r.flags&vlanUntagged != 0, self, !self)
}

// delVLANs takes a port of a bridge out of VLANs.
func delVLANs(n *NS, port netlink.Link, r run) error {
	last := r.last
	if last == r.first {
		last = 0
	}
	return n.Handle().BridgeVlanDelRange(port, r.first, last, false, false, false, true)
}

// vlansOf lists the VLANs of a port, or of a bridge's own side, with their flags. The kernel lists them for all ports only: it
// is not in the path of an ADD.
func vlansOf(n *NS, port netlink.Link) (map[uint16]uint16, error) {
	list, err := whole(func() (map[int32][]*nl.BridgeVlanInfo, error) { return n.Handle().BridgeVlanList() })
	if err != nil {
		return nil, &Error{Op: "bridge vlan list", Name: port.Attrs().Name, Err: err}
	}
	out := map[uint16]uint16{}
	for _, v := range list[int32(port.Attrs().Index)] {
		out[v.Vid] = v.Flags & (vlanPVID | vlanUntagged)
	}
	return out, nil
}
