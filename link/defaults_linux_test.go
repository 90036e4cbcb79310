package link_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// defaultRoutes are net1's in twoLinks.
func defaultRoutes(v6 bool, gateways ...string) link.DefaultRoutes {
	d := link.DefaultRoutes{Link: "net1", V6: v6}
	for i, gw := range gateways {
		r := link.Route{Dst: prefix("0.0.0.0/0"), Gateway: netip.MustParseAddr(gw), Metric: i}
		if v6 {
			r.Dst, r.Metric = prefix("::/0"), 1024+i
		}
		d.Routes = append(d.Routes, r)
	}
	return d
}

// shown are the default routes as ip shows them, sorted by the kernel.
func shown(ns *skeltest.NS, v6 bool) string {
	family := "-4"
	if v6 {
		family = "-6"
	}
	return strings.Join(strings.Fields(ns.Run("ip", family, "route", "show", "default")), " ")
}

// unordered sorts the next hops of IPv6, which have no order.
func unordered(text string) string {
	parts := strings.Split(text, " nexthop ")
	slices.Sort(parts[1:])
	return strings.Join(parts, " nexthop ")
}

// TestDefaultRoutes: what leads out afterwards, in ip's words and by packets, and that all is undone.
func TestDefaultRoutes(t *testing.T) {
	parallelNS(t)
	for name, c := range map[string]struct {
		setup string
		d     link.DefaultRoutes
		want  string // what ip shows
	}{
		"one gateway":  {"true", defaultRoutes(false, "10.2.2.1"), "default via 10.2.2.1 dev net1 proto 67"},
		"v6":           {"true", defaultRoutes(true, "fd02::1"), "default via fd02::1 dev net1 proto 67 metric 1024 pref medium"},
		"two gateways": {"true", defaultRoutes(false, "10.2.2.1", "10.2.2.9"), "default via 10.2.2.1 dev net1 proto 67 default via 10.2.2.9 dev net1 proto 67 metric 1"},
		"two gateways, v6": {"true", defaultRoutes(true, "fd02::1", "fd02::9"),
			"default via fd02::1 dev net1 proto 67 metric 1024 pref medium default via fd02::9 dev net1 proto 67 metric 1025 pref medium"},
		"all metrics go": {"ip route add default via 10.1.1.3 metric 7; ip route add default via 10.2.2.7 metric 9",
			defaultRoutes(false, "10.2.2.1"), "default via 10.2.2.1 dev net1 proto 67"},
		"its own are kept": {"ip route add default via 10.2.2.7 metric 9 mtu 1400 proto static; ip route add default via 10.2.2.8 metric 10",
			defaultRoutes(false), "default via 10.2.2.7 dev net1 proto static metric 9 mtu 1400 default via 10.2.2.8 dev net1 metric 10"},
		"none of its own": {"true", defaultRoutes(false), ""},
		"its own, which stood in front of the other's": {"ip route prepend default via 10.2.2.1 dev net1; ip route append default via 10.1.1.3 dev eth0",
			defaultRoutes(false), "default via 10.2.2.1 dev net1"},
		"its own, behind the other's": {"ip route append default via 10.1.1.3 dev eth0; ip route append default via 10.2.2.1 dev net1",
			defaultRoutes(false), "default via 10.2.2.1 dev net1"},
		"v6, merged into one route of two links": {"ip -6 route append default via fd02::1 dev net1",
			defaultRoutes(true), "default via fd02::1 dev net1 metric 1024 pref medium"},
		"v6, merged, and replaced": {"ip -6 route append default via fd02::7 dev net1",
			defaultRoutes(true, "fd02::1"), "default via fd02::1 dev net1 proto 67 metric 1024 pref medium"},
		"without a gateway, and by one of the other family": {"ip route add default dev eth0 scope link metric 3; ip route add default via inet6 fd01::1 dev eth0 metric 4",
			defaultRoutes(false, "10.2.2.1"), "default via 10.2.2.1 dev net1 proto 67"},
		"several next hops of one link": {"ip route add default metric 5 nexthop via 10.1.1.8 dev eth0 weight 2 nexthop via 10.1.1.9 dev eth0",
			defaultRoutes(false, "10.2.2.1"), "default via 10.2.2.1 dev net1 proto 67"},
	} {
		t.Run(name, func(t *testing.T) {
			container, _, _, _ := twoLinks(t, everything)
			container.Run("sh", "-ec", c.setup+"; ip route add default via 10.1.1.1 table 77; ip -6 route add default via fd01::1 dev eth0 table 77")
			before := shown(container, false) + unordered(shown(container, true))
			_, n := spaces(t, container)
			done, err := c.d.Ensure(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			if got := shown(container, c.d.V6); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			for _, table := range []string{"-4", "-6"} {
				if got := container.Run("ip", table, "route", "show", "table", "77"); !strings.Contains(got, "dev eth0") {
					t.Errorf("the other table has %s", got)
				}
			}
			if c.want != "" && c.d.V6 {
				container.Ping("2001:db8::99")
			} else if c.want != "" && !strings.Contains(name, "its own are kept") {
				container.Ping("192.0.2.99")
			}
			listed, err := link.Defaults(n, c.d.V6)
			if err != nil || len(listed) != strings.Count(c.want, "default") {
				t.Errorf("listed %v, %v", listed, err)
			}
			for _, r := range listed {
				if r.Link != "net1" {
					t.Errorf("listed %v", r)
				}
			}
			if err := done.Restore(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			if now := shown(container, false) + unordered(shown(container, true)); now != before {
				t.Errorf("after  %s\nbefore %s", now, before)
			}
		})
	}
}

// TestDefaultRoutesStayAway: a router's advertisement does not bring back what was taken.
func TestDefaultRoutesStayAway(t *testing.T) {
	parallelNS(t)
	container, _, _, _ := twoLinks(t, everything)
	container.Run("sh", "-ec", "echo 1 > /proc/sys/net/ipv6/conf/eth0/accept_ra_defrtr; echo 1 > /proc/sys/net/ipv6/conf/net1/accept_ra_defrtr")
	_, n := spaces(t, container)
	accepts := func() string {
		return strings.Join(strings.Fields(container.Run("sh", "-c", "cat /proc/sys/net/ipv6/conf/eth0/accept_ra_defrtr /proc/sys/net/ipv6/conf/net1/accept_ra_defrtr")), " ")
	}
	for _, c := range []struct {
		d    link.DefaultRoutes
		want string
	}{{defaultRoutes(true), "0 1"}, {defaultRoutes(true, "fd02::1"), "0 0"}, {defaultRoutes(false, "10.2.2.1"), "1 1"}} {
		done, err := c.d.Ensure(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if got := accepts(); got != c.want {
			t.Errorf("%v: accept_ra_defrtr of eth0, net1: %s; expected %s", c.d, got, c.want)
		}
		if err := done.Restore(t.Context(), n); err != nil || accepts() != "1 1" {
			t.Errorf("%v: after Restore: %s, %v", c.d, accepts(), err)
		}
	}
}

func TestDefaultRoutesRefused(t *testing.T) {
	parallelNS(t)
	container, _, _, _ := twoLinks(t, everything)
	container.Run("ip", "route", "add", "default", "metric", "5", "nexthop", "via", "10.1.1.1", "nexthop", "via", "10.2.2.1")
	before := layer3(container)
	_, n := spaces(t, container)
	onLink := defaultRoutes(false, "10.2.2.1")
	onLink.Link = "net7"
	elsewhere := defaultRoutes(false, "10.2.2.1")
	elsewhere.Routes[0].Dst = prefix("10.0.0.0/8")
	for words, c := range map[string]struct {
		d     link.DefaultRoutes
		setup string
		code  uint
	}{
		"there is no such link":                     {onLink, "true", 7},
		"expected a default route of the family":    {elsewhere, "true", 7},
		"not the address of a neighbour":            {defaultRoutes(false, "fd02::1"), "true", 7},
		"no way to the gateway 10.9.9.9":            {defaultRoutes(false, "10.9.9.9"), "ip route del default metric 5", 7},
		"no way to the gateway fd09::9":             {defaultRoutes(true, "fd09::9"), "true", 7},
		"next hops behind \"net1\" and other links": {defaultRoutes(false), "true", 103},
		"may be made of nexthop objects":            {defaultRoutes(false, "10.2.2.1"), "ip route del default metric 5; ip nexthop add id 1 via 10.1.1.9 dev eth0; ip route add default nhid 1 metric 8", 103},
		"there is unreachable":                      {defaultRoutes(false, "10.2.2.1"), "ip route del default metric 5; ip route append unreachable default", 7},
	} {
		t.Run(words, func(t *testing.T) {
			container.Run("sh", "-c", c.setup)
			changed := layer3(container)
			_, err := c.d.Ensure(t.Context(), n)
			if netconf.Code(err) != c.code || !strings.Contains(err.Error(), words) {
				t.Errorf("%v (code %d)", err, netconf.Code(err))
			}
			if diff := changed.Diff(layer3(container)); diff != "" {
				t.Errorf("changed:\n%s", diff)
			}
		})
		container.Run("sh", "-c", "ip nexthop flush 2>/dev/null; ip route del unreachable default 2>/dev/null; "+
			"ip route replace default metric 5 nexthop via 10.1.1.1 nexthop via 10.2.2.1")
	}
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

// TestDefaultRoutesWithoutCarrier: the kernel marks the routes of a link that is down at the other end, and takes no such mark.
func TestDefaultRoutesWithoutCarrier(t *testing.T) {
	parallelNS(t)
	container, neighbours, _, _ := twoLinks(t, everything)
	neighbours[0].Run("ip", "link", "set", "p0", "down")
	skeltest.Eventually(t, "eth0 has no carrier", func() bool { return strings.Contains(shown(container, false), "linkdown") })
	before := shown(container, false)
	_, n := spaces(t, container)
	done, err := defaultRoutes(false, "10.2.2.1").Ensure(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if got := shown(container, false); got != "default via 10.2.2.1 dev net1 proto 67" {
		t.Errorf("%s", got)
	}
	if err := done.Restore(t.Context(), n); err != nil || shown(container, false) != before {
		t.Errorf("%s, %v; before %s", shown(container, false), err, before)
	}
}

// TestDefaultRoutesFaults breaks off at each change: the routes are as they were.
func TestDefaultRoutesFaults(t *testing.T) {
	parallelNS(t)
	container, _, _, _ := twoLinks(t, everything)
	container.Run("sh", "-ec", "ip route add default via 10.2.2.7 metric 9; ip -6 route append default via fd02::7 dev net1")
	look := func() string { return shown(container, false) + "\n" + unordered(shown(container, true)) }
	before := look()
	_, n := spaces(t, container)
	broken := errors.New("broken off")
	for _, d := range []link.DefaultRoutes{defaultRoutes(false, "10.2.2.1", "10.2.2.9"), defaultRoutes(true, "fd02::1")} {
		for at := 1; ; at++ {
			calls := 0
			ctx := netconf.WithFault(t.Context(), func(context.Context, string) error {
				if calls++; calls == at {
					return broken
				}
				return nil
			})
			done, err := d.Ensure(ctx, n)
			if err == nil {
				if at < 4 {
					t.Errorf("%d changes", at-1)
				}
				if err := done.Restore(t.Context(), n); err != nil {
					t.Fatal(err)
				}
			}
			if err != nil && !errors.Is(err, broken) {
				t.Fatal(err)
			}
			if now := look(); now != before {
				t.Fatalf("broken off at change %d:\n%s\nbefore:\n%s", at, now, before)
			}
			if err == nil {
				break
			}
		}
	}
}

// TestDefaultRoutesRestoredWithoutALink: what is left of the links gets its routes.
func TestDefaultRoutesRestoredWithoutALink(t *testing.T) {
	parallelNS(t)
	container, _, _, _ := twoLinks(t, everything)
	_, n := spaces(t, container)
	done, err := defaultRoutes(false, "10.2.2.1").Ensure(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	container.Run("ip", "link", "del", "net1")
	if err := done.Restore(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if got := shown(container, false); got != "default via 10.1.1.1 dev eth0" {
		t.Errorf("%s", got)
	}
}
