package link_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

const checked = `"ips":[{"address":"10.1.1.2/24"},{"address":"10.2.2.2/32"},{"address":"fd00::2/64"}],` +
	`"routes":[{"dst":"0.0.0.0/0","gw":"10.1.1.1"},{"dst":"10.5.0.0/16","gw":"10.1.1.3","mtu":1300,"advmss":1200,"priority":50,"table":100},` +
	`{"dst":"10.6.0.0/16","scope":253},{"dst":"::/0","gw":"fd00::1"},{"dst":"fd05::/48","gw":"fd00::3","mtu":1400,"priority":7,"table":100}]`

// TestF6CheckComparesEveryAttribute: CHECK fails on a wrong gateway, and on each other attribute that is changed,
// saying what is there and what was expected; it passes a /32, and what others add.
func TestF6CheckComparesEveryAttribute(t *testing.T) {
	parallelNS(t)
	for _, test := range []struct {
		name  string
		run   []string // commands in the container
		words string   // in the error; "" for a CHECK that passes
	}{
		{"as made", nil, ""},
		{"more addresses and routes", []string{"ip address add 10.1.1.9/24 dev eth0", "ip address add fd00::9/64 dev eth0 nodad", "ip route add 10.99.0.0/16 via 10.1.1.1", "ip route add default via 10.1.1.9 metric 500", "ip route add 10.5.0.0/16 via 10.1.1.1 dev eth0 table 200", "ip -6 route add default via fd00::8 metric 9"}, ""},
		{"an address again, with another prefix", []string{"ip address add 10.1.1.2/16 dev eth0", "ip address add 10.1.1.2/30 dev eth0"}, ""},
		{"MAC and MTU", []string{"ip link set eth0 address 02:00:00:00:00:77", "ip link set eth0 mtu 1420"}, ""},
		{"link gone", []string{"ip link del eth0"}, "eth0 there"},
		{"link down", []string{"ip link set eth0 down"}, "eth0 down expected up"},
		{"address gone", []string{"ip address del 10.2.2.2/32 dev eth0"}, "10.2.2.2/32 not there"},
		{"address with another prefix", []string{"ip address del 10.2.2.2/32 dev eth0", "ip address add 10.2.2.2/30 dev eth0"}, "10.2.2.2/30 expected 10.2.2.2/32"},
		{"IPv6 address gone", []string{"ip address del fd00::2/64 dev eth0"}, "fd00::2/64 not there"},
		{"IPv6 address with another prefix", []string{"ip address del fd00::2/64 dev eth0", "ip address add fd00::2/80 dev eth0 nodad"}, "fd00::2/80 fd00::2/64"},
		{"gateway", []string{"ip route replace default via 10.1.1.9"}, "default gateway 10.1.1.9 expected 10.1.1.1"},
		{"no gateway", []string{"ip route replace default dev eth0"}, "default gateway none expected 10.1.1.1"},
		{"IPv6 gateway", []string{"ip -6 route replace default via fd00::9"}, "default gateway fd00::9 expected fd00::1"},
		{"route gone", []string{"ip route del default"}, "default via 10.1.1.1 not there"},
		{"route out of another link", []string{"ip link add d0 type bridge", "ip link set d0 up", "ip route replace default via 10.1.1.1 dev d0 onlink"}, "default not there"},
		{"table", []string{"ip route del 10.5.0.0/16 table 100", "ip route add 10.5.0.0/16 via 10.1.1.3 mtu 1300 advmss 1200 metric 50"}, "10.5.0.0/16 table 100 not there"},
		{"gateway in a table", []string{"ip route replace 10.5.0.0/16 via 10.1.1.1 mtu 1300 advmss 1200 metric 50 table 100"}, "gateway 10.1.1.1 expected 10.1.1.3"},
		{"metric", []string{"ip route del 10.5.0.0/16 table 100", "ip route add 10.5.0.0/16 via 10.1.1.3 mtu 1300 advmss 1200 metric 51 table 100"}, "metric 51 expected 50"},
		{"mtu", []string{"ip route replace 10.5.0.0/16 via 10.1.1.3 mtu 1310 advmss 1200 metric 50 table 100"}, "mtu 1310 expected 1300"},
		{"advmss", []string{"ip route replace 10.5.0.0/16 via 10.1.1.3 mtu 1300 advmss 1210 metric 50 table 100"}, "advmss 1210 expected 1200"},
		{"mtu that nobody asked for", []string{"ip route replace default via 10.1.1.1 mtu 1000"}, "mtu 1000 expected 0"},
		{"scope", []string{"ip route replace 10.6.0.0/16 dev eth0 scope global"}, "10.6.0.0/16 scope 0 expected 253"},
		{"IPv6 mtu", []string{"ip -6 route replace fd05::/48 via fd00::3 mtu 1410 metric 7 table 100"}, "mtu 1410 expected 1400"},
		{"IPv6 metric", []string{"ip -6 route del fd05::/48 table 100", "ip -6 route add fd05::/48 via fd00::3 mtu 1400 metric 8 table 100"}, "metric 8 expected 7"},
		{"IPv6 table", []string{"ip -6 route del fd05::/48 table 100", "ip -6 route add fd05::/48 via fd00::3 mtu 1400 metric 7"}, "fd05::/48 not there"},
		{"several at once", []string{"ip route del default", "ip address del fd00::2/64 dev eth0"}, "fd00::2/64 default"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			container, _ := pair(t, "10.1.1.1/24", "fd00::1/64")
			c := newCall(t, container, checked)
			c.add(t, link.Addresses{})
			c.check(t, link.Addresses{})
			for _, command := range test.run {
				args := strings.Fields(command)
				container.Run(args[0], args[1:]...)
			}
			wantDifferent(t, link.Addresses{}.Check(t.Context(), c.Request), test.words)
		})
	}
}

// wantDifferent expects an error that is ErrDifferent and contains all words, or none if there are no words.
func wantDifferent(t *testing.T, err error, words string) {
	t.Helper()
	if words == "" {
		if err != nil {
			t.Errorf("CHECK: %v", err)
		}
		return
	}
	if !errors.Is(err, netconf.ErrDifferent) || netconf.Code(err) != netconf.CodeDifferent {
		t.Fatalf("error %v (code %d): expected ErrDifferent", err, netconf.Code(err))
	}
	for word := range strings.FieldsSeq(words) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in: %v", word, err)
		}
	}
}

// TestCheckTellsWhoseARouteIs: a result with two interfaces says of no route which one it leaves by.
func TestCheckTellsWhoseARouteIs(t *testing.T) {
	parallelNS(t)
	container, _ := pair(t, "10.1.1.1/24")
	another(container, "net1")
	container.Run("ip", "address", "add", "10.9.9.2/24", "dev", "net1")
	container.Run("ip", "route", "add", "10.88.0.0/16", "via", "10.9.9.1")
	c := newCall(t, container, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1","interface":0}],"routes":[{"dst":"10.77.0.0/16"}]`)
	c.add(t, link.Addresses{})
	c.Prev = parse(t, `"ips":[{"address":"10.1.1.2/24","interface":0},{"address":"10.9.9.2/24","interface":1}],`+
		`"routes":[{"dst":"10.77.0.0/16","gw":"10.1.1.1"},{"dst":"10.88.0.0/16","gw":"10.9.9.1"}]`)
	c.check(t, link.Addresses{})
	c.check(t, link.Addresses{Interface: "net1"})
	container.Run("ip", "route", "del", "10.88.0.0/16")
	c.check(t, link.Addresses{})
	wantDifferent(t, link.Addresses{Interface: "net1"}.Check(t.Context(), c.Request), "net1 10.88.0.0/16")
}

// TestCheckDuplicate: an address that the kernel found to be a neighbour's is a difference, at once.
func TestCheckDuplicate(t *testing.T) {
	parallelNS(t)
	container, _ := pair(t, "fd00::2/64")
	c := newCall(t, container, `"ips":[{"address":"fd00::2/64"}]`)
	c.add(t, link.Addresses{DAD: link.DADOff})
	container.Run("ip", "address", "del", "fd00::2/64", "dev", "eth0")
	container.Run("sysctl", "-qw", "net.ipv6.conf.eth0.accept_dad=1")
	container.Run("ip", "address", "add", "fd00::2/64", "dev", "eth0")
	wantDifferent(t, link.Addresses{}.Check(t.Context(), c.Request), "fd00::2 neighbour")
}

// TestCheckWaitsForWhatIsTransient: a link whose other end comes up late is waited for, no longer than the call.
func TestCheckWaitsForWhatIsTransient(t *testing.T) {
	parallelNS(t)
	container, neighbour := pair(t, "10.1.1.1/24")
	c := newCall(t, container, `"ips":[{"address":"10.1.1.2/24"}]`)
	c.add(t, link.Addresses{})
	neighbour.Run("ip", "link", "set", "p0", "down")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantDifferent(t, link.Addresses{}.Check(ctx, c.Request), "operational state up")

	done := make(chan error)
	go func() { done <- link.Addresses{}.Check(t.Context(), c.Request) }()
	neighbour.Run("ip", "link", "set", "p0", "up")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

const (
	default4 = `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"0.0.0.0/0"%s}]`
	default6 = `"ips":[{"address":"fd00::2/64","gateway":"fd00::1"}],"routes":[{"dst":"::/0"%s}]`
)

type secondDefault struct {
	name   string
	step   link.Addresses
	first  string // the other link's, in ip's words
	ipam   string
	more   string // in the route of ipam
	metric int    // in the result; -1 for a refusal
}

// secondDefaults are default routes for a container that has one out of net0.
var secondDefaults = []secondDefault{
	{"v4", link.Addresses{}, "default via 10.9.9.1", default4, ``, -1},
	{"v4 in front", link.Addresses{}, "default via 10.9.9.1 metric 100", default4, ``, -1},
	{"v4 behind, by IPAM", link.Addresses{}, "default via 10.9.9.1", default4, `,"priority":200`, 200},
	{"v4 in front, by IPAM", link.Addresses{}, "default via 10.9.9.1 metric 300", default4, `,"priority":200`, -1},
	{"v4 another table", link.Addresses{}, "default via 10.9.9.1 table 100", default4, ``, 0},
	{"v4 the same other table", link.Addresses{}, "default via 10.9.9.1 table 100", default4, `,"table":100`, -1},
	{"v4 chosen", link.Addresses{DefaultMetric: 200}, "default via 10.9.9.1", default4, ``, 200},
	{"v4 chosen too low", link.Addresses{DefaultMetric: 200}, "default via 10.9.9.1 metric 200", default4, ``, -1},
	{"v4 chosen, not needed", link.Addresses{DefaultMetric: 200}, "10.99.0.0/16 via 10.9.9.1", default4, ``, 0},
	{"v6", link.Addresses{}, "default via fd09::1", default6, ``, -1},
	{"v6 without a gateway", link.Addresses{}, "default", default6, ``, -1},
	{"v6 of a router", link.Addresses{}, "default via fd09::1 proto ra", default6, ``, -1},
	{"v6 behind, by IPAM", link.Addresses{}, "default via fd09::1", default6, `,"priority":2000`, 2000},
	{"v6 in front, by IPAM", link.Addresses{}, "default via fd09::1", default6, `,"priority":200`, -1},
	{"v6 chosen", link.Addresses{DefaultMetric: 2000}, "default via fd09::1", default6, ``, 2000},
	{"v6 chosen too low", link.Addresses{DefaultMetric: 1024}, "default via fd09::1", default6, ``, -1},
}

// TestSecondDefaultRoute is C-LINK-10, and what a caller may choose instead.
func TestSecondDefaultRoute(t *testing.T) {
	parallelNS(t)
	for _, test := range secondDefaults {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			container, _ := pair(t, "10.1.1.1/24", "fd00::1/64")
			another(container, "net0")
			container.Run("ip", "address", "add", "10.9.9.2/24", "dev", "net0")
			container.Run("ip", "address", "add", "fd09::2/64", "dev", "net0", "nodad")
			family := "-4"
			if test.ipam == default6 {
				family = "-6"
			}
			container.Run("ip", append([]string{family, "route", "add", "dev", "net0"}, strings.Fields(test.first)...)...)
			before := layer3(container)
			c := newCall(t, container, strings.Replace(test.ipam, "%s", test.more, 1))
			err := test.step.Add(t.Context(), c.Request)
			if test.metric < 0 {
				if netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), "net0") {
					t.Errorf("error %v (code %d): expected code 7 that names net0", err, netconf.Code(err))
				}
				if diff := before.Diff(layer3(container)); diff != "" {
					t.Errorf("changed:\n%s", diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Result.Routes[0].Priority; got != test.metric {
				t.Errorf("metric %d in the result, expected %d", got, test.metric)
			}
			if chosen := test.metric > 0 && test.step.DefaultMetric > 0; chosen != (len(c.warnings) > 0) {
				t.Errorf("warnings: %q", c.warnings)
			}
			c.later(t)
			c.check(t, test.step)
			c.Prev.Routes[0].Priority *= 1 - min(test.step.DefaultMetric, 1) // as a result below 1.1.0 has it
			c.check(t, test.step)
			c.del(t, test.step)
			if routes := container.Run("ip", family, "route", "show", "table", "all"); !strings.Contains(routes, strings.Fields(test.first)[0]+" ") || strings.Contains(routes, "nexthop") {
				t.Errorf("net0's route is not as it was: %s", routes)
			}
		})
	}
}

// TestRouteInTheWay: a route of somebody else's to the same place is named, and stays.
func TestRouteInTheWay(t *testing.T) {
	parallelNS(t)
	for first, says := range map[string]string{
		"ip route add 10.5.0.0/16 dev lo":                        `"lo"`,
		"ip -6 route add fd05::/48 dev lo metric 1024":           `"lo"`, // no merging
		"ip route add blackhole 10.5.0.0/16":                     "there is blackhole 10.5.0.0/16 already",
		"ip route add unreachable default":                       "there is unreachable default already",
		"ip -6 route add prohibit default metric 1024":           "there is prohibit default ::/0 metric 1024",
		"ip -6 route add blackhole fd05::/48 dev lo metric 1024": "there is blackhole fd05::/48 metric 1024",
	} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			container, _ := pair(t)
			args := strings.Fields(first)
			container.Run(args[0], args[1:]...)
			before := layer3(container)
			c := newCall(t, container, `"ips":[{"address":"10.1.1.2/24"},{"address":"fd00::2/64"}],"routes":[{"dst":"10.5.0.0/16","gw":"10.1.1.1"},{"dst":"fd05::/48","gw":"fd00::1"},{"dst":"0.0.0.0/0","gw":"10.1.1.1"},{"dst":"::/0","gw":"fd00::1"}]`)
			err := link.Addresses{}.Add(t.Context(), c.Request)
			if netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), says) {
				t.Errorf("error %v (code %d): expected code 7 and %q", err, netconf.Code(err), says)
			}
			c.del(t, link.Addresses{}) // rollback
			container.Run("ip", "link", "set", "eth0", "down")
			if diff := before.Diff(layer3(container)); diff != "" {
				t.Errorf("changed:\n%s", diff)
			}
		})
	}
}

// TestEnsureRepairs: a daemon brings back what is gone or wrong, and leaves alone what is right.
func TestEnsureRepairs(t *testing.T) {
	parallelNS(t)
	for _, command := range []string{
		"true", "ip address flush dev eth0", "ip link set eth0 down", "ip route del default",
		"ip route replace default via 10.1.1.9 proto 67", "ip -6 route replace default via fd00::9 proto 67",
		"ip address del 10.1.1.2/24 dev eth0", "ip address add 10.1.1.2/16 dev eth0", "sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			container, _ := pair(t, "10.1.1.1/24", "fd00::1/64")
			c := newCall(t, container, checked)
			plan, err := link.Addresses{}.Plan("eth0", c.Result, nil)
			if err != nil {
				t.Fatal(err)
			}
			n := open(t, container)
			if err := plan.Create(t.Context(), n, "eth0"); err != nil {
				t.Fatal(err)
			}
			if err := plan.Create(t.Context(), n, "eth0"); !errors.Is(err, netconf.ErrExists) {
				t.Errorf("created again: %v", err)
			}
			args := strings.Fields(command)
			container.Run(args[0], args[1:]...)
			if err := plan.Ensure(t.Context(), n, "eth0"); err != nil {
				t.Fatal(err)
			}
			if err := plan.Verify(t.Context(), n, "eth0"); err != nil {
				t.Error(err)
			}
			container.Ping("10.1.1.1")
			container.Ping("fd00::1")
			operations := 0
			ctx := netconf.WithFault(t.Context(), func(context.Context, string) error { operations++; return nil })
			if err := plan.Ensure(ctx, n, "eth0"); err != nil || operations > len(plan.Routes) { // it tries to add each
				t.Errorf("again: %v, with %d operations", err, operations)
			}
		})
	}
}

// another makes one more link, with a carrier.
func another(ns *skeltest.NS, name string) {
	ns.Run("ip", "link", "add", name, "type", "veth", "peer", "name", "peer-"+name)
	ns.Run("ip", "link", "set", name, "addrgenmode", "none") // a link-local address comes in its own time
	ns.Run("ip", "link", "set", "peer-"+name, "up")
	ns.Run("ip", "link", "set", name, "up")
}

func open(t *testing.T, ns *skeltest.NS) *link.NS {
	t.Helper()
	n, err := link.Open(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() }) // only read from
	return n
}
