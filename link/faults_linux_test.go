package link_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// What every kind of link that is made in a container is held to. A new kind joins in kinds.

// F1: the link that an ADD made is gone when a later step fails, so that the next ADD gets through.
func TestF1LinkLeftBehindWhenIPAMFails(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			ns := space(t)
			same := unchanged(t, ns)
			add(ns, "a").Run(t.Context(), t, plugin(k.step, failing())).Fails(t, netconf.CodeExhausted)
			same("after the failed ADD")
			add(ns, "a").Run(t.Context(), t, plugin(k.step, ipam("10.1.0.2/24"), link.Addresses{})).OK(t)
		})
	}
}

// F9: a foreign link of the same name survives an ADD, whoever it belongs to, and the DEL that a runtime sends
// after it.
func TestF9ForeignLinkSurvives(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kinds() {
		for _, make := range []string{
			"ip link add eth0 type bridge",
			"ip link add eth0 type veth peer name other",
			"ip link add q0 type veth peer name q1; ip link add eth0 link q0 type macvlan mode bridge",
			"ip link add eth0 type veth peer name other; ip link set eth0 alias cni:net:b:eth0",
		} {
			t.Run(k.name+": "+make, func(t *testing.T) {
				ns := space(t)
				ns.Run("sh", "-c", make)
				same := unchanged(t, ns)
				add(ns, "a").Run(t.Context(), t, plugin(k.step)).Fails(t, netconf.CodeExists, "eth0")
				same("after ADD")
				del := add(ns, "a").With(netconf.Del)
				del.Run(t.Context(), t, plugin(k.step)).OK(t)
				same("after DEL")
				del.Config = "{"
				del.Run(t.Context(), t, plugin(k.step)).OK(t)
				same("after DEL with a configuration that cannot be read")
				del.Netns = ""
				del.Run(t.Context(), t, plugin(k.step)).OK(t)
				same("after DEL without a namespace")
			})
		}
	}
}

// F9: a second ADD leaves the live attachment alone, also if it is cancelled at any of its operations, and
// before the first.
func TestF9SecondADD(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			ns := space(t)
			p := plugin(k.step, ipam("10.1.0.2/24"), link.Addresses{})
			a := add(ns, "a").Run(t.Context(), t, p).OK(t)
			same := unchanged(t, ns)
			add(ns, "a").Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "eth0")
			same("after the second ADD")

			add(ns, "a").Run(t.Context(), t, plugin(k.broken)).Fails(t, netconf.CodeExists, "eth0")
			same("after a second ADD whose configuration is wrong too")

			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			add(ns, "a").Run(cancelled, t, p).Fails(t, netconf.CodeTryAgainLater)
			same("after a second ADD that was cancelled")

			// As if it were cancelled after its Add was called and before it looked.
			req := request(t, netconf.Add, "/run/netns/none", "a")
			if err := k.step.Add(t.Context(), req); !link.Gone(err) {
				t.Fatalf("ADD in a namespace that is not there: %v", err)
			}
			back := req.As(netconf.Del)
			back.Netns = ns.Path
			if err := k.step.Del(t.Context(), back); err != nil {
				t.Fatal(err)
			}
			same("after the rollback of an ADD that had made nothing")
			add(ns, "a").With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
		})
	}
}

// F9: a meta plugin makes several attachments in one call. That one of them was made does not let the rollback of
// another, which found its name taken, take away what has it.
func TestF9SecondADDInACallThatMadeAnother(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			ns := space(t)
			if err := k.step.Add(t.Context(), request(t, netconf.Add, ns.Path, "a")); err != nil {
				t.Fatal(err)
			}
			same := unchanged(t, ns)
			call := request(t, netconf.Add, ns.Path, "a")
			live, other := call.For(call.Network, "eth0"), call.For(call.Network, "eth1")
			if err := k.step.Add(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			if err := k.step.Add(t.Context(), live); !errors.Is(err, netconf.ErrExists) {
				t.Fatalf("second ADD: %v", err)
			}
			for _, req := range []*netconf.Request{live, other} {
				if err := k.step.Del(t.Context(), req.As(netconf.Del)); err != nil {
					t.Fatal(err)
				}
			}
			same("after the rollback")
		})
	}
}

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
		for _, k := range kinds() {
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
	for _, k := range kinds() {
		if err := k.step.Del(t.Context(), request(t, netconf.Del, "/proc/thread-self/ns/net", "a")); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		if !hostHas(t, "eth0") {
			t.Fatalf("%s: the host's eth0 is gone", k.name)
		}
	}
	ignore(t, "ip", "link", "del", "eth0")
	skeltest.Host(t, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "other")
	for _, k := range kinds() {
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
	for _, k := range kinds() {
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
				if !has(ns, "eth0") {
					t.Fatal("nothing was left to clean up")
				}
				del := request(t, netconf.Del, "", "a")
				if netns {
					del.Netns = ns.Path
				} else if k.insideOnly {
					ns.Run("ip", "link", "del", "eth0") // as it goes with its namespace
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
	for _, k := range kinds() {
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
		for _, k := range kinds() {
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
	for _, k := range kinds() {
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

// Each operation of an attachment fails, panics and is cancelled in turn.
func TestWalkKinds(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			ns := space(t)
			p := plugin(k.step, ipam("10.1.0.2/24", "fd00:1::2/64"), link.Addresses{DAD: link.DADOff})
			if n := skeltest.Walk(t, p, add(ns, "a"), ns, nil); n < 5 {
				t.Errorf("the hook saw %d operations", n)
			}
		})
	}
}

// A pod gets a new container while the old one's DEL is under way, in the same network, with the same
// interface name.
func TestLateDELOfTheOldContainer(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			old, now := space(t), space(t)
			add(old, "a").Run(t.Context(), t, plugin(k.step)).OK(t)
			a := add(now, "b").Run(t.Context(), t, plugin(k.step, link.Addresses{})).OK(t)
			add(old, "a").With(netconf.Del).Run(t.Context(), t, plugin(k.step)).OK(t)
			add(now, "b").With(netconf.Check).WithPrev(a).Run(t.Context(), t, plugin(k.step)).OK(t)
		})
	}
}

// CHECK names what was changed, and passes before.
func TestCheckKinds(t *testing.T) {
	for _, test := range []struct {
		change string // in the container
		words  []string
	}{
		{"ip link set eth0 down", []string{"eth0", "up", "down"}},
		{"ip link set eth0 mtu 1300", []string{"MTU", "1500", "1300"}},
		{"ip link set eth0 address 02:00:00:00:00:07", []string{"hardware address", "02:00:00:00:00:07"}},
		{"ip link set eth0 alias cni:net:b:eth0", []string{"cni:net:a:eth0", "cni:net:b:eth0"}},
		{"ip link del eth0", []string{"eth0", "gone"}},
		{"ip link set eth0 name eth1", []string{"eth0", "gone"}},
		{"ip link del eth0; ip link add eth0 type bridge", []string{"kind", "bridge"}},
	} {
		for _, k := range kinds() {
			t.Run(test.change+"/"+k.name, func(t *testing.T) {
				uplink(t)
				bridge(t)
				ns := space(t)
				a := add(ns, "a").Run(t.Context(), t, plugin(k.step, link.Addresses{})).OK(t)
				check := add(ns, "a").With(netconf.Check).WithPrev(a)
				check.Run(t.Context(), t, plugin(k.step)).OK(t)
				ns.Run("sh", "-c", test.change)
				check.Run(t.Context(), t, plugin(k.step)).Fails(t, netconf.CodeDifferent, test.words...)
			})
		}
	}
}

// Later plugins may leave MTU and address out of the result, or write what they made of them.
func TestCheckWithoutMTUAndMAC(t *testing.T) {
	uplink(t)
	bridge(t)
	for i, k := range kinds() {
		id := fmt.Sprint("c", i) // each its own, for the kernel takes its time over the host's end of the one before
		ns := space(t)
		a := add(ns, id).Run(t.Context(), t, plugin(k.step, link.Addresses{})).OK(t)
		ns.Run("ip", "link", "set", "eth0", "mtu", "1300")
		for _, i := range a.Result.Interfaces {
			i.Mtu, i.Mac = 0, ""
		}
		a.Result.CNIVersion = "1.1.0"
		prev, err := json.Marshal(a.Result)
		if err != nil {
			t.Fatal(err)
		}
		check := add(ns, id).With(netconf.Check)
		check.Prev = string(prev)
		check.Run(t.Context(), t, plugin(k.step)).OK(t)
	}
}

// A link that nobody has labelled is not repaired: it is the user's.
func TestEnsureLeavesForeignLinks(t *testing.T) {
	uplink(t)
	ns := space(t)
	host, container := spaces(t, ns)
	ns.Run("sh", "-c", "ip link add q0 type veth peer name q1; ip link add eth0 link q0 type macvlan mode bridge")
	same := unchanged(t, ns)
	if _, err := (link.Macvlan{Parent: link.Parent{Name: "p0"}}).Ensure(t.Context(), host, container, owner("a")); !errors.Is(err, netconf.ErrExists) {
		t.Errorf("macvlan: %v", err)
	}
	same("after Ensure of a macvlan")
	ns.Run("sh", "-c", "ip link del eth0; ip link add eth0 type veth peer name other")
	same = unchanged(t, ns)
	if _, _, err := (link.Veth{}).Ensure(t.Context(), host, container, owner("a")); !errors.Is(err, netconf.ErrExists) {
		t.Errorf("veth: %v", err)
	}
	same("after Ensure of a veth")
}

// What goes away between the look and the deletion is gone all the same.
func TestDELWhileTheLinkGoes(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kinds() {
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

// With CNI_NETNS_OVERRIDE the container may be the host: the attachment is made and goes, nothing else does.
func TestAttachmentInTheHostsNamespace(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kinds() {
		ns := space(t)
		same := unchanged(t, ns)
		call := add(ns, "a")
		call.Netns, call.Env = "/proc/thread-self/ns/net", []string{"CNI_NETNS_OVERRIDE=1"}
		p := plugin(k.step, link.Addresses{})
		a := call.Run(t.Context(), t, p).OK(t)
		if !hostHas(t, "eth0") {
			t.Fatalf("%s: no eth0", k.name)
		}
		call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
		call.With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
		same(k.name + ": after DEL")
	}
}

// A second step for the same name is refused, and the first one's link goes: both are of one ADD.
func TestTwoStepsForOneName(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kinds() {
		ns := space(t)
		same := unchanged(t, ns)
		add(ns, "a").Run(t.Context(), t, plugin(k.step, k.step)).Fails(t, netconf.CodeExists, "eth0")
		same(k.name + ": after the refused ADD")
	}
}
