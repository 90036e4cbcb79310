package link

import (
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// Addresses puts what IPAM answered on the attachment's interface and sets it up: the step that follows the
// IPAM step. The zero value is what most plugins want.
//
// It takes the addresses of the result that have no interface yet, or this one, and the routes that
// go out of it (see [Addresses.Plan]). Without an address it sets the link up and no more: a layer-2
// attachment. In a chained plugin, whose interface is in the prevResult, it adds what is in
// Result to what is there; what is in the prevResult is the other plugin's, and stays.
//
// A result has no word for routes to nowhere (blackhole, unreachable, prohibit). A route of it has "dst", "gw", and since 1.1.0
// "mtu", "advmss", "priority", "table" and "scope" (SPEC, section 5 "Success"; types.Route of the cni module): no type and no
// device, and what else is in the JSON is dropped when it is read. Of a scope there are 0, 253 and 254; 255, the kernel's
// "nowhere", is none of a route that it takes, and an error here. One without a gateway goes to that of an address, or
// out of the link. A plugin that wants routes to nowhere has the step [Routes], with a [RouteType].
//
// A chained one keeps in req.State what it added, for a prevResult does not tell on DEL whose an address is. The sysctls
// below are not given back: they go with the link, or, where it is a device that is moved out of the container, at that
// moment, for the kernel begins with those of the other namespace. disable_ipv6 back at 1 would take others' addresses too.
//
// It writes these sysctls, on the link itself and on no other, before the link is up. Those of IPv6 only where
// an IPv6 address comes:
//
//	arp_notify=1                the kernel tells the neighbours of the addresses when the link goes up, and
//	ndisc_notify=1              when its MAC changes, so that a switch, and a neighbour who knew one of
//	                            them by another MAC, learn it
//	disable_ipv6=0              a runtime's default may be 1
//	keep_addr_on_down=1         else IPv6 addresses vanish when the link goes down for a moment
//	accept_dad=0                without duplicate address detection: covers the link-local address too
//	router_solicitation_delay=0 with it: the kernel delays the detection by up to that second
//	accept_ra_defrtr=0          where an IPv6 default route comes: it is the one in use, not one that a
//	                            neighbour advertises. Else router advertisements are the container's own affair.
//
// An announcement that cannot be made is a warning.
type Addresses struct {
	// Interface is the name of the interface in the container. Default: CNI_IFNAME.
	Interface string

	// DAD is what is done about duplicate address detection for IPv6. Default: DADAuto.
	DAD DADMode

	// PointToPoint makes the gateway the only neighbour: the addresses have no connected route; instead
	// there is one to the gateway, out of the link, and one to the subnet by way of the gateway, both
	// with the address as their source. Each address needs a gateway then. Default: the addresses have
	// the connected routes of their prefix lengths.
	PointToPoint bool

	// DefaultMetric is for a container that has a default route out of another link already, of
	// the same family and in the same table. 0 (default) makes a second one an error with code 7 that
	// names the other link, for it would take the traffic over, or share it. Another number is the
	// metric that ours gets then, unless IPAM gave it one; it must be higher than the other's, 1024 for
	// IPv6 by default, or it is the same error. Two routes to the halves of all addresses (0.0.0.0/1 and
	// 128.0.0.0/1) count as a default route; before another link's of length 0 they are that error in any case,
	// for they stand in front of it whatever the metrics are.
	//
	// Where the caller asks for a metric ([netconf.Request.DefaultMetric]) that is taken instead, whether or not another link
	// has a default route by now: such a caller attaches the container to several networks, perhaps at once, and says how
	// they are to be preferred. A route of this package on another link with a higher metric is then one that comes later.
	DefaultMetric int

	ranked bool // DefaultMetric is the caller's
}

// DADMode says what is done about duplicate address detection, which keeps an IPv6 address unusable for one
// to two seconds (RFC 4862, section 5.4). IPv4 has none.
type DADMode string

// The modes of duplicate address detection.
const (
	// DADAuto is DADOff on a veth or netkit, whose addresses an allocator owns, else DADOwn.
	DADAuto DADMode = ""
	// DADOff does without: addresses are usable at once, the link-local one too.
	DADOff DADMode = "off"
	// DADOwn waits until the kernel has found our addresses to be ours alone, at most 10 s; a duplicate is
	// an error that names it. A link without carrier is waited for 2 s: without one the kernel
	// does not ask, so that the address stays tentative, with a warning, until the carrier comes.
	DADOwn DADMode = "own"
)

// UnmarshalText reads "auto", "off", "own" or nothing, which is auto.
func (m *DADMode) UnmarshalText(text []byte) error {
	return dadModes.parse(text, m)
}

var dadModes = choices[DADMode, struct{}]{{name: "auto"}, {name: string(DADOff)}, {name: string(DADOwn)}}

// Name is "addresses".
func (a Addresses) Name() string { return "addresses" }

// AddressPlan is what is to be on one link: the core of [Addresses], which knows no call. Its methods
// take the namespace that the link is in and the link's name. A daemon repairs with Ensure.
type AddressPlan struct {
	Addresses     []netip.Prefix // each with its host part; none: the link is set up, with its routes
	Routes        []Route        // in the order in which they are made; none: only what the addresses bring with them
	DAD           DADMode        // default: DADAuto, by the kind of the link
	NoPrefixRoute bool           // the addresses bring no connected route with them; default: they do
	DefaultMetric int            // as in Addresses, 0 refuses a second default route; Create and Ensure write it into Routes where they choose it

	// Warn is told what is wrong but no reason to fail, as netconf.Request.Warn. Default: nobody.
	Warn func(msg string, args ...any) `json:"-"`

	ranked bool // the metrics of the default routes are the caller's order of links
}

func (p *AddressPlan) warn(msg string, args ...any) {
	if p.Warn != nil {
		p.Warn(msg, args...)
	}
}

// has tells whether the plan has an address of IPv4, or of IPv6.
func (p *AddressPlan) has(v4 bool) bool {
	for _, a := range p.Addresses {
		if a.Addr().Is4() == v4 {
			return true
		}
	}
	return false
}

// noDAD decides DADAuto by the kind of the link, as netlink names it.
func (p *AddressPlan) noDAD(kind string) bool {
	switch p.DAD {
	case DADOff:
		return true
	case DADOwn:
		return false
	}
	return kind == "veth" || kind == "netkit"
}

// minMTU6 is what IPv6 needs of a link (RFC 8200, section 5). Below it the kernel takes IPv6 off the link,
// its sysctls included, as if it had none.
const minMTU6 = 1280

// fitsIPv6 is an error with code 7 for a link that is too small for IPv6, if there is an IPv6 address among those.
func fitsIPv6(l netlink.Link, addresses []netip.Prefix) error {
	six := slices.ContainsFunc(addresses, func(a netip.Prefix) bool { return a.Addr().Is6() })
	if mtu := l.Attrs().MTU; six && mtu < minMTU6 {
		return badLink(l.Attrs().Name, "mtu %d is too small for IPv6: expected at least %d", mtu, minMTU6)
	}
	return nil
}
