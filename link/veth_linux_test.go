package link_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// route is a step that answers with a route, as an IPAM plugin does.
func route(dst, gw string) skel.Step {
	return skel.Funcs{Add: func(_ context.Context, req *netconf.Request) error {
		_, n, err := net.ParseCIDR(dst)
		if err == nil {
			req.AddRoute(&types.Route{Dst: *n, GW: net.ParseIP(gw)})
		}
		return err
	}, Check: nothing, GC: nothing, Status: nothing}.Step()
}

// ptp is the routed pair.
func ptp(answers ...string) skel.Plugin[struct{}] {
	return plugin(link.Veth{}, ipam(answers...), link.Addresses{PointToPoint: true}, link.HostRoutes{})
}

func TestVethRouted(t *testing.T) {
	a, b := space(t), space(t)
	same := unchanged(t, a)
	pa, pb := ptp("10.1.0.2/24 10.1.0.1", "fd00:1::2/64 fd00:1::1"), ptp("10.1.0.3/24 10.1.0.1", "fd00:1::3/64 fd00:1::1")
	ra := add(a, "a").Run(t.Context(), t, pa).OK(t)
	rb := add(b, "b").Run(t.Context(), t, pb).OK(t)
	for _, address := range []string{"10.1.0.1", "10.1.0.3", "fd00:1::1", "fd00:1::3"} { // the first forwarded IPv6 packet too
		a.Ping(address)
	}
	if r := skeltest.Host(t, "ip", "route"); !strings.Contains(r, "10.1.0.2 dev "+owner("a").HostName("host")+" proto 67 scope link") {
		t.Errorf("routes %s", r)
	}
	add(a, "a").With(netconf.Check).WithPrev(ra).Run(t.Context(), t, pa).OK(t)
	add(a, "a").With(netconf.Del).Run(t.Context(), t, pa).OK(t)
	add(b, "b").With(netconf.Del).WithPrev(rb).Run(t.Context(), t, pb).OK(t)
	same("after DEL")
}

// The core of HostRoutes, whose link stays: what it made goes.
func TestHostRoutes(t *testing.T) {
	ns := space(t)
	host, container := spaces(t, ns)
	if _, _, err := (link.Veth{}).Create(t.Context(), host, container, owner("a")); err != nil {
		t.Fatal(err)
	}
	ns.Run("ip", "link", "set", "eth0", "up")
	for _, what := range []string{"address add 10.8.0.1/24", "route add 10.9.0.0/24"} { // the administrator's; with the last address the kernel takes all routes
		skeltest.Host(t, "sh", "-c", "ip "+what+" dev "+owner("a").HostName("host"))
	}
	skeltest.Host(t, "sh", "-c", "sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
	same := unchanged(t, ns)
	ips := []*types100.IPConfig{
		{Address: net.IPNet{IP: net.ParseIP("10.1.0.2"), Mask: net.CIDRMask(24, 32)}, Gateway: net.ParseIP("10.1.0.1")},
		{Address: net.IPNet{IP: net.ParseIP("fd00:1::2"), Mask: net.CIDRMask(64, 128)}, Gateway: net.ParseIP("fd00:1::1")},
	}
	h := link.HostRoutes{}
	for _, with := range [][]*types100.IPConfig{ips, nil} {
		for range 2 {
			if err := h.Ensure(t.Context(), host, owner("a"), ips); err != nil {
				t.Fatal(err)
			}
			if err := h.Verify(t.Context(), host, owner("a"), ips); err != nil {
				t.Error(err)
			}
		}
		for range 2 {
			if err := h.Delete(t.Context(), host, owner("a"), with); err != nil {
				t.Fatal(err)
			}
			same(fmt.Sprintf("after Delete with %d addresses", len(with)))
		}
	}
	if err := h.Verify(t.Context(), host, owner("a"), ips); netconf.Code(err) != netconf.CodeDifferent {
		t.Errorf("after Delete: %v", err)
	}
	if err := h.Delete(t.Context(), host, owner("b"), ips); err != nil {
		t.Errorf("Delete without a pair: %v", err)
	}
}

// An address that another attachment has is not taken from it.
func TestHostRoutesOfAnother(t *testing.T) {
	for _, answer := range []string{"10.1.0.2/24 10.1.0.1", "fd00:1::2/64 fd00:1::1"} {
		a, b := space(t), space(t)
		ra := add(a, "a").Run(t.Context(), t, ptp(answer)).OK(t)
		same := unchanged(t, b)
		address, _, _ := strings.Cut(answer, "/")
		add(b, "b").Run(t.Context(), t, ptp(answer)).Fails(t, netconf.CodeExists, address)
		same("after the refused ADD")
		add(a, "a").With(netconf.Check).WithPrev(ra).Run(t.Context(), t, ptp(answer)).OK(t)
		add(a, "a").With(netconf.Del).WithPrev(ra).Run(t.Context(), t, ptp(answer)).OK(t)
	}
}

func TestWalkRouted(t *testing.T) {
	ns := space(t)
	skeltest.Walk(t, ptp("10.1.0.2/24 10.1.0.1", "fd00:1::2/64 fd00:1::1"), add(ns, "a"), ns, nil)
}

func TestWalkBridged(t *testing.T) {
	ns := space(t)
	bridge(t)
	p := plugin(link.Bridge{Name: "br7"}, link.Veth{Bridge: "br7", Hairpin: true, Isolated: true}, ipam("10.1.0.2/24"), link.Gateway{Bridge: "br7", Default: true}, link.Addresses{})
	skeltest.Walk(t, p, add(ns, "a"), ns, nil)
}

func TestVethAttributes(t *testing.T) {
	bridge(t)
	skeltest.Host(t, "ip", "link", "set", "br7", "mtu", "1400")
	skeltest.Host(t, "ip", "link", "add", "eth0", "type", "bridge") // the host's own: no matter
	t.Cleanup(func() { ignore(t, "ip link del eth0") })
	for _, test := range []struct {
		name string
		step link.Veth
		mtu  int
		port string // what bridge -d link says of it
	}{
		{"routed", link.Veth{}, 1500, ""},
		{"routed, MTU", link.Veth{MTU: 9000}, 9000, ""},
		{"the bridge's MTU", link.Veth{Bridge: "br7"}, 1400, "hairpin off"},
		{"MTU", link.Veth{Bridge: "br7", MTU: 1300}, 1300, "isolated off"},
		{"hairpin", link.Veth{Bridge: "br7", Hairpin: true}, 1400, "hairpin on"},
		{"isolated", link.Veth{Bridge: "br7", Isolated: true}, 1400, "isolated on"},
		{"MAC", link.Veth{MAC: netconf.MAC{2, 0, 0, 0, 0, 9}}, 1500, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			ns := space(t)
			p := plugin(test.step, link.Addresses{})
			a := add(ns, "a").Run(t.Context(), t, p).OK(t)
			end := owner("a").HostName("host")
			outer, inner := a.Result.Interfaces[0], a.Result.Interfaces[1]
			if outer.Name != end || outer.Sandbox != "" || outer.Mtu != test.mtu || outer.Mac != hostLink(t, end).Attrs().HardwareAddr.String() {
				t.Errorf("the host's end %+v", outer)
			}
			if inner.Name != "eth0" || inner.Sandbox != ns.Path || inner.Mtu != test.mtu || test.step.MAC != nil && inner.Mac != test.step.MAC.String() {
				t.Errorf("the container's end %+v", inner)
			}
			if hostLink(t, end).Attrs().Group != owner("a").Group() {
				t.Error("the host's end is in another group")
			}
			if port := skeltest.Host(t, "bridge", "-d", "link", "show", "dev", end); !strings.Contains(port, test.port) {
				t.Errorf("expected %q in %s", test.port, port)
			}
			host, _ := spaces(t, ns)
			for _, key := range []string{"accept_dad", "accept_ra"} {
				if v, err := host.ReadSysctl("net/ipv6/conf/" + end + "/" + key); err != nil || v != "0" {
					t.Errorf("%s is %q, %v", key, v, err)
				}
			}
			check := add(ns, "a").With(netconf.Check).WithPrev(a)
			check.Run(t.Context(), t, p).OK(t)
			if strings.HasSuffix(test.port, " on") {
				skeltest.Host(t, "bridge", "link", "set", "dev", end, "hairpin", "off", "isolated", "off")
				check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, end, "on", "off")
			}
		})
	}
}

func TestVethRefused(t *testing.T) {
	ns := space(t)
	bridge(t)
	for _, test := range []struct {
		step  link.Veth
		words []string
	}{
		{link.Veth{Bridge: "nosuch"}, []string{"nosuch", "bridge"}},
		{link.Veth{Bridge: "lo"}, []string{"lo", "bridge"}},
		{link.Veth{Bridge: "br%d"}, []string{"br%d", "not the name of a bridge"}},
		{link.Veth{Bridge: "br7\x00junk"}, []string{"not the name of a bridge"}},
		{link.Veth{MTU: 4294968796}, []string{"mtu 4294968796", "68 to 65535"}},
		{link.Veth{MTU: -1}, []string{"mtu", "-1"}},
		{link.Veth{MTU: 67}, []string{"mtu 67", "68 to 65535"}},
		{link.Veth{MTU: 70000}, []string{"mtu 70000", "68 to 65535"}},
	} {
		same := unchanged(t, ns)
		add(ns, "a").Run(t.Context(), t, plugin(test.step)).Fails(t, netconf.CodeInvalidNetworkConfig, test.words...)
		same("after the refused ADD")
	}
	foreign := owner("a").HostName("host")
	skeltest.Host(t, "ip", "link", "add", foreign, "type", "bridge")
	t.Cleanup(func() { ignore(t, "ip link del", foreign) })
	same := unchanged(t, ns)
	add(ns, "a").Run(t.Context(), t, plugin(link.Veth{})).Fails(t, netconf.CodeExists, foreign)
	same("after the refused ADD")
	add(ns, "a").With(netconf.Del).Run(t.Context(), t, plugin(link.Veth{})).OK(t)
	same("after DEL")
}

// A pair that another plugin made before an upgrade goes by its end in the container, if the prevResult names that, and
// by nothing else.
func TestVethOfAnotherPlugin(t *testing.T) {
	const mac = "02:00:00:00:00:07"
	for _, test := range []struct {
		name        string
		prev, netns bool
		mac         string
		goes        bool
	}{
		{"both", true, true, mac, true},
		{"prevResult", true, false, mac, false},
		{"another address", true, true, "02:00:00:00:00:01", false},
		{"netns", false, true, mac, false},
		{"neither", false, false, mac, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ns := space(t)
			skeltest.Host(t, "ip", "link", "add", "veth1234", "type", "veth", "peer", "name", "eth0", "address", mac, "netns", ns.Name)
			t.Cleanup(func() { ignore(t, "ip link del veth1234") })
			skeltest.Host(t, "ip", "link", "set", "veth1234", "up")
			ns.Run("ip", "link", "set", "eth0", "up")
			outer := hostLink(t, "veth1234").Attrs().HardwareAddr.String()
			call := add(ns, "a").With(netconf.Check)
			call.Prev = prevResult(`{"name":"veth1234","mac":"` + outer + `"},{"name":"eth0","mac":"` + test.mac + `","sandbox":"` + ns.Path + `"}`)
			if test.mac == mac {
				call.Run(t.Context(), t, plugin(link.Veth{}, link.HostRoutes{})).OK(t)
			}
			if !test.prev {
				call.Prev = ""
			}
			if !test.netns {
				call.Netns = ""
			}
			call.With(netconf.Del).Run(t.Context(), t, plugin(link.Veth{}, link.HostRoutes{})).OK(t)
			if hostHas(t, "veth1234") == test.goes {
				t.Errorf("there after DEL: %v", !test.goes)
			}
		})
	}
}

// A prevResult that names a pair of the host's, its hardware address and its own address, takes none of them.
func TestDELByAPrevResultThatNamesTheUplink(t *testing.T) {
	uplink(t)
	skeltest.Host(t, "ip", "address", "add", "10.1.0.1/32", "dev", "p0")
	ns := space(t)
	same := unchanged(t, ns)
	mac := hostLink(t, "p0").Attrs().HardwareAddr.String()
	for _, netns := range []string{ns.Path, "", "/proc/thread-self/ns/net"} {
		for _, sandbox := range []string{"", ns.Path} {
			del := request(t, netconf.Del, netns, "a")
			del.IfName = "p0"
			del.Prev = parsePrev(t, `{"cniVersion":"1.1.0","interfaces":[{"name":"p0","mac":"`+mac+`","sandbox":"`+sandbox+`"}],"ips":[{"address":"10.1.0.2/24","gateway":"10.1.0.1"}]}`)
			for _, step := range []skel.Step{link.Veth{}, link.Veth{Bridge: "br7"}, link.HostRoutes{}, link.Macvlan{}} {
				if err := step.Del(t.Context(), del); err != nil {
					t.Errorf("%T: %v", step, err)
				}
				same(fmt.Sprintf("%T, netns %q, sandbox %q", step, netns, sandbox))
			}
		}
	}
}

func parsePrev(t *testing.T, result string) *types100.Result {
	t.Helper()
	r, err := netconf.ParseResult([]byte(result), "1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVethEnsure(t *testing.T) {
	bridge(t)
	ns := space(t)
	host, container := spaces(t, ns)
	v := link.Veth{Bridge: "br7", MTU: 1400, MAC: netconf.MAC{2, 0, 0, 0, 0, 1}, Hairpin: true}
	end := owner("a").HostName("host")
	for _, damage := range []string{
		"true", "ip link set HOST nomaster", "ip link set HOST down mtu 1300", "ip link set HOST alias ''",
		"bridge link set dev HOST hairpin off isolated on", "ip link del HOST",
	} {
		skeltest.Host(t, "sh", "-c", strings.ReplaceAll(damage, "HOST", map[bool]string{true: end, false: "x"}[damage != "true"]))
		outer, inner, err := v.Ensure(t.Context(), host, container, owner("a"))
		if err != nil {
			t.Fatalf("%s: %v", damage, err)
		}
		if outer.Attrs().Name != end || inner.Attrs().Name != "eth0" {
			t.Errorf("%s: %v %v", damage, outer, inner)
		}
		ns.Run("ip", "link", "set", "eth0", "up")
		if err := v.Verify(t.Context(), host, container, owner("a"), nil); err != nil {
			t.Errorf("%s: %v", damage, err)
		}
		if port := skeltest.Host(t, "bridge", "-d", "link", "show", "dev", end); !strings.Contains(port, "hairpin on") || !strings.Contains(port, "isolated off") {
			t.Errorf("%s: %s", damage, port)
		}
	}
	if _, _, err := v.Ensure(t.Context(), host, container, owner("b")); !errors.Is(err, netconf.ErrExists) {
		t.Errorf("Ensure by another owner: %v", err)
	}
	for range 2 {
		if err := v.Delete(t.Context(), host, container, owner("a")); err != nil || has(ns, "eth0") || hostHas(t, end) {
			t.Errorf("Delete: %v", err)
		}
	}
}

// GC takes what belongs to the network and to no attachment of the list, and nothing else.
func TestGC(t *testing.T) {
	bridge(t)
	skeltest.NeedRoot(t)
	t.Cleanup(func() { ignore(t, "ip link del cni7") })
	p := plugin(link.Bridge{Name: "cni7"}, link.Veth{Bridge: "cni7"})
	ids := []string{"a", "b", strings.Repeat("c", 240)}
	for _, id := range ids {
		add(space(t), id).Run(t.Context(), t, p).OK(t)
	}
	other := add(space(t), "a")
	other.Config = strings.Replace(other.Config, `"net"`, `"net2"`, 1)
	other.Run(t.Context(), t, p).OK(t)
	there := func() (out []string) {
		for _, id := range ids {
			if hostHas(t, owner(id).HostName("host")) {
				out = append(out, id[:1])
			}
		}
		for name, l := range map[string]string{"other": (link.Owner{Network: "net2", ContainerID: "a", IfName: "eth0"}).HostName("host"), "bridge": "cni7", "foreign": "br7"} {
			if !hostHas(t, l) {
				t.Errorf("the %s is gone", name)
			}
		}
		return out
	}
	gc := func(list string) skeltest.Answer {
		return skeltest.Call{Command: netconf.GC, Path: "/none", Config: `{"cniVersion":"1.1.0","name":"net","type":"test"` + list + `}`}.Run(t.Context(), t, p)
	}
	gc("").Fails(t, netconf.CodeInvalidNetworkConfig)
	if left := there(); len(left) != 3 {
		t.Fatalf("without a list: left %v", left)
	}
	gc(`,"cni.dev/valid-attachments":[{"containerID":"a","ifname":"eth0"},{"containerID":"b","ifname":"eth1"},{"containerID":"` + ids[2] + `","ifname":"eth0"}]`).OK(t)
	if left := there(); fmt.Sprint(left) != "[a c]" {
		t.Fatalf("left %v, expected a and c", left)
	}
	if err := (link.Veth{}).GC(t.Context(), request(t, netconf.GC, "", "")); err == nil {
		t.Error("the core takes a missing list for an empty one")
	}
	gc(`,"cni.dev/valid-attachments":[]`).OK(t)
	if left := there(); len(left) != 0 {
		t.Fatalf("left %v, expected none", left)
	}
	gc(`,"cni.dev/valid-attachments":[]`).OK(t)
	ignore(t, "ip link del", (link.Owner{Network: "net2", ContainerID: "a", IfName: "eth0"}).HostName("host"))
}

// The marks are those of the owner: the alias of a long name is hashed and still found.
func TestVethWithALongName(t *testing.T) {
	ns := space(t)
	id := strings.Repeat("c", 250)
	add(ns, id).Run(t.Context(), t, plugin(link.Veth{})).OK(t)
	l, err := netlink.LinkByName(owner(id).HostName("host"))
	if err != nil || len(l.Attrs().Alias) > 255 || !strings.HasPrefix(l.Attrs().Alias, "cni:net:~") {
		t.Fatalf("%v, alias %q", err, l.Attrs().Alias)
	}
	add(ns, id).With(netconf.Del).Run(t.Context(), t, plugin(link.Veth{})).OK(t)
	if has(ns, "eth0") {
		t.Error("the link is left")
	}
}
