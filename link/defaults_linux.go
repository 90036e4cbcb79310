package link

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Defaults lists the default routes of a family in the main table, in the kernel's order, which is that of their metrics: one
// for each next hop. One by a nexthop object has no Link where net.ipv4.nexthop_compat_mode is 0, which covers IPv6 too: the
// kernel does not say then. Two routes to the halves of all addresses, which stand in front of these, are not listed.
func Defaults(n *NS, v6 bool) ([]LinkRoute, error) {
	list, err := mainDefaults(n, v6)
	if err != nil {
		return nil, err
	}
	var out []LinkRoute
	for _, k := range list {
		name := ""
		if k.link != 0 {
			name = linkName(n, k.link)
		}
		if k.isDefault() {
			out = append(out, LinkRoute{MovedRoute{k.Route, k.protocol}, name})
		}
	}
	return out, nil
}

// mainDefaults are the routes of the main table that go everywhere: the default routes, and two to the halves of all addresses,
// which are one together, whatever links they lead out of.
func mainDefaults(n *NS, v6 bool) ([]kernelRoute, error) {
	list, err := routesTo(n, !v6, func(k kernelRoute) bool { return k.Dst.Bits() <= 1 && k.table() == TableMain })
	var dsts []Route
	for _, k := range list {
		dsts = append(dsts, k.Route)
	}
	return slices.DeleteFunc(list, func(k kernelRoute) bool { return !k.isDefault() && !k.isHalf(dsts) }), err
}

// Ensure makes it so, and says what it has changed. After an error the routes are as they were. Code 7 is for routes that are
// no default routes of the family, for a link that is not there, and for a gateway that the link has no way to; 103 for a
// route with next hops behind this link and another one, of which the kernel can take IPv4's only as a whole, and for one by a
// nexthop object (ip nexthop) that names no link, be it this link's own, or that is IPv4's. IPv6's that names its link and gateway
// is taken away as any other, and given back without the object.
func (d DefaultRoutes) Ensure(ctx context.Context, n *NS) (Replaced, error) {
	l, err := find(n, d.Link)
	if err == nil && l == nil {
		err = badLink(d.Link, "there is no such link")
	}
	if err == nil {
		err = d.check()
	}
	if err != nil {
		return Replaced{}, err
	}
	var done Replaced
	for _, part := range []func(context.Context, *NS, netlink.Link, *Replaced) error{d.deafen, d.remove, d.add} {
		if err := part(ctx, n, l, &done); err != nil {
			return Replaced{}, netconf.Join(err, done.Restore(context.WithoutCancel(ctx), n))
		}
	}
	return done, nil
}

// takes tells whether a link loses the default routes that it has.
func (d DefaultRoutes) takes(index int, l netlink.Link) bool {
	return index != l.Attrs().Index || len(d.Routes) > 0
}

// deafen keeps routers from adding default routes.
func (d DefaultRoutes) deafen(ctx context.Context, n *NS, l netlink.Link, done *Replaced) error {
	if !d.V6 {
		return nil
	}
	all, err := whole(n.Handle().LinkList)
	if err != nil {
		return &Error{Op: "link show", Err: err}
	}
	for _, other := range all {
		key := "net/ipv6/conf/" + other.Attrs().Name + "/accept_ra_defrtr"
		if !d.takes(other.Attrs().Index, l) {
			continue
		}
		before, err := n.ReadSysctl(key)
		if Gone(err) || err == nil && before == "0" { // Gone: no IPv6 on this link
			continue
		}
		if err == nil {
			err = n.Sysctl(ctx, key, "0")
		}
		if err != nil {
			return err
		}
		done.undo = append(done.undo, func(ctx context.Context, n *NS) error { return n.Sysctl(ctx, key, before) })
	}
	return nil
}

// takenRoute is a route that was taken away.
type takenRoute struct {
	kernelRoute
	behind bool // one of the same metric that stays stands before it
}

// remove takes away what is in the way.
func (d DefaultRoutes) remove(ctx context.Context, n *NS, l netlink.Link, done *Replaced) error {
	list, err := mainDefaults(n, d.V6)
	if err != nil {
		return err
	}
	var gone []takenRoute
	done.undo = append(done.undo, func(ctx context.Context, n *NS) error { return putBack(ctx, n, gone) })
	for i, k := range list {
		if !d.takes(k.link, l) {
			continue
		}
		if k.link == 0 { // asked to delete it, the kernel would, or take another for it
			return byObject(k, "is by a nexthop object")
		}
		if hops := len(k.raw.MultiPath); hops > 0 && !d.V6 {
			if i > 0 && sameRaw(list[i-1], k) {
				continue // went with its first hop
			}
			for _, hop := range list[i:min(i+hops, len(list))] {
				if !d.takes(hop.link, l) {
					return &Error{Op: "route del", Name: k.Route.String(), Err: fmt.Errorf("%w: it has next hops behind %q and other links", ErrNotSupported, d.Link)}
				}
			}
		} else if hops > 0 {
			k.raw = *MovedRoute{k.Route, k.protocol}.request(k.link) // IPv6 has each by itself
		}
		behind := slices.ContainsFunc(list[:i], func(o kernelRoute) bool { return o.same(k.Route) && !d.takes(o.link, l) })
		switch err := alter(ctx, "route del", k.String(), func() error { return n.Handle().RouteDel(&k.raw) }); {
		case err == nil:
			gone = append(gone, takenRoute{k, behind})
		case !Gone(err):
			return err
		}
	}
	return d.gone(n, l, list)
}

// gone makes sure that nothing of what was in the way was left, or has come: the kernel finds no route that is made of nexthop
// objects by its link and gateway, and says so in the words in which it says that one is gone. Of two halves one may be left.
func (d DefaultRoutes) gone(n *NS, l netlink.Link, list []kernelRoute) error {
	left, err := routesTo(n, !d.V6, func(k kernelRoute) bool {
		return k.table() == TableMain && d.takes(k.link, l) && (k.isDefault() || slices.ContainsFunc(list, func(o kernelRoute) bool { return o.same(k.Route) }))
	})
	if err != nil || len(left) == 0 {
		return err
	}
	return byObject(left[0], "is still there, and may be made of nexthop objects")
}

// byObject is the error of a route that cannot be taken away and given back.
func byObject(k kernelRoute, what string) error {
	return &Error{Op: "route del", Name: k.String(), Err: fmt.Errorf("%w: it %s", ErrNotSupported, what)}
}

// sameRaw tells whether two are hops of one route.
func sameRaw(a, b kernelRoute) bool {
	return len(a.raw.MultiPath) > 0 && len(b.raw.MultiPath) > 0 && a.raw.MultiPath[0] == b.raw.MultiPath[0]
}

// putBack adds the routes as they were: IPv4 asks those of one metric in their order. For IPv6 such routes become next hops
// of one, which have no order.
func putBack(ctx context.Context, n *NS, gone []takenRoute) error {
	var errs []error
	add := func(k takenRoute, with func(*netlink.Handle, *netlink.Route) error) {
		raw := k.raw
		raw.Flags &= int(netlink.FLAG_ONLINK) // the kernel refuses what it only tells: that the link is down
		if err := alter(ctx, "route add", k.String(), func() error { return with(n.Handle(), &raw) }); !Gone(err) {
			errs = append(errs, err)
		}
	}
	for _, k := range gone {
		if k.behind {
			add(k, (*netlink.Handle).RouteAppend)
		}
	}
	for _, k := range slices.Backward(gone) {
		if !k.behind {
			add(k, (*netlink.Handle).RouteAddEcmp) // neither exclusive nor behind: in front
		}
	}
	return netconf.Join(errs...)
}

// add adds the routes.
func (d DefaultRoutes) add(ctx context.Context, n *NS, l netlink.Link, done *Replaced) error {
	for _, r := range d.Routes {
		err := r.ensure(ctx, n, l)
		if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.EINVAL) {
			return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "link %q has no way to the gateway %s: %w", d.Link, r.Gateway, err)
		}
		if err != nil {
			return err
		}
		done.undo = append(done.undo, func(ctx context.Context, n *NS) error {
			return (&AddressPlan{Routes: []Route{r}}).deleteRoutes(ctx, n, l)
		})
	}
	return nil
}
