package link

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// Scopes of a route (rtnetlink(7)). IPv6 has none: the kernel ignores them there, and they only say
// that there is no gateway.
const (
	ScopeGlobal = 0   // beyond a gateway
	ScopeLink   = 253 // on the link itself
	ScopeHost   = 254 // on this host
)

// TableMain is the routing table that is used where none is named.
const TableMain = 254

const metric6 = 1024 // what the kernel makes of metric 0 for IPv6 (IP6_RT_PRIO_USER)

// RouteType says what becomes of what a route leads away: as rtnetlink(7) names it.
type RouteType string

// The types of routes that can be made. All but the first lead to nowhere: they belong to no link, have no gateway, and what
// they match is dropped, on the way out and where the container forwards.
const (
	RouteUnicast     RouteType = ""            // out of a link
	RouteBlackhole   RouteType = "blackhole"   // without a word; for who sends from here: invalid argument
	RouteUnreachable RouteType = "unreachable" // with an ICMP "host unreachable"
	RouteProhibit    RouteType = "prohibit"    // with an ICMP "administratively prohibited"
)

var routeKinds = choices[RouteType, int]{{"unicast", unicastRoute}, {string(RouteBlackhole), 6}, {string(RouteUnreachable), 7}, {string(RouteProhibit), 8}}

// UnmarshalText reads "unicast", "blackhole", "unreachable", "prohibit" or nothing, which is unicast.
func (t *RouteType) UnmarshalText(text []byte) error { return routeKinds.parse(text, t) }

// Route is a route out of a link, or to nowhere.
type Route struct {
	Type    RouteType    // default: RouteUnicast; the others have but a destination, a table and a metric
	Dst     netip.Prefix // 0.0.0.0/0 or ::/0 is the default route
	Gateway netip.Addr   // the zero value: none, the destination is on the link
	Source  netip.Addr   // preferred source address; the zero value: the kernel's choice
	Table   int          // 0 is TableMain
	Metric  int          // the priority, lower is better; 0 is 0 for IPv4 and 1024 for IPv6
	MTU     int          // bytes, of the path; 0 is the link's
	AdvMSS  int          // bytes, the TCP segment size advertised; 0 is derived from the MTU
	Scope   int          // ScopeGlobal (0, the default), ScopeLink, ScopeHost; for IPv4 alone
	OnLink  bool         // the gateway is taken to be on the link, whatever the addresses say; false: where the kernel would find it

	from *types.Route // where the plan has it from; nil if it is implied by an address
}

// String writes the route as iproute2 does.
func (r Route) String() string {
	var b strings.Builder
	if r.Type != RouteUnicast {
		b.WriteString(string(r.Type) + " ")
	}
	if r.Dst.Bits() == 0 {
		b.WriteString("default")
		if r.Dst.Addr().Is6() {
			b.WriteString(" ::/0")
		}
	} else {
		b.WriteString(r.Dst.String())
	}
	if r.Gateway.IsValid() {
		fmt.Fprintf(&b, " via %s", r.Gateway)
	}
	if r.OnLink {
		b.WriteString(" onlink")
	}
	if r.Source.IsValid() {
		fmt.Fprintf(&b, " src %s", r.Source)
	}
	for _, part := range []struct {
		name        string
		value, none int
	}{{"table", r.table(), TableMain}, {"metric", r.Metric, 0}, {"mtu", r.MTU, 0}, {"advmss", r.AdvMSS, 0}, {"scope", r.Scope, 0}} {
		if part.value != part.none {
			fmt.Fprintf(&b, " %s %d", part.name, part.value)
		}
	}
	return b.String()
}

// number is a field of a route with its name in a result and its largest value.
type number struct {
	name       string
	value, max int64
}

func (r Route) numbers() []number {
	return []number{{"table", int64(r.Table), math.MaxUint32}, {"priority", int64(r.Metric), math.MaxUint32},
		{"mtu", int64(r.MTU), maxRouteMTU}, {"advmss", int64(r.AdvMSS), maxAdvMSS}}
}

// routeTypes are the types besides unicast that a route of a user's may have (rtnetlink(7)).
var routeTypes = map[int]string{2: "local", 3: "broadcast", 4: "anycast", 5: "multicast", 6: "blackhole", 7: "unreachable", 8: "prohibit", 9: "throw"}

// routeType is what iproute2 writes before a route, with a space: nothing for an ordinary one.
func routeType(t int) string {
	switch word := routeTypes[t]; {
	case t == unicastRoute:
		return ""
	case word != "":
		return word + " "
	}
	return fmt.Sprintf("type %d ", t)
}

// isDefault tells whether the route goes everywhere.
func (r Route) isDefault() bool { return r.Dst.Bits() == 0 }

// otherHalf is the destination that makes a pair with p. A family has two of this length.
func otherHalf(p netip.Prefix) netip.Prefix {
	bytes := p.Addr().AsSlice()
	bytes[0] ^= 0x80
	other, _ := netip.AddrFromSlice(bytes) // as long as it was
	return netip.PrefixFrom(other, 1)
}

// isHalf tells whether a route is one of a pair in a list.
func (r Route) isHalf(list []Route) bool {
	return r.Dst.Bits() == 1 && slices.ContainsFunc(list, func(o Route) bool { return o.Dst == otherHalf(r.Dst) && o.table() == r.table() })
}

// table is the table with its default.
func (r Route) table() int {
	if r.Table == 0 {
		return TableMain
	}
	return r.Table
}

// metric is the metric that the kernel gives the route.
func (r Route) metric() int {
	if r.Metric == 0 && r.Dst.Addr().Is6() {
		return metric6
	}
	return r.Metric
}

// same tells whether two routes exclude each other: the kernel has room for one with the same
// destination, metric and table, but for a set of next hops.
func (r Route) same(o Route) bool {
	return r.Dst == o.Dst && r.table() == o.table() && r.metric() == o.metric()
}

// equal tells whether two routes are the same in all that the kernel is told. Both stay in a plan, for each writes
// its own entry of the result; to make the second changes nothing.
func (r Route) equal(o Route) bool {
	r.from, o.from = nil, nil
	r.Metric, o.Metric = r.metric(), o.metric()
	return r == o
}

// report writes into the result what was decided about the route, so that what is reported is what the
// kernel has. A route that IPAM gave without a gateway stays so, as long as all addresses of the result are
// ours: its reader knows, as we did, that it goes by the gateway of an address (SPEC, section 5
// "Success", routes). Among others' addresses that would be a guess, and the gateway is written down.
func (r Route) report(others bool) {
	if r.from == nil {
		return
	}
	r.from.Dst = ipNet(r.Dst)
	given := others || len(r.from.GW) > 0
	r.from.GW = nil
	if r.Gateway.IsValid() && given {
		r.from.GW = r.Gateway.AsSlice()
	}
	if r.Metric != 0 {
		r.from.Priority = r.Metric
	}
	if r.Scope != ScopeGlobal {
		r.from.Scope = &r.Scope
	}
}

// unscoped tells whether the route's scope was chosen by us, and not said by the result: another plugin
// may have chosen another one.
func (r Route) unscoped() bool { return r.from != nil && r.from.Scope == nil && !r.Gateway.IsValid() }

// orNone is for messages.
func orNone(a netip.Addr) string {
	if !a.IsValid() {
		return "none"
	}
	return a.String()
}

// prefixOf and addrOf turn package net's values, which may be anything, into netip's. An address that
// is missing is the zero value, and right.
func prefixOf(n net.IPNet) (netip.Prefix, bool) {
	addr, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	addr = addr.Unmap()
	if bits == 128 && addr.Is4() {
		ones, bits = ones-96, 32 // a mask in the long form, as the address was
	}
	if !ok || ones < 0 || bits != addr.BitLen() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(addr, ones), true
}

func addrOf(ip net.IP) (netip.Addr, bool) {
	addr, ok := netip.AddrFromSlice(ip)
	return addr.Unmap(), ok || len(ip) == 0
}

// ipNet is the reverse of prefixOf.
func ipNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
