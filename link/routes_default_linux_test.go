package link_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// TestRoutesSecondDefaultInDisguise: another link's default route may be one by a nexthop object, which names no link, or two
// halves; and ours may be two halves, which would stand in front of it.
func TestRoutesSecondDefaultInDisguise(t *testing.T) {
	const object, halves, whole, half = "by an object", "two halves", "a default route", "one half"
	for _, family := range []struct{ flag, first, second, all, low, high, far string }{
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
				ip := func(words string) { container.Run("ip", append([]string{family.flag}, strings.Fields(words)...)...) }
				switch test.other {
				case object:
					container.Run("sysctl", "-qw", "net.ipv4.nexthop_compat_mode=0")
					ip("route del default")
					ip("nexthop add id 7 via " + family.first + " dev eth0")
					ip("route add default nhid 7")
				case halves:
					ip("route del default")
					ip("route add " + family.low + " via " + family.first)
					ip("route add " + family.high + " via " + family.first)
				case half:
					ip("route del default")
					ip("route add " + family.low + " via " + family.first + " metric 1")
				}
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
