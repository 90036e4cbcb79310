package link

import "github.com/vishvananda/netlink"

func setAllMulti(h *netlink.Handle, l netlink.Link, on bool) error {
	if on {
		return h.LinkSetAllmulticastOn(l)
	}
	return h.LinkSetAllmulticastOff(l)
}
