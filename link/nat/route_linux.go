package nat

import (
	"net/netip"

	"github.com/cnikit/cnikit/link"
	"github.com/vishvananda/netlink"
)

// routesTo is the route that the host has for an address, with the destination that it was made for.
func routesTo(host *link.NS, a netip.Addr) ([]netlink.Route, error) {
	return host.Handle().RouteGetWithOptions(a.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
}
