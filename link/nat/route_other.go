//go:build !linux

package nat

import (
	"net/netip"

	"github.com/cnikit/cnikit/link"
	"github.com/vishvananda/netlink"
)

// routesTo asks netlink, which answers that this system has none.
func routesTo(host *link.NS, a netip.Addr) ([]netlink.Route, error) {
	return host.Handle().RouteGet(a.AsSlice())
}
