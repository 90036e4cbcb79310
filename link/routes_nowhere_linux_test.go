package link_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// nowhere are routes to nowhere of all types and of both families.
func nowhere() link.Routes {
	return link.Routes{Routes: []link.Route{
		{Dst: prefix("192.0.2.0/24"), Type: link.RouteBlackhole},
		{Dst: prefix("198.51.100.0/24"), Type: link.RouteUnreachable, Metric: 7},
		{Dst: prefix("203.0.113.0/24"), Type: link.RouteProhibit, Table: 70000},
		{Dst: prefix("2001:db8::/32"), Type: link.RouteBlackhole},
		{Dst: prefix("2001:db9::/32"), Type: link.RouteUnreachable},
		{Dst: prefix("::/0"), Type: link.RouteProhibit, Table: 70000, Metric: 4000},
		{Dst: prefix("10.7.0.0/16")},
	}}
}

// TestRoutesToNowhere: what they match does not leave, CHECK sees what is changed, DEL takes them, also where the link is gone.
// The result, which has no word for them, says nothing of them.
func TestRoutesToNowhere(t *testing.T) {
	parallelNS(t)
	container, _, p, call := changer(t, nowhere())
	before := layer3(container)
	a := call.Run(t.Context(), t, p).OK(t)
	if len(a.Result.Routes) != 1 || a.Result.Routes[0].Dst.String() != "10.7.0.0/16" {
		t.Errorf("result %s", a.Stdout)
	}
	for address, words := range map[string]string{"192.0.2.9": "Invalid argument", "198.51.100.9": "No route to host", "2001:db8::9": "Invalid argument", "2001:db9::9": "No route to host"} {
		if out, err := container.Try("ip", "route", "get", address); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v: %s", address, err, out)
		}
	}
	if show := container.Run("sh", "-c", "ip route show table 70000; ip -6 route show table 70000"); !strings.Contains(show, "prohibit 203.0.113.0/24 proto 67") || !strings.Contains(show, "prohibit default dev lo proto 67 metric 4000") {
		t.Errorf("table 70000: %s", show)
	}
	check := call.With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, p).OK(t)
	call.Run(t.Context(), t, p).Fails(t, netconf.CodeExists)
	container.Run("ip", "route", "replace", "unreachable", "192.0.2.0/24", "proto", "67")
	check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, "blackhole 192.0.2.0/24", "type is unreachable")
	container.Run("ip", "route", "replace", "blackhole", "192.0.2.0/24", "proto", "67")
	container.Run("ip", "-6", "route", "del", "unreachable", "2001:db9::/32")
	check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, "unreachable 2001:db9::/32")
	for range 2 {
		call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	}
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
	call.Run(t.Context(), t, p).OK(t)
	container.Run("ip", "link", "del", "eth0")
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if show := container.Run("sh", "-c", "ip route show table all proto 67; ip -6 route show table all proto 67"); show != "" {
		t.Errorf("left behind without the link:\n%s", show)
	}
}

func TestWalkRoutesToNowhere(t *testing.T) {
	container, _, p, call := changer(t, nowhere())
	if n := skeltest.Walk(t, p, call, container, nil); n < 4 {
		t.Errorf("the hook saw %d operations", n)
	}
}

// TestRoutesToNowhereOfOthers stay, and stand in the way of no route of the same kind.
func TestRoutesToNowhereOfOthers(t *testing.T) {
	parallelNS(t)
	container, _, p, call := changer(t, nowhere())
	container.Run("sh", "-ec", "ip route add blackhole 192.0.2.0/24; ip route add blackhole 10.0.0.0/8 proto 67; ip -6 route add blackhole 2001:db8::/32 metric 9")
	before := layer3(container)
	call.Run(t.Context(), t, p).OK(t)
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

// TestRoutesToNowhereOfTwoAttachments: the second took the first one's for its own, without a word, and it went with the first
// one's DEL: what it should have stopped left the container.
func TestRoutesToNowhereOfTwoAttachments(t *testing.T) {
	parallelNS(t)
	container, _, p, call := changer(t, nowhere())
	container.Run("sh", "-ec", "ip link add net1 type dummy 2>/dev/null || ip link add net1 type veth peer name p1; ip link set net1 up")
	other := func(r ...link.Route) (skel.Plugin[struct{}], skeltest.Call) {
		q := plugin(link.Routes{Routes: r})
		q.Kind = skel.Chained
		second := call
		second.IfName = "net1"
		second.Prev = `{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"` + container.Path + `"}]}`
		return q, second
	}
	a := call.Run(t.Context(), t, p).OK(t)
	live := layer3(container)
	for _, r := range nowhere().Routes[:6] {
		q, second := other(link.Route{Dst: prefix("192.0.2.0/25"), Type: link.RouteBlackhole}, r)
		second.Run(t.Context(), t, q).Fails(t, netconf.CodeExists, r.Dst.Addr().String(), "another attachment")
		second.With(netconf.Del).Run(t.Context(), t, q).OK(t)
		if diff := live.Diff(layer3(container)); diff != "" {
			t.Errorf("%s: changed:\n%s", r, diff)
		}
	}
	call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
	q, second := other(nowhere().Routes[0])
	beside := nowhere().Routes[0]
	beside.Metric = 9
	q9, _ := other(beside)
	second.Run(t.Context(), t, q9).OK(t) // another route
	second.With(netconf.Del).Run(t.Context(), t, q9).OK(t)
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	second.Run(t.Context(), t, q).OK(t)
	second.With(netconf.Del).Run(t.Context(), t, q).OK(t)
}

func TestRouteType(t *testing.T) {
	t.Parallel()
	var types []link.RouteType
	if err := json.Unmarshal([]byte(`["unicast","blackhole","unreachable","prohibit",""]`), &types); err != nil {
		t.Fatal(err)
	}
	for i, want := range []link.RouteType{link.RouteUnicast, link.RouteBlackhole, link.RouteUnreachable, link.RouteProhibit, link.RouteUnicast} {
		if types[i] != want {
			t.Errorf("%d: %q, expected %q", i, types[i], want)
		}
	}
	if err := json.Unmarshal([]byte(`["throw"]`), &types); err == nil || !strings.Contains(err.Error(), "blackhole") {
		t.Errorf("throw: %v", err)
	}
}
