package nat_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func masquerade(t testing.TB, l *lab, c *container) {
	t.Helper()
	if err := (nat.Masquerade{}).Create(t.Context(), l.host, c.Owner, c.addrs); err != nil {
		t.Fatal(err)
	}
	if err := (nat.Masquerade{}).Verify(t.Context(), l.host, c.Owner, c.addrs); err != nil {
		t.Error(err)
	}
}

func TestMasquerade(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	for _, protocol := range []string{"tcp", "udp"} {
		serve(t, l.client, protocol, 80, "client")
		serve(t, nil, protocol, 80, "host")
		serve(t, a.NS, protocol, 80, "a")
		serve(t, b.NS, protocol, 80, "b")
	}
	silent(t, a.NS, "udp", "192.0.2.9:80") // the client knows no way back
	masquerade(t, l, a)
	for _, protocol := range []string{"tcp", "udp"} {
		for _, c := range []struct {
			from     *skeltest.NS
			to, want string
		}{
			{a.NS, "192.0.2.9:80", "client 192.0.2.1"},
			{a.NS, "[2001:db8::9]:80", "client 2001:db8::1"},
			{a.NS, "10.1.0.1:80", "host 10.1.0.2"}, // nothing leaves the host
			{a.NS, "10.1.0.3:80", "b 10.1.0.2"},
			{a.NS, "[fd00:1::3]:80", "b fd00:1::2"},
			{b.NS, "10.1.0.2:80", "a 10.1.0.3"},
		} {
			answers(t, c.from, protocol, c.to, c.want)
		}
		silent(t, b.NS, protocol, "192.0.2.9:80") // is not masqueraded
	}
	for range 2 {
		if err := (nat.Masquerade{}).Delete(t.Context(), l.host, a.Owner, a.addrs); err != nil {
			t.Fatal(err)
		}
	}
	silent(t, a.NS, "tcp", "192.0.2.9:80")
	if left := elements(t); left != "" {
		t.Errorf("left: %s", left)
	}
}

// What the host itself routes between containers of one subnet (a pair for each, without a bridge) keeps its source, and
// so does what goes to many.
func TestMasqueradeLeavesItsSubnetAndMulticastAlone(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	masquerade(t, l, a)
	// A second link of the host, through which a part of the subnet is reached.
	ptp := skeltest.NewNS(t)
	shell(t, `ip link add ptp type veth peer name eth0 netns `+ptp.Name+`; ip link set ptp up
		ip addr add 10.9.0.1/32 dev ptp; ip route add 10.1.0.99/32 dev ptp; ip route add 10.9.0.9/32 dev ptp
		ip route add 239.1.1.1/32 dev ptp; sysctl -qw net.ipv4.conf.br7.proxy_arp=1 net.ipv4.conf.ptp.proxy_arp=1
		sysctl -qw net.ipv4.neigh.br7.proxy_delay=0 net.ipv4.neigh.ptp.proxy_delay=0`)
	t.Cleanup(func() { shell(t, "ip link del ptp") })
	ptp.Run("sh", "-ec", "ip addr add 10.1.0.99/32 dev eth0; ip addr add 10.9.0.9/32 dev eth0; ip link set eth0 up; ip route add 10.0.0.0/8 dev eth0")
	a.Run("ip", "route", "add", "10.1.0.99/32", "via", "10.1.0.1")
	serve(t, ptp, "tcp", 80, "ptp")
	answers(t, a.NS, "tcp", "10.1.0.99:80", "ptp 10.1.0.2") // in its subnet
	answers(t, a.NS, "tcp", "10.9.0.9:80", "ptp 10.9.0.1")  // not in it
	// Multicast is not forwarded without a daemon: the host sends it, from a second address, which stands for a container's.
	shell(t, `nft add table inet watch; nft add chain inet watch out '{ type filter hook postrouting priority 300; }'
		nft add rule inet watch out ip daddr 239.1.1.1 ip saddr 10.1.0.77 counter comment kept
		ip addr add 10.1.0.77/32 dev ptp`)
	t.Cleanup(func() { shell(t, "nft delete table inet watch") })
	o := link.Owner{Network: "net", ContainerID: "multicast", IfName: "eth0"}
	if err := (nat.Masquerade{}).Create(t.Context(), l.host, o, []netip.Prefix{netip.MustParsePrefix("10.1.0.77/32")}); err != nil {
		t.Fatal(err)
	}
	shell(t, "ping -c1 -W1 -I 10.1.0.77 239.1.1.1 >/dev/null || true")
	if kept := shell(t, "nft list table inet watch | grep kept"); !contains(kept, "packets 1 ") {
		t.Errorf("what goes to 239.1.1.1 does not keep its source: %s", kept)
	}
}

// An address that is given again before its former owner's DEL comes: that DEL must not end the new owner's.
func TestMasqueradeAddressGivenAgain(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	serve(t, l.client, "tcp", 80, "client")
	old := *a
	old.ContainerID = "old"
	masquerade(t, l, &old)
	masquerade(t, l, a)
	for _, addrs := range [][]netip.Prefix{a.addrs, nil} {
		if err := (nat.Masquerade{}).Delete(t.Context(), l.host, old.Owner, addrs); err != nil {
			t.Fatal(err)
		}
	}
	answers(t, a.NS, "tcp", "192.0.2.9:80", "client 192.0.2.1")
	if err := (nat.Masquerade{}).Verify(t.Context(), l.host, a.Owner, a.addrs); err != nil {
		t.Error(err)
	}
}

// Ensure gives up what is not wanted any more; of an address whose subnet changed the old range goes.
func TestMasqueradeEnsureMoves(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	masquerade(t, l, a)
	now := []netip.Prefix{netip.MustParsePrefix("10.1.0.2/16"), netip.MustParsePrefix("10.1.0.5/16")}
	for range 2 {
		if err := (nat.Masquerade{}).Ensure(t.Context(), l.host, a.Owner, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := (nat.Masquerade{}).Verify(t.Context(), l.host, a.Owner, now); err != nil {
		t.Error(err)
	}
	if have := elements(t); contains(have, "fd00") || strings.Count(have, "10.1.0.2 . 10.1.0.0 ") != 1 || !contains(have, "10.1.0.5 . 10.1.0.0 ") {
		t.Errorf("elements\n%s", have)
	}
}
