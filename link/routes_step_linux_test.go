package link_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// extra are routes that need one another, in the wrong order.
func extra() link.Routes {
	gw := netip.MustParseAddr
	return link.Routes{Routes: []link.Route{
		{Dst: prefix("192.0.2.0/24"), Gateway: gw("10.9.9.1"), Metric: 7, MTU: 1300, AdvMSS: 1200},
		{Dst: prefix("10.9.9.1/32")},
		{Dst: prefix("2001:db8::/32"), Gateway: gw("fd00::1"), Table: 70000},
	}}
}

// TestRoutes: packets go by them, they are in the result, CHECK sees what is changed, DEL takes them and no others.
func TestRoutes(t *testing.T) {
	parallelNS(t)
	container, neighbour, p, call := changer(t, extra())
	neighbour.Run("ip", "address", "add", "10.9.9.1/32", "dev", "p0")
	before := layer3(container)
	a := call.Run(t.Context(), t, p).OK(t)
	container.Ping("192.0.2.99")
	if len(a.Result.Routes) != 3 || !strings.Contains(a.Stdout, `"table": 70000`) || !strings.Contains(a.Stdout, `"advmss": 1200`) || !strings.Contains(a.Stdout, `"scope": 253`) {
		t.Errorf("result %s", a.Stdout)
	}
	if show := container.Run("ip", "route", "show", "192.0.2.0/24"); !strings.Contains(show, "via 10.9.9.1 dev eth0 proto 67 metric 7 mtu 1300 advmss 1200") {
		t.Errorf("route %s", show)
	}
	check := call.With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, p).OK(t)
	check.Run(t.Context(), t, plugin(link.Addresses{})).OK(t) // who reads the result finds them too
	container.Run("ip", "route", "change", "192.0.2.0/24", "via", "10.9.9.1", "metric", "7", "mtu", "1200", "proto", "67")
	check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, "192.0.2.0/24", "mtu")
	call.Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "eth0")
	container.Run("ip", "route", "add", "203.0.113.0/24", "via", "10.1.1.1", "proto", "67") // of another step of ours
	for range 2 {
		call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	}
	container.Run("ip", "route", "del", "203.0.113.0/24")
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}

func TestWalkRoutes(t *testing.T) {
	container, _, p, call := changer(t, extra())
	if n := skeltest.Walk(t, p, call, container, nil); n < 4 {
		t.Errorf("the hook saw %d operations", n)
	}
}

// TestRoutesThatWereThere stay: another plugin has made one of them.
func TestRoutesThatWereThere(t *testing.T) {
	parallelNS(t)
	container, _, p, call := changer(t, extra())
	container.Run("ip", "route", "add", "10.9.9.1/32", "dev", "eth0", "scope", "link", "proto", "67")
	before := layer3(container)
	call.Run(t.Context(), t, p).OK(t)
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

// TestRoutesSecondDefault: it is never put in front of another link's, nor merged with it, in silence.
func TestRoutesSecondDefault(t *testing.T) {
	for _, family := range []struct{ via, dst, flag string }{{"10.2.2.1", "0.0.0.0/0", "-4"}, {"fd02::1", "::/0", "-6"}} {
		container, _, _, call := twoLinks(t, everything)
		before := layer3(container)
		step := link.Routes{Routes: []link.Route{{Dst: prefix(family.dst), Gateway: netip.MustParseAddr(family.via)}}}
		call.Run(t.Context(), t, plugin(step)).Fails(t, netconf.CodeInvalidNetworkConfig, `"eth0"`, family.via)
		if diff := before.Diff(layer3(container)); diff != "" {
			t.Errorf("changed:\n%s", diff)
		}
		step.DefaultMetric = 2000
		p := plugin(step)
		p.Kind = skel.Chained
		a := call.Run(t.Context(), t, p).OK(t)
		show := container.Run("ip", family.flag, "route", "show", "default")
		if !strings.Contains(show, "via "+family.via+" dev net1 proto 67 metric 2000") || strings.Contains(show, "nexthop") || !strings.Contains(a.Stderr, "comes behind it") {
			t.Errorf("default routes %s\nstderr %s", show, a.Stderr)
		}
		if r := a.Result.Routes[len(a.Result.Routes)-1]; r.Priority != 2000 {
			t.Errorf("the result says %v", r)
		}
		call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
		call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
		if diff := before.Diff(layer3(container)); diff != "" {
			t.Errorf("left behind:\n%s", diff)
		}
	}
}

func TestRoutesRefused(t *testing.T) {
	parallelNS(t)
	container, _, _, call := changer(t, everything)
	before := layer3(container)
	gw := netip.MustParseAddr
	for words, route := range map[string]link.Route{
		"no destination": {}, "expected 10.0.0.0/8": {Dst: prefix("10.0.0.1/8")}, "fd00::1 is not": {Dst: prefix("10.0.0.0/8"), Gateway: gw("fd00::1")},
		"224.0.0.1 is not": {Dst: prefix("10.0.0.0/8"), Gateway: gw("224.0.0.1")}, "scope 200": {Dst: prefix("10.0.0.0/8"), Scope: 200},
		"without a gateway": {Dst: prefix("10.0.0.0/8"), Gateway: gw("10.1.1.1"), Scope: 253}, "mtu 65521": {Dst: prefix("10.0.0.0/8"), MTU: 65521},
		"leads to nowhere": {Dst: prefix("10.0.0.0/8"), Type: link.RouteBlackhole, Gateway: gw("10.1.1.1")}, `unknown route type "throw"`: {Dst: prefix("10.0.0.0/8"), Type: "throw"},
		"table -1": {Dst: prefix("10.0.0.0/8"), Table: -1}, "priority -1": {Dst: prefix("10.0.0.0/8"), Metric: -1},
	} {
		step := extra()
		step.Routes = append(step.Routes, route)
		call.Run(t.Context(), t, plugin(step)).Fails(t, netconf.CodeInvalidNetworkConfig, words)
	}
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

func TestRoutesCore(t *testing.T) {
	parallelNS(t)
	container, _, _, _ := changer(t, everything)
	before := layer3(container)
	_, n := spaces(t, container)
	routes := extra()
	if err := routes.Verify(t.Context(), n, "eth0"); !errors.Is(err, netconf.ErrDifferent) {
		t.Errorf("before: %v", err)
	}
	for range 2 {
		if err := errors.Join(routes.Ensure(t.Context(), n, "eth0"), routes.Verify(t.Context(), n, "eth0")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(routes.Delete(t.Context(), n, "eth0"), routes.Delete(t.Context(), n, "eth0"), routes.Delete(t.Context(), n, "eth7")); err != nil {
		t.Fatal(err)
	}
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}
