package link

import (
	"context"
	"slices"

	"github.com/cnikit/cnikit/netconf"
)

// DefaultRoutes gives one link of a namespace all default routes of a family: those of the other links are taken away.
// It is for who attaches several networks and is told which of them leads out. Only the main table is meant; a default
// route in a table of its own (source routing, a VRF), and one to nowhere (unreachable), stays. Two routes to the halves of all
// addresses (0.0.0.0/1 and 128.0.0.0/1), as VPNs make them, stand in front of a default route, and count as one.
//
// So that no router advertisement brings another default route, accept_ra_defrtr is set to 0 for IPv6, on the other links
// and, where it gets Routes, on this one.
type DefaultRoutes struct {
	Link   string  // gets them
	V6     bool    // the family; default: IPv4
	Routes []Route // in place of those that the link has; all are default routes of the family; none: it keeps its own
}

// LinkRoute is a route with the link that it leads out of.
type LinkRoute struct {
	MovedRoute
	Link string // empty where the kernel does not say it, of a route by a nexthop object
}

// Replaced is what DefaultRoutes.Ensure has changed. The zero value is nothing.
type Replaced struct {
	undo []func(context.Context, *NS) error
}

// Restore makes the routes as they were, as far as the links are still there. All is tried; the errors are joined.
func (r Replaced) Restore(ctx context.Context, n *NS) error {
	var errs []error
	for _, undo := range slices.Backward(r.undo) {
		if err := undo(ctx, n); !Gone(err) {
			errs = append(errs, err)
		}
	}
	return netconf.Join(errs...)
}

// check is about the routes.
func (d DefaultRoutes) check() error {
	for _, r := range d.Routes {
		if !r.Dst.IsValid() || !r.isDefault() || r.Dst.Addr().Is6() != d.V6 || r.table() != TableMain {
			return &Error{Op: "route", Name: r.String(), Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, "expected a default route of the family, in the main table")}
		}
	}
	return Routes{Routes: d.Routes}.check()
}
