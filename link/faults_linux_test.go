package link_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// What every kind of link that is made in a container is held to. A new kind joins in kinds. Here is ADD;
// CHECK and DEL have their files.

// F1: the link that an ADD made is gone when a later step fails, so that the next ADD gets through.
func TestF1LinkLeftBehindWhenIPAMFails(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kindsHere(t) {
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
	for _, k := range kindsHere(t) {
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
	for _, k := range kindsHere(t) {
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
	for _, k := range kindsHere(t) {
		if k.single() {
			continue
		}
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

// Each operation of an attachment fails, panics and is cancelled in turn.
func TestWalkKinds(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kindsHere(t) {
		t.Run(k.name, func(t *testing.T) {
			ns := space(t)
			p := plugin(k.step, ipam("10.1.0.2/24", "fd00:1::2/64"), link.Addresses{DAD: link.DADOff})
			if n := skeltest.Walk(t, p, add(ns, "a"), ns, nil); n < 5 {
				t.Errorf("the hook saw %d operations", n)
			}
		})
	}
}

// With CNI_NETNS_OVERRIDE the container may be the host: the attachment is made and goes, nothing else does.
func TestAttachmentInTheHostsNamespace(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kindsHere(t) {
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
	for _, k := range kindsHere(t) {
		ns := space(t)
		same := unchanged(t, ns)
		add(ns, "a").Run(t.Context(), t, plugin(k.step, k.step)).Fails(t, netconf.CodeExists, "eth0")
		same(k.name + ": after the refused ADD")
	}
}
