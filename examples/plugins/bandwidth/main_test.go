package main

import (
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// add is the ADD behind a plugin that has made eth0, whose pair's other end is vh on the host; more are keys of the
// configuration.
func add(t *testing.T, more string) (*skeltest.NS, skeltest.Call) {
	ns := skeltest.NewNS(t)
	skeltest.Host(t, "sh", "-ec", "ip link add vh type veth peer name eth0 netns "+ns.Name+"; ip link set vh addrgenmode none up; ip address add 10.1.1.1/24 dev vh")
	t.Cleanup(func() { skeltest.Host(t, "ip", "link", "del", "vh") })
	ns.Run("sh", "-ec", "ip link set eth0 addrgenmode none up; ip address add 10.1.1.2/24 dev eth0")
	c := skeltest.Call{
		Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0",
		Config: `{"cniVersion":"1.1.0","name":"net","type":"bandwidth","ingressRate":8000000,"egressRate":8000000,"unshapedSubnets":["192.0.2.0/24"]}`,
		Prev: `{"cniVersion":"1.1.0","interfaces":[{"name":"vh"},{"name":"eth0","sandbox":"` + ns.Path + `"}],` +
			`"ips":[{"address":"10.1.1.2/24","interface":1}]}`,
	}
	if a := c.Run(t.Context(), t, plugin()); a.Exit != 0 && a.Err.Code == netconf.CodeNotSupported {
		t.Skip(a.Err.Msg)
	}
	c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	c.Config = `{"cniVersion":"1.1.0","name":"net","type":"bandwidth"` + more + `}`
	return ns, c
}

// tc is everything that tc says of the links of the host.
func tc(t *testing.T) string {
	return skeltest.Host(t, "sh", "-c", "(tc qdisc show; for l in $(ip -br link | sed 's/[@ ].*//'); do tc class show dev $l; tc filter show dev $l ingress; tc filter show dev $l; done) | sed 's/ refcnt [0-9]*//'")
}

func TestPacketsFlowAndNothingIsLeft(t *testing.T) {
	ns, c := add(t, `,"ingressRate":8000000,"ingressBurst":400000,"egressRate":4000000,"egressBurst":200000`)
	before, links := tc(t), skeltest.HostSnapshot(t)
	a := c.Run(t.Context(), t, plugin()).OK(t)
	ns.Ping("10.1.1.1")
	if len(a.Result.Interfaces) != 3 || !strings.HasPrefix(a.Result.Interfaces[2].Name, "ifb-") || len(a.Result.IPs) != 1 {
		t.Errorf("result %s", a.Stdout)
	}
	// 500 packets of 1000 bytes at once, and the answers to those that get through: each bucket has more than it may let
	// through, which the kernel counts. How much that is, link's tests measure.
	skeltest.Host(t, "sh", "-c", "ping -n -q -l 500 -c 500 -s 972 -w 1 10.1.1.2 || true")
	for _, link := range []string{"vh", a.Result.Interfaces[2].Name} {
		if show := skeltest.Host(t, "tc", "-s", "qdisc", "show", "dev", link, "root"); !strings.Contains(show, "tbf") || strings.Contains(show, "overlimits 0 ") {
			t.Errorf("nothing was held back at %s: %s", link, show)
		}
	}
	check := c.With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, plugin()).OK(t)
	skeltest.Host(t, "tc", "qdisc", "del", "dev", "vh", "root")
	check.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, "vh")
	for range 2 {
		c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t) // without a prevResult
	}
	if now := tc(t); now != before || links.Diff(skeltest.HostSnapshot(t)) != "" {
		t.Errorf("left behind: %s%s", now, links.Diff(skeltest.HostSnapshot(t)))
	}
}

// The call is harmed at each of its operations in turn: everything is as before, each time.
func TestHarmedAnywhereNothingIsLeft(t *testing.T) {
	ns, c := add(t, `,"ingressRate":8000000,"egressRate":4000000`)
	if n := skeltest.Walk(t, plugin(), c, ns, func() []string { return strings.Split(tc(t), "\n") }); n < 6 {
		t.Errorf("an ADD of %d operations: the fault hook is not called", n)
	}
}

func TestConfigurationOfTheReferencePlugin(t *testing.T) {
	tests := []struct {
		name, conf string
		code       uint
		words      string // in the error, or in what tc says
		without    string // not in what tc says
	}{
		{name: "nothing", without: "4343"},
		{name: "all zero", conf: `,"ingressRate":0,"ingressBurst":0,"egressRate":0,"egressBurst":0`, without: "4343"},
		{name: "ingress", conf: `,"ingressRate":8000000,"ingressBurst":400000`, words: "tbf 4343: dev vh root rate 8Mbit burst 50000b", without: "ifb-"},
		{name: "egress", conf: `,"egressRate":8000000,"egressBurst":400000`, words: "Egress Redirect to device ifb-", without: "dev vh root rate"},
		{name: "of the runtime", conf: `,"runtimeConfig":{"bandwidth":{"ingressRate":8000000,"ingressBurst":400000}}`, words: "rate 8Mbit burst 50000b"},
		{name: "of CRI-O", conf: `,"runtimeConfig":{"bandwidth":{"ingressRate":8000000,"ingressBurst":34359738359}}`, words: "tbf 4343: dev vh root rate 8Mbit"},
		{name: "a rate without a burst", conf: `,"runtimeConfig":{"bandwidth":{"ingressRate":8000000}}`, words: "rate 8Mbit burst 1000"},
		{name: "the configuration before the runtime", conf: `,"ingressRate":8000000,"runtimeConfig":{"bandwidth":{"ingressRate":16000000}}`, words: "rate 8Mbit"},
		{name: "one of each", conf: `,"ingressRate":8000000,"runtimeConfig":{"bandwidth":{"egressRate":16000000}}`, words: "rate 16Mbit"},
		{name: "with its unit", conf: `,"ingressRate":"8M"`, words: "rate 8Mbit"},
		{name: "unshapedSubnets", conf: `,"ingressRate":8000000,"unshapedSubnets":["192.0.2.0/24","2001:db8::/32"]`, words: "match c0000200/ffffff00 at 12"},
		{name: "shapedSubnets", conf: `,"egressRate":8000000,"shapedSubnets":["192.0.2.0/24"]`, words: "match c0000200/ffffff00 at 16"},

		{name: "a burst without a rate", conf: `,"ingressBurst":400000`, code: netconf.CodeInvalidNetworkConfig, words: "ingress"},
		{name: "less than a byte", conf: `,"ingressRate":7`, code: netconf.CodeInvalidNetworkConfig, words: "at least 8"},
		{name: "a burst of 4 GB", conf: `,"ingressRate":8000000,"ingressBurst":34359738360`, code: netconf.CodeInvalidNetworkConfig, words: "34359738360"},
		{name: "a negative rate", conf: `,"ingressRate":-1`, code: netconf.CodeInvalidNetworkConfig, words: "ingressRate"},
		{name: "of the runtime, wrong", conf: `,"runtimeConfig":{"bandwidth":{"egressBurst":5}}`, code: netconf.CodeInvalidNetworkConfig, words: "runtimeConfig.bandwidth.egressBurst"},
		{name: "both subnets", conf: `,"ingressRate":8000000,"shapedSubnets":["192.0.2.0/24"],"unshapedSubnets":["192.0.2.0/24"]`, code: netconf.CodeInvalidNetworkConfig, words: "exclude"},
		{name: "no subnet", conf: `,"ingressRate":8000000,"shapedSubnets":["192.0.2.0"]`, code: netconf.CodeInvalidNetworkConfig, words: "shapedSubnets[0]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, c := add(t, test.conf)
			before := tc(t)
			a := c.Run(t.Context(), t, plugin())
			now := tc(t)
			switch {
			case test.code != 0:
				if a.Fails(t, test.code, test.words); now != before {
					t.Errorf("changed: %s", now)
				}
			case !strings.Contains(a.OK(t).Stdout+now, test.words) || test.without != "" && strings.Contains(now, test.without):
				t.Errorf("no %q, or %q, in %s", test.words, test.without, now)
			default:
				c.With(netconf.Check).WithPrev(a).Run(t.Context(), t, plugin()).OK(t)
			}
			c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
			if now := tc(t); now != before {
				t.Errorf("left behind: %s", now)
			}
		})
	}
}

// What is wrong in itself is found before anything is looked for: so `bandwidth validate` finds it too.
func TestWrongValuesAreFoundFirst(t *testing.T) {
	t.Parallel()
	c := skeltest.Call{Command: netconf.Add, ContainerID: "c", Netns: "/nosuch", IfName: "eth0", Config: `{"cniVersion":"1.1.0","name":"net","type":"bandwidth","ingressBurst":1,"egressRate":7}`,
		Prev: `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/nosuch"}]}`}
	c.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, "a burst without a rate", "less than a byte")
}
