package link_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// vrf is a plugin that is called after the one that has made the link.
func vrf(v link.VRF) skel.Plugin[struct{}] {
	p := plugin(v)
	p.Kind = skel.Chained
	return p
}

// after is the ADD of the interface of a container that another plugin has made.
func after(ns *skeltest.NS, name string) skeltest.Call {
	c := add(ns, "a")
	c.IfName, c.Prev = name, prevResult(`{"name":"`+name+`","sandbox":"`+ns.Path+`"}`)
	return c
}

// wired makes a link in a namespace with a neighbour in another, which has 10.1.0.1 and fd00:1::1, and routes of all sorts.
func wired(t *testing.T, ns *skeltest.NS, name string) {
	t.Helper()
	far := space(t)
	ns.Run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", far.Name)
	far.Run("sh", "-c", "ip link set eth0 addrgenmode none up; ip address add 10.1.0.1/24 dev eth0; ip address add fd00:1::1/64 dev eth0 nodad; ip route add default dev eth0; ip -6 route add default dev eth0")
	ns.Run("sh", "-c", strings.ReplaceAll(`ip link set L addrgenmode none up; ip address add 10.1.0.2/24 dev L; ip address add fd00:1::2/64 dev L nodad
		ip address add fd00:1::3/128 dev L nodad noprefixroute
		ip route add 10.9.0.1 dev L scope link; ip route add default via 10.9.0.1 dev L metric 7; ip route add 10.2.0.0/16 via 10.1.0.1 table 77
		ip -6 route add default via fd00:1::1 dev L; ip -6 route add fd00:2::/64 via fd00:1::1 proto static metric 9`, "L", name))
}

// routes are those of all tables, but for those of the kernel's own addresses.
func routes(ns *skeltest.NS) string {
	return ns.Run("sh", "-c", "for f in -4 -6; do ip $f route show table all | grep -v 'table local' | sort; done; ip -6 address show scope global | grep inet6")
}

// The link is routed by the table of its VRF, with all that it had, and has it again when it is out.
func TestVRF(t *testing.T) {
	skeltest.NeedRoot(t)
	needs(t, "vrf")
	ns := space(t)
	wired(t, ns, "eth0")
	before := routes(ns)
	p := vrf(link.VRF{VRF: "red"})
	after(ns, "eth0").Run(t.Context(), t, p).OK(t)
	for what, words := range map[string][]string{
		"ip -d link show red":       {"vrf table 1 ", "state UP"},
		"ip link show master red":   {"eth0"},
		"ip route show table 1":     {"10.1.0.0/24", "10.9.0.1 dev eth0 scope link", "default via 10.9.0.1 dev eth0 metric 7"},
		"ip -6 route show table 1":  {"fd00:1::/64", "default via fd00:1::1", "fd00:2::/64 via fd00:1::1 dev eth0 proto static metric 9"},
		"ip route show table 77":    {"10.2.0.0/16 via 10.1.0.1"},
		"ip -6 address show eth0":   {"fd00:1::2/64", "fd00:1::3/128"},
		"ip route show table main":  nil,
		"ip -6 route show default":  nil,
		"ip -6 address show dev lo": nil,
	} {
		have := ns.Run("sh", "-c", what)
		for _, word := range words {
			if !strings.Contains(have, word) {
				t.Errorf("%s: no %q in %s", what, word, have)
			}
		}
		if words == nil && strings.Contains(have, "eth0") || strings.Contains(have, "tentative") {
			t.Errorf("%s: %s", what, have)
		}
	}
	for _, to := range []string{"10.1.0.1", "fd00:1::1"} {
		ns.Run("ping", "-c", "1", "-W", "5", "-I", "eth0", to)
	}
	after(ns, "eth0").Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "eth0")
	after(ns, "eth0").With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if now := routes(ns); now != before || has(ns, "red") {
		t.Errorf("before:\n%s\nafter DEL:\n%s", before, now)
	}
	ns.Ping("10.1.0.1")
	ns.Ping("fd00:1::1")
	after(ns, "eth0").With(netconf.Del).Run(t.Context(), t, p).OK(t)
}

// Two networks with the same addresses; the VRF of the first has a second link, and goes with that.
func TestVRFGoesWithTheLast(t *testing.T) {
	skeltest.NeedRoot(t)
	needs(t, "vrf")
	ns := space(t)
	ns.Run("sh", "-c", "for i in 0 1 2; do ip link add eth$i type veth peer name far$i; ip link set eth$i up; ip link set far$i up; ip address add 10.1.0.2/24 dev eth$i; done")
	vrfs := map[string]string{"eth0": "red", "eth1": "blue", "eth2": "red"}
	for _, name := range []string{"eth0", "eth1", "eth2"} {
		after(ns, name).Run(t.Context(), t, vrf(link.VRF{VRF: vrfs[name]})).OK(t)
	}
	if red, blue := ns.Run("ip", "-d", "link", "show", "red"), ns.Run("ip", "-d", "link", "show", "blue"); !strings.Contains(red, "vrf table 1 ") || !strings.Contains(blue, "vrf table 2 ") {
		t.Errorf("%s%s", red, blue)
	}
	for _, step := range []struct{ name, left string }{{"eth0", "red"}, {"eth1", "red"}, {"eth2", ""}} {
		after(ns, step.name).With(netconf.Del).Run(t.Context(), t, vrf(link.VRF{VRF: vrfs[step.name]})).OK(t)
		if step.left != "" != has(ns, "red") {
			t.Errorf("after the DEL of %s: %s", step.name, ns.Run("ip", "-br", "link"))
		}
	}
	// One that is somebody else's stays, and so it does when the link has gone before.
	ns.Run("sh", "-c", "ip link add red type vrf table 9; ip link set red up")
	after(ns, "eth0").Run(t.Context(), t, vrf(link.VRF{VRF: "red"})).OK(t)
	after(ns, "eth1").Run(t.Context(), t, vrf(link.VRF{VRF: "blue", Table: 5})).OK(t)
	ns.Run("ip", "link", "del", "eth1")
	for _, name := range []string{"eth0", "eth1"} {
		after(ns, name).With(netconf.Del).Run(t.Context(), t, vrf(link.VRF{VRF: vrfs[name]})).OK(t)
	}
	if !has(ns, "red") || has(ns, "blue") {
		t.Error(ns.Run("ip", "-br", "link"))
	}
}

func TestVRFRefused(t *testing.T) {
	skeltest.NeedRoot(t)
	for _, test := range []struct {
		name, setup string
		step        link.VRF
		code        uint
		words       []string
	}{
		{"no name", "true", link.VRF{}, 7, []string{"name of a VRF"}},
		{"no such name", "true", link.VRF{VRF: "a/b"}, 7, []string{"a/b"}},
		{"local table", "true", link.VRF{VRF: "red", Table: 255}, 7, []string{"table 255"}},
		{"table too high", "true", link.VRF{VRF: "red", Table: 1 << 32}, 7, []string{"table 4294967296"}},
		{"no link", "ip link del eth0", link.VRF{VRF: "red"}, 7, []string{"eth0", "no such link"}},
		{"no VRF", "ip link add red type bridge", link.VRF{VRF: "red"}, 7, []string{"red", "no VRF", "bridge"}},
		{"in a bridge", "ip link add br0 type bridge; ip link set eth0 master br0", link.VRF{VRF: "red"}, 7, []string{"eth0", "bridge", "br0"}},
		{"another table", "ip link add red type vrf table 9", link.VRF{VRF: "red", Table: 8}, 7, []string{"red", "table 9", "8"}},
		{"in it already", "ip link add red type vrf table 9; ip link set eth0 master red", link.VRF{VRF: "red"}, 7, []string{"eth0", "already"}},
		{"another link's default route", `ip link add red type vrf table 9; ip link set red up; ip link set eth1 master red; ip link set eth1 up; ip address add 10.3.0.2/24 dev eth1
			ip route add default via 10.3.0.1 dev eth1 table 9; ip address add 10.1.0.2/24 dev eth0; ip route add default via 10.1.0.1 dev eth0`, link.VRF{VRF: "red"}, 7, []string{"default", "eth1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			needs(t, "vrf")
			ns := space(t)
			ns.Run("sh", "-c", "ip link add eth0 type veth peer name eth1; ip link set eth1 addrgenmode none; ip link set eth0 addrgenmode none up; "+test.setup)
			same := unchanged(t, ns)
			after(ns, "eth0").Run(t.Context(), t, vrf(test.step)).Fails(t, test.code, test.words...)
			same("after the refused ADD")
		})
	}
}

func TestVRFCheck(t *testing.T) {
	skeltest.NeedRoot(t)
	needs(t, "vrf")
	ns := space(t)
	p := plugin(link.Veth{}, ipam("10.1.0.2/24 10.1.0.1", "fd00:1::2/64"), link.Addresses{}, link.VRF{VRF: "red", Table: 9})
	a := add(ns, "a").Run(t.Context(), t, p).OK(t)
	check := add(ns, "a").With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, p).OK(t) // the addresses' routes too, which are in the VRF's table
	for _, test := range []struct {
		change, back string
		words        []string
	}{
		{"ip link set red down", "ip link set red up", []string{"red", "down"}},
	} {
		ns.Run("sh", "-c", test.change)
		check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, test.words...)
		ns.Run("sh", "-c", test.back)
	}
	check.Run(t.Context(), t, plugin(link.VRF{VRF: "red", Table: 8})).Fails(t, netconf.CodeDifferent, "table", "9", "8")
	ns.Run("ip", "link", "set", "eth0", "nomaster")
	check.Run(t.Context(), t, plugin(link.VRF{VRF: "red"})).Fails(t, netconf.CodeDifferent, "eth0", "red", "none")
	ns.Run("ip", "link", "del", "red")
	check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, "red", "gone")
	ns.Run("ip", "link", "add", "red", "type", "bridge")
	check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, "red", "kind", "bridge")
}

// A daemon's way: what is so already is not touched.
func TestVRFEnsureAndDelete(t *testing.T) {
	skeltest.NeedRoot(t)
	needs(t, "vrf")
	ns := space(t)
	wired(t, ns, "eth0")
	before := routes(ns)
	_, container := spaces(t, ns)
	v := link.VRF{VRF: "red"}
	for range 2 {
		if err := errors.Join(v.Ensure(t.Context(), container, "eth0"), v.Verify(t.Context(), container, "eth0")); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := v.Delete(t.Context(), container, "eth0"); err != nil {
			t.Fatal(err)
		}
	}
	if now := routes(ns); now != before || has(ns, "red") {
		t.Errorf("before:\n%s\nafter Delete:\n%s", before, now)
	}
}

// Each operation of an attachment fails, panics and is cancelled in turn.
func TestWalkVRF(t *testing.T) {
	skeltest.NeedRoot(t)
	needs(t, "vrf")
	ns := space(t)
	ns.Run("sh", "-c", `ip link add eth0 type veth peer name eth1; ip link set eth1 addrgenmode none up; ip link set eth0 addrgenmode none up
		ip address add 10.1.0.2/24 dev eth0; ip address add fd00:1::2/64 dev eth0 nodad; ip route add default via 10.1.0.1; ip -6 route add default via fd00:1::1 dev eth0`)
	if n := skeltest.Walk(t, vrf(link.VRF{VRF: "red"}), after(ns, "eth0"), ns, nil); n < 6 {
		t.Errorf("the hook saw %d operations", n)
	}
}

// TestVRFDelWithAnEntryThatDoesNotDecode: DEL failed for ever.
func TestVRFDelWithAnEntryThatDoesNotDecode(t *testing.T) {
	skeltest.NeedRoot(t)
	needs(t, "vrf")
	ns := space(t)
	wired(t, ns, "eth0")
	p := plugin(link.VRF{VRF: "red"}, spoil("link.vrf.eth0", "{"))
	p.Kind = skel.Chained
	after(ns, "eth0").Run(t.Context(), t, p).OK(t)
	for _, warned := range []bool{true, false} {
		a := after(ns, "eth0").With(netconf.Del).Run(t.Context(), t, p).OK(t)
		if strings.Contains(a.Stderr, "what was kept cannot be read") != warned {
			t.Errorf("warned %v expected, stderr %s", warned, a.Stderr)
		}
	}
}
