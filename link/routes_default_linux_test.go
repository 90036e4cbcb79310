package link_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// What a default route may be, on either side.
const object, halves, whole, half = "by an object", "two halves", "a default route", "one half"

// family has the neighbours of both links, the destinations, and an address that is beyond.
type family struct{ flag, first, second, all, low, high, far string }

// otherDefault gives eth0 such a route in the place of its default route.
func otherDefault(container *skeltest.NS, kind string, f family) {
	commands := map[string]string{
		object: "sysctl -qw net.ipv4.nexthop_compat_mode=0; ip FLAG route del default; ip FLAG nexthop add id 7 via FIRST dev eth0; ip FLAG route add default nhid 7",
		halves: "ip FLAG route del default; ip FLAG route add LOW via FIRST; ip FLAG route add HIGH via FIRST",
		half:   "ip FLAG route del default; ip FLAG route add LOW via FIRST metric 1",
		whole:  "true", // it is there
	}
	container.Run("sh", "-ec", strings.NewReplacer("FLAG", f.flag, "FIRST", f.first, "LOW", f.low, "HIGH", f.high).Replace(commands[kind]))
}

// TestRoutesSecondDefaultInDisguise: another link's default route may be one by a nexthop object, which names no link, or two
// halves; and ours may be two halves, which would stand in front of it.
func TestRoutesSecondDefaultInDisguise(t *testing.T) {
	for _, family := range []family{
		{"-4", "10.1.1.1", "10.2.2.1", "0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "203.0.113.7"},
		{"-6", "fd01::1", "fd02::1", "::/0", "::/1", "8000::/1", "2001:db8:7::1"},
	} {
		for _, test := range []struct {
			other, ours string
			taken       string // what the refusal names; "": there is none
			metric      bool   // a metric helps
		}{
			{object, whole, "a nexthop object", true},
			{object, halves, "a nexthop object", false},
			{whole, halves, `"eth0"`, false},
			{halves, halves, `"eth0"`, true},
			{halves, whole, "", false},
			{whole, half, "", false},
			{half, halves, "", false},
		} {
			t.Run(family.flag+" "+test.ours+" beside "+test.other, func(t *testing.T) {
				container, _, _, call := twoLinks(t, everything)
				otherDefault(container, test.other, family)
				step := link.Routes{}
				for _, dst := range map[string][]string{whole: {family.all}, halves: {family.low, family.high}, half: {family.high}}[test.ours] {
					step.Routes = append(step.Routes, link.Route{Dst: prefix(dst), Gateway: netip.MustParseAddr(family.second), Metric: map[bool]int{true: 2}[test.other == half]})
				}
				before := layer3(container)
				p := plugin(step)
				p.Kind = skel.Chained
				if test.taken != "" {
					call.Run(t.Context(), t, p).Fails(t, netconf.CodeInvalidNetworkConfig, test.taken)
					if diff := before.Diff(layer3(container)); diff != "" {
						t.Errorf("changed:\n%s", diff)
					}
					step.DefaultMetric = 2000
					p = plugin(step)
					p.Kind = skel.Chained
					if !test.metric {
						call.Run(t.Context(), t, p).Fails(t, netconf.CodeInvalidNetworkConfig, test.taken, "in front")
						return
					}
				}
				a := call.Run(t.Context(), t, p).OK(t)
				call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
				if route := container.Run("ip", "route", "get", family.far); test.taken != "" && !strings.Contains(route, family.first) {
					t.Errorf("the other's traffic goes by %s", route)
				}
				call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
				if diff := before.Diff(layer3(container)); diff != "" {
					t.Errorf("left behind:\n%s", diff)
				}
			})
		}
	}
}

// TestRoutesHalvesThatAreNoPair: a half of another link whose other half is in another table, or is out of another link, is no
// default route, and neither are ours in two tables. Of pairs in two tables each counts where it is.
func TestRoutesHalvesThatAreNoPair(t *testing.T) {
	parallelNS(t)
	gw := netip.MustParseAddr("10.2.2.1")
	route := func(dst string, table int) link.Route {
		return link.Route{Dst: prefix(dst), Gateway: gw, Metric: 2, Table: table}
	}
	pair := []link.Route{route("0.0.0.0/1", 0), route("128.0.0.0/1", 0)}
	for name, c := range map[string]struct {
		setup   string
		ours    []link.Route
		refused bool
	}{
		"others, in two tables":         {"ip route add 0.0.0.0/1 via 10.1.1.1 metric 5; ip route add 128.0.0.0/1 via 10.1.1.1 metric 5 table 77", pair, false},
		"others, out of two links":      {"ip link add net2 type veth peer name p2; ip link set net2 up; ip route add 0.0.0.0/1 via 10.1.1.1 metric 5; ip route add 128.0.0.0/1 dev net2 metric 5", pair, false},
		"others, a pair":                {"ip route add 0.0.0.0/1 via 10.1.1.1 metric 5; ip route add 128.0.0.0/1 via 10.1.1.1 metric 5", pair, true},
		"others, a pair in the table":   {"ip route add 0.0.0.0/1 via 10.1.1.1 metric 5 table 77; ip route add 128.0.0.0/1 via 10.1.1.1 metric 5 table 77", pair, false},
		"ours, in two tables":           {"ip route add default via 10.1.1.1", []link.Route{route("0.0.0.0/1", 0), route("128.0.0.0/1", 77)}, false},
		"ours, a pair":                  {"ip route add default via 10.1.1.1", pair, true},
		"ours, a pair in its own table": {"ip route add default via 10.1.1.1", []link.Route{route("0.0.0.0/1", 77), route("128.0.0.0/1", 77)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			container, _, _, call := twoLinks(t, everything)
			container.Run("sh", "-ec", "ip route del default; "+c.setup)
			p := plugin(link.Routes{Routes: c.ours})
			p.Kind = skel.Chained
			if c.refused {
				call.Run(t.Context(), t, p).Fails(t, netconf.CodeInvalidNetworkConfig, `"eth0"`)
			} else {
				call.Run(t.Context(), t, p).OK(t)
			}
		})
	}
}
