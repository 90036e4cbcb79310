package nat_test

import (
	"context"
	"sync"
	"testing"

	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
)

// between runs something once, between a call's look at the ruleset and its change.
func between(t *testing.T, what string, happens func()) context.Context {
	t.Helper()
	var once sync.Once
	return netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if op == what {
			once.Do(happens)
		}
		return nil
	})
}

// Others are at work between a look and the change: it is then not made, and looked at again.
func TestOthersActBetweenLookAndChange(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	serve(t, a.NS, "tcp", 80, "a")
	serve(t, b.NS, "tcp", 80, "b")
	serve(t, l.client, "tcp", 80, "client")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p, single := portMap("tcp:8080:80"), portMap("tcp:8080:80@192.0.2.1")
	// Somebody takes the port: by the same key, and by one that only overlaps.
	for _, first := range []nat.PortMap{p, single} {
		for _, second := range []nat.PortMap{p, single} {
			ctx := between(t, "nft claim", func() { create(t, l, a, first) })
			err := second.Create(ctx, l.host, b.Owner, b.addrs)
			if netconf.Code(err) != netconf.CodeExists || !contains(err.Error(), "cni:net:c2:eth0") {
				t.Errorf("the port was taken meanwhile: %v", err)
			}
			answers(t, l.client, "tcp", "192.0.2.1:8080", "a 192.0.2.9")
			must(first.Delete(t.Context(), l.host, a.Owner, a.addrs))
		}
	}
	// Somebody makes, and empties, the table.
	must(p.Create(between(t, "nft claim", func() { shell(t, "nft flush ruleset") }), l.host, a.Owner, a.addrs))
	answers(t, l.client, "tcp", "192.0.2.1:8080", "a 192.0.2.9")
	// The port is given to somebody else while its former owner's DEL is at work.
	must(p.Delete(between(t, "nft release", func() {
		must(p.Delete(t.Context(), l.host, a.Owner, nil))
		create(t, l, b, p)
	}), l.host, a.Owner, a.addrs))
	answers(t, l.client, "tcp", "192.0.2.1:8080", "b 192.0.2.9")
	// So is the address.
	old := *a
	old.ContainerID = "old"
	masquerade(t, l, &old)
	must(nat.Masquerade{}.Delete(between(t, "nft release", func() { masquerade(t, l, a) }), l.host, old.Owner, old.addrs))
	answers(t, a.NS, "tcp", "192.0.2.9:80", "client 192.0.2.1")
	// A foreign table changes: nothing of ours is in the way.
	must(nat.Masquerade{}.Delete(between(t, "nft release", func() { shell(t, "nft add table ip foreign") }), l.host, a.Owner, a.addrs))
	if have := shell(t, "nft list tables"); !contains(have, "table ip foreign") {
		t.Error(have)
	}
	shell(t, "nft delete table ip foreign")
}

// What changes all the time does not hold a call up for longer than it may take.
func TestOthersNeverRest(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	shell(t, "nft add table ip busy")
	t.Cleanup(func() { shell(t, "nft delete table ip busy") })
	n := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx = netconf.WithFault(ctx, func(context.Context, string) error {
		if n++; n == 20 {
			cancel()
		}
		shell(t, "nft add chain ip busy c; nft delete chain ip busy c")
		return nil
	})
	err := portMap("tcp:8080:80").Create(ctx, l.host, a.Owner, a.addrs)
	if netconf.Code(err) != netconf.CodeTryAgainLater || n != 20 {
		t.Errorf("after %d tries: %v", n, err)
	}
	if left := elements(t); left != "" {
		t.Errorf("left: %s", left)
	}
}
