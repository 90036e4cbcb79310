package nat_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
)

// Verify finds each thing that is changed, and Ensure brings it back.
func TestVerifyFindsAndEnsureRepairs(t *testing.T) {
	for _, damage := range []struct {
		command string
		words   []string
	}{
		{"nft delete element inet cnikit ports4 '{ tcp . 8080 }'", []string{"tcp port 8080", "missing"}},
		{"nft delete element inet cnikit ports6 '{ tcp . 8080 }'", []string{"tcp port 8080", "fd00:1::2", "missing"}},
		{"nft delete element inet cnikit addrports4 '{ 192.0.2.1 . udp . 53 }'", []string{"udp port 53 of 192.0.2.1", "missing"}},
		{"nft delete element inet cnikit hairpin4_8 '{ 10.1.0.2 . 127.0.0.0 }'", []string{"10.1.0.2 with 127.0.0.0/8"}},
		{"nft delete element inet cnikit hairpin6_64 '{ fd00:1::2 . fd00:1:: }'", []string{"fd00:1::2 with fd00:1::/64"}},
		{"nft delete element inet cnikit sources4 '{ 10.1.0.2 }'", []string{"10.1.0.2", "missing"}},
		{"nft delete element inet cnikit sources6 '{ fd00:1::2 }'", []string{"fd00:1::2", "missing"}},
		{"nft delete element inet cnikit near4_24 '{ 10.1.0.2 . 10.1.0.0 }'", []string{"10.1.0.2 with 10.1.0.0/24", "missing"}},
		{"nft delete element inet cnikit ports4 '{ tcp . 8080 }'; nft add element inet cnikit ports4 '{ tcp . 8080 comment \"cni:net:c2:eth0\" : 10.1.0.9 . 80 }'", []string{"10.1.0.9:80"}},
		{"nft flush chain inet cnikit hostports", []string{"rules"}},
		{"nft flush table inet cnikit", []string{"rules"}},
		{"nft insert rule inet cnikit postrouting accept", []string{"rules"}},
		{"nft delete table inet cnikit", []string{`"table cnikit"`}},
		{"nft flush chain inet cnikit outgoing; nft flush chain inet cnikit hairpin", []string{"rules"}},
		{"nft delete chain inet cnikit loopback", []string{"rules"}},
	} {
		t.Run(damage.command, func(t *testing.T) {
			l := newLab(t)
			a := l.container(2)
			p, m := portMap("tcp:8080:80", "udp:53:53@192.0.2.1"), nat.Masquerade{}
			create(t, l, a, p)
			masquerade(t, l, a)
			whole := shell(t, "nft list table inet cnikit")
			shell(t, damage.command)
			err := netconf.Join(p.Verify(t.Context(), l.host, a.Owner, a.addrs), m.Verify(t.Context(), l.host, a.Owner, a.addrs))
			if !errors.Is(err, netconf.ErrDifferent) {
				t.Errorf("Verify: %v", err)
			}
			for _, w := range damage.words {
				if err == nil || !contains(err.Error(), w) {
					t.Errorf("Verify does not say %q: %v", w, err)
				}
			}
			for range 2 {
				if err := p.Ensure(t.Context(), l.host, a.Owner, a.addrs); err != nil {
					t.Fatal(err)
				}
				if err := m.Ensure(t.Context(), l.host, a.Owner, a.addrs); err != nil {
					t.Fatal(err)
				}
			}
			if now := shell(t, "nft list table inet cnikit"); len(now) != len(whole) { // a hash table has no order
				t.Errorf("after Ensure\n%s", now)
			}
			for _, err := range []error{p.Verify(t.Context(), l.host, a.Owner, a.addrs), m.Verify(t.Context(), l.host, a.Owner, a.addrs)} {
				if err != nil {
					t.Errorf("after Ensure: %v", err)
				}
			}
		})
	}
}

// A hook at another place, or a policy that drops, has the same rules.
func TestVerifyFindsAnotherHook(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	create(t, l, a, portMap("tcp:8080:80"))
	whole := shell(t, "nft list ruleset")
	for from, to := range map[string]string{
		"hook output priority -99":             "hook output priority -98",
		"srcnat + 1; policy accept":            "srcnat + 1; policy drop",
		"type filter hook prerouting priority": "type filter hook input priority",
	} {
		shell(t, "F=$(mktemp); nft list ruleset | sed 's/"+from+"/"+to+"/' > $F; nft flush ruleset; nft -f $F; rm $F")
		if shell(t, "nft list ruleset") == whole {
			t.Fatalf("%q is not in the ruleset", from)
		}
		if err := portMap("tcp:8080:80").Verify(t.Context(), l.host, a.Owner, a.addrs); !errors.Is(err, netconf.ErrDifferent) {
			t.Errorf("%s: %v", to, err)
		}
		shell(t, "nft flush ruleset")
		create(t, l, a, portMap("tcp:8080:80"))
	}
	shell(t, "sysctl -qw net.ipv4.conf.br7.route_localnet=0")
	if err := portMap("tcp:8080:80").Verify(t.Context(), l.host, a.Owner, a.addrs); !errors.Is(err, netconf.ErrDifferent) || !contains(err.Error(), "route_localnet") {
		t.Errorf("route_localnet: %v", err)
	}
}

// Of a table that is missing nothing else is told: after "nft flush ruleset" CHECK listed 28 of its sets, chains and rules.
func TestVerifyOfAMissingTableTellsTheTable(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	masquerade(t, l, a)
	shell(t, "nft flush ruleset")
	err := nat.Masquerade{}.Verify(t.Context(), l.host, a.Owner, a.addrs)
	if text := fmt.Sprint(err); !errors.Is(err, netconf.ErrDifferent) || !contains(text, `"table cnikit"`) || contains(text, "chain") || contains(text, "of table") {
		t.Error(err)
	}
}
