package link_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
	"github.com/vishvananda/netlink"
)

func TestMacvlan(t *testing.T) {
	uplink(t)
	a, b := space(t), space(t)
	same := unchanged(t, a)
	var answers []skeltest.Answer
	var plugins []skeltest.Plugin
	for i, ns := range []*skeltest.NS{a, b} {
		id := []string{"a", "b"}[i]
		p := plugin(
			link.Macvlan{Parent: link.Parent{Name: "p0"}, MTU: 1400, MAC: netconf.MAC{2, 0, 0, 0, 0, byte(i + 1)}, BcQueueLen: 500},
			ipam(fmt.Sprintf("10.1.0.1%d/24", i), fmt.Sprintf("fd00:1::1%d/64", i)), link.Addresses{DAD: link.DADOff})
		answer := add(ns, id).Run(t.Context(), t, p).OK(t)
		if made := answer.Result.Interfaces[0]; made.Name != "eth0" || made.Sandbox != ns.Path || made.Mtu != 1400 || made.Mac != fmt.Sprintf("02:00:00:00:00:0%d", i+1) {
			t.Errorf("interface %+v", made)
		}
		answers, plugins = append(answers, answer), append(plugins, p)
	}
	a.Ping("10.1.0.11")
	a.Ping("fd00:1::11")
	details := a.Run("ip", "-d", "link", "show", "dev", "eth0")
	for _, want := range []string{"macvlan mode bridge", "alias cni:net:a:eth0", "mtu 1400"} {
		if !strings.Contains(details, want) {
			t.Errorf("%q is missing in\n%s", want, details)
		}
	}
	for i, ns := range []*skeltest.NS{a, b} {
		call := add(ns, []string{"a", "b"}[i]).WithPrev(answers[i])
		call.With(netconf.Check).Run(t.Context(), t, plugins[i]).OK(t)
		call.With(netconf.Del).Run(t.Context(), t, plugins[i]).OK(t)
	}
	same("after DEL")
}

// The parent may be in the container, as another plugin's link.
func TestMacvlanOnALinkInTheContainer(t *testing.T) {
	ns := space(t)
	ns.Run("sh", "-c", "ip link add p0 type veth peer name p1; ip link set p0 up; ip link set p1 up")
	p := plugin(link.Macvlan{Parent: link.Parent{Name: "p0", InContainer: true}}, link.Addresses{})
	a := add(ns, "a").Run(t.Context(), t, p).OK(t)
	if !strings.Contains(ns.Run("ip", "link", "show", "eth0"), "eth0@p0") {
		t.Error("the parent is not p0")
	}
	add(ns, "a").With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
	add(ns, "a").With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
	if has(ns, "eth0") || !has(ns, "p0") {
		t.Error(ns.Run("ip", "link"))
	}
}

// Without a name the parent is the link of the default route: IPv4 first, then the lowest metric.
func TestMacvlanDefaultParent(t *testing.T) {
	for _, test := range []struct{ name, routes, want string }{
		{"IPv4", "ip route add default dev p0", "p0"},
		{"lowest metric", "ip route add default dev p1 metric 20; ip route add default dev p0 metric 10", "p0"},
		{"IPv4 first", "ip -6 route add default dev p1 metric 1; ip route add default dev p0 metric 10", "p0"},
		{"IPv6", "ip -6 route add default dev p1", "p1"},
		{"next hops", "ip route add default nexthop dev p1 nexthop dev p0", "p1"},
		{"unreachable", "ip route add unreachable default; ip -6 route add unreachable default metric 1; ip -6 route add default dev p1 metric 2", "p1"},
		{"other table", "ip route add default dev p0 table 7", ""},
		{"none", "true", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			uplink(t)
			ns := space(t)
			skeltest.Host(t, "sh", "-c", test.routes)
			t.Cleanup(func() {
				ignore(t, "ip route flush default; ip route flush table 7; ip route del unreachable default; ip -6 route del unreachable default")
			})
			p := plugin(link.Macvlan{}, link.Addresses{})
			a := add(ns, "a").Run(t.Context(), t, p)
			if test.want == "" {
				a.Fails(t, netconf.CodeInvalidNetworkConfig, "default route")
				add(ns, "a").With(netconf.Status).Run(t.Context(), t, p).Fails(t, netconf.CodePluginNotAvailable, "default route")
				return
			}
			a.OK(t)
			parent, err := netlink.LinkByName(test.want)
			if err != nil {
				t.Fatal(err)
			}
			_, container := spaces(t, ns)
			l, err := container.Handle().LinkByName("eth0")
			if err != nil || l.Attrs().ParentIndex != parent.Attrs().Index {
				t.Errorf("%v, parent %d, expected %d", err, l.Attrs().ParentIndex, parent.Attrs().Index)
			}
			skeltest.Host(t, "ip", "route", "flush", "default") // it has moved; the link is as it was
			add(ns, "a").With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
		})
	}
}

func TestMacvlanRefused(t *testing.T) {
	passthru := "ip link add m0 link p0 type macvlan mode passthru"
	for _, test := range []struct {
		name, setup string
		step        link.Macvlan
		code        uint
		words       []string
	}{
		{"no parent", "true", link.Macvlan{Parent: link.Parent{Name: "nosuch"}}, 7, []string{"nosuch"}},
		{"no parent, with the key that names it", "true", link.Macvlan{Parent: link.Parent{Name: "nosuch", Key: "delegate.master"}}, 7, []string{"nosuch", "on the host", `(key "delegate.master")`}},
		{"no default route, with the key", "true", link.Macvlan{Parent: link.Parent{Key: "master"}}, 7, []string{"default route", `(key "master")`}},
		{"a name that is cut", "true", link.Macvlan{Parent: link.Parent{Name: "p0\x00junk"}}, 7, []string{"no such parent"}},
		{"mtu that is cut", "true", link.Macvlan{Parent: link.Parent{Name: "p0"}, MTU: 4294968796}, 7, []string{"mtu 4294968796"}},
		{"no parent in the container", "true", link.Macvlan{Parent: link.Parent{Name: "p0", InContainer: true}}, 7, []string{"p0", "in the container"}},
		{"mtu above", "true", link.Macvlan{Parent: link.Parent{Name: "p0"}, MTU: 1501}, 7, []string{"mtu", "1501", "1500", "p0"}},
		{"mtu negative", "true", link.Macvlan{Parent: link.Parent{Name: "p0"}, MTU: -1}, 7, []string{"mtu", "-1"}},
		{"mtu below", "true", link.Macvlan{Parent: link.Parent{Name: "p0"}, MTU: 67}, 7, []string{"mtu 67", "68 to 1500"}},
		{"mode", "true", link.Macvlan{Parent: link.Parent{Name: "p0"}, Mode: "fast"}, 7, []string{"mode", "fast"}},
		{"port", "ip link set p0 master br7", link.Macvlan{Parent: link.Parent{Name: "p0"}}, 7, []string{"p0", "busy", "bridge", "br7"}},
		{"taken over", passthru, link.Macvlan{Parent: link.Parent{Name: "p0"}}, 7, []string{"mode bridge", "p0", "taken it over"}},
		{"no Ethernet", "true", link.Macvlan{Parent: link.Parent{Name: "lo"}}, 7, []string{"lo", "no Ethernet link"}},
		{"to take over", "ip link add m0 link p0 type macvlan mode bridge", link.Macvlan{Parent: link.Parent{Name: "p0"}, Mode: link.MacvlanPassthru}, 7, []string{"p0", "mode passthru", "without other macvlans"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			uplink(t)
			bridge(t)
			ns := space(t)
			skeltest.Host(t, "sh", "-c", test.setup)
			same := unchanged(t, ns)
			add(ns, "a").Run(t.Context(), t, plugin(test.step)).Fails(t, test.code, test.words...)
			same("after the refused ADD")
		})
	}
}

// The parent may be called by an alternative name, and may be down: the link is made and there is a warning.
func TestMacvlanParent(t *testing.T) {
	uplink(t)
	ns := space(t)
	skeltest.Host(t, "ip", "link", "property", "add", "dev", "p0", "altname", "a-name-of-more-than-fifteen-bytes")
	skeltest.Host(t, "ip", "link", "set", "p0", "down")
	step := link.Macvlan{Parent: link.Parent{Name: "a-name-of-more-than-fifteen-bytes"}}
	req := request(t, netconf.Add, ns.Path, "a")
	var warned []any
	req.Warn = func(msg string, args ...any) { warned = append(warned, msg, args) }
	if err := step.Add(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if len(warned) == 0 {
		t.Error("no warning that the parent is down")
	}
	ns.Run("ip", "link", "set", "eth0", "up")
	check := request(t, netconf.Check, ns.Path, "a")
	check.Prev = req.Result
	if err := step.Check(t.Context(), check); err != nil {
		t.Error(err)
	}
}

func TestMacvlanCheck(t *testing.T) {
	uplink(t)
	ns := space(t)
	a := add(ns, "a").Run(t.Context(), t, plugin(link.Macvlan{Parent: link.Parent{Name: "p0"}}, link.Addresses{})).OK(t)
	check := add(ns, "a").With(netconf.Check).WithPrev(a)
	for _, test := range []struct {
		step  link.Macvlan
		words []string
	}{
		{link.Macvlan{Parent: link.Parent{Name: "p0"}, Mode: link.MacvlanVEPA}, []string{"mode", "vepa", "bridge"}},
		{link.Macvlan{Parent: link.Parent{Name: "p1"}}, []string{"parent", "p0", "p1"}},
		{link.Macvlan{Parent: link.Parent{Name: "gone"}}, []string{"parent", "p0", "gone"}},
	} {
		check.Run(t.Context(), t, plugin(test.step)).Fails(t, netconf.CodeDifferent, test.words...)
	}
}

// Where the kernel looks the name up on the host (before 6.15), whose own eth0 has it, the link is made under
// another name and renamed in its place.
func TestMacvlanWithTheHostsNameTaken(t *testing.T) {
	uplink(t)
	skeltest.Host(t, "ip", "link", "add", "eth0", "type", "bridge")
	t.Cleanup(func() { ignore(t, "ip", "link", "del", "eth0") })
	p := plugin(link.Macvlan{Parent: link.Parent{Name: "p0"}})
	old := func(fail string) context.Context {
		return netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
			switch op {
			case "link add eth0":
				return syscall.EEXIST
			case fail:
				return syscall.EIO
			}
			return nil
		})
	}
	ns := space(t)
	same := unchanged(t, ns)
	aside := owner("a").HostName("aside")
	for _, fail := range []string{"link add " + aside, "link rename " + aside, "link alias eth0"} {
		if a := add(ns, "a").Run(old(fail), t, p); a.Exit == 0 {
			t.Errorf("%s failed and ADD did not", fail)
		}
		same(fail)
	}
	for _, ctx := range []context.Context{old(""), t.Context()} {
		add(ns, "a").Run(ctx, t, p).OK(t)
		if has(ns, aside) || !has(ns, "eth0") {
			t.Error(ns.Run("ip", "link"))
		}
		add(ns, "a").With(netconf.Del).Run(t.Context(), t, p).OK(t)
		same("after DEL")
	}

	// Killed between the two names: DEL finds it.
	step := link.Macvlan{Parent: link.Parent{Name: "p0"}}
	if err := step.Add(old("link rename "+aside), request(t, netconf.Add, ns.Path, "a")); err == nil || !has(ns, aside) {
		t.Fatalf("%v: %s", err, ns.Run("ip", "link"))
	}
	if err := step.Del(t.Context(), request(t, netconf.Del, ns.Path, "a")); err != nil {
		t.Fatal(err)
	}
	same("after the kill and DEL")
}

func TestMacvlanEnsure(t *testing.T) {
	uplink(t)
	ns := space(t)
	host, container := spaces(t, ns)
	m := link.Macvlan{Parent: link.Parent{Name: "p0"}, MTU: 1400, MAC: netconf.MAC{2, 0, 0, 0, 0, 1}}
	for _, damage := range []string{"true", "ip link set eth0 mtu 1300 down", "ip link set eth0 address 02:00:00:00:00:07", "ip link del eth0"} {
		ns.Run("sh", "-c", damage)
		if _, err := m.Ensure(t.Context(), host, container, owner("a")); err != nil && damage != "true" {
			t.Fatalf("%s: %v", damage, err)
		}
		ns.Run("ip", "link", "set", "eth0", "up")
		if err := m.Verify(t.Context(), host, container, owner("a"), nil); err != nil {
			t.Errorf("%s: %v", damage, err)
		}
		if l := ns.Run("ip", "link", "show", "eth0"); !strings.Contains(l, "mtu 1400") || !strings.Contains(l, "02:00:00:00:00:01") {
			t.Errorf("%s: %s", damage, l)
		}
	}
	if err := m.Delete(t.Context(), host, container, owner("b")); err != nil || !has(ns, "eth0") {
		t.Errorf("Delete by another owner: %v", err)
	}
	if _, err := m.Create(t.Context(), host, container, owner("b")); netconf.Code(err) != netconf.CodeExists {
		t.Errorf("Create by another owner: %v", err)
	}
	if _, err := m.Ensure(t.Context(), host, container, owner("b")); netconf.Code(err) != netconf.CodeExists {
		t.Errorf("Ensure by another owner: %v", err)
	}
	cut := m
	cut.MTU = 4294968796
	if _, err := cut.Ensure(t.Context(), host, container, owner("a")); netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
		t.Errorf("Ensure with an MTU that is cut: %v", err)
	}
	m.Mode = link.MacvlanVEPA
	if _, err := m.Ensure(t.Context(), host, container, owner("a")); netconf.Code(err) != netconf.CodeDifferent {
		t.Errorf("Ensure with another mode: %v", err)
	}
	for range 2 {
		if err := m.Delete(t.Context(), host, container, owner("a")); err != nil || has(ns, "eth0") {
			t.Errorf("Delete: %v", err)
		}
	}
	if err := m.Delete(t.Context(), host, nil, owner("a")); err != nil {
		t.Errorf("Delete without a namespace: %v", err)
	}
}

func TestMacvlanStatus(t *testing.T) {
	uplink(t)
	p := plugin(link.Macvlan{Parent: link.Parent{Name: "p0"}})
	status := skeltest.Call{Command: netconf.Status, Config: `{"cniVersion":"1.1.0","name":"net","type":"test"}`}
	status.Run(t.Context(), t, p).OK(t)
	skeltest.Host(t, "ip", "link", "del", "p0")
	status.Run(t.Context(), t, p).Fails(t, netconf.CodePluginNotAvailable, "p0")
}

func TestMacvlanMode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]link.MacvlanMode{
		"": link.MacvlanBridge, "bridge": link.MacvlanBridge, "private": link.MacvlanPrivate, "vepa": link.MacvlanVEPA, "passthru": link.MacvlanPassthru,
	} {
		var m link.MacvlanMode
		if err := m.UnmarshalText([]byte(text)); err != nil || m != want {
			t.Errorf("%q: %q, %v", text, m, err)
		}
	}
	var m link.MacvlanMode
	err := json.Unmarshal([]byte(`"Bridge"`), &m)
	if err == nil {
		t.Fatal("another case is accepted")
	}
	for _, word := range []string{"Bridge", "bridge", "private", "vepa", "passthru"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v: no %q", err, word)
		}
	}
}
