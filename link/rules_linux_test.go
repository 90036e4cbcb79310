package link_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func someRules() []link.Rule {
	return []link.Rule{
		{From: prefix("10.1.1.9/32"), Table: 500}, {From: prefix("fd00::9/128"), Table: 500},
		{To: prefix("192.0.2.0/24"), Table: 70000, Priority: 77}, {From: prefix("10.0.0.0/8"), To: prefix("10.2.0.0/16"), Priority: 78},
	}
}

// TestRules: they lead packets to their table, in the container or on the host; CHECK misses each; DEL goes by what ADD
// has written down.
func TestRules(t *testing.T) {
	for _, onHost := range []bool{false, true} {
		t.Run(fmt.Sprint("on the host ", onHost), func(t *testing.T) {
			step := link.Rules{OnHost: onHost, Rules: someRules()}
			container, _, p, call := changer(t, step)
			in := container.Run
			if onHost {
				in = func(name string, args ...string) string { return skeltest.Host(t, name, args...) }
			}
			before := append(container.Snapshot(), skeltest.HostSnapshot(t)...)
			a := call.Run(t.Context(), t, p).OK(t)
			for family, want := range map[string][]string{
				"-4": {"77:\tfrom all to 192.0.2.0/24 lookup 70000 proto 67", "78:\tfrom 10.0.0.0/8 to 10.2.0.0/16 lookup main proto 67", "30000:\tfrom 10.1.1.9 lookup 500 proto 67"},
				"-6": {"30000:\tfrom fd00::9 lookup 500 proto 67"},
			} {
				show := in("ip", family, "rule", "show")
				for _, line := range want {
					if !strings.Contains(show, line) {
						t.Errorf("no %q in\n%s", line, show)
					}
				}
			}
			check := call.With(netconf.Check).WithPrev(a)
			check.Run(t.Context(), t, p).OK(t)
			in("ip", "rule", "del", "priority", "77")
			in("ip", "-6", "rule", "del", "priority", "30000")
			check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, "192.0.2.0/24", "fd00::9")
			in("ip", "rule", "add", "from", "10.1.1.9", "lookup", "500", "priority", "30000") // not ours: another protocol
			for range 2 {
				call.With(netconf.Del).WithPrev(a).Run(t.Context(), t, plugin(link.Rules{OnHost: onHost})).OK(t)
			}
			in("ip", "rule", "del", "from", "10.1.1.9", "lookup", "500", "priority", "30000")
			if diff := before.Diff(append(container.Snapshot(), skeltest.HostSnapshot(t)...)); diff != "" {
				t.Errorf("left behind:\n%s", diff)
			}
		})
	}
}

func TestWalkRules(t *testing.T) {
	for _, onHost := range []bool{false, true} {
		container, _, p, call := changer(t, link.Rules{OnHost: onHost, Rules: someRules()})
		if n := skeltest.Walk(t, p, call, container, nil); n < 5 {
			t.Errorf("the hook saw %d operations", n)
		}
	}
}

// TestRulesOfTheStale: GC takes those of the host that belong to nobody any more, by what was written down, and no others.
func TestRulesOfTheStale(t *testing.T) {
	container, _, p, call := changer(t, link.Rules{OnHost: true, Rules: someRules()[:1]})
	dead := call
	dead.ContainerID = "dead" + call.ContainerID
	before := skeltest.HostSnapshot(t)
	call.Run(t.Context(), t, p).OK(t)
	alive := skeltest.HostSnapshot(t)
	other := plugin(link.Rules{OnHost: true, Rules: someRules()[1:]})
	other.Kind = skel.Chained
	dead.Run(t.Context(), t, other).OK(t)
	gc := call.With(netconf.GC)
	gc.Prev, gc.Path = "", "/nosuch"
	gc.Config = strings.Replace(gc.Config, `"type"`, `"cni.dev/valid-attachments":[{"containerID":"`+container.Name+`","ifname":"eth0"}],"type"`, 1)
	gc.Run(t.Context(), t, p).OK(t)
	if diff := alive.Diff(skeltest.HostSnapshot(t)); diff != "" {
		t.Errorf("after GC:\n%s", diff)
	}
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if diff := before.Diff(skeltest.HostSnapshot(t)); diff != "" {
		t.Errorf("after DEL:\n%s", diff)
	}
}

// TestRuleOfAnotherAttachment: the same rule cannot be two attachments'; the second takes back what it had added.
func TestRuleOfAnotherAttachment(t *testing.T) {
	parallelNS(t)
	container, _, p, call := changer(t, link.Rules{Rules: someRules()[1:]})
	call.Run(t.Context(), t, p).OK(t)
	alive := container.Snapshot()
	second := call
	second.ContainerID += "b"
	both := plugin(link.Rules{Rules: someRules()})
	second.Run(t.Context(), t, both).Fails(t, netconf.CodeExists, "fd00::9")
	if diff := alive.Diff(container.Snapshot()); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	for range 2 { // as a runtime must after a failed ADD
		second.With(netconf.Del).Run(t.Context(), t, both).OK(t)
		if diff := alive.Diff(container.Snapshot()); diff != "" {
			t.Errorf("DEL of the second took the first one's:\n%s", diff)
		}
	}
	// The first of the second's is added, then something goes wrong: its rollback does not know the third, which is there.
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if strings.HasPrefix(op, "rule add from fd00::9") {
			return errors.New("injected")
		}
		return nil
	})
	if a := second.Run(ctx, t, both); a.Exit == 0 {
		t.Error("ADD succeeded")
	}
	if diff := alive.Diff(container.Snapshot()); diff != "" {
		t.Errorf("the rollback of the second took the first one's:\n%s", diff)
	}
}

func TestRulesRefused(t *testing.T) {
	parallelNS(t)
	container, _, _, call := changer(t, everything)
	before := container.Snapshot()
	for words, rule := range map[string]link.Rule{
		"a source or a destination": {Table: 5}, "two families": {From: prefix("10.0.0.0/8"), To: prefix("fd00::/8")},
		"table -1": {From: prefix("10.0.0.0/8"), Table: -1}, "table 4294967296": {From: prefix("10.0.0.0/8"), Table: 1 << 32},
		"priority 32766": {From: prefix("10.0.0.0/8"), Priority: 32766}, "priority -1": {From: prefix("10.0.0.0/8"), Priority: -1},
	} {
		call.Run(t.Context(), t, plugin(link.Rules{Rules: append(someRules(), rule)})).Fails(t, netconf.CodeInvalidNetworkConfig, words)
	}
	if diff := before.Diff(container.Snapshot()); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

func TestRulesCore(t *testing.T) {
	parallelNS(t)
	container, _, _, _ := changer(t, everything)
	_, n := spaces(t, container)
	rules := link.Rules{Rules: someRules()}
	if err := rules.Verify(t.Context(), n); !errors.Is(err, netconf.ErrDifferent) {
		t.Errorf("before: %v", err)
	}
	for range 2 {
		if err := errors.Join(rules.Ensure(t.Context(), n), rules.Verify(t.Context(), n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := rules.Create(t.Context(), n); !errors.Is(err, netconf.ErrExists) {
		t.Errorf("again: %v", err)
	}
	if err := errors.Join(rules.Verify(t.Context(), n), rules.Delete(t.Context(), n), rules.Delete(t.Context(), n)); err != nil {
		t.Fatal(err)
	}
	if show := container.Run("ip", "rule", "show"); strings.Contains(show, "proto 67") {
		t.Errorf("left: %s", show)
	}
}

// BenchmarkAddAmongRules: an ADD and DEL where the host has none, and where it has 5,000 of other attachments.
func BenchmarkAddAmongRules(b *testing.B) {
	skeltest.NeedRoot(b)
	ns := skeltest.NewNS(b)
	n, err := link.Open(ns.Path)
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	for _, others := range []int{0, 5000} {
		var many link.Rules
		for i := range others {
			many.Rules = append(many.Rules, link.Rule{From: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}), 32), Table: 1000 + i})
		}
		if err := many.Ensure(b.Context(), n); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			one := link.Rules{Rules: someRules()[:1]}
			for b.Loop() {
				if err := errors.Join(one.Create(b.Context(), n), one.Delete(b.Context(), n)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var _ skel.Collector = link.Rules{}
