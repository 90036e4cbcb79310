package nat_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link/nat"
)

// reload does what saves a ruleset and loads it again, as a firewall's service does.
func reload(t *testing.T) {
	t.Helper()
	shell(t, "f=$(mktemp); nft list ruleset > $f; nft flush ruleset; nft -f $f; rm $f")
}

// The program nft lists two expressions as one, and loads that in another order: the mark was set before the look into the
// map, on what was for no mapped port too, and CHECK said 102 for all attachments.
func TestASavedAndLoadedRulesetIsTheSame(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	serve(t, a.NS, "tcp", 80, "a")
	serve(t, a.NS, "udp", 53, "a")
	serve(t, b.NS, "tcp", 80, "b")
	serve(t, nil, "tcp", 8888, "host")
	serve(t, l.client, "tcp", 80, "client")
	p, all := portMap("tcp:8080:80", "udp:53:53@192.0.2.1", "tcp:80:80@2001:db8::1"), portMap("tcp:8081:80")
	all.MasqueradeAll = true
	create(t, l, a, p)
	create(t, l, b, all)
	masquerade(t, l, a)
	m := nat.Masquerade{}
	shell(t, `nft add table inet watch
		for h in input forward postrouting; do nft add chain inet watch $h "{ type filter hook $h priority 300; }"
			nft add rule inet watch $h meta mark and 0x2000 != 0 counter comment marked-$h; done`)
	t.Cleanup(func() { shell(t, "nft delete table inet watch") })
	reload(t)
	if err := errors.Join(p.Verify(t.Context(), l.host, a.Owner, a.addrs), m.Verify(t.Context(), l.host, a.Owner, a.addrs), all.Verify(t.Context(), l.host, b.Owner, b.addrs)); err != nil {
		t.Error(err)
	}
	answers(t, l.client, "tcp", "192.0.2.1:8888", "host 192.0.2.9")
	answers(t, nil, "tcp", "192.0.2.1:8888", "host 192.0.2.1")
	answers(t, l.client, "tcp", "[2001:db8::1]:8888", "host 2001:db8::9")
	marked := func(where string) bool {
		for line := range strings.Lines(shell(t, "nft list chain inet watch "+where)) {
			if contains(line, "marked-"+where) {
				return !contains(line, "packets 0 ")
			}
		}
		t.Errorf("no counter in %s", where)
		return false
	}
	for _, where := range []string{"input", "postrouting"} {
		if marked(where) {
			t.Errorf("what is for no mapped port is marked at %s", where)
		}
	}
	answers(t, l.client, "tcp", "192.0.2.1:8080", "a 192.0.2.9")
	answers(t, l.client, "udp", "192.0.2.1:53", "a 192.0.2.9")
	answers(t, l.client, "tcp", "[2001:db8::1]:80", "a 2001:db8::9")
	answers(t, l.client, "tcp", "192.0.2.1:8081", "b 10.1.0.1")
	answers(t, a.NS, "tcp", "192.0.2.1:8080", "a 10.1.0.1")
	answers(t, nil, "tcp", "127.0.0.1:8080", "a 10.1.0.1")
	answers(t, a.NS, "tcp", "192.0.2.9:80", "client 192.0.2.1")
	if !marked("forward") || marked("postrouting") {
		t.Error("what is for a mapped port has the mark from the translation of its destination to that of its source, and not after")
	}
	if err := errors.Join(p.Delete(t.Context(), l.host, a.Owner, a.addrs), m.Delete(t.Context(), l.host, a.Owner, a.addrs), all.Delete(t.Context(), l.host, b.Owner, b.addrs)); err != nil {
		t.Error(err)
	}
	if left := elements(t); left != "" {
		t.Errorf("left:\n%s", left)
	}
}
