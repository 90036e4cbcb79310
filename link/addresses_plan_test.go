package link_test

import (
	"net"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// parse reads a result and gives it the interface eth0 at index 0, net1 at index 1.
func parse(t *testing.T, result string) *types100.Result {
	t.Helper()
	r, err := netconf.ParseResult([]byte(`{"interfaces":[{"name":"eth0","sandbox":"/run/netns/x"},{"name":"net1","sandbox":"/run/netns/x"}],`+result+`}`), "1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// text writes a plan: addresses, then routes in order.
func text(p *link.AddressPlan) string {
	var lines []string
	for _, a := range p.Addresses {
		lines = append(lines, a.String())
	}
	for _, r := range p.Routes {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "\n")
}

type planned struct {
	name   string
	step   link.Addresses
	result string
	want   string
}

// plans are results, and what they come to.
var plans = []planned{
	{"nothing", link.Addresses{}, `"ips":[]`, ""},
	{"gateway of the address", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"0.0.0.0/0"}]`,
		"10.1.1.2/24\ndefault via 10.1.1.1"},
	{"dual stack", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"},{"address":"fd00::2/64","gateway":"fd00::1"}],"routes":[{"dst":"::/0"},{"dst":"0.0.0.0/0"}]`,
		"10.1.1.2/24\nfd00::2/64\ndefault ::/0 via fd00::1\ndefault via 10.1.1.1"},
	{"all attributes", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"10.9.0.5/16","gw":"10.1.1.7","mtu":1400,"advmss":1360,"priority":50,"table":100}]`,
		"10.1.1.2/24\n10.9.0.0/16 via 10.1.1.7 table 100 metric 50 mtu 1400 advmss 1360"},
	{"small prefixes", link.Addresses{}, `"ips":[{"address":"10.1.1.2/31"},{"address":"fd00::2/127"},{"address":"10.2.2.2/32"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.1.1.3"},{"dst":"::/0","gw":"fd00::3"}]`,
		"10.1.1.2/31\nfd00::2/127\n10.2.2.2/32\ndefault via 10.1.1.3\ndefault ::/0 via fd00::3"},
	{"addresses and routes of another interface", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24","interface":0},{"address":"10.2.2.2/24","interface":1}],"routes":[{"dst":"0.0.0.0/0","gw":"10.2.2.1"},{"dst":"10.3.0.0/16","gw":"10.1.1.1"}]`,
		"10.1.1.2/24\n10.3.0.0/16 via 10.1.1.1"},
	{"a route that cannot be told is the attachment's own interface's", link.Addresses{}, `"ips":[{"address":"10.1.1.2/32","interface":0},{"address":"10.2.2.2/24","interface":1}],"routes":[{"dst":"0.0.0.0/0","gw":"169.254.1.1"}]`,
		"10.1.1.2/32\ndefault via 169.254.1.1 onlink"},
	{"and not another's", link.Addresses{Interface: "net1"}, `"ips":[{"address":"10.1.1.2/32","interface":0},{"address":"10.2.2.2/24","interface":1}],"routes":[{"dst":"0.0.0.0/0","gw":"169.254.1.1"}]`,
		"10.2.2.2/24"},
	{"no gateway anywhere", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"10.5.0.0/16"}]`,
		"10.1.1.2/24\n10.5.0.0/16 scope 253"},
	{"0.0.0.0 is no gateway", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"10.5.0.0/16","gw":"0.0.0.0"}]`,
		"10.1.1.2/24\n10.5.0.0/16 scope 253"},
	{"the same route twice", link.Addresses{}, `"ips":[{"address":"fd00::2/64","gateway":"fd00::1"}],"routes":[{"dst":"::/0"},{"dst":"::/0","gw":"fd00::1","priority":1024}]`,
		"fd00::2/64\ndefault ::/0 via fd00::1\ndefault ::/0 via fd00::1 metric 1024"},
	{"the subnet of an address", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"10.1.1.0/24"},{"dst":"10.1.0.0/16"}]`,
		"10.1.1.2/24\n10.1.1.0/24 scope 253\n10.1.0.0/16 via 10.1.1.1"},
	{"the subnet of an address of ours among others", link.Addresses{Interface: "net1"}, `"ips":[{"address":"10.1.1.2/24","interface":0},{"address":"10.2.2.2/24","gateway":"10.2.2.1","interface":1}],"routes":[{"dst":"10.2.2.0/24"}]`,
		"10.2.2.2/24\n10.2.2.0/24 scope 253"},
	{"point to point, the subnet of an address", link.Addresses{PointToPoint: true}, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"10.1.1.0/24"}]`,
		"10.1.1.2/24\n10.1.1.1/32 src 10.1.1.2 scope 253\n10.1.1.0/24 via 10.1.1.1 onlink"},
	{"a route to the gateway alone", link.Addresses{}, `"ips":[{"address":"10.1.1.2/32","gateway":"10.9.9.9"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"10.9.9.9/32"}]`,
		"10.1.1.2/32\n10.9.9.9/32 scope 253\ndefault via 10.9.9.9 onlink"},

	{"C-LINK-09 a", link.Addresses{}, `"ips":[{"address":"10.1.1.2/32","gateway":"169.254.1.1"}],"routes":[{"dst":"0.0.0.0/0"}]`,
		"10.1.1.2/32\ndefault via 169.254.1.1 onlink"},
	{"C-LINK-09 b", link.Addresses{}, `"ips":[{"address":"10.1.1.2/32"}],"routes":[{"dst":"0.0.0.0/0","gw":"169.254.1.1"},{"dst":"169.254.1.1/32","scope":253}]`,
		"10.1.1.2/32\n169.254.1.1/32 scope 253\ndefault via 169.254.1.1 onlink"},
	{"C-LINK-09 c", link.Addresses{}, `"ips":[{"address":"10.1.1.2/32"}],"routes":[{"dst":"169.254.1.1/32","scope":253},{"dst":"0.0.0.0/0","gw":"169.254.1.1"}]`,
		"10.1.1.2/32\n169.254.1.1/32 scope 253\ndefault via 169.254.1.1 onlink"},
	{"C-LINK-09 d", link.Addresses{}, `"ips":[{"address":"fd00::2/128","gateway":"fe80::1"}],"routes":[{"dst":"::/0"}]`,
		"fd00::2/128\ndefault ::/0 via fe80::1"},
	{"C-LINK-09 e", link.Addresses{}, `"ips":[{"address":"fd00::2/128","gateway":"fd00:1::1"}],"routes":[{"dst":"::/0"}]`,
		"fd00::2/128\ndefault ::/0 via fd00:1::1 onlink"},
	{"covered by a link route", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.7.0.1"},{"dst":"10.7.0.0/16","scope":253}]`,
		"10.1.1.2/24\n10.7.0.0/16 scope 253\ndefault via 10.7.0.1 onlink"},

	{"point to point", link.Addresses{PointToPoint: true}, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"0.0.0.0/0"}]`,
		"10.1.1.2/24\n10.1.1.1/32 src 10.1.1.2 scope 253\n10.1.1.0/24 via 10.1.1.1 onlink src 10.1.1.2\ndefault via 10.1.1.1 onlink"},
	{"point to point, two addresses of a gateway", link.Addresses{PointToPoint: true}, `"ips":[{"address":"fd00::2/64","gateway":"fd00::1"},{"address":"fd00::3/64","gateway":"fd00::1"}]`,
		"fd00::2/64\nfd00::3/64\nfd00::1/128 src fd00::2\nfd00::/64 via fd00::1 onlink src fd00::2"},
}

func TestPlan(t *testing.T) {
	t.Parallel()
	for _, test := range plans {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			name := test.step.Interface
			if name == "" {
				name = "eth0"
			}
			plan, err := test.step.Plan(name, parse(t, test.result), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(plan); got != test.want {
				t.Errorf("got\n%s\nexpected\n%s", got, test.want)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		step   link.Addresses
		result string
		words  string // in the message, all of them
	}{
		{"C-LINK-09 f", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"198.51.100.0/24","gw":"203.0.113.1"}]`, "198.51.100.0/24 203.0.113.1"},
		{"the same address twice", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"},{"address":"10.1.1.2/32"}]`, "10.1.1.2 twice"},
		{"no host", link.Addresses{}, `"ips":[{"address":"224.0.0.1/24"}]`, "224.0.0.1"},
		{"unspecified", link.Addresses{}, `"ips":[{"address":"::/64"}]`, "::/64"},
		{"gateway of the other family", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24","gateway":"fd00::1"}]`, "10.1.1.2/24 fd00::1"},
		{"route of the other family", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"::/0","gw":"10.1.1.1"}]`, "::/0 10.1.1.1"},
		{"no address of the family", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"::/0","gw":"fe80::1"}]`, "::/0"},
		{"own address as gateway", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.1.1.2"}]`, "10.1.1.2 own"},
		{"scope with a gateway", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.1.1.1","scope":253}]`, "scope 253 10.1.1.1"},
		{"unknown scope", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"10.9.0.0/16","scope":7}]`, "scope 7"},
		{"the kernel's scope of what leads to nowhere", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"10.9.0.0/16","scope":255}]`, "scope 255"},
		{"negative priority", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"10.9.0.0/16","priority":-1}]`, "priority -1"},
		{"mtu that the kernel would cut", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"10.9.0.0/16","mtu":70000}]`, "mtu 70000"},
		{"table out of range", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"10.9.0.0/16","table":4294967296}]`, "table 4294967296"},
		{"two routes that exclude each other", link.Addresses{}, `"ips":[{"address":"fd00::2/64"}],"routes":[{"dst":"::/0","gw":"fd00::1"},{"dst":"::/0","gw":"fd00::3","priority":1024}]`, "fd00::3 metric"},
		{"the same route twice, with another attribute", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"0.0.0.0/0","mtu":1400}]`, "default 1400 metric"},
		{"point to point without a gateway", link.Addresses{PointToPoint: true}, `"ips":[{"address":"10.1.1.2/24"}]`, "10.1.1.2/24 gateway"},
		{"point to point past the gateway", link.Addresses{PointToPoint: true}, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.1.1.7"}]`, "10.1.1.7 neighbour"},
		{"metric", link.Addresses{DefaultMetric: -1}, `"ips":[]`, "-1"},
		{"all together", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"},{"address":"10.1.1.2/24"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.1.1.2"}]`, "twice own"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			plan, err := test.step.Plan("eth0", parse(t, test.result), nil)
			if plan == nil || netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
				t.Fatalf("plan %v, code %d (%v): expected code 7 and a plan", plan, netconf.Code(err), err)
			}
			for word := range strings.FieldsSeq(test.words) {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q is not in: %v", word, err)
				}
			}
		})
	}
}

// TestPlanChained: the addresses of the prevResult are not planned, but they are there.
func TestPlanChained(t *testing.T) {
	t.Parallel()
	there := parse(t, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1","interface":0}],"routes":[{"dst":"0.0.0.0/0"}]`)
	result := &types100.Result{Routes: parse(t, `"routes":[{"dst":"10.9.0.0/16"},{"dst":"10.8.0.0/16","gw":"10.1.1.3"}]`).Routes}
	plan, err := link.Addresses{}.Plan("eth0", result, there)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := text(plan), "10.9.0.0/16 via 10.1.1.1\n10.8.0.0/16 via 10.1.1.3"; got != want {
		t.Errorf("got\n%s\nexpected\n%s", got, want)
	}
}

// TestPlanRouteToNowhere: a result has no word for it. What IPAM writes all the same is dropped when its answer is read,
// and the route is one like others: to the gateway of an address, or out of the link.
func TestPlanRouteToNowhere(t *testing.T) {
	t.Parallel()
	for addresses, want := range map[string]string{
		`"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}]`: "10.1.1.2/24\n10.9.0.0/16 via 10.1.1.1",
		`"ips":[{"address":"10.1.1.2/24"}]`:                      "10.1.1.2/24\n10.9.0.0/16 scope 253",
	} {
		result := parse(t, addresses+`,"routes":[{"dst":"10.9.0.0/16","type":"blackhole","dev":"lo"}]`)
		plan, err := link.Addresses{}.Plan("eth0", result, nil)
		if got := text(plan); err != nil || got != want {
			t.Errorf("got\n%s (%v)\nexpected\n%s", got, err, want)
		}
	}
}

// TestPlanForms: package net has several forms of one address.
func TestPlanForms(t *testing.T) {
	t.Parallel()
	result := &types100.Result{IPs: []*types100.IPConfig{
		{Address: net.IPNet{IP: net.IPv4(10, 1, 1, 2), Mask: net.CIDRMask(120, 128)}},
		{Address: net.IPNet{IP: net.IPv4(10, 1, 1, 3).To4(), Mask: net.CIDRMask(24, 32)}},
	}}
	plan, err := link.Addresses{}.Plan("eth0", result, nil)
	if got, want := text(plan), "10.1.1.2/24\n10.1.1.3/24"; err != nil || got != want {
		t.Errorf("got\n%s (%v)\nexpected\n%s", got, err, want)
	}
	result.IPs[0].Address.Mask = net.IPMask{255, 0, 255, 0}
	if _, err := (link.Addresses{}).Plan("eth0", result, nil); netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
		t.Errorf("a mask with holes: %v", err)
	}
}

func TestDADMode(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]link.DADMode{"": link.DADAuto, "auto": link.DADAuto, "off": link.DADOff, "own": link.DADOwn} {
		var m link.DADMode
		if err := m.UnmarshalText([]byte(in)); err != nil || m != want {
			t.Errorf("%q: %q, %v", in, m, err)
		}
	}
	var m link.DADMode
	if err := m.UnmarshalText([]byte("of")); err == nil || !strings.Contains(err.Error(), `"of"`) {
		t.Errorf("of: %v", err)
	}
}
