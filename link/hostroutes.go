package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// HostRoutes makes the host's end of a routed pair ([Veth] without a bridge) the container's gateway: it gets
// the gateway's address as a host address, and the host a route to each of the container's, with our
// [Protocol]. As a step it follows [Addresses]. All of it goes with the link.
type HostRoutes struct{}

// Name is "hostroutes".
func (HostRoutes) Name() string { return "hostroutes" }

// Ensure puts the gateways and routes of the addresses there, and turns forwarding on for the families that
// there are. An address that is routed out of another link is an error with code 100: two
// attachments have it.
func (h HostRoutes) Ensure(ctx context.Context, host *NS, o Owner, ips []*types100.IPConfig) error {
	gws, err := hostPrefixes(ips)
	if err != nil {
		return err
	}
	l, err := h.link(host, o)
	if err != nil {
		return err
	}
	if err := fitsIPv6(l, gws); err != nil {
		return err
	}
	for _, gw := range gws {
		if err := addTo(ctx, host, l, gw); err != nil {
			return err
		}
	}
	if err := joined(ctx, host, l, gws); err != nil { // whom the container asks for at once
		return err
	}
	own := routed(ips)
	for _, p := range own {
		if err := h.route(ctx, host, l, p); err != nil {
			return err
		}
	}
	return forward(ctx, host, own)
}

// link is the host's end of the pair.
func (HostRoutes) link(host *NS, o Owner) (netlink.Link, error) {
	l, err := Veth{}.outer(host, o)
	if err == nil && l == nil {
		err = &Error{Op: "link get", Name: o.HostName(HostRole), Err: syscall.ENODEV}
	}
	return l, err
}

// hostPrefixes are the gateways of the addresses as host prefixes.
func hostPrefixes(ips []*types100.IPConfig) ([]netip.Prefix, error) {
	gws, err := gateways(ips)
	for i, p := range gws {
		gws[i] = netip.PrefixFrom(p.Addr(), p.Addr().BitLen())
	}
	slices.SortFunc(gws, comparePrefixes)
	return slices.Compact(gws), err
}

func comparePrefixes(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) }

// routed are the container's addresses as host prefixes.
func routed(ips []*types100.IPConfig) (out []netip.Prefix) {
	for _, ip := range ips {
		if p, ok := prefixOf(ip.Address); ok {
			out = append(out, netip.PrefixFrom(p.Addr(), p.Addr().BitLen()))
		}
	}
	return out
}

func hostRoute(l netlink.Link, p netip.Prefix) *netlink.Route {
	dst := ipNet(p)
	r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: &dst, Table: TableMain, Protocol: Protocol}
	if p.Addr().Is4() {
		r.Scope = ScopeLink
	}
	return r
}

func (h HostRoutes) route(ctx context.Context, host *NS, l netlink.Link, p netip.Prefix) error {
	name := fmt.Sprintf("%s dev %s", p, l.Attrs().Name)
	err := alter(ctx, "route add", name, func() error { return host.Handle().RouteAdd(hostRoute(l, p)) })
	if !errors.Is(err, syscall.EEXIST) {
		return err
	}
	have, ours, lookErr := h.leads(host, l, p)
	if lookErr != nil || ours {
		return lookErr
	}
	return fmt.Errorf("%w: the route is %s: two attachments have the address", err, have)
}

// leads says where the host sends what is for an address of the container: by the route with the lowest metric of
// those to it alone. ours tells that it is the one that Ensure makes, or one that does the same: other
// plugins give it the scope of the host. have is for messages.
func (HostRoutes) leads(host *NS, l netlink.Link, p netip.Prefix) (have string, ours bool, err error) {
	want, family := hostRoute(l, p), familyOf(p)
	routes, err := whole(func() ([]netlink.Route, error) {
		return host.Handle().RouteListFiltered(family, &netlink.Route{Dst: want.Dst}, netlink.RT_FILTER_DST)
	})
	if err != nil {
		return "", false, &Error{Op: "route list", Name: p.String(), Err: err}
	}
	if len(routes) == 0 {
		return "missing", false, nil
	}
	r := slices.MinFunc(routes, func(a, b netlink.Route) int { return a.Priority - b.Priority })
	metric := 0
	if family == familyV6 {
		metric = metric6
	}
	direct := r.LinkIndex == want.LinkIndex && len(r.MultiPath) == 0 && r.Type == unicastRoute && r.Gw == nil && r.Via == nil
	scoped := family == familyV6 || r.Scope == ScopeLink || r.Scope == ScopeHost
	return routeText(host, r), direct && scoped && r.Priority == metric, nil
}

// routeText is a route in a message, without its destination.
func routeText(n *NS, r netlink.Route) string {
	var words []string
	if r.Gw != nil {
		words = append(words, "via "+r.Gw.String())
	}
	if l, err := findIndex(n, r.LinkIndex); err == nil && l != nil {
		words = append(words, "dev "+l.Attrs().Name)
	}
	if len(r.MultiPath) > 0 {
		words = append(words, fmt.Sprintf("by %d next hops", len(r.MultiPath)))
	}
	return routeType(r.Type) + strings.Join(append(words, fmt.Sprintf("scope %d metric %d", r.Scope, r.Priority)), " ")
}

func familyOf(p netip.Prefix) int {
	if p.Addr().Is4() {
		return familyV4
	}
	return familyV6
}

// routesOut lists the routes of the main table out of a link.
func routesOut(n *NS, l netlink.Link, family int) ([]netlink.Route, error) {
	routes, err := whole(func() ([]netlink.Route, error) {
		return n.Handle().RouteListFiltered(family, &netlink.Route{LinkIndex: l.Attrs().Index}, netlink.RT_FILTER_OIF)
	})
	if err != nil {
		return nil, &Error{Op: "route list", Name: l.Attrs().Name, Err: err}
	}
	return routes, nil
}

// Verify compares what Ensure made. A difference Is netconf.ErrDifferent.
func (h HostRoutes) Verify(_ context.Context, host *NS, o Owner, ips []*types100.IPConfig) error {
	l, err := Veth{}.outer(host, o)
	if err != nil {
		return err
	}
	return h.verify(host, l, o, ips)
}

func (h HostRoutes) verify(host *NS, l netlink.Link, o Owner, ips []*types100.IPConfig) error {
	gws, err := hostPrefixes(ips)
	if err != nil {
		return err
	}
	if l == nil {
		return different(o.HostName(HostRole), "the host's end", "there", "gone")
	}
	name := l.Attrs().Name
	var errs []error
	for _, gw := range gws {
		have, err := prefixes(host, l, familyOf(gw))
		if err == nil && !slices.ContainsFunc(have, func(p netip.Prefix) bool { return p.Addr() == gw.Addr() }) {
			err = different(name, "the gateway address", gw, "missing")
		}
		errs = append(errs, err)
	}
	own := routed(ips)
	for _, p := range own {
		have, ours, err := h.leads(host, l, p)
		if err == nil && !ours {
			err = different(name, "the route to "+p.String(), "dev "+name, have)
		}
		errs = append(errs, err)
	}
	return netconf.Join(append(errs, verifyForward(host, own))...)
}

// Delete takes away what Ensure made for the addresses; without addresses, all routes of ours and all host
// addresses on the host's end of the pair. Where that is gone, so are they.
func (h HostRoutes) Delete(ctx context.Context, host *NS, o Owner, ips []*types100.IPConfig) error {
	l, err := Veth{}.outer(host, o)
	if err != nil || l == nil {
		return err
	}
	routes, gws := routed(ips), []netip.Prefix(nil)
	if len(routes) > 0 {
		gws, err = hostPrefixes(ips)
	} else {
		routes, gws, err = h.all(host, l)
	}
	errs := []error{err}
	for _, p := range routes {
		name := fmt.Sprintf("%s dev %s", p, l.Attrs().Name)
		err := alter(ctx, "route del", name, func() error { return host.Handle().RouteDel(hostRoute(l, p)) })
		if !Gone(err) {
			errs = append(errs, err)
		}
	}
	for _, p := range gws {
		errs = append(errs, deleteFrom(ctx, host, l, p))
	}
	return netconf.Join(errs...)
}

// all lists what is on the link that can only be ours: routes with our protocol, host addresses.
func (HostRoutes) all(host *NS, l netlink.Link) (routes, gws []netip.Prefix, err error) {
	for _, family := range []int{familyV4, familyV6} {
		list, err := routesOut(host, l, family)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range list {
			if p, ok := prefixOf(dstOf(r)); ok && r.Protocol == Protocol {
				routes = append(routes, p)
			}
		}
		have, err := prefixes(host, l, family)
		if err != nil {
			return nil, nil, err
		}
		for _, p := range have {
			if p.IsSingleIP() {
				gws = append(gws, p)
			}
		}
	}
	return routes, gws, nil
}

func dstOf(r netlink.Route) net.IPNet {
	if r.Dst == nil {
		return net.IPNet{}
	}
	return *r.Dst
}

// Add is Ensure for the addresses of the result.
func (h HostRoutes) Add(ctx context.Context, req *netconf.Request) error {
	host, err := Host(req)
	if err != nil {
		return err
	}
	return h.Ensure(ctx, host, OwnerOf(req), addressesOf(req.Result, req.IfName))
}

// Check is Verify for the addresses of the prevResult. The pair may be another plugin's, from before an upgrade: nothing
// is changed here, so the prevResult is believed which it is.
func (h HostRoutes) Check(_ context.Context, req *netconf.Request) error {
	host, err := Host(req)
	if err != nil {
		return err
	}
	l, err := Veth{}.outer(host, OwnerOf(req))
	if err == nil && l == nil {
		l, err = reported(host, req.Prev)
	}
	if err != nil {
		return err
	}
	return h.verify(host, l, OwnerOf(req), addressesOf(req.Prev, req.IfName))
}

// reported finds the host's end of a pair without a mark that the prevResult names with its hardware
// address; nil if there is none.
func reported(host *NS, prev *types100.Result) (netlink.Link, error) {
	if prev == nil {
		return nil, nil
	}
	for _, i := range prev.Interfaces {
		if i == nil || i.Sandbox != "" {
			continue
		}
		l, err := find(host, i.Name)
		if err != nil || l != nil && l.Type() == vethKind && sameMAC(i.Mac, l.Attrs().HardwareAddr) {
			return l, err
		}
	}
	return nil, nil
}

// Del is Delete for the addresses of the prevResult or, in a rollback, of the result.
func (h HostRoutes) Del(ctx context.Context, req *netconf.Request) error {
	host, err := Host(req)
	if err != nil {
		return err
	}
	ips := addressesOf(req.Prev, req.IfName)
	if len(ips) == 0 {
		ips = addressesOf(req.Result, req.IfName)
	}
	return h.Delete(ctx, host, OwnerOf(req), ips)
}
