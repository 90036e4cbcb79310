package link_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// What the modes and flags of an ipvlan do to packets, to addresses and to routes.

// behind makes the network behind the parent p0: a namespace that has p1, with addresses.
func behind(t *testing.T, addresses ...string) *skeltest.NS {
	t.Helper()
	uplink(t)
	needs(t, "ipvlan")
	far := space(t)
	skeltest.Host(t, "ip", "link", "set", "p1", "netns", far.Name)
	far.Run("ip", "link", "set", "p1", "up")
	for _, a := range addresses {
		far.Run("ip", "address", "add", a, "dev", "p1", "nodad")
	}
	return far
}

// reaches tells whether an echo request is answered.
func reaches(ns *skeltest.NS, address string) bool {
	_, err := ns.Try("ping", "-n", "-c", "1", "-W", "1", address)
	return err == nil
}

// answering is an IPAM step with a whole answer.
func answering(answer string) skel.Step {
	return skel.Funcs{Title: "ipam", Add: func(_ context.Context, req *netconf.Request) error {
		r, err := netconf.ParseResult([]byte(`{"cniVersion":"1.1.0",`+answer+`}`), "1.1.0")
		if err != nil {
			return err
		}
		for _, ip := range r.IPs {
			req.AddIP(-1, ip.Address, ip.Gateway)
		}
		for _, route := range r.Routes {
			req.AddRoute(route)
		}
		return nil
	}, Check: nothing, GC: nothing, Status: nothing}.Step()
}

// The flags: each reaches the network behind the parent; each other directly, not at all, or through a switch
// that sends a frame back where it came from.
func TestIPvlanFlags(t *testing.T) {
	for _, test := range []struct {
		flag              link.IPvlanFlag
		alone, withSwitch bool // whether two on one parent reach each other
	}{
		{link.IPvlanBridge, true, true},
		{link.IPvlanPrivate, false, false},
		{link.IPvlanVEPA, false, true},
	} {
		t.Run(test.flag.String(), func(t *testing.T) {
			far := behind(t)
			far.Run("sh", "-c", "ip link add br0 type bridge; ip link set p1 master br0; ip link set br0 up; ip address add 10.1.0.1/24 dev br0")
			far.Run("timeout", "10", "sh", "-c", "until bridge link show dev p1 | grep -q 'state forwarding'; do sleep 0.01; done")
			a, b := space(t), space(t)
			for i, ns := range []*skeltest.NS{a, b} {
				add(ns, ns.Name).Run(t.Context(), t, plugin(ipvlan("", test.flag), ipam(fmt.Sprintf("10.1.0.1%d/24", i)), link.Addresses{})).OK(t)
				ns.Ping("10.1.0.1")
			}
			if got := reaches(a, "10.1.0.11"); got != test.alone {
				t.Errorf("one reaches the other: %v", got)
			}
			far.Run("bridge", "link", "set", "dev", "p1", "hairpin", "on")
			a.Run("ip", "neighbour", "flush", "dev", "eth0")
			if got := reaches(a, "10.1.0.11"); got != test.withSwitch {
				t.Errorf("one reaches the other through a switch: %v", got)
			}
		})
	}
}

// In l3 and l3s the parent's namespace routes: between subnets of one parent, and out. A gateway, which nobody
// has here, is as good as none; what is reported is what the kernel has.
func TestIPvlanL3Routes(t *testing.T) {
	for _, mode := range []link.IPvlanMode{link.IPvlanL3, link.IPvlanL3S} {
		for name, gateways := range map[string][4]string{
			"gateway":    {`,"gateway":"10.1.0.1"`, `,"gateway":"fd00:1::1"`, `,"gateway":"10.2.0.1"`, `,"gateway":"fd00:2::1"`},
			"no gateway": {},
		} {
			t.Run(mode.String()+" "+name, func(t *testing.T) {
				far := behind(t, "10.9.0.1/24", "fd00:9::1/64")
				far.Run("sh", "-c", "ip route add 10.0.0.0/8 via 10.9.0.2; ip route add fd00::/16 via fd00:9::2")
				skeltest.Host(t, "sh", "-c", "ip address add 10.9.0.2/24 dev p0; ip address add fd00:9::2/64 dev p0 nodad; ip address add fe80::9/64 dev p0 nodad") // a router asks from its link-local address
				var containers []*skeltest.NS
				for i := range 2 {
					ns := space(t)
					p := plugin(ipvlan(mode, ""), answering(fmt.Sprintf(
						`"ips":[{"address":"10.%d.0.2/24"%s},{"address":"fd00:%d::2/64"%s}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]`,
						i+1, gateways[2*i], i+1, gateways[2*i+1])), link.Addresses{})
					a := add(ns, ns.Name).Run(t.Context(), t, p).OK(t)
					via := strings.Contains(ns.Run("ip", "route", "show", "default"), "via")
					if via != (name == "gateway") {
						t.Errorf("default route by a gateway: %v", via)
					}
					if onLink := a.Result.Routes[0].Scope != nil; onLink == via {
						t.Errorf("the result says %v, and by a gateway: %v", a.Result.Routes[0], via)
					}
					add(ns, ns.Name).With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
					ns.Run("ip", "route", "del", "default")
					add(ns, ns.Name).With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, "default")
					ns.Run("sh", "-c", "ip route add default dev eth0")
					containers = append(containers, ns)
				}
				for _, address := range []string{"10.2.0.2", "fd00:2::2", "10.9.0.1", "fd00:9::1"} {
					containers[0].Ping(address)
				}
				for _, address := range []string{"10.1.0.2", "fd00:1::2"} {
					far.Ping(address)
				}
			})
		}
	}
}

// In l3s the firewall and conntrack of the parent's namespace see what comes in; in l3 it passes them by.
func TestIPvlanL3SFirewall(t *testing.T) {
	for mode, closed := range map[link.IPvlanMode]bool{link.IPvlanL3: false, link.IPvlanL3S: true} {
		t.Run(mode.String(), func(t *testing.T) {
			far := behind(t, "10.9.0.1/24")
			far.Run("ip", "route", "add", "10.1.0.0/24", "via", "10.9.0.2")
			skeltest.Host(t, "ip", "address", "add", "10.9.0.2/24", "dev", "p0")
			ns := space(t)
			add(ns, "a").Run(t.Context(), t, plugin(ipvlan(mode, ""), answering(`"ips":[{"address":"10.1.0.2/24"}],"routes":[{"dst":"0.0.0.0/0"}]`), link.Addresses{})).OK(t)
			far.Ping("10.1.0.2")
			firewall(t, "add table ip t; add chain ip t in { type filter hook input priority 0; }; add rule ip t in ip saddr 10.9.0.1 ct state new drop")
			if got := reaches(far, "10.1.0.2"); got == closed {
				t.Errorf("a packet that the host drops gets in: %v", got)
			}
			ns.Ping("10.9.0.1") // out, and the answer is no new connection
		})
	}
}

// firewall loads rules on the host, or skips the test on a kernel without nf_tables for IPv4.
func firewall(t *testing.T, rules string) {
	t.Helper()
	out := skeltest.Host(t, "sh", "-c", "nft add table ip t 2>&1 || true")
	if strings.Contains(out, "not supported") {
		t.Skip("the kernel lacks nf_tables for IPv4")
	}
	t.Cleanup(func() { ignore(t, "nft delete table ip t") })
	skeltest.Host(t, "nft", rules)
}

// An address that another ipvlan of the parent has is refused by the kernel, in all modes and families, also before
// either is up. The ADD is rolled back, and the first one lives.
func TestIPvlanDuplicateOnTheParent(t *testing.T) {
	uplink(t)
	needs(t, "ipvlan")
	for _, mode := range []link.IPvlanMode{link.IPvlanL2, link.IPvlanL3} {
		for _, address := range []string{"10.1.0.2/24", "fd00:1::2/64"} {
			t.Run(mode.String()+" "+address, func(t *testing.T) {
				a, b := space(t), space(t)
				p := plugin(ipvlan(mode, ""), ipam(address), link.Addresses{})
				first := add(a, "a").Run(t.Context(), t, p).OK(t)
				same := unchanged(t, b)
				add(b, "b").Run(t.Context(), t, p).Fails(t, netconf.CodeExists, address, "duplicate", "ipvlan")
				same("after the refused ADD")
				add(a, "a").With(netconf.Check).WithPrev(first).Run(t.Context(), t, p).OK(t)
			})
		}
	}
}

// In l2 a neighbour behind the parent is asked for the address; in l3 and l3s nobody can be, and the address is usable
// at once, whatever the step was told.
func TestIPvlanDAD(t *testing.T) {
	for _, test := range []struct {
		mode link.IPvlanMode
		dad  link.DADMode
		code uint
	}{
		{link.IPvlanL2, link.DADAuto, netconf.CodeExists},
		{link.IPvlanL2, link.DADOff, 0},
		{link.IPvlanL3, link.DADAuto, 0},
		{link.IPvlanL3, link.DADOwn, 0},
		{link.IPvlanL3S, link.DADAuto, 0},
	} {
		t.Run(test.mode.String()+" "+string(test.dad), func(t *testing.T) {
			behind(t, "fd00:1::2/64")
			ns := space(t)
			same := unchanged(t, ns)
			p := plugin(ipvlan(test.mode, ""), ipam("fd00:1::2/64"), link.Addresses{DAD: test.dad})
			a := add(ns, "a").Run(t.Context(), t, p)
			if test.code != 0 {
				a.Fails(t, test.code, "fd00:1::2", "duplicate")
				same("after the refused ADD")
				return
			}
			a.OK(t)
			if out := ns.Run("ip", "address", "show", "dev", "eth0"); strings.Contains(out, "tentative") {
				t.Errorf("tentative after ADD: %s", out)
			}
		})
	}
}

// In l2 a neighbour that knows an address by the MAC of its last owner reaches the new one at once. In l3 there is no
// ARP: nothing is announced, and nothing is warned of.
func TestIPvlanAnnounce(t *testing.T) {
	far := behind(t, "10.1.1.1/24", "fd00::1/64")
	for _, mode := range []link.IPvlanMode{link.IPvlanL2, link.IPvlanL3} {
		t.Run(mode.String(), func(t *testing.T) {
			ns := space(t)
			skeltest.Host(t, "ip", "link", "add", "eth0", "link", "p0", "netns", ns.Name, "type", "ipvlan", "mode", mode.String())
			stale(far, "p1")
			c := newCall(t, ns, announced)
			c.add(t, link.Addresses{})
			if mode == link.IPvlanL2 {
				pingAll(far)
			} else if out := far.Run("ip", "neighbour", "show", "10.1.1.2"); !strings.Contains(out, "02:00:00:00:00:99") {
				t.Errorf("announced in %s: %s", mode, out)
			}
			if len(c.warnings) > 0 {
				t.Errorf("warnings: %q", c.warnings)
			}
		})
	}
}

// A chained plugin takes the parent and the addresses from the prevResult, as far as they are not given.
func TestIPvlanChained(t *testing.T) {
	const ips = `"ips":[{"address":"10.1.0.2/24","gateway":"10.1.0.1","interface":0},{"address":"fd00:1::2/64"}],"routes":[{"dst":"0.0.0.0/0"}]`
	for _, test := range []struct {
		name, prev string
		step       link.IPvlan
		ipam       skel.Step
		want       string // addresses on eth0
		code       uint
		words      []string
	}{
		{"parent and addresses", `"interfaces":[{"name":"p0"}],` + ips, link.IPvlan{}, nil, "10.1.0.2/24 fd00:1::2/64", 0, nil},
		{"parent named", `"interfaces":[{"name":"p0"},{"name":"p1"}],` + ips, ipvlan("", ""), nil, "10.1.0.2/24 fd00:1::2/64", 0, nil},
		{"no address", `"interfaces":[{"name":"p0"}]`, link.IPvlan{}, nil, "", 0, nil},
		{"an address of the container's", `"interfaces":[{"name":"p0"},{"name":"eth9","sandbox":"/x"}],"ips":[{"address":"10.1.0.2/24","interface":1}]`, ipvlan("", ""), nil, "", 0, nil},
		{"two interfaces", `"interfaces":[{"name":"p0"},{"name":"p1"}],` + ips, link.IPvlan{}, nil, "", 7, []string{"2 interfaces", "name a parent link"}},
		{"no interface", `"ips":[]`, link.IPvlan{}, nil, "", 7, []string{"0 interfaces"}},
		{"no such interface", `"interfaces":[{"name":"gone"}]`, link.IPvlan{}, nil, "", 7, []string{"gone"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			uplink(t)
			needs(t, "ipvlan")
			ns := space(t)
			same := unchanged(t, ns)
			test.step.Chained = true
			p := plugin(test.step, link.Addresses{DAD: link.DADOff})
			call := add(ns, "a")
			call.Prev = `{"cniVersion":"1.1.0",` + test.prev + `}`
			a := call.Run(t.Context(), t, p)
			if test.code != 0 {
				a.Fails(t, test.code, test.words...)
				same("after the refused ADD")
				return
			}
			a.OK(t)
			for _, want := range strings.Fields(test.want) {
				if !strings.Contains(ns.Run("ip", "address", "show", "dev", "eth0"), want) {
					t.Errorf("no %s on eth0", want)
				}
			}
			made := netconf.Attached(a.Result, "eth0")
			if made < 0 || a.Result.Interfaces[0].Name != "p0" {
				t.Fatalf("interfaces %v", a.Result.Interfaces)
			}
			for _, ip := range a.Result.IPs {
				if mine := ip.Interface != nil && *ip.Interface == made; mine != (test.want != "") {
					t.Errorf("%v of interface %v", ip, made)
				}
			}
			later := add(ns, "a").WithPrev(a)
			later.With(netconf.Check).Run(t.Context(), t, p).OK(t)
			call.Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "eth0")
			later.With(netconf.Check).Run(t.Context(), t, p).OK(t)
			later.With(netconf.Del).Run(t.Context(), t, p).OK(t)
			same("after DEL")
		})
	}
}

// With an ipam section the addresses are IPAM's, and those of the prevResult stay as they are. Each operation of a chained
// ADD fails in turn.
func TestIPvlanChainedWithIPAM(t *testing.T) {
	uplink(t)
	needs(t, "ipvlan")
	ns := space(t)
	call := add(ns, "a")
	call.Prev = `{"cniVersion":"1.1.0","interfaces":[{"name":"p0"}],"ips":[{"address":"10.7.0.2/24","interface":0}]}`
	p := plugin(link.IPvlan{Chained: true}, link.Addresses{})
	if n := skeltest.Walk(t, p, call, ns, nil); n < 5 {
		t.Errorf("the hook saw %d operations", n)
	}
	call.Config = `{"cniVersion":"1.1.0","name":"net","type":"test","ipam":{"type":"x"}}`
	a := call.Run(t.Context(), t, plugin(link.IPvlan{Chained: true}, ipam("10.1.0.2/24"), link.Addresses{})).OK(t)
	out := ns.Run("ip", "address", "show", "dev", "eth0")
	if !strings.Contains(out, "10.1.0.2/24") || strings.Contains(out, "10.7.0.2") || len(a.Result.IPs) != 2 || *a.Result.IPs[0].Interface != 0 {
		t.Errorf("%s%v", out, a.Result.IPs)
	}
}

// Unless it is told to, a plugin passes a prevResult on as it came.
func TestIPvlanNotChained(t *testing.T) {
	uplink(t)
	needs(t, "ipvlan")
	ns := space(t)
	call := add(ns, "a")
	call.Prev = `{"cniVersion":"1.1.0","interfaces":[{"name":"p0"}],"ips":[{"address":"10.7.0.2/24","interface":0}]}`
	call.Run(t.Context(), t, plugin(link.IPvlan{}, link.Addresses{})).Fails(t, netconf.CodeInvalidNetworkConfig, "default route")
	a := call.Run(t.Context(), t, plugin(ipvlan("", ""), link.Addresses{})).OK(t)
	if len(a.Result.IPs) != 1 || *a.Result.IPs[0].Interface != 0 || strings.Contains(ns.Run("ip", "address", "show", "dev", "eth0"), "10.7") {
		t.Errorf("%v", a.Result.IPs)
	}
}

// What a namespace's number is for: it is given once, and its namespace takes it along.
func TestIPvlanNamespaceNumber(t *testing.T) {
	uplink(t)
	needs(t, "ipvlan")
	ns := space(t)
	host, container := spaces(t, ns)
	var ops []string
	ctx := netconf.WithFault(t.Context(), recording(&ops))
	for range 2 {
		if _, err := ipvlan("", "").Create(ctx, host, container, owner("a")); err != nil {
			t.Fatal(err)
		}
		if err := ipvlan("", "").Delete(ctx, host, container, owner("a")); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(strings.Join(ops, "\n"), "number namespace"); n != 1 {
		t.Errorf("numbered %d times: %q", n, ops)
	}
	refuse := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if strings.HasPrefix(op, "number namespace") {
			return errors.New("no such luck")
		}
		return nil
	})
	other := space(t)
	same := unchanged(t, other)
	add(other, "b").Run(refuse, t, plugin(ipvlan("", ""))).Fails(t, netconf.CodeInternal, "no such luck")
	same("after the ADD that failed")
}
