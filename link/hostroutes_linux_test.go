package link_test

import (
	"net"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

func TestHostRoutesCheck(t *testing.T) {
	for _, damage := range []struct {
		command string
		words   []string
	}{
		{"ip route del 10.1.0.2", []string{"10.1.0.2/32", "missing"}},
		{"ip address del 10.1.0.1/32 dev HOST", []string{"10.1.0.1/32", "missing"}},
		{"ip route del 10.1.0.2; ip route add 10.1.0.2 dev p0", []string{"10.1.0.2/32", "dev p0"}},
		{"ip route del 10.1.0.2; ip route add 10.1.0.2 via 10.7.0.9 dev HOST onlink", []string{"10.1.0.2/32", "via 10.7.0.9"}},
		{"ip route del 10.1.0.2; ip route add 10.1.0.2 dev HOST scope global", []string{"10.1.0.2/32", "scope 0"}},
		{"ip route del 10.1.0.2; ip route add 10.1.0.2 dev HOST metric 7", []string{"10.1.0.2/32", "metric 7"}},
		{"ip route del 10.1.0.2; ip route add blackhole 10.1.0.2", []string{"10.1.0.2/32", "blackhole"}},
		{"ip route del 10.1.0.2; ip route add 10.1.0.2 nexthop dev HOST nexthop dev p0", []string{"10.1.0.2/32", "2 next hops"}},
		{"ip -6 route add fd00:1::2 dev p0 metric 7", []string{"fd00:1::2/128", "dev p0", "metric 7"}},
		{"ip -6 route add blackhole fd00:1::2 metric 7", []string{"fd00:1::2/128", "blackhole"}},
		{"ip -6 route del fd00:1::2", []string{"fd00:1::2/128", "missing"}},
		{"sysctl -w net.ipv6.conf.all.forwarding=0", []string{"forwarding"}},
	} {
		t.Run(damage.command, func(t *testing.T) {
			uplink(t)
			ns := space(t)
			t.Cleanup(func() { ignore(t, "ip route flush 10.1.0.2; ip -6 route flush fd00:1::2") })
			p := ptp("10.1.0.2/24 10.1.0.1", "fd00:1::2/64 fd00:1::1")
			a := add(ns, "a").Run(t.Context(), t, p).OK(t)
			check := add(ns, "a").With(netconf.Check).WithPrev(a)
			check.Run(t.Context(), t, p).OK(t)
			skeltest.Host(t, "sh", "-c", "set -e; "+strings.ReplaceAll(damage.command, "HOST", owner("a").HostName("host")))
			check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, damage.words...)
		})
	}
}

// What leads the same way as ours is no difference: another link's with a worse metric beside it, one with the scope
// that other plugins give it.
func TestHostRoutesCheckPasses(t *testing.T) {
	for _, change := range []string{
		"ip route add 10.1.0.2 dev p0 metric 7",
		"ip -6 route add fd00:1::2 dev p0 metric 2000",
		"ip route replace 10.1.0.2 dev HOST scope host",
		"ip route add 10.1.0.0/24 dev p0",
	} {
		t.Run(change, func(t *testing.T) {
			uplink(t)
			ns := space(t)
			p := ptp("10.1.0.2/24 10.1.0.1", "fd00:1::2/64 fd00:1::1")
			a := add(ns, "a").Run(t.Context(), t, p).OK(t)
			skeltest.Host(t, "sh", "-c", strings.ReplaceAll(change, "HOST", owner("a").HostName("host")))
			add(ns, "a").With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
		})
	}
}

// Ensure finds the address routed elsewhere, by a route of this very link or of none: it says where.
func TestHostRoutesInTheWay(t *testing.T) {
	for _, way := range []string{"10.1.0.2 via 10.7.0.9 dev HOST onlink", "blackhole 10.1.0.2"} {
		ns := space(t)
		host, container := spaces(t, ns)
		if _, _, err := (link.Veth{}).Create(t.Context(), host, container, owner("a")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ignore(t, "ip route flush 10.1.0.2") })
		ns.Run("ip", "link", "set", "eth0", "up")
		skeltest.Host(t, "sh", "-c", "ip route add "+strings.ReplaceAll(way, "HOST", owner("a").HostName("host")))
		ips := []*types100.IPConfig{{Address: net.IPNet{IP: net.ParseIP("10.1.0.2"), Mask: net.CIDRMask(24, 32)}}}
		err := link.HostRoutes{}.Ensure(t.Context(), host, owner("a"), ips)
		if netconf.Code(err) != netconf.CodeExists || !strings.Contains(err.Error(), "metric 0") {
			t.Errorf("%s: %v", way, err)
		}
		ns.Run("ip", "link", "del", "eth0")
		ignore(t, "ip route flush 10.1.0.2")
	}
}
