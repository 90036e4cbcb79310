package link_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// coreKind is the core of a kind that is made in a container.
type coreKind interface {
	Ensure(ctx context.Context, host, container *link.NS, o link.Owner) (netlink.Link, error)
	Verify(ctx context.Context, host, container *link.NS, o link.Owner, want *types100.Interface) error
	Delete(ctx context.Context, host, container *link.NS, o link.Owner) error
}

// Two containers on one parent, and a host behind it: p1 has 10.1.0.9. In the mode vepa the switch behind the parent sends a
// frame back where it came from: the bridge here, whose port p1 is, does so as a hairpin.
func TestMacvlanModes(t *testing.T) {
	for _, test := range []struct {
		mode    link.MacvlanMode
		hairpin bool
		reached bool
	}{
		{link.MacvlanBridge, false, true},
		{link.MacvlanPrivate, false, false},
		{link.MacvlanPrivate, true, false},
		{link.MacvlanVEPA, false, false},
		{link.MacvlanVEPA, true, true},
	} {
		t.Run(test.mode.String()+map[bool]string{true: " behind a switch that reflects"}[test.hairpin], func(t *testing.T) {
			uplink(t)
			bridge(t)
			skeltest.Host(t, "ip", "link", "set", "p1", "master", "br7")
			if test.hairpin {
				skeltest.Host(t, "bridge", "link", "set", "dev", "p1", "hairpin", "on")
			}
			skeltest.Host(t, "ip", "address", "add", "10.1.0.9/24", "dev", "br7")
			a, b := space(t), space(t)
			step := link.Macvlan{Parent: link.Parent{Name: "p0"}, Mode: test.mode}
			for i, ns := range []*skeltest.NS{a, b} {
				p := plugin(step, ipam([]string{"10.1.0.2/24", "10.1.0.3/24"}[i]), link.Addresses{})
				made := add(ns, []string{"a", "b"}[i]).Run(t.Context(), t, p).OK(t)
				add(ns, []string{"a", "b"}[i]).With(netconf.Check).WithPrev(made).Run(t.Context(), t, p).OK(t)
				ns.Ping("10.1.0.9")
			}
			if reached := reaches(a, "10.1.0.3"); reached != test.reached {
				t.Errorf("the other container is reached: %v, expected %v", reached, test.reached)
			}
		})
	}
}

// The one in the mode passthru takes the parent over, with its hardware address, and there is no room for a second of either kind.
func TestMacvlanPassthru(t *testing.T) {
	uplink(t)
	a, b := space(t), space(t)
	skeltest.Host(t, "ip", "address", "add", "10.1.0.9/24", "dev", "p1")
	parent := link.Parent{Name: "p0"}
	step := link.Macvlan{Parent: parent, Mode: link.MacvlanPassthru}
	p := plugin(step, ipam("10.1.0.2/24"), link.Addresses{})
	made := add(a, "a").Run(t.Context(), t, p).OK(t)
	a.Ping("10.1.0.9")
	if mac := hostLink(t, "p0").Attrs().HardwareAddr.String(); mac != made.Result.Interfaces[0].Mac {
		t.Errorf("it has the hardware address %s, and the parent %s", made.Result.Interfaces[0].Mac, mac)
	}
	same := unchanged(t, b)
	for _, second := range []skel.Step{step, link.Macvlan{Parent: parent}, link.Macvtap{Parent: parent}, link.Macvtap{Parent: parent, Mode: link.MacvlanPassthru}} {
		add(b, "b").Run(t.Context(), t, plugin(second)).Fails(t, netconf.CodeInvalidNetworkConfig, "mode", `"p0"`)
		same("after the refused ADD")
	}
	add(a, "a").With(netconf.Check).WithPrev(made).Run(t.Context(), t, p).OK(t)
	a.Ping("10.1.0.9")
}

// The queue is seen, compared, and brought back.
func TestMacvlanBroadcastQueue(t *testing.T) {
	uplink(t)
	ns := space(t)
	host, container := spaces(t, ns)
	for _, k := range []struct {
		name string
		with func(queue uint32) coreKind
	}{
		{"macvlan", func(q uint32) coreKind {
			return link.Macvlan{Parent: link.Parent{Name: "p0"}, Mode: link.MacvlanVEPA, BcQueueLen: q}
		}},
		{"macvtap", func(q uint32) coreKind {
			return link.Macvtap{Parent: link.Parent{Name: "p0"}, Mode: link.MacvlanVEPA, BcQueueLen: q}
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			needs(t, k.name)
			if _, err := k.with(500).Ensure(t.Context(), host, container, owner("a")); err != nil {
				t.Fatal(err)
			}
			ns.Run("ip", "link", "set", "eth0", "up")
			if err := k.with(0).Verify(t.Context(), host, container, owner("a"), nil); err != nil {
				t.Error(err)
			}
			if err := k.with(501).Verify(t.Context(), host, container, owner("a"), nil); netconf.Code(err) != netconf.CodeDifferent || !strings.Contains(err.Error(), "500, expected 501") {
				t.Errorf("%v", err)
			}
			if _, err := k.with(501).Ensure(t.Context(), host, container, owner("a")); err != nil {
				t.Fatal(err)
			}
			if err := k.with(501).Verify(t.Context(), host, container, owner("a"), nil); err != nil {
				t.Error(err)
			}
			if out := ns.Run("ip", "-d", "link", "show", "dev", "eth0"); !strings.Contains(out, "bcqueuelen 501") || !strings.Contains(out, "mode vepa") {
				t.Error(out)
			}
			if err := k.with(0).Delete(t.Context(), host, container, owner("a")); err != nil || has(ns, "eth0") {
				t.Errorf("%v", err)
			}
		})
	}
}

// A chained one takes its parent and its addresses from the prevResult, as far as they are not given.
func TestMacvlanChained(t *testing.T) {
	const prev = `{"cniVersion":"1.1.0","interfaces":[{"name":"p0"}],"ips":[{"address":"10.1.0.2/24","interface":0}],"routes":[{"dst":"10.9.0.0/16"}]}`
	uplink(t)
	for name, step := range map[string]skel.Step{"macvlan": link.Macvlan{Chained: true}, "macvtap": link.Macvtap{Chained: true}} {
		t.Run(name, func(t *testing.T) {
			needs(t, name)
			ns := space(t)
			same := unchanged(t, ns)
			p := plugin(step, link.Addresses{DAD: link.DADOff})
			call := add(ns, "a")
			call.Prev = prev
			made := call.Run(t.Context(), t, p).OK(t)
			if out := ns.Run("ip", "address", "show", "dev", "eth0") + ns.Run("ip", "route"); !strings.Contains(out, "10.1.0.2/24") || !strings.Contains(out, "10.9.0.0/16") {
				t.Error(out)
			}
			later := add(ns, "a").WithPrev(made)
			later.With(netconf.Check).Run(t.Context(), t, p).OK(t)
			later.With(netconf.Del).Run(t.Context(), t, p).OK(t)
			same("after DEL")
			call.Prev = strings.Replace(prev, `[{"name":"p0"}]`, `[{"name":"p0"},{"name":"p1"}]`, 1)
			call.Run(t.Context(), t, p).Fails(t, netconf.CodeInvalidNetworkConfig, "2 interfaces", "name a parent link")
			same("after the refused ADD")
			status := skeltest.Call{Command: netconf.Status, Config: `{"cniVersion":"1.1.0","name":"net","type":"test"}`}
			status.Run(t.Context(), t, p).OK(t)
		})
	}
	ns := space(t)
	call := add(ns, "a")
	call.Prev = prev
	made := call.Run(t.Context(), t, plugin(link.Macvlan{Parent: link.Parent{Name: "p0"}}, link.Addresses{DAD: link.DADOff})).OK(t)
	if out := ns.Run("ip", "address", "show", "dev", "eth0"); strings.Contains(out, "10.1.0.2") || len(made.Result.IPs) != 1 {
		t.Errorf("one that is not chained took the addresses: %s%v", out, made.Result.IPs)
	}
}
