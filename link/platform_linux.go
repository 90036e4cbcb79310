package link

import "github.com/vishvananda/netlink"

// What netlink's types offer on Linux alone. Everything else in the files of the kinds is portable: on
// another system there is no namespace that it could work in.

const (
	familyV4 = netlink.FAMILY_V4
	familyV6 = netlink.FAMILY_V6
)

// setIsolated keeps a bridge's port from reaching the other isolated ones, or lets it.
func setIsolated(n *NS, port netlink.Link, on bool) error {
	return n.Handle().LinkSetIsolated(port, on)
}

// portFlags reads what a bridge's port is set to.
func portFlags(n *NS, port netlink.Link) (hairpin, isolated bool, err error) {
	info, err := whole(func() (netlink.Protinfo, error) { return n.Handle().LinkGetProtinfo(port) })
	if err != nil {
		return false, false, &Error{Op: "bridge port get", Name: port.Attrs().Name, Err: err}
	}
	return info.Hairpin, info.Isolated, nil
}
