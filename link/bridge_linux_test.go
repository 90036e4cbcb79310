package link_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
	"github.com/vishvananda/netlink"
)

// bridged is the bridge plugin with a bridge of its own, cni7.
func bridged(t *testing.T, answers ...string) skel.Plugin[struct{}] {
	t.Helper()
	skeltest.NeedRoot(t)
	t.Cleanup(func() { ignore(t, "ip link del cni7") })
	return plugin(link.Bridge{Name: "cni7"}, link.Veth{Bridge: "cni7"}, ipam(answers...), link.Gateway{Bridge: "cni7", Default: true}, link.Addresses{})
}

func hostLink(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestBridge(t *testing.T) {
	a, b := space(t), space(t)
	pa, pb := bridged(t, "10.1.0.2/24", "fd00:1::2/64"), bridged(t, "10.1.0.3/24", "fd00:1::3/64")
	ra := add(a, "a").Run(t.Context(), t, pa).OK(t)
	rb := add(b, "b").Run(t.Context(), t, pb).OK(t)

	var names []string
	for _, i := range ra.Result.Interfaces {
		names = append(names, i.Name+" "+i.Sandbox)
		if i.Mac == "" || i.Mtu != 1500 {
			t.Errorf("interface %+v", i)
		}
	}
	if want := fmt.Sprintf("[cni7  %s  eth0 %s]", owner("a").HostName("host"), a.Path); fmt.Sprint(names) != want {
		t.Errorf("interfaces %v, expected %v", names, want)
	}
	if alias := hostLink(t, "cni7").Attrs().Alias; alias != "cni:net" {
		t.Errorf("alias %q", alias)
	}
	if alias := hostLink(t, owner("a").HostName("host")).Attrs().Alias; alias != "cni:net:a:eth0:host" {
		t.Errorf("alias %q", alias)
	}
	for _, address := range []string{"10.1.0.1", "10.1.0.3", "fd00:1::1", "fd00:1::3"} {
		a.Ping(address)
	}
	if routes := a.Run("ip", "route") + a.Run("ip", "-6", "route"); !strings.Contains(routes, "default via 10.1.0.1") || !strings.Contains(routes, "default via fd00:1::1") {
		t.Errorf("no default routes: %s", routes)
	}
	add(a, "a").With(netconf.Check).WithPrev(ra).Run(t.Context(), t, pa).OK(t)
	add(b, "b").With(netconf.Check).WithPrev(rb).Run(t.Context(), t, pb).OK(t)

	mac := hostLink(t, "cni7").Attrs().HardwareAddr.String()
	add(a, "a").With(netconf.Del).WithPrev(ra).Run(t.Context(), t, pa).OK(t)
	add(b, "b").With(netconf.Del).WithPrev(rb).Run(t.Context(), t, pb).OK(t)
	if left := hostLink(t, "cni7").Attrs(); left.HardwareAddr.String() != mac || mac != ra.Result.Interfaces[0].Mac {
		t.Errorf("the bridge's address went from %s over %s to %s", ra.Result.Interfaces[0].Mac, mac, left.HardwareAddr)
	}
	for _, id := range []string{"a", "b"} {
		if hostHas(t, owner(id).HostName("host")) {
			t.Errorf("the host's end of %s is left", id)
		}
	}
}

// Many first ADDs at once make one bridge.
func TestBridgeRace(t *testing.T) {
	const n = 50
	spaces := make([]*skeltest.NS, n)
	for i := range spaces {
		spaces[i] = space(t)
	}
	answers := make([]skeltest.Answer, n)
	plugins := make([]skel.Plugin[struct{}], n)
	var all sync.WaitGroup
	for i := range n {
		plugins[i] = bridged(t, fmt.Sprintf("10.1.0.%d/24", i+2))
		all.Go(func() {
			answers[i] = add(spaces[i], fmt.Sprintf("c%d", i)).Run(t.Context(), t, plugins[i])
		})
	}
	all.Wait()
	for i := range n {
		answers[i].OK(t)
		add(spaces[i], fmt.Sprintf("c%d", i)).With(netconf.Check).WithPrev(answers[i]).Run(t.Context(), t, plugins[i]).OK(t)
	}
	spaces[0].Ping(fmt.Sprintf("10.1.0.%d", n+1))
	if hostLink(t, "cni7").Attrs().Alias != "cni:net" {
		t.Error("the bridge has no alias")
	}
}

// A link of the name that is no bridge is refused; a bridge that was there is used, and stays as it is.
func TestBridgeThatWasThere(t *testing.T) {
	ns := space(t)
	p := bridged(t, "10.1.0.2/24")
	skeltest.Host(t, "ip", "link", "add", "cni7", "type", "veth", "peer", "name", "other")
	same := unchanged(t, ns)
	add(ns, "a").Run(t.Context(), t, p).Fails(t, netconf.CodeInvalidNetworkConfig, "cni7", "veth")
	same("after the refused ADD")
	skeltest.Host(t, "ip", "link", "del", "cni7")

	skeltest.Host(t, "ip", "link", "add", "cni7", "alias", "mine", "mtu", "1400", "type", "bridge")
	skeltest.Host(t, "ip", "link", "set", "cni7", "alias", "mine")
	p = plugin(link.Bridge{Name: "cni7", MTU: 1300, Promisc: true}, link.Veth{Bridge: "cni7"}, link.Addresses{})
	add(ns, "a").Run(t.Context(), t, p).OK(t)
	if l := hostLink(t, "cni7").Attrs(); l.Alias != "mine" || l.MTU != 1400 || l.Flags&net.FlagUp == 0 || l.RawFlags&0x100 == 0 {
		t.Errorf("alias %q, MTU %d, flags %v %#x", l.Alias, l.MTU, l.Flags, l.RawFlags)
	}
	host, _ := spaces(t, ns)
	if err := (link.Bridge{Name: "cni7"}).Delete(t.Context(), host, owner("a")); err != nil || !hostHas(t, "cni7") {
		t.Errorf("another's bridge was deleted: %v", err)
	}
}

// Its maker was killed at any place: the next ADD finishes the bridge.
func TestBridgeEnsure(t *testing.T) {
	ns := space(t)
	bridged(t)
	host, _ := spaces(t, ns)
	b := link.Bridge{Name: "cni7", MTU: 1400}
	if _, err := b.Create(t.Context(), host, owner("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Create(t.Context(), host, owner("b")); netconf.Code(err) != netconf.CodeExists {
		t.Errorf("a second Create: %v", err)
	}
	for _, damage := range []string{"ip link set cni7 down", "ip link set cni7 down alias ''", "ip link set cni7 mtu 1300", "ip link del cni7"} {
		skeltest.Host(t, "sh", "-c", damage)
		if _, err := b.Ensure(t.Context(), host, owner("b")); err != nil {
			t.Fatalf("%s: %v", damage, err)
		}
		if l := hostLink(t, "cni7").Attrs(); l.Alias != "cni:net" || l.MTU != 1400 || l.Flags&net.FlagUp == 0 {
			t.Errorf("%s: alias %q, MTU %d, flags %v", damage, l.Alias, l.MTU, l.Flags)
		}
	}
	for _, key := range []string{"accept_dad", "accept_ra"} {
		if v, err := host.ReadSysctl("net/ipv6/conf/cni7/" + key); err != nil || v != "0" {
			t.Errorf("%s is %q, %v", key, v, err)
		}
	}
	for range 2 {
		if err := b.Delete(t.Context(), host, owner("b")); err != nil || hostHas(t, "cni7") {
			t.Errorf("Delete: %v", err)
		}
	}
}

// What is no name, and no MTU, is refused before any change: the kernel takes both for something else.
func TestBridgeRefused(t *testing.T) {
	ns := space(t)
	bridge(t)
	host, _ := spaces(t, ns)
	same := unchanged(t, ns)
	for _, test := range []struct {
		step link.Bridge
		word string
	}{
		{link.Bridge{Name: "%d"}, "not the name"},
		{link.Bridge{Name: "br7\x00junk"}, "not the name"},
		{link.Bridge{Name: "br7/"}, "not the name"},
		{link.Bridge{Name: "cni7", MTU: 67}, "mtu 67"},
		{link.Bridge{Name: "cni7", MTU: -1}, "mtu -1"},
		{link.Bridge{Name: "cni7", MTU: 4294968796}, "68 to 65535"},
	} {
		for range 2 {
			add(ns, "a").Run(t.Context(), t, plugin(test.step)).Fails(t, netconf.CodeInvalidNetworkConfig, test.word)
		}
		if _, err := test.step.Create(t.Context(), host, owner("a")); netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
			t.Errorf("Create of %+v: %v", test.step, err)
		}
		same("after the refused ADD")
	}
	if err := (link.Bridge{Name: "br7\x00junk"}).Verify(t.Context(), host, owner("a")); netconf.Code(err) != netconf.CodeDifferent {
		t.Errorf("Verify of a name that is cut: %v", err)
	}
}

func TestBridgeCheck(t *testing.T) {
	for damage, words := range map[string][]string{
		"ip link set cni7 down":                                    {"cni7", "up", "down"},
		"ip link del cni7":                                         {"cni7", "gone"},
		"ip link set HOST nomaster":                                {"HOST", "bridge", "cni7", "none"},
		"ip link set HOST down":                                    {"HOST", "the state is down"},
		"ip address del 10.1.0.1/24 dev cni7":                      {"cni7", "10.1.0.1/24", "missing"},
		"sysctl -w net.ipv4.ip_forward=0":                          {"ip_forward", "0"},
		"ip link add br9 type bridge; ip link set HOST master br9": {"HOST", "cni7", "br9"},
	} {
		t.Run(damage, func(t *testing.T) {
			ns := space(t)
			p := bridged(t, "10.1.0.2/24")
			t.Cleanup(func() { ignore(t, "ip link del br9") })
			a := add(ns, "a").Run(t.Context(), t, p).OK(t)
			end := owner("a").HostName("host")
			skeltest.Host(t, "sh", "-c", strings.ReplaceAll(damage, "HOST", end))
			for i, w := range words {
				words[i] = strings.ReplaceAll(w, "HOST", end)
			}
			add(ns, "a").With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, words...)
		})
	}
}

// The gateway is IPAM's, else the first address of the subnet, and then it is in the result too.
func TestGateway(t *testing.T) {
	for _, test := range []struct {
		name, answer, setup string
		force               bool
		want                string // on the bridge; "" is an error
		words               []string
	}{
		{name: "the first", answer: "10.1.0.7/24", want: "10.1.0.1/24"},
		{name: "none", answer: "10.1.0.7/24 0.0.0.0", want: "10.1.0.1/24"},
		{name: "IPAM's", answer: "10.1.0.7/24 10.1.0.254", want: "10.1.0.254/24"},
		{name: "IPv6", answer: "fd00:1::7/64", want: "fd00:1::1/64"},
		{name: "link-local", answer: "fd00:1::7/64 fe80::1", want: "fe80::1/64"},
		{name: "it is the container's", answer: "10.1.0.1/24", words: []string{"10.1.0.1/24"}},
		{name: "no room", answer: "10.1.0.1/32", words: []string{"10.1.0.1/32"}},
		{name: "there", setup: "ip address add 10.1.0.1/24 dev cni7", answer: "10.1.0.7/24", want: "10.1.0.1/24"},
		{name: "another", setup: "ip address add 10.1.0.9/24 dev cni7", answer: "10.1.0.7/24", words: []string{"10.1.0.9/24", "10.1.0.1/24"}},
		{name: "another prefix", setup: "ip address add 10.1.0.1/16 dev cni7", answer: "10.1.0.7/24", words: []string{"10.1.0.1/16", "10.1.0.1/24"}},
		{name: "another, forced", setup: "ip address add 10.1.0.9/24 dev cni7", force: true, answer: "10.1.0.7/24", want: "10.1.0.1/24"},
		{name: "another of IPv6, of another subnet", setup: "ip address add fd00:9::1/64 dev cni7", answer: "fd00:1::7/64", want: "fd00:1::1/64"},
		{name: "another of IPv6", setup: "ip address add fd00:1::9/64 dev cni7", answer: "fd00:1::7/64", words: []string{"fd00:1::9/64", "fd00:1::1/64"}},
		{name: "of the other family", setup: "ip address add fd00:9::1/64 dev cni7", answer: "10.1.0.7/24", want: "10.1.0.1/24"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ns := space(t)
			bridged(t)
			skeltest.Host(t, "ip", "link", "add", "cni7", "type", "bridge")
			skeltest.Host(t, "ip", "link", "set", "cni7", "up")
			skeltest.Host(t, "sh", "-c", "true; "+test.setup)
			p := plugin(link.Veth{Bridge: "cni7"}, ipam(test.answer), link.Gateway{Bridge: "cni7", Default: true, Force: test.force}, link.Addresses{})
			a := add(ns, "a").Run(t.Context(), t, p)
			have := skeltest.Host(t, "ip", "-o", "address", "show", "dev", "cni7")
			if test.want == "" {
				a.Fails(t, netconf.CodeInvalidNetworkConfig, test.words...)
				if test.setup != "" && !strings.Contains(have, test.words[0]) {
					t.Errorf("the bridge's address is gone: %s", have)
				}
				return
			}
			a.OK(t)
			if !strings.Contains(have, test.want) || test.force && strings.Contains(have, "10.1.0.9") {
				t.Errorf("addresses %s", have)
			}
			if strings.Contains(have, test.want) && strings.Contains(test.want, ":") && !strings.Contains(have, test.want+" scope "+scope(test.want)+" nodad") {
				t.Errorf("an IPv6 address that has to wait: %s", have)
			}
			address, _, _ := net.ParseCIDR(test.want)
			if r := a.Result; !r.IPs[0].Gateway.Equal(address) || len(r.Routes) != 1 || !r.Routes[0].GW.Equal(address) {
				t.Errorf("result %+v", r)
			}
			if address.IsGlobalUnicast() {
				ns.Ping(address.String())
			}
			add(ns, "a").With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
		})
	}
}

// scope is what ip calls the scope of an IPv6 address.
func scope(address string) string {
	if strings.HasPrefix(address, "fe80") {
		return "link"
	}
	return "global"
}

// Default routes that IPAM gave stay the only ones.
func TestGatewayKeepsDefaultRoutes(t *testing.T) {
	ns := space(t)
	bridged(t)
	p := plugin(link.Bridge{Name: "cni7"}, link.Veth{Bridge: "cni7"}, ipam("10.1.0.2/24 10.1.0.1"), route("0.0.0.0/0", "10.1.0.9"),
		link.Gateway{Bridge: "cni7", Default: true}, link.Addresses{})
	a := add(ns, "a").Run(t.Context(), t, p).OK(t)
	if r := a.Result.Routes; len(r) != 1 || r[0].GW.String() != "10.1.0.9" {
		t.Errorf("routes %v", r)
	}
}
