package link

import (
	"math"
	"net/netip"
	"slices"

	"github.com/cnikit/cnikit/netconf"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// The largest metrics that the kernel keeps; it cuts larger ones down in silence (fib_metrics.c), and
// CHECK would find another value than was asked for.
const (
	maxRouteMTU = 65535 - 15
	maxAdvMSS   = 65535 - 40
)

// Plan says what of a result is to be on the interface that has the given name and a sandbox, and in
// which order. It touches nothing. there is what the interface has from other plugins (the
// prevResult of a chained one), nil if nothing: its addresses are not planned but count as being there.
//
// Addresses: those with the interface's index, and those with none.
//
// Routes, which carry no interface: all, as long as no other interface of the result has an address of the
// route's family. Else those whose gateway is the gateway of an address of ours or lies in its
// subnet; and those that cannot be told, if the interface is the attachment's own (a.Interface is empty).
//
// The gateway of a route without one is that of the first address of its family that has one, unless the
// route is said to be on the link: by its scope, by a gateway of 0.0.0.0 or ::, or because it leads to
// that gateway alone, or to the whole subnet of an address, which the kernel routes so by itself. The same
// route twice, with the same attributes, is no mistake; with others it is one.
//
// A gateway outside the subnets of the addresses is reached by onlink where that is what IPAM must have
// meant: the gateway is that of an address, or link-local, or covered by a route of the result without a
// gateway; or an address of the family is a host prefix (/32, /128), as clouds have it. Else it is
// an error with code 7 that names it: with 10.1.1.2/24, a gateway of 203.0.113.1 is a mistake.
//
// Routes without a gateway come first, so the order in the result does not matter. Errors have code 7 and are
// reported together; the plan is never nil and holds what is right.
func (a Addresses) Plan(name string, result, there *types100.Result) (*AddressPlan, error) {
	pl := a.planner(name)
	if a.DefaultMetric < 0 || int64(a.DefaultMetric) > math.MaxUint32 {
		pl.fail("the metric %d for a second default route: expected 0 to %d", a.DefaultMetric, uint32(math.MaxUint32))
	}
	pl.addresses(result)
	if i := netconf.Attached(there, name); i >= 0 {
		for _, ip := range there.IPs {
			if ip.Interface != nil && *ip.Interface == i {
				pl.note(ip, &pl.ours)
			}
		}
	}
	pl.routes(result)
	pl.check()
	if a.ranked {
		pl.plan.rank()
	}
	return pl.plan, netconf.Join(pl.errs...)
}

// rank gives the default routes their metric.
func (p *AddressPlan) rank() {
	p.ranked = true
	for i, r := range p.Routes {
		if r.Metric == 0 && (r.isDefault() || r.isHalf(p.Routes)) {
			p.Routes[i].Metric = p.DefaultMetric
		}
	}
}

// made says what of a finished result should be on the interface. It judges nothing and leaves out what
// it cannot read: later plugins may have added what we would refuse, and DEL does what it can.
func (a Addresses) made(name string, result *types100.Result) *AddressPlan {
	pl := a.planner(name)
	pl.lenient = true
	pl.addresses(result)
	pl.routes(result)
	return pl.plan
}

func (a Addresses) planner(name string) *planner {
	return &planner{
		plan: &AddressPlan{DAD: a.DAD, NoPrefixRoute: a.PointToPoint, DefaultMetric: a.DefaultMetric},
		name: name, own: a.Interface == "", toGateway: a.PointToPoint,
	}
}

func (p *planner) routes(result *types100.Result) {
	if p.toGateway {
		p.implied()
	}
	for i, r := range routesOf(result) {
		if r == nil {
			p.fail("routes[%d] is nil", i)
			continue
		}
		p.route(r)
	}
}

func routesOf(result *types100.Result) []*types.Route {
	if result == nil {
		return nil
	}
	return result.Routes
}

// planner is one making of a plan.
type planner struct {
	plan      *AddressPlan
	name      string
	own       bool // the interface is the attachment's own
	toGateway bool // the gateway is the only neighbour
	lenient   bool // nothing is judged: the result is a finished one
	ours      []addressed
	others    []addressed // of the result's other interfaces
	errs      []error
}

// addressed is an address and its gateway, which may be the zero value.
type addressed struct {
	prefix  netip.Prefix
	gateway netip.Addr
}

// near tells whether a gateway belongs to the address.
func (a addressed) near(gw netip.Addr) bool { return a.gateway == gw || a.prefix.Contains(gw) }

func (p *planner) fail(format string, args ...any) {
	err := netconf.Errorf(netconf.CodeInvalidNetworkConfig, format, args...)
	p.errs = append(p.errs, &Error{Op: "plan the addresses of", Name: p.name, Err: err})
}

// addresses takes the addresses that are ours and notes the others.
func (p *planner) addresses(result *types100.Result) {
	if result == nil {
		return
	}
	index := netconf.Attached(result, p.name)
	for i, ip := range result.IPs {
		switch {
		case ip == nil: // only an IPAM in-process can give that
			p.fail("ips[%d] is nil", i)
			continue
		case ip.Interface != nil && *ip.Interface != index:
			p.note(ip, &p.others)
			continue
		}
		n := len(p.ours)
		p.note(ip, &p.ours)
		if len(p.ours) == n {
			continue
		}
		prefix := p.ours[n].prefix
		addr := prefix.Addr()
		switch {
		case addr.IsUnspecified(), addr.IsMulticast(), prefix.Bits() == 0:
			p.fail("address %s: not the address of a host", prefix)
		case slices.ContainsFunc(p.plan.Addresses, func(a netip.Prefix) bool { return a.Addr() == addr }):
			p.fail("address %s is given twice", addr)
		case p.toGateway && !p.ours[n].gateway.IsValid() && !p.lenient:
			p.fail("address %s has no gateway: a point-to-point interface reaches all by way of it", prefix)
		default:
			p.plan.Addresses = append(p.plan.Addresses, prefix)
		}
	}
}

// note reads an address into a list.
func (p *planner) note(ip *types100.IPConfig, list *[]addressed) {
	prefix, ok := prefixOf(ip.Address)
	gateway, gwOK := addrOf(ip.Gateway)
	switch {
	case !ok:
		p.fail("address %q: expected ADDRESS/LENGTH", ip.Address.String())
		return
	case !gwOK || gateway.IsValid() && (gateway.Is4() != prefix.Addr().Is4() || gateway.IsMulticast()):
		p.fail("address %s: gateway %s is not the address of a host of its family", prefix, ip.Gateway)
		gateway = netip.Addr{}
	case gateway.IsValid() && gateway.IsUnspecified():
		gateway = netip.Addr{} // some IPAM's word for none
	}
	*list = append(*list, addressed{prefix, gateway})
}

// implied makes the routes that stand for the connected ones where the gateway is the only neighbour.
func (p *planner) implied() {
	for _, a := range p.ours[:min(len(p.plan.Addresses), len(p.ours))] {
		if !a.gateway.IsValid() {
			continue
		}
		scope := ScopeGlobal
		if a.gateway.Is4() {
			scope = ScopeLink
		}
		p.add(Route{Dst: netip.PrefixFrom(a.gateway, a.gateway.BitLen()), Source: a.prefix.Addr(), Table: TableMain, Scope: scope})
		if a.prefix.Bits() < a.prefix.Addr().BitLen() {
			p.add(Route{Dst: a.prefix.Masked(), Gateway: a.gateway, Source: a.prefix.Addr(), Table: TableMain, OnLink: p.onLink(a.gateway)})
		}
	}
}

// add appends an implied route unless there is one like it: two addresses may share a gateway.
func (p *planner) add(r Route) {
	if !slices.ContainsFunc(p.plan.Routes, r.same) {
		p.plan.Routes = append(p.plan.Routes, r)
	}
}

// route plans one route of the result, if it is ours.
func (p *planner) route(from *types.Route) {
	r, onLink, ok := p.read(from)
	if !ok {
		return
	}
	if !r.Gateway.IsValid() && !onLink {
		r.Gateway = p.gatewayFor(r.Dst)
	}
	if !p.mine(r) {
		return
	}
	if r.Gateway.IsValid() {
		if !p.lenient && !p.gatewayOK(r) {
			return
		}
		r.OnLink = p.onLink(r.Gateway)
	} else if r.Scope == ScopeGlobal {
		r.Scope = ScopeLink // as iproute2; IPv6 has no scopes, but the result says by it that there is no gateway
	}
	if !p.lenient && !slices.ContainsFunc(p.ours, func(a addressed) bool { return a.prefix.Addr().Is4() == r.Dst.Addr().Is4() }) {
		p.fail("route %s: there is no address of its family", r)
		return
	}
	p.plan.Routes = slices.DeleteFunc(p.plan.Routes, func(o Route) bool { return o.from == nil && o.same(r) })
	if !p.lenient && slices.ContainsFunc(p.plan.Routes, func(o Route) bool { return o.same(r) && !o.equal(r) }) {
		p.fail("route %s: there is another one to the same destination with the same metric", r)
		return
	}
	p.plan.Routes = append(p.plan.Routes, r)
}

// read takes a route as it stands in the result. onLink tells that it says itself to have no gateway.
func (p *planner) read(from *types.Route) (r Route, onLink, ok bool) {
	dst, ok := prefixOf(from.Dst)
	gw, gwOK := addrOf(from.GW)
	if !ok || !gwOK {
		p.fail("route %q via %q: expected ADDRESS/LENGTH and an address", from.Dst.String(), from.GW.String())
		return r, false, false
	}
	r = Route{Dst: dst.Masked(), Table: TableMain, Metric: from.Priority, MTU: from.MTU, AdvMSS: from.AdvMSS, from: from}
	if from.Table != nil && *from.Table != 0 {
		r.Table = *from.Table
	}
	if from.Scope != nil {
		r.Scope = *from.Scope
	}
	if gw.IsValid() && gw.IsUnspecified() {
		gw, onLink = netip.Addr{}, true // RFC 3442's word for on the link
	}
	r.Gateway = gw
	onLink = onLink || r.Scope != ScopeGlobal
	return r, onLink, p.inRange(r)
}

// inRange refuses what the kernel would refuse without saying why, or cut down.
func (p *planner) inRange(r Route) bool {
	for _, f := range r.numbers() {
		if f.value < 0 || f.value > f.max {
			p.fail("route %s: %s %d: expected 0 to %d", r.Dst, f.name, f.value, f.max)
			return false
		}
	}
	switch r.Scope {
	case ScopeGlobal:
	case ScopeLink, ScopeHost:
		if r.Gateway.IsValid() {
			p.fail("route %s: scope %d is for a route without a gateway, and there is %s", r.Dst, r.Scope, r.Gateway)
			return false
		}
	default:
		p.fail("route %s: scope %d: expected 0 (global), 253 (link) or 254 (host)", r.Dst, r.Scope)
		return false
	}
	return true
}

// gatewayFor is the gateway of a route that has none: the zero value if there is none, if the route leads to
// it, or to the subnet of an address.
func (p *planner) gatewayFor(dst netip.Prefix) netip.Addr {
	if !p.toGateway && slices.ContainsFunc(p.ours, func(a addressed) bool { return a.prefix.Masked() == dst }) {
		return netip.Addr{}
	}
	for _, a := range p.ours {
		if a.gateway.IsValid() && a.gateway.Is4() == dst.Addr().Is4() {
			if dst == netip.PrefixFrom(a.gateway, a.gateway.BitLen()) {
				return netip.Addr{}
			}
			return a.gateway
		}
	}
	return netip.Addr{}
}

// mine tells whether a route goes out of our interface.
func (p *planner) mine(r Route) bool {
	near := func(list []addressed) bool {
		return slices.ContainsFunc(list, func(a addressed) bool {
			return r.Gateway.IsValid() && a.near(r.Gateway) || !r.Gateway.IsValid() && a.prefix.Masked() == r.Dst
		})
	}
	others := slices.ContainsFunc(p.others, func(a addressed) bool { return a.prefix.Addr().Is4() == r.Dst.Addr().Is4() })
	switch {
	case !others, near(p.ours):
		return true
	case near(p.others):
		return false
	}
	return p.own
}

// gatewayOK refuses a gateway that cannot be one.
func (p *planner) gatewayOK(r Route) bool {
	gw := r.Gateway
	switch {
	case gw.Is4() != r.Dst.Addr().Is4():
		p.fail("route %s: gateway %s is of the other family", r.Dst, gw)
	case gw.IsMulticast(), gw.IsLoopback():
		p.fail("route %s: gateway %s is not the address of a neighbour", r.Dst, gw)
	case slices.ContainsFunc(p.ours, func(a addressed) bool { return a.prefix.Addr() == gw }):
		p.fail("route %s: gateway %s is the interface's own address", r.Dst, gw)
	default:
		return true
	}
	return false
}

// onLink tells whether the kernel must be told that a gateway is on the link: it sees that by itself
// where the gateway lies in an address's subnet, or is IPv6's link-local.
func (p *planner) onLink(gw netip.Addr) bool {
	if gw.Is6() && gw.IsLinkLocalUnicast() {
		return false
	}
	return p.toGateway || !slices.ContainsFunc(p.ours, func(a addressed) bool { return a.prefix.Contains(gw) })
}

// check refuses gateways of another network and puts the routes without a gateway first.
func (p *planner) check() {
	routes := p.plan.Routes
	p.plan.Routes = slices.DeleteFunc(slices.Clone(routes), func(r Route) bool {
		if !r.OnLink || p.meant(r.Gateway, routes) {
			return false
		}
		where := "is in no subnet of the interface's addresses"
		if p.toGateway {
			where = "is not the gateway of the interface's addresses, which alone is its neighbour"
		}
		p.fail("route %s: gateway %s %s", r.Dst, r.Gateway, where)
		return true
	})
	slices.SortStableFunc(p.plan.Routes, func(a, b Route) int {
		return boolInt(a.Gateway.IsValid()) - boolInt(b.Gateway.IsValid())
	})
}

// meant tells whether a gateway outside all subnets is there on purpose.
func (p *planner) meant(gw netip.Addr, routes []Route) bool {
	return gw.IsLinkLocalUnicast() ||
		slices.ContainsFunc(p.ours, func(a addressed) bool {
			return a.gateway == gw || a.prefix.Addr().Is4() == gw.Is4() && a.prefix.IsSingleIP()
		}) ||
		slices.ContainsFunc(routes, func(r Route) bool {
			return !r.Gateway.IsValid() && !r.isDefault() && r.Dst.Contains(gw)
		})
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
