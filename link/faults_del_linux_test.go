package link_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// What the DEL of every kind is held to.

// F4: DEL gets through and leaves nothing when the namespace is stale, the prevResult is missing, the parent
// is gone; and again, and without an ADD.
func TestF4DELWithout(t *testing.T) {
	for _, test := range []struct {
		name  string
		setup func(t *testing.T, ns *skeltest.NS, call *skeltest.Call)
	}{
		{"ADD", func(t *testing.T, ns *skeltest.NS, call *skeltest.Call) { call.ContainerID = "never" }},
		{"prevResult", func(t *testing.T, ns *skeltest.NS, call *skeltest.Call) { call.Prev = "" }},
		{"netns", func(t *testing.T, ns *skeltest.NS, call *skeltest.Call) { call.Netns = "" }},
		{"netns and prevResult", func(t *testing.T, ns *skeltest.NS, call *skeltest.Call) { call.Netns, call.Prev = "", "" }},
		{"a netns that is there", func(t *testing.T, ns *skeltest.NS, call *skeltest.Call) { ns.Remove() }},
		{"a netns that is one", func(t *testing.T, ns *skeltest.NS, call *skeltest.Call) { call.Netns = "/etc/hostname" }},
		{"the parent", func(t *testing.T, ns *skeltest.NS, call *skeltest.Call) {
			skeltest.Host(t, "ip", "link", "del", "p0")
			skeltest.Host(t, "ip", "link", "del", "br7")
		}},
		{"the link", func(t *testing.T, ns *skeltest.NS, call *skeltest.Call) { ns.Run("ip", "link", "del", "eth0") }},
	} {
		for _, k := range kindsHere(t) {
			t.Run(test.name+"/"+k.name, func(t *testing.T) {
				uplink(t)
				bridge(t)
				ns := space(t)
				p := plugin(k.step, ipam("10.1.0.2/24"), link.Addresses{})
				a := add(ns, "a").Run(t.Context(), t, p).OK(t)
				del := add(ns, "a").With(netconf.Del).WithPrev(a)
				test.setup(t, ns, &del)
				del.Run(t.Context(), t, p).OK(t)
				del.Run(t.Context(), t, p).OK(t)
				never := del.ContainerID == "never"
				if left := hostHas(t, owner("a").HostName(link.HostRole)); left != (never && !k.insideOnly) {
					t.Errorf("host's end left: %v", left)
				}
				if never && !has(ns, "eth0") {
					t.Error("DEL of another container took the link away")
				}
				if del.Netns == ns.Path && test.name == "prevResult" && has(ns, "eth0") {
					t.Error("the link is left")
				}
			})
		}
	}
}

// F10: a DEL whose namespace is the host's takes nothing but what carries the owner's mark.
func TestF10DELInTheHostsNamespace(t *testing.T) {
	uplink(t)
	skeltest.Host(t, "ip", "link", "add", "eth0", "link", "p0", "type", "macvlan")
	t.Cleanup(func() { ignore(t, "ip", "link", "del", "eth0") })
	for _, k := range kindsHere(t) {
		if err := k.step.Del(t.Context(), request(t, netconf.Del, "/proc/thread-self/ns/net", "a")); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		if !hostHas(t, "eth0") {
			t.Fatalf("%s: the host's eth0 is gone", k.name)
		}
	}
	ignore(t, "ip", "link", "del", "eth0")
	skeltest.Host(t, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "other")
	for _, k := range kindsHere(t) {
		if err := k.step.Del(t.Context(), request(t, netconf.Del, "/proc/thread-self/ns/net", "a")); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		if !hostHas(t, "eth0") {
			t.Fatalf("%s: the host's eth0 is gone", k.name)
		}
	}
}

// A plugin that was killed between the create message and the alias leaves a link with a group alone.
func TestDELAfterAKillBeforeTheAlias(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kindsHere(t) {
		for _, netns := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, netns %v", k.name, netns), func(t *testing.T) {
				ns := space(t)
				same := unchanged(t, ns)
				ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
					if strings.HasPrefix(op, "link alias") {
						return errors.New("killed")
					}
					return nil
				})
				if err := k.step.Add(ctx, request(t, netconf.Add, ns.Path, "a")); err == nil {
					t.Fatal("ADD got through")
				}
				if !has(ns, "eth0") && k.name != "tap" { // which goes with who makes it, sooner or later
					t.Fatal("nothing was left to clean up")
				}
				del := request(t, netconf.Del, "", "a")
				if netns {
					del.Netns = ns.Path
				} else if k.insideOnly { // as it goes with its namespace
					ns.Run("sh", "-c", "ip link del eth0 || test "+k.name+" = tap")
				}
				if err := k.step.Del(t.Context(), del); err != nil {
					t.Fatal(err)
				}
				same("after DEL")
			})
		}
	}
}

// In a container a label of another attachment means hands off, whatever else speaks for it.
func TestDELLeavesWhatIsNotOurs(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kindsHere(t) {
		for _, make := range []string{
			"ip link add eth0 type bridge",
			"ip link add eth0 type veth peer name other; ip link set eth0 alias cni:net:b:eth0",
			"ip link add q0 type veth peer name q1; ip link add eth0 link q0 type macvlan mode bridge; ip link set eth0 alias cni:net:b:eth0",
		} {
			ns := space(t)
			ns.Run("sh", "-c", make+"; ip link set eth0 address 02:00:00:00:00:07")
			same := unchanged(t, ns)
			del := add(ns, "a").With(netconf.Del)
			del.Run(t.Context(), t, plugin(k.step)).OK(t)
			if strings.Contains(make, "alias") {
				del.Prev = prevResult(`{"name":"eth0","mac":"02:00:00:00:00:07","sandbox":"` + ns.Path + `"}`)
			}
			del.Run(t.Context(), t, plugin(k.step)).OK(t)
			same(k.name + ": DEL after " + make)
		}
	}
}

// A link that the container's owner has renamed is still the attachment's; else it would be left, up and with an
// address that is given to the next. What is beside it, or has its name now, stays.
func TestDELOfARenamedLink(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kindsHere(t) {
		for _, then := range []string{"true", "ip link add eth0 type bridge", "ip link set net1 alias ''"} {
			ns := space(t)
			ns.Run("sh", "-c", "ip link add other type bridge; ip link set other alias cni:net:b:eth0; ip link add tap type bridge; ip link set tap alias cni:net:a:eth0:tap")
			a := add(ns, "a").Run(t.Context(), t, plugin(k.step, ipam("10.1.0.2/24"), link.Addresses{})).OK(t)
			ns.Run("sh", "-c", "ip link set eth0 down; ip link set eth0 name net1 up; "+then)
			del := add(ns, "a").With(netconf.Del).WithPrev(a)
			for range 2 {
				del.Run(t.Context(), t, plugin(k.step, link.Addresses{})).OK(t)
			}
			if has(ns, "net1") || !has(ns, "other") || !has(ns, "tap") || has(ns, "eth0") != strings.Contains(then, "eth0") {
				t.Errorf("%s, then %s: left %s", k.name, then, ns.Run("ip", "-br", "link"))
			}
		}
	}
}

// A link without any mark was made by another plugin, before an upgrade, if the prevResult knows it by its name and
// hardware address; it is nobody knows whose, if not.
func TestDELByThePrevResult(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, test := range []struct {
		name, iface string
		goes        bool
	}{
		{"none", "", false},
		{"name and address", `{"name":"eth0","mac":"02:00:00:00:00:07","sandbox":"NS"}`, true},
		{"another address", `{"name":"eth0","mac":"02:00:00:00:00:08","sandbox":"NS"}`, false},
		{"no address", `{"name":"eth0","sandbox":"NS"}`, false},
		{"another name", `{"name":"eth1","mac":"02:00:00:00:00:07","sandbox":"NS"}`, false},
		{"on the host", `{"name":"eth0","mac":"02:00:00:00:00:07"}`, false},
	} {
		for _, k := range kindsHere(t) {
			ns := space(t)
			ns.Run("ip", "link", "add", "eth0", "address", "02:00:00:00:00:07", "type", "veth", "peer", "name", "other")
			del := add(ns, "a").With(netconf.Del)
			if test.iface != "" {
				del.Prev = prevResult(strings.ReplaceAll(test.iface, "NS", ns.Path))
			}
			del.Run(t.Context(), t, plugin(k.step)).OK(t)
			if has(ns, "eth0") == test.goes {
				t.Errorf("%s, %s: there after DEL: %v", test.name, k.name, !test.goes)
			}
		}
	}
}

// prevResult is one with an interface.
func prevResult(iface string) string { return `{"cniVersion":"1.1.0","interfaces":[` + iface + `]}` }

// A DEL whose configuration cannot be read knows the container and the interface, not the network.
func TestDELWithoutANetwork(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kindsHere(t) {
		t.Run(k.name, func(t *testing.T) {
			ns := space(t)
			same := unchanged(t, ns)
			if err := k.step.Add(t.Context(), request(t, netconf.Add, ns.Path, "a")); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"b", "a"} {
				del := request(t, netconf.Del, ns.Path, id)
				del.Network.Name = ""
				if err := k.step.Del(t.Context(), del); err != nil {
					t.Fatal(err)
				}
				if id == "b" && !has(ns, "eth0") {
					t.Fatal("DEL of another container took the link away")
				}
			}
			same("after DEL")
		})
	}
}

// A pod gets a new container while the old one's DEL is under way, in the same network, with the same
// interface name.
func TestLateDELOfTheOldContainer(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kindsHere(t) {
		if k.single() {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			old, now := space(t), space(t)
			add(old, "a").Run(t.Context(), t, plugin(k.step)).OK(t)
			a := add(now, "b").Run(t.Context(), t, plugin(k.step, link.Addresses{})).OK(t)
			add(old, "a").With(netconf.Del).Run(t.Context(), t, plugin(k.step)).OK(t)
			add(now, "b").With(netconf.Check).WithPrev(a).Run(t.Context(), t, plugin(k.step)).OK(t)
		})
	}
}

// What goes away between the look and the deletion is gone all the same.
func TestDELWhileTheLinkGoes(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kindsHere(t) {
		ns := space(t)
		add(ns, "a").Run(t.Context(), t, plugin(k.step)).OK(t)
		raced := false
		ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
			if strings.HasPrefix(op, "link del") && !raced {
				raced = true
				ns.Run("ip", "link", "del", "eth0")
			}
			return nil
		})
		add(ns, "a").With(netconf.Del).Run(ctx, t, plugin(k.step)).OK(t)
		if !raced {
			t.Errorf("%s: nothing was deleted", k.name)
		}
	}
}
