package link

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// kernelRoute is a route as the kernel has it, out of one link: a route with several next hops is
// several of these.
type kernelRoute struct {
	Route
	link     int
	protocol int
	raw      netlink.Route
}

// String writes the route as iproute2 does; one to nowhere begins with its type.
func (k kernelRoute) String() string {
	if k.Type != RouteUnicast {
		return k.Route.String()
	}
	return routeType(k.raw.Type) + k.Route.String()
}

// routesTo lists the unicast routes of a family, in all tables, out of all links, that keep accepts.
func routesTo(n *NS, v4 bool, keep func(kernelRoute) bool) ([]kernelRoute, error) {
	return anyRoutesTo(n, v4, func(k kernelRoute) bool { return k.raw.Type == unicastRoute && keep(k) })
}

// anyRoutesTo is routesTo for routes of all types: those to nowhere exclude others too.
func anyRoutesTo(n *NS, v4 bool, keep func(kernelRoute) bool) ([]kernelRoute, error) {
	family := netlink.FAMILY_V6
	if v4 {
		family = netlink.FAMILY_V4
	}
	list, err := whole(func() ([]netlink.Route, error) {
		return n.Handle().RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, &Error{Op: "route show", Err: err}
	}
	var out []kernelRoute
	for _, raw := range list {
		if raw.Family != family { // a kernel without IPv6 answers with all that it has
			continue
		}
		for _, r := range hops(raw, v4) {
			if keep(r) {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// hops takes a route of the kernel's apart.
func hops(raw netlink.Route, v4 bool) []kernelRoute {
	dst := netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	if v4 {
		dst = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	if raw.Dst != nil {
		dst, _ = prefixOf(*raw.Dst) // the kernel's own is right
	}
	r := kernelRoute{link: raw.LinkIndex, protocol: int(raw.Protocol), raw: raw, Route: Route{
		Dst: dst, Table: raw.Table, Metric: raw.Priority, MTU: raw.MTU, AdvMSS: raw.AdvMSS, OnLink: raw.Flags&unix.RTNH_F_ONLINK != 0,
	}}
	if raw.Type == unix.RTN_BLACKHOLE || raw.Type == unix.RTN_UNREACHABLE || raw.Type == unix.RTN_PROHIBIT {
		r.Type = routeKinds.value(raw.Type)
	}
	if v4 {
		r.Scope = int(raw.Scope)
	}
	r.Gateway, _ = addrOf(raw.Gw)
	r.Source, _ = addrOf(raw.Src)
	if len(raw.MultiPath) == 0 {
		return []kernelRoute{r}
	}
	var out []kernelRoute
	for _, hop := range raw.MultiPath {
		r.link = hop.LinkIndex
		r.Gateway, _ = addrOf(hop.Gw)
		out = append(out, r)
	}
	return out
}

// request is the route as the kernel wants to have it.
func (r Route) request(index int) *netlink.Route {
	dst := ipNet(r.Dst)
	req := &netlink.Route{LinkIndex: index, Dst: &dst, Table: r.table(), Priority: r.Metric, MTU: r.MTU, AdvMSS: r.AdvMSS,
		Protocol: Protocol, Type: unix.RTN_UNICAST}
	if r.Type != RouteUnicast {
		req.LinkIndex = 0                                // with one the kernel refuses it
		req.Type, _ = routeKinds.kernel("route", r.Type) // check has looked
	}
	if r.Dst.Addr().Is4() {
		req.Scope = netlink.Scope(r.Scope)
	}
	if r.Gateway.IsValid() {
		req.Gw = r.Gateway.AsSlice()
	}
	if r.Source.IsValid() {
		req.Src = r.Source.AsSlice()
	}
	if r.OnLink {
		req.Flags = int(netlink.FLAG_ONLINK)
	}
	return req
}

// ensure adds the route unless it is there. It is only ever added (NLM_F_EXCL): anything else would put it in
// front of another link's, or for IPv6 merge both into one multipath route.
func (r Route) ensure(ctx context.Context, n *NS, l netlink.Link) error {
	name := l.Attrs().Name
	add := func() error {
		return alter(ctx, "route add", fmt.Sprintf("%s dev %s", r, name), func() error {
			return n.Handle().RouteAdd(r.request(l.Attrs().Index))
		})
	}
	err := add()
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	there, err := anyRoutesTo(n, r.Dst.Addr().Is4(), func(k kernelRoute) bool { return k.same(r) })
	if err != nil {
		return err
	}
	var other *kernelRoute
	for i, k := range there {
		mine := k.near(l) && k.Type == r.Type
		switch {
		case mine && r.difference(k) == "":
			return nil // also the one that came with an address
		case mine && k.protocol == Protocol && len(k.raw.MultiPath) == 0:
			if err := k.remove(ctx, n, name); err != nil {
				return err
			}
		case other == nil:
			other = &there[i]
		}
	}
	if other == nil {
		return add()
	}
	dev := ""
	if other.link != 0 {
		dev = fmt.Sprintf(" dev %q", linkName(n, other.link))
	}
	return &Error{Op: "route add", Name: fmt.Sprintf("%s dev %s", r, name), Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig,
		"there is %s%s already", other, dev)}
}

// ensureRoutes adds the plan's routes that are not there.
func (p *AddressPlan) ensureRoutes(ctx context.Context, n *NS, l netlink.Link) error {
	for _, r := range p.Routes {
		if err := r.ensure(ctx, n, l); err != nil {
			return err
		}
	}
	return nil
}

// layRoutes puts the plan's routes on a link and no more: it is another plugin's, and is up if that wants it.
func (p *AddressPlan) layRoutes(ctx context.Context, n *NS, l netlink.Link) error {
	if err := p.defaults(n, l); err != nil {
		return err
	}
	return p.ensureRoutes(ctx, n, l)
}

// near tells whether a route is out of the link, or to nowhere, which is out of none (for IPv6 the kernel says lo).
func (k kernelRoute) near(l netlink.Link) bool {
	return k.Type != RouteUnicast || l != nil && k.raw.Type == unicastRoute && k.link == l.Attrs().Index
}

// missing lists the plan's routes that are not there.
func (p *AddressPlan) missing(n *NS, l netlink.Link) (list []Route, err error) {
	for _, v4 := range []bool{true, false} {
		if !p.routes(v4) {
			continue
		}
		have, err := anyRoutesTo(n, v4, func(k kernelRoute) bool { return k.near(l) })
		if err != nil {
			return nil, err
		}
		for _, r := range p.Routes {
			if r.Dst.Addr().Is4() == v4 && !slices.ContainsFunc(have, func(k kernelRoute) bool { return r.difference(k) == "" }) {
				list = append(list, r)
			}
		}
	}
	return list, nil
}

// unshared is an error for a route to nowhere that is ours already: it is another attachment's, and goes with it. Taken for one's
// own, it once was gone without a word while the second attachment lived, whose traffic left then.
func (p *AddressPlan) unshared(n *NS) error {
	for _, r := range p.Routes {
		if r.Type == RouteUnicast {
			continue
		}
		there, err := anyRoutesTo(n, r.Dst.Addr().Is4(), func(k kernelRoute) bool {
			return k.protocol == Protocol && k.Type == r.Type && k.same(r)
		})
		if err == nil && len(there) > 0 {
			err = &Error{Op: "route add", Name: r.String(), Err: fmt.Errorf("%w: it is another attachment's of this container, with which it would go", netconf.ErrExists)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the route, by all that tells it from others.
func (k kernelRoute) remove(ctx context.Context, n *NS, name string) error {
	err := alter(ctx, "route del", fmt.Sprintf("%s dev %s", k.Route, name), func() error { return n.Handle().RouteDel(&k.raw) })
	if Gone(err) {
		return nil
	}
	return err
}

// deleteRoutes takes the plan's routes off the link, and those to nowhere, as far as they carry our protocol number. l may be
// nil: those of the link have gone with it.
func (p *AddressPlan) deleteRoutes(ctx context.Context, n *NS, l netlink.Link) error {
	name := "lo"
	if l != nil {
		name = l.Attrs().Name
	}
	var errs []error
	for _, v4 := range []bool{true, false} {
		if !p.routes(v4) {
			continue
		}
		ours, err := anyRoutesTo(n, v4, func(k kernelRoute) bool {
			return k.near(l) && k.protocol == Protocol && len(k.raw.MultiPath) == 0 && p.names(k)
		})
		errs = append(errs, err)
		for _, k := range ours {
			errs = append(errs, k.remove(ctx, n, name))
		}
	}
	return netconf.Join(errs...)
}

// names tells whether a route of the plan leads where the kernel's does.
func (p *AddressPlan) names(k kernelRoute) bool {
	for _, r := range p.Routes {
		if r.Type == k.Type && r.Dst == k.Dst && r.table() == k.table() && r.Gateway == k.Gateway {
			return true
		}
	}
	return false
}

// routes tells whether the plan has any of the family.
func (p *AddressPlan) routes(v4 bool) bool {
	for _, r := range p.Routes {
		if r.Dst.Addr().Is4() == v4 {
			return true
		}
	}
	return false
}

// linkName is for messages.
func linkName(n *NS, index int) string {
	l, err := findIndex(n, index)
	if err != nil || l == nil {
		return "index " + strconv.Itoa(index)
	}
	return l.Attrs().Name
}
