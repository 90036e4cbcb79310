package link_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// memory is a Recorder.
type memory map[string][]byte

func (m memory) Save(key string, data []byte) error { m[key] = data; return nil }
func (m memory) Load(key string) ([]byte, error)    { return m[key], nil }
func (m memory) Forget(key string) error            { delete(m, key); return nil }

// call is an ADD of eth0 in a namespace, with what IPAM answered, as if the link step had run.
type call struct {
	*netconf.Request
	mu       sync.Mutex
	warnings []string
}

func newCall(t *testing.T, ns *skeltest.NS, ipam string) *call {
	c := &call{Request: &netconf.Request{
		Command: netconf.Add, ContainerID: "k1", Netns: ns.Path, IfName: "eth0", State: memory{},
		Network: netconf.Network{Name: "n", CNIVersion: "1.1.0"}, Result: parse(t, ipam),
	}}
	c.Result.Interfaces = c.Result.Interfaces[:1]
	c.Warn = func(msg string, args ...any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.warnings = append(c.warnings, msg+fmt.Sprint(args...))
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// add runs Add, and turns the call into one of a later CHECK or DEL.
func (c *call) add(t *testing.T, a link.Addresses) {
	t.Helper()
	if err := a.Add(t.Context(), c.Request); err != nil {
		t.Fatalf("ADD: %v (code %d)", err, netconf.Code(err))
	}
	c.later(t)
}

func (c *call) later(t *testing.T) {
	t.Helper()
	var out bytes.Buffer
	if err := netconf.EncodeResult(&out, c.Prev, c.Result, "1.1.0"); err != nil {
		t.Fatal(err)
	}
	prev, err := netconf.ParseResult(out.Bytes(), "1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	c.Prev, c.Result = prev, &types100.Result{}
}

func (c *call) check(t *testing.T, a link.Addresses) {
	t.Helper()
	if err := a.Check(t.Context(), c.Request); err != nil {
		t.Fatalf("CHECK: %v", err)
	}
}

func (c *call) del(t *testing.T, a link.Addresses) {
	t.Helper()
	if err := a.Del(t.Context(), c.Request.As(netconf.Del)); err != nil {
		t.Fatalf("DEL: %v", err)
	}
}

// pair makes a container with eth0 and a neighbour with p0, the ends of a veth pair. p0 is up and has
// been given the addresses; 192.0.2.99 and 2001:db8::99 are behind it.
func pair(t *testing.T, addresses ...string) (container, neighbour *skeltest.NS) {
	t.Helper()
	container, neighbour = skeltest.NewNS(t), skeltest.NewNS(t)
	neighbour.Run("ip", "link", "add", "p0", "type", "veth", "peer", "name", "eth0", "netns", container.Name)
	container.Run("ip", "link", "set", "eth0", "alias", "cni:n:k1:eth0")
	neighbour.Run("sysctl", "-qw", "net.ipv6.conf.p0.accept_dad=0")
	for _, a := range append(addresses, "192.0.2.99/32", "2001:db8::99/128") {
		args := []string{"address", "add", a, "dev", "p0"}
		if strings.Contains(a, ":") {
			args = append(args, "nodad")
		}
		neighbour.Run("ip", args...)
	}
	neighbour.Run("ip", "link", "set", "p0", "up")
	// The kernel joins the groups in which the addresses are asked for in its own time.
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		groups := strings.Count(neighbour.Run("ip", "-6", "maddress", "show", "dev", "p0"), "ff02::1:ff")
		if groups > strings.Count(strings.Join(addresses, " "), "::") {
			return container, neighbour
		}
	}
	t.Fatal("p0 does not listen for who asks for its addresses")
	return nil, nil
}

// layer3 is a snapshot without the links, and their sysctls, which go with them: addresses, routes, rules, neighbours.
// (Of a link whose peer is in a namespace that another test is about to make, ip says that its reference is invalid.)
func layer3(ns *skeltest.NS) skeltest.Snapshot {
	return slices.DeleteFunc(ns.Snapshot(), func(line string) bool {
		return strings.HasPrefix(line, "link: ") || strings.HasPrefix(line, "sysctl: ")
	})
}

// parallelNS lets a test that makes its own namespaces run beside others.
func parallelNS(t *testing.T) {
	skeltest.NeedRoot(t)
	t.Parallel()
}

type shape struct {
	name      string
	step      link.Addresses
	neighbour []string // its addresses
	back      string   // the neighbour's route to the container, if it needs one
	ipam      string
	ping      []string
	routes    string // what the result says
}

// shapes are what IPAM plugins answer.
var shapes = []shape{
	{"v4", link.Addresses{}, []string{"10.1.1.1/24"}, "", `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"0.0.0.0/0"}]`,
		[]string{"10.1.1.1", "192.0.2.99"}, "0.0.0.0/0 <nil>"},
	{"v6 only", link.Addresses{}, []string{"fd00::1/64"}, "", `"ips":[{"address":"fd00::2/64","gateway":"fd00::1"}],"routes":[{"dst":"::/0"}]`,
		[]string{"fd00::1", "2001:db8::99"}, "::/0 <nil>"},
	{"dual stack", link.Addresses{}, []string{"10.1.1.1/24", "fd00::1/64"}, "", `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"},{"address":"fd00::2/64","gateway":"fd00::1"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]`,
		[]string{"192.0.2.99", "2001:db8::99"}, "0.0.0.0/0 <nil> ::/0 <nil>"},
	{"31 and 127", link.Addresses{}, []string{"10.1.1.3/31", "fd00::3/127"}, "", `"ips":[{"address":"10.1.1.2/31","gateway":"10.1.1.3"},{"address":"fd00::2/127","gateway":"fd00::3"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]`,
		[]string{"10.1.1.3", "fd00::3", "192.0.2.99", "2001:db8::99"}, "0.0.0.0/0 <nil> ::/0 <nil>"},
	{"all attributes", link.Addresses{}, []string{"10.1.1.1/24"}, "", `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"192.0.2.0/24","gw":"10.1.1.1","mtu":1300,"advmss":1200,"priority":5},{"dst":"10.8.0.0/16","gw":"10.1.1.1","table":1000},{"dst":"10.7.0.0/16","scope":253,"table":7}]`,
		[]string{"192.0.2.99"}, "192.0.2.0/24 10.1.1.1 10.8.0.0/16 10.1.1.1 10.7.0.0/16 <nil>"},
	{"two addresses of a subnet", link.Addresses{}, []string{"10.1.1.1/24"}, "", `"ips":[{"address":"10.1.1.2/24"},{"address":"10.1.1.3/24"},{"address":"10.1.2.3/24"}]`, []string{"10.1.1.1"}, ""},
	{"a route like the connected one", link.Addresses{}, []string{"10.1.1.1/24"}, "", `"ips":[{"address":"10.1.1.2/24"}],"routes":[{"dst":"10.1.1.0/24"}]`, []string{"10.1.1.1"}, "10.1.1.0/24 <nil>"},
	{"and with a gateway", link.Addresses{}, []string{"10.1.1.1/24", "fd00::1/64"}, "", `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"},{"address":"fd00::2/64","gateway":"fd00::1"}],"routes":[{"dst":"10.1.1.0/24"},{"dst":"fd00::/64"}]`,
		[]string{"10.1.1.1", "fd00::1"}, "10.1.1.0/24 <nil> fd00::/64 <nil>"},
	{"the same route twice", link.Addresses{}, []string{"10.1.1.1/24"}, "", `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"0.0.0.0/0","gw":"10.1.1.1"},{"dst":"10.8.0.0/16","scope":253},{"dst":"10.8.0.0/16","scope":253}]`,
		[]string{"192.0.2.99"}, "0.0.0.0/0 <nil> 0.0.0.0/0 10.1.1.1 10.8.0.0/16 <nil> 10.8.0.0/16 <nil>"},
	{"point to point", link.Addresses{PointToPoint: true}, []string{"10.1.1.1/32", "fd00::1/128"}, "10.1.1.2 fd00::2", `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"},{"address":"fd00::2/64","gateway":"fd00::1"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]`,
		[]string{"10.1.1.1", "fd00::1", "192.0.2.99", "2001:db8::99"}, "0.0.0.0/0 <nil> ::/0 <nil>"},
	{"C-LINK-09 a", link.Addresses{}, []string{"169.254.1.1/32"}, "10.1.1.2", `"ips":[{"address":"10.1.1.2/32","gateway":"169.254.1.1"}],"routes":[{"dst":"0.0.0.0/0"}]`, []string{"192.0.2.99"}, "0.0.0.0/0 <nil>"},
	{"C-LINK-09 b", link.Addresses{}, []string{"169.254.1.1/32"}, "10.1.1.2", `"ips":[{"address":"10.1.1.2/32"}],"routes":[{"dst":"0.0.0.0/0","gw":"169.254.1.1"},{"dst":"169.254.1.1/32","scope":253}]`, []string{"192.0.2.99"}, "0.0.0.0/0 169.254.1.1 169.254.1.1/32 <nil>"},
	{"C-LINK-09 c", link.Addresses{}, []string{"169.254.1.1/32"}, "10.1.1.2", `"ips":[{"address":"10.1.1.2/32"}],"routes":[{"dst":"169.254.1.1/32","scope":253},{"dst":"0.0.0.0/0","gw":"169.254.1.1"}]`, []string{"192.0.2.99"}, "169.254.1.1/32 <nil> 0.0.0.0/0 169.254.1.1"},
	{"C-LINK-09 d", link.Addresses{}, []string{"fe80::1/64"}, "fd00::2", `"ips":[{"address":"fd00::2/128","gateway":"fe80::1"}],"routes":[{"dst":"::/0"}]`, []string{"2001:db8::99"}, "::/0 <nil>"},
	{"C-LINK-09 e", link.Addresses{}, []string{"fd00:1::1/128"}, "fd00::2", `"ips":[{"address":"fd00::2/128","gateway":"fd00:1::1"}],"routes":[{"dst":"::/0"}]`, []string{"2001:db8::99"}, "::/0 <nil>"},
}

// TestAddressShapes: addresses of every shape carry packets as soon as ADD returns, pass CHECK, and are gone after DEL.
func TestAddressShapes(t *testing.T) {
	parallelNS(t)
	for _, test := range shapes {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			container, neighbour := pair(t, test.neighbour...)
			for to := range strings.FieldsSeq(test.back) {
				neighbour.Run("ip", "route", "add", to, "dev", "p0")
			}
			before := layer3(container)
			c := newCall(t, container, test.ipam)
			c.add(t, test.step)
			for _, to := range test.ping {
				container.Run("ping", "-n", "-c", "1", "-W", "1", to)
			}
			if out := container.Run("ip", "-6", "address"); strings.Contains(test.ipam, "fd00::2") && strings.Contains(out, "tentative") {
				t.Errorf("tentative after ADD (the link-local one counts: the gateway's neighbour is asked from it): %s", out)
			}
			var routes []string
			for _, r := range c.Prev.Routes {
				routes = append(routes, r.Dst.String()+" "+r.GW.String())
			}
			if got := strings.Join(routes, " "); got != test.routes {
				t.Errorf("routes in the result: %q, expected %q", got, test.routes)
			}
			for _, ip := range c.Prev.IPs {
				if ip.Interface == nil || *ip.Interface != 0 {
					t.Errorf("%v has no interface", ip)
				}
			}
			c.check(t, test.step)
			if len(c.warnings) > 0 {
				t.Errorf("warnings: %q", c.warnings)
			}
			c.del(t, test.step)
			c.del(t, test.step)
			container.Run("ip", "link", "set", "eth0", "down")
			if diff := before.Diff(layer3(container)); diff != "" {
				t.Errorf("left behind:\n%s", diff)
			}
		})
	}
}

// TestAddressesWrongGateway is C-LINK-09 f.
func TestAddressesWrongGateway(t *testing.T) {
	parallelNS(t)
	container, _ := pair(t)
	before := layer3(container)
	c := newCall(t, container, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"198.51.100.0/24","gw":"203.0.113.1"}]`)
	err := link.Addresses{}.Add(t.Context(), c.Request)
	if netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), "203.0.113.1") {
		t.Errorf("error %v (code %d): expected code 7 that names the gateway", err, netconf.Code(err))
	}
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

// TestAddressesLayer2: without an address the link is set up, and no sysctl is touched.
func TestAddressesLayer2(t *testing.T) {
	parallelNS(t)
	container, _ := pair(t)
	container.Run("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")
	c := newCall(t, container, `"ips":[]`)
	c.add(t, link.Addresses{})
	c.check(t, link.Addresses{})
	if out := container.Run("ip", "-br", "link", "show", "eth0"); !strings.Contains(out, "UP") {
		t.Error(out)
	}
	c.del(t, link.Addresses{})
}

// TestAddressesIPv6SwitchedOff is C-LINK-07: IPv6 is switched on on this link, and only for an IPv6 address.
func TestAddressesIPv6SwitchedOff(t *testing.T) {
	parallelNS(t)
	for _, test := range []struct{ name, ipam, want string }{
		{"dual", `"ips":[{"address":"10.1.1.2/24"},{"address":"fd00::2/64"}]`, "0"},
		{"v4", `"ips":[{"address":"10.1.1.2/24"}]`, "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			container := skeltest.NewNS(t)
			container.Run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
			container.Run("ip", "link", "add", "p0", "type", "veth", "peer", "name", "eth0")
			container.Run("ip", "link", "set", "p0", "up")
			c := newCall(t, container, test.ipam)
			c.add(t, link.Addresses{})
			c.check(t, link.Addresses{})
			got := container.Run("sysctl", "-n", "net.ipv6.conf.eth0.disable_ipv6", "net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.default.disable_ipv6", "net.ipv6.conf.lo.disable_ipv6")
			if want := test.want + " 1 1 1"; strings.Join(strings.Fields(got), " ") != want {
				t.Errorf("disable_ipv6 of eth0, all, default, lo: %q, expected %q", got, want)
			}
		})
	}
}

// TestIPv6OnALinkThatIsTooSmall: below 1280 bytes the kernel takes IPv6 away as if it had none. That is said, before
// anything is changed, and IPv4 does not mind.
func TestIPv6OnALinkThatIsTooSmall(t *testing.T) {
	parallelNS(t)
	container, _ := pair(t)
	container.Run("ip", "link", "set", "eth0", "mtu", "1279")
	before := layer3(container)
	c := newCall(t, container, `"ips":[{"address":"10.1.1.2/24"},{"address":"fd00::2/64"}]`)
	err := link.Addresses{}.Add(t.Context(), c.Request)
	if netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), `"eth0": mtu 1279 is too small for IPv6: expected at least 1280`) {
		t.Errorf("error %v (code %d)", err, netconf.Code(err))
	}
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	c.Result.IPs = c.Result.IPs[:1]
	c.add(t, link.Addresses{})
	c.del(t, link.Addresses{})
	container.Run("ip", "link", "set", "eth0", "mtu", "1280")
	newCall(t, container, `"ips":[{"address":"fd00::2/64"}]`).add(t, link.Addresses{})
}

// TestIPv6GatewayOnALinkThatIsTooSmall: the host's end has the same limit.
func TestIPv6GatewayOnALinkThatIsTooSmall(t *testing.T) {
	bridge(t)
	ns := space(t)
	v4, v6 := "10.1.0.2/24 10.1.0.1", "fd00:1::2/64 fd00:1::1"
	for name, p := range map[string]skel.Plugin[struct{}]{
		"bridge": plugin(link.Veth{Bridge: "br7", MTU: 1279}, ipam(v4, v6), link.Gateway{Bridge: "br7"}),
		"routed": plugin(link.Veth{MTU: 1279}, ipam(v4, v6), link.HostRoutes{}),
	} {
		skeltest.Host(t, "ip", "link", "set", "br7", "mtu", "1279")
		same := unchanged(t, ns)
		add(ns, "a").Run(t.Context(), t, p).Fails(t, netconf.CodeInvalidNetworkConfig, "mtu 1279", "IPv6", "1280")
		same(name)
	}
}

// TestAddressesExist: an address that is on the link is somebody's: nothing is changed.
func TestAddressesExist(t *testing.T) {
	parallelNS(t)
	container, _ := pair(t)
	container.Run("ip", "address", "add", "10.1.1.3/24", "dev", "eth0")
	before := layer3(container)
	c := newCall(t, container, `"ips":[{"address":"10.1.1.2/24"},{"address":"10.1.1.3/24"}]`)
	err := link.Addresses{}.Add(t.Context(), c.Request)
	if !errors.Is(err, netconf.ErrExists) || netconf.Code(err) != netconf.CodeExists || !strings.Contains(err.Error(), "10.1.1.3") {
		t.Errorf("error %v: expected ErrExists that names 10.1.1.3", err)
	}
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

// TestAddressesWithoutInterface: an interface that no step has made is a mistake in the plugin or its configuration.
func TestAddressesWithoutInterface(t *testing.T) {
	parallelNS(t)
	container, _ := pair(t)
	c := newCall(t, container, `"ips":[{"address":"10.1.1.2/24"}]`)
	c.IfName = "net7"
	for verb, f := range map[string]func() error{
		"ADD":   func() error { return link.Addresses{}.Add(t.Context(), c.Request) },
		"CHECK": func() error { return link.Addresses{}.Check(t.Context(), c.Request) },
	} {
		if err := f(); netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), "net7") {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// TestF4DelOfAddressesAlwaysSucceeds: without a namespace, a prevResult, a link, and when there is nothing.
func TestF4DelOfAddressesAlwaysSucceeds(t *testing.T) {
	parallelNS(t)
	const ipam = `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"},{"address":"fd00::2/64"}],"routes":[{"dst":"0.0.0.0/0"}]`
	for name, harm := range map[string]func(ns *skeltest.NS, c *call){
		"never added":       func(*skeltest.NS, *call) {},
		"no prevResult":     func(_ *skeltest.NS, c *call) { c.Prev = nil },
		"no netns":          func(_ *skeltest.NS, c *call) { c.Netns = "" },
		"netns missing":     func(_ *skeltest.NS, c *call) { c.Netns = "/run/netns/none" },
		"netns a file":      func(_ *skeltest.NS, c *call) { c.Netns = "/etc/hostname" },
		"link gone":         func(ns *skeltest.NS, _ *call) { ns.Run("ip", "link", "del", "eth0") },
		"link down":         func(ns *skeltest.NS, _ *call) { ns.Run("ip", "link", "set", "eth0", "down") },
		"no IPv6":           func(ns *skeltest.NS, _ *call) { ns.Run("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1") },
		"odd prevResult":    func(_ *skeltest.NS, c *call) { c.Prev.IPs[0].Address.IP = nil; c.Prev.Routes[0].GW = []byte{1} },
		"addresses changed": func(ns *skeltest.NS, _ *call) { ns.Run("ip", "address", "flush", "dev", "eth0") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			container, _ := pair(t)
			c := newCall(t, container, ipam)
			if name == "never added" {
				c.later(t)
			} else {
				c.add(t, link.Addresses{})
			}
			harm(container, c)
			c.del(t, link.Addresses{})
		})
	}
}

// TestAddressesMany: any number of them.
func TestAddressesMany(t *testing.T) {
	parallelNS(t)
	container, neighbour := pair(t, "10.1.0.1/16", "fd00::1/64")
	var ips []string
	for i := range 60 {
		ips = append(ips, fmt.Sprintf(`{"address":"10.1.1.%d/16"},{"address":"fd00::1:%x/64"}`, i, i))
	}
	c := newCall(t, container, `"ips":[`+strings.Join(ips, ",")+`]`)
	c.add(t, link.Addresses{})
	c.check(t, link.Addresses{})
	neighbour.Ping("10.1.1.59")
	neighbour.Ping("fd00::1:3b")
	c.del(t, link.Addresses{})
	if out := container.Run("ip", "address", "show", "dev", "eth0", "scope", "global"); strings.TrimSpace(out) != "" {
		t.Errorf("left: %s", out)
	}
}
