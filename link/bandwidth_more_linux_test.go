package link_test

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// some has all that there can be.
func some() link.Bandwidth {
	b := both
	b.Unshaped = []netip.Prefix{prefix("10.0.0.0/8"), prefix("fd00::/8")}
	return b
}

// TestBandwidthCheck: each part that is changed is seen, and Ensure brings it back.
func TestBandwidthCheck(t *testing.T) {
	changes := map[string][]string{
		"all": {"tc qdisc change dev vh root handle 4343: tbf rate 9mbit burst 50000 latency 25ms", "tc qdisc del dev vh root",
			"tc qdisc replace dev vh root pfifo", "tc qdisc del dev IFB root", "ip link del IFB", "ip link set IFB down", "ip link set IFB alias cni:net:other:eth0:ifb",
			"tc qdisc del dev vh clsact", "tc filter del dev vh ingress prio 17221",
			"tc qdisc change dev IFB root handle 4343: tbf rate 9mbit burst 50000 latency 25ms"},
		"subnets": {"tc qdisc del dev vh root", "tc class change dev vh classid 4343:1 htb rate 9mbit burst 50000", "tc filter del dev vh ingress prio 17219",
			"tc filter del dev vh parent 4343: prio 17220", "tc filter add dev vh ingress prio 17219 protocol ip u32 match ip dst 192.0.2.0/24 flowid 4343:0"},
	}
	for name, list := range changes {
		step := map[string]link.Bandwidth{"all": both, "subnets": some()}[name]
		container, p, call := shaped(t, step)
		host, _ := spaces(t, container)
		o := link.Owner{Network: "net", ContainerID: container.Name, IfName: "eth0"}
		a := call.Run(t.Context(), t, p).OK(t)
		want := tc(t)
		ifb := a.Result.Interfaces[2]
		if ifb.Name != o.IfbName() || ifb.Sandbox != "" || !strings.HasPrefix(ifb.Name, "ifb-") || ifb.Mac == "" || len(ifb.Name) != 15 {
			t.Errorf("result %s", a.Stdout)
		}
		if show := skeltest.Host(t, "ip", "-d", "link", "show", o.IfbName()); !strings.Contains(show, o.Alias("ifb")) || !strings.Contains(show, "UP") {
			t.Errorf("the ifb: %s", show)
		}
		check := call.With(netconf.Check).WithPrev(a)
		for _, change := range list {
			change = strings.ReplaceAll(change, "IFB", o.IfbName())
			skeltest.Host(t, "sh", "-c", change)
			check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent)
			if strings.Contains(change, "pfifo") || strings.Contains(change, "other") { // somebody else's now
				if _, err := step.Ensure(t.Context(), host, hostLink(t, "vh"), o); !errors.Is(err, netconf.ErrExists) {
					t.Errorf("%s: Ensure: %v", change, err)
				}
				skeltest.Host(t, "sh", "-c", "tc qdisc del dev vh root 2>/dev/null; ip link set "+o.IfbName()+" alias "+o.Alias("ifb")+" 2>/dev/null; true")
			}
			for range 2 {
				if _, err := step.Ensure(t.Context(), host, hostLink(t, "vh"), o); err != nil {
					t.Fatalf("%s: Ensure: %v", change, err)
				}
			}
			check.Run(t.Context(), t, p).OK(t)
		}
		if now := tc(t); strings.Count(now, "\n") != strings.Count(want, "\n") {
			t.Errorf("repaired:\n%s\nexpected\n%s", now, want)
		}
		call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
		skeltest.Host(t, "ip", "link", "del", "vh")
	}
}

// TestBandwidthCheckAfterAnotherMTU: a burst that was derived from the MTU of the host's end is right after that has
// changed; one that no MTU leads to is not.
func TestBandwidthCheckAfterAnotherMTU(t *testing.T) {
	little := link.Rate{Rate: 800_000}               // a burst of two packets
	raised := link.Rate{Rate: 8 * mbit, Burst: 8000} // to one packet
	for name, step := range map[string]link.Bandwidth{
		"two packets": {Ingress: little, Egress: little}, "raised": {Ingress: raised, Egress: raised},
		"with a class": {Ingress: little, Unshaped: some().Unshaped},
	} {
		t.Run(name, func(t *testing.T) {
			_, p, call := shaped(t, step)
			a := call.Run(t.Context(), t, p).OK(t)
			check := call.With(netconf.Check).WithPrev(a)
			for _, mtu := range []string{"1400", "9000", "65535", "68"} {
				skeltest.Host(t, "ip", "link", "set", "vh", "mtu", mtu)
				check.Run(t.Context(), t, p).OK(t)
			}
			change := "tc qdisc change dev vh root handle 4343: tbf rate 800kbit burst 100000 latency 25ms"
			switch name {
			case "raised":
				change = strings.Replace(change, "800kbit", "8mbit", 1)
			case "with a class":
				change = "tc class change dev vh classid 4343:1 htb rate 800kbit burst 100000"
			}
			skeltest.Host(t, "sh", "-c", change)
			check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent)
			call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
			skeltest.Host(t, "ip", "link", "del", "vh")
		})
	}
}

func TestWalkBandwidth(t *testing.T) {
	for name, step := range map[string]link.Bandwidth{"both": some(), "in": {Ingress: both.Ingress}, "out": {Egress: both.Egress}} {
		t.Run(name, func(t *testing.T) {
			container, p, call := shaped(t, step)
			before := tc(t)
			also := func() []string { return strings.Split(tc(t), "\n") }
			if n := skeltest.Walk(t, p, call, container, also); n == 0 || name == "both" && n < 12 {
				t.Errorf("the hook saw %d operations", n)
			}
			if now := tc(t); now != before {
				t.Errorf("left behind:\n%s", now)
			}
			skeltest.Host(t, "ip", "link", "del", "vh")
		})
	}
}

// TestBandwidthSecondAddKeepsTheNote: a second ADD finds the clsact of the first and once wrote down that it was somebody else's;
// skel wrote the note of the first again, unless that failed.
func TestBandwidthSecondAddKeepsTheNote(t *testing.T) {
	_, p, call := shaped(t, link.Bandwidth{Egress: both.Egress})
	call.Run(t.Context(), t, p).OK(t)
	var did []string
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		did = append(did, op)
		return nil
	})
	call.Run(ctx, t, p).Fails(t, netconf.CodeExists)
	for _, op := range did {
		if strings.HasPrefix(op, "state ") {
			t.Errorf("a second ADD does %q", op)
		}
	}
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
}

// TestBandwidthDelWhateverIsGone: nothing of it is left on the host, and GC takes what no DEL has been called for.
func TestBandwidthDelWhateverIsGone(t *testing.T) {
	for name, gone := range map[string]func(ns *skeltest.NS, call *skeltest.Call){
		"the namespace":                   func(ns *skeltest.NS, _ *skeltest.Call) { ns.Remove() },
		"the path":                        func(_ *skeltest.NS, call *skeltest.Call) { call.Netns = "" },
		"the link":                        func(ns *skeltest.NS, _ *skeltest.Call) { ns.Run("ip", "link", "del", "eth0") },
		"the link's name":                 func(ns *skeltest.NS, _ *skeltest.Call) { ns.Run("ip", "link", "set", "eth0", "name", "eth9") },
		"the limits in the configuration": func(_ *skeltest.NS, call *skeltest.Call) {},
		"the network's name": func(_ *skeltest.NS, call *skeltest.Call) {
			call.Config = strings.Replace(call.Config, `"name":"net",`, ``, 1)
		},
		"DEL": func(_ *skeltest.NS, call *skeltest.Call) { call.Command = netconf.GC },
	} {
		t.Run(name, func(t *testing.T) {
			container, p, call := shaped(t, some())
			a := call.Run(t.Context(), t, p).OK(t)
			del := call.With(netconf.Del)
			gone(container, &del)
			if del.Command == netconf.GC {
				del.Path = "/nosuch"
				alive := del
				alive.Config = strings.Replace(del.Config, `"type"`, `"cni.dev/valid-attachments":[{"containerID":"`+container.Name+`","ifname":"eth0"}],"type"`, 1)
				alive.Run(t.Context(), t, p).OK(t)
				call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
				del.Config = strings.Replace(del.Config, `"type"`, `"cni.dev/valid-attachments":[],"type"`, 1)
			}
			bare := plugin(link.Bandwidth{}) // runtimeConfig may be missing by then
			bare.Kind = skel.Chained
			for range 2 {
				del.Run(t.Context(), t, bare).OK(t)
			}
			if links := skeltest.Host(t, "ip", "link"); strings.Contains(links, "ifb-") {
				t.Errorf("left: %s", links)
			}
			ignore(t, "ip link del vh")
		})
	}
}

// TestBandwidthDelAfterAnUpgrade: the reference plugin has made the ifb, without a mark. Others of its kind stay.
func TestBandwidthDelAfterAnUpgrade(t *testing.T) {
	_, p, call := shaped(t, both)
	for i, name := range []string{"bwp0123456789ab", "bwpothers", "ifbothers"} {
		skeltest.Host(t, "ip", "link", "add", name, "address", "02:00:00:00:01:0"+strconv.Itoa(i), "type", "ifb")
		t.Cleanup(func() { ignore(t, "ip link del "+name) })
	}
	call.Prev = strings.Replace(call.Prev, `[{"name":"vh"}`, `[{"name":"vh"},{"name":"bwp0123456789ab","mac":"02:00:00:00:01:00"},{"name":"bwpothers","mac":"02:00:00:00:01:09"},{"name":"ifbothers","mac":"02:00:00:00:01:02"}`, 1)
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if links := skeltest.Host(t, "ip", "link"); strings.Contains(links, "bwp0") || !strings.Contains(links, "bwpothers") || !strings.Contains(links, "ifbothers") {
		t.Errorf("links %s", links)
	}
}

// TestBandwidthTwoInterfaces: of one container in one network. The reference plugin names its ifb by the container alone.
func TestBandwidthTwoInterfaces(t *testing.T) {
	container, p, call := shaped(t, both)
	skeltest.Host(t, "ip", "link", "add", "vh2", "type", "veth", "peer", "name", "eth1", "netns", container.Name)
	t.Cleanup(func() { ignore(t, "ip link del vh2") })
	second := call
	second.IfName, second.Prev = "eth1", strings.ReplaceAll(strings.ReplaceAll(call.Prev, "eth0", "eth1"), "vh", "vh2")
	a := call.Run(t.Context(), t, p).OK(t)
	alive := tc(t)
	second.Run(t.Context(), t, p).OK(t)
	second.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if now := tc(t); now != alive {
		t.Errorf("the first one's:\n%s\nexpected\n%s", now, alive)
	}
	call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
}

// TestBandwidthLeavesOthers: a discipline at the root is not replaced, and filters of others at the ingress stay.
func TestBandwidthLeavesOthers(t *testing.T) {
	_, p, call := shaped(t, both)
	skeltest.Host(t, "tc", "qdisc", "add", "dev", "vh", "root", "pfifo")
	before := tc(t)
	call.Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "vh")
	if now := tc(t); now != before {
		t.Errorf("changed:\n%s", now)
	}
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if now := tc(t); now != before {
		t.Errorf("DEL took:\n%s\nof\n%s", now, before)
	}
	skeltest.Host(t, "sh", "-ec", "tc qdisc del dev vh root; tc qdisc add dev vh clsact; tc filter add dev vh egress prio 7 protocol ip u32 match ip dst 192.0.2.1 flowid 1:1")
	before = skeltest.Host(t, "tc", "filter", "show", "dev", "vh", "egress")
	a := call.Run(t.Context(), t, p).OK(t)
	call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if now := skeltest.Host(t, "tc", "filter", "show", "dev", "vh", "egress"); now != before || now == "" {
		t.Errorf("the others' filter: %s, before %s", now, before)
	}
}

// TestBandwidthBursts: what the kernel has for what was asked; a burst below a packet would let none through.
func TestBandwidthBursts(t *testing.T) {
	container, _, call := shaped(t, both)
	for _, test := range []struct {
		rate     link.Rate
		words    string
		warnings bool
	}{
		{link.Rate{Rate: 8 * mbit}, "rate 8Mbit burst 1000", false},                // 10 ms, 10000 bytes
		{link.Rate{Rate: 80_000}, "rate 80Kbit burst 3018b", false},                // two packets
		{link.Rate{Rate: 8 * mbit, Burst: 100}, "rate 8Mbit burst 1518b", true},    // one
		{link.Rate{Rate: 8 * mbit, Burst: 8*4294967295 - 1}, "rate 8Mbit", false},  // CRI-O sends it for every shaped pod
		{link.Rate{Rate: 8, Burst: 80_000}, "rate 8bit", false},                    // 10000 s: more than can be said
		{link.Rate{Rate: 100_000 * mbit, Burst: 8 * mbit}, "rate 100Gbit", false},  // above 2^32 bytes per second
		{link.Rate{Rate: 100_000 * mbit}, "rate 100Gbit burst 1250", false},        //
		{link.Rate{Rate: netconf.Quantity(1<<63 - 1), Burst: 8 * mbit}, "", false}, // whatever it is worth
	} {
		for _, step := range []link.Bandwidth{{Ingress: test.rate}, {Egress: test.rate}, {Ingress: test.rate, Shaped: []netip.Prefix{prefix("0.0.0.0/0"), prefix("::/0")}}} {
			p := plugin(step)
			p.Kind = skel.Chained
			a := call.Run(t.Context(), t, p).OK(t)
			show := strings.ReplaceAll(tc(t), "Kb lat", "000b lat")
			if step.Shaped == nil && !strings.Contains(show, test.words) {
				t.Errorf("%+v: no %q in %s", step, test.words, show)
			}
			if strings.Contains(a.Stderr, "raised") != test.warnings {
				t.Errorf("%+v: stderr %s", step, a.Stderr)
			}
			call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
			if test.warnings {
				container.Ping("10.1.1.1")
				container.Run("ping", "-n", "-c", "1", "-W", "2", "-s", "1472", "10.1.1.1")
			}
			call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
		}
	}
}

func TestBandwidthRefused(t *testing.T) {
	container, _, call := shaped(t, both)
	before := tc(t)
	subnet := []netip.Prefix{prefix("10.0.0.0/8")}
	for words, step := range map[string]link.Bandwidth{
		"a burst without a rate": {Ingress: link.Rate{Burst: 1}}, "less than a byte": {Egress: link.Rate{Rate: 7}},
		"at most 34359738359": {Egress: link.Rate{Rate: mbit, Burst: 8 * 4294967295}}, "exclude each other": {Egress: both.Egress, Shaped: subnet, Unshaped: subnet},
		"one is none": {Egress: both.Egress, Shaped: []netip.Prefix{{}}},
	} {
		call.Run(t.Context(), t, plugin(step)).Fails(t, netconf.CodeInvalidNetworkConfig, words)
	}
	other := skeltest.NewNS(t)
	container.Run("ip", "link", "add", "eth1", "type", "bridge")
	container.Run("ip", "link", "add", "eth2", "type", "veth", "peer", "name", "x")
	container.Run("ip", "link", "add", "eth3", "type", "veth", "peer", "name", "y", "netns", other.Name)
	for name, words := range map[string]string{"eth1": "kind bridge", "eth2": "not on the host", "eth3": "not on the host", "eth4": "no such link"} {
		c := call
		c.IfName = name
		c.Prev = strings.ReplaceAll(call.Prev, "eth0", name)
		c.Run(t.Context(), t, plugin(both)).Fails(t, netconf.CodeInvalidNetworkConfig, name, words)
	}
	if now := tc(t); now != before {
		t.Errorf("changed:\n%s", now)
	}
}

// TestHostEndByAccident: the other end is in a third namespace, under the index that a pair of the host has, whose other
// end has the index that this one has.
func TestHostEndByAccident(t *testing.T) {
	container, _, _ := shaped(t, both)
	host, n := spaces(t, container)
	vh, err := link.HostEnd(host, n, "eth0")
	if err != nil || vh.Attrs().Name != "vh" {
		t.Fatalf("%v, %v", vh, err)
	}
	eth0, err := n.Handle().LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	third, fourth := skeltest.NewNS(t), skeltest.NewNS(t)
	third.Run("ip", "link", "add", "far", "index", strconv.Itoa(vh.Attrs().Index), "type", "veth", "peer", "name", "eth0", "index", strconv.Itoa(eth0.Attrs().Index), "netns", fourth.Name)
	other, err := link.Open(fourth.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if l, err := link.HostEnd(host, other, "eth0"); err == nil {
		t.Errorf("taken for the host's end: %v", l.Attrs().Name)
	}
}

// TestBandwidthThatTheKernelLacks: its answer to an unknown kind, "no such file or directory", is not taken for a link that
// has gone, which on DEL is no error.
func TestBandwidthThatTheKernelLacks(t *testing.T) {
	t.Parallel()
	err := link.UnknownKind("tbf", syscall.ENOENT)
	if !errors.Is(err, link.ErrNotSupported) || netconf.Code(err) != netconf.CodeNotSupported || link.Gone(err) || !strings.Contains(err.Error(), "tbf") {
		t.Errorf("%v, code %d", err, netconf.Code(err))
	}
	if err := link.UnknownKind("tbf", syscall.EEXIST); err != syscall.EEXIST {
		t.Errorf("another answer became %v", err)
	}
}
