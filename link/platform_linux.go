package link

import (
	"bytes"
	"net"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// What netlink's types offer on Linux alone. Everything else in the files of the kinds is portable: on
// another system there is no namespace that it could work in.

const (
	familyV4 = netlink.FAMILY_V4
	familyV6 = netlink.FAMILY_V6
)

// modify changes one attribute of a link's kind. netlink's LinkModify also sends the link's name, and kernels before 6.2 take
// that for a renaming, which they refuse with EBUSY while the link is up, though it is the same.
func modify(n *NS, l netlink.Link, attr int, value []byte) error {
	return n.Do(func() error {
		req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
		msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
		msg.Index = int32(l.Attrs().Index)
		req.AddData(msg)
		info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
		info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated(l.Type()))
		info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(attr, value)
		req.AddData(info)
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
}

// setFiltering makes a bridge filter VLANs.
func setFiltering(n *NS, bridge netlink.Link) error {
	return modify(n, bridge, nl.IFLA_BR_VLAN_FILTERING, []byte{1})
}

// setQueue sets how long a queue for broadcasts a macvlan or macvtap asks of its parent.
func setQueue(n *NS, l netlink.Link, length uint32) error {
	return modify(n, l, nl.IFLA_MACVLAN_BC_QUEUE_LEN, nl.Uint32Attr(length))
}

// setIsolated keeps a bridge's port from reaching the other isolated ones, or lets it.
func setIsolated(n *NS, port netlink.Link, on bool) error {
	return n.Handle().LinkSetIsolated(port, on)
}

// setLearning lets a bridge's port learn who is behind it, or not.
func setLearning(n *NS, port netlink.Link, on bool) error {
	return n.Handle().LinkSetLearning(port, on)
}

// portFlags reads what a bridge's port is set to.
func portFlags(n *NS, port netlink.Link) (portMode, error) {
	info, err := whole(func() (netlink.Protinfo, error) { return n.Handle().LinkGetProtinfo(port) })
	if err != nil {
		return portMode{}, &Error{Op: "bridge port get", Name: port.Attrs().Name, Err: err}
	}
	return portMode{hairpin: info.Hairpin, isolated: info.Isolated, fixed: !info.Learning}, nil
}

// fixedEntry is the entry of a bridge's table that says where a hardware address is, once and for all.
func fixedEntry(port netlink.Link, mac net.HardwareAddr) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: port.Attrs().Index, Family: syscall.AF_BRIDGE, Flags: netlink.NTF_MASTER, State: netlink.NUD_NOARP, HardwareAddr: mac}
}

// fix notes for good that a hardware address is behind a bridge's port.
func fix(n *NS, port netlink.Link, mac net.HardwareAddr) error {
	return n.Handle().NeighSet(fixedEntry(port, mac))
}

// isFixed tells whether that is noted. The kernel lists the table of all ports only.
func isFixed(n *NS, port netlink.Link, mac net.HardwareAddr) (bool, error) {
	list, err := whole(func() ([]netlink.Neigh, error) { return n.Handle().NeighList(port.Attrs().Index, syscall.AF_BRIDGE) })
	if err != nil {
		return false, &Error{Op: "bridge table list", Name: port.Attrs().Name, Err: err}
	}
	return slices.ContainsFunc(list, func(e netlink.Neigh) bool {
		return e.MasterIndex != 0 && e.State&netlink.NUD_NOARP != 0 && bytes.Equal(e.HardwareAddr, mac)
	}), nil
}
