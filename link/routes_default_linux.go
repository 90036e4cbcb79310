package link

import (
	"fmt"
	"slices"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

// What goes everywhere: a default route, or two that lead to the halves of all addresses, as VPNs make them. Such a pair stands
// in front of a default route whatever the metrics are.

// everywhere are the routes of other links that go everywhere. A route by a nexthop object names no link where
// net.ipv4.nexthop_compat_mode is 0, and ours never are by one: it is another's.
func everywhere(n *NS, v4 bool, l netlink.Link) ([]kernelRoute, error) {
	list, err := routesTo(n, v4, func(k kernelRoute) bool { return k.Dst.Bits() <= 1 && k.link != l.Attrs().Index })
	return slices.DeleteFunc(slices.Clone(list), func(k kernelRoute) bool {
		return !k.isDefault() && !slices.ContainsFunc(list, func(o kernelRoute) bool {
			return o.link == k.link && o.Dst == otherHalf(k.Dst) && o.table() == k.table()
		})
	}), err
}

// defaults gives the plan's default routes their metric where another link has one, and refuses those
// that would take its traffic.
func (p *AddressPlan) defaults(n *NS, l netlink.Link) error {
	for _, v4 := range []bool{true, false} {
		ours := func(r Route) bool {
			return r.Dst.Addr().Is4() == v4 && (r.isDefault() || r.isHalf(p.Routes))
		}
		if !slices.ContainsFunc(p.Routes, ours) {
			continue
		}
		others, err := everywhere(n, v4, l)
		if err != nil {
			return err
		}
		for i := range p.Routes {
			if !ours(p.Routes[i]) {
				continue
			}
			if err := p.second(n, l, &p.Routes[i], others); err != nil {
				return err
			}
		}
	}
	return nil
}

// second judges a default route, or a half of one, beside those of other links. Behind a pair a default route comes by itself.
func (p *AddressPlan) second(n *NS, l netlink.Link, r *Route, others []kernelRoute) error {
	chosen := false
	for _, k := range others {
		if k.table() != r.table() || k.Dst != r.Dst && !k.isDefault() {
			continue
		}
		if p.ranked && k.protocol == Protocol && k.metric() > r.metric() {
			continue // was attached first, and comes later
		}
		need := "it needs a higher metric"
		if k.Dst != r.Dst {
			need = "the two halves stand in front of it, whatever their metrics are"
		} else if r.Metric == 0 && p.DefaultMetric > 0 {
			r.Metric, chosen = p.DefaultMetric, true
		}
		if k.Dst != r.Dst || r.metric() <= k.metric() {
			return &Error{Op: "route add", Name: fmt.Sprintf("%s dev %s", *r, l.Attrs().Name), Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig,
				"%s has a default route already (%s, metric %d), which this one would take the traffic from: %s", holder(n, k.link), k.Route, k.metric(), need)}
		}
	}
	if chosen {
		p.warn("another link has a default route: this one comes behind it", "link", l.Attrs().Name, "route", r.String())
	}
	return nil
}

// holder is for messages: what a route goes out of.
func holder(n *NS, index int) string {
	if index == 0 {
		return "a nexthop object"
	}
	return fmt.Sprintf("link %q", linkName(n, index))
}
