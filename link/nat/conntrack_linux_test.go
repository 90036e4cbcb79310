package nat_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
)

// stubborn is a sender of UDP that never pauses and keeps its port: a flow that does not end.
func stubborn(t testing.TB, l *lab, from *container, to string) func() string {
	t.Helper()
	var conn net.Conn
	var err error
	ns := l.client
	if from != nil {
		ns = from.NS
	}
	within(ns, func() { conn, err = net.Dial("udp", to) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // nobody reads from it any more
	return func() string { return exchange(conn, short) }
}

// says asks until the answer is the one that is wanted: a packet that was on its way goes where it went before.
func says(t *testing.T, ask func() string, want string) {
	t.Helper()
	have := ""
	for range 20 {
		if have = ask(); have == want {
			return
		}
	}
	t.Errorf("%q, expected %q", have, want)
}

func TestUDPFlowFollowsTheMapping(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	serve(t, a.NS, "udp", 53, "a")
	serve(t, b.NS, "udp", 53, "b")
	for _, to := range []string{"192.0.2.1:5353", "[2001:db8::1]:5353"} {
		source := " 192.0.2.9"
		if to[0] == '[' {
			source = " 2001:db8::9"
		}
		for _, p := range []nat.PortMap{portMap("udp:5353:53"), portMap("udp:5353:53@192.0.2.1", "udp:5353:53@2001:db8::1")} {
			flow := stubborn(t, l, nil, to)
			flow() // to the host, where nobody listens: the kernel remembers that
			create(t, l, a, p)
			says(t, flow, "a"+source)
			if err := p.Delete(t.Context(), l.host, a.Owner, a.addrs); err != nil {
				t.Fatal(err)
			}
			if list := shell(t, "conntrack -L -p udp 2>/dev/null; conntrack -L -f ipv6 -p udp 2>/dev/null"); contains(list, "10.1.0.2") || contains(list, "fd00:1::2") {
				t.Errorf("flows to the container that is gone: %s", list)
			}
			create(t, l, b, p)
			says(t, flow, "b"+source)
			if err := p.Delete(t.Context(), l.host, b.Owner, b.addrs); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A former mapping that was taken away by other means than DEL is the next one's to forget.
func TestUDPFlowOfALostMapping(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	serve(t, a.NS, "udp", 53, "a")
	serve(t, b.NS, "udp", 53, "b")
	flow := stubborn(t, l, nil, "192.0.2.1:5353")
	create(t, l, a, portMap("udp:5353:53"))
	says(t, flow, "a 192.0.2.9")
	shell(t, "nft delete table inet cnikit")
	create(t, l, b, portMap("udp:5353:53"))
	says(t, flow, "b 192.0.2.9")
}

// What only passes through the host on its way to the same port elsewhere is not forgotten: it would lose its
// translation, and an answer that is on its way would be lost.
func TestUDPFlowThroughTheHostStays(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	serve(t, l.client, "udp", 5353, "client")
	masquerade(t, l, b)
	flow := stubborn(t, l, b, "192.0.2.9:5353")
	says(t, flow, "client 192.0.2.1")
	before := shell(t, "conntrack -L -o id -p udp 2>/dev/null | grep -o 'dst=192.0.2.9.*id=.*'")
	create(t, l, a, portMap("udp:5353:53"))
	if now := shell(t, "conntrack -L -o id -p udp 2>/dev/null | grep -o 'dst=192.0.2.9.*id=.*'"); now != before {
		t.Errorf("before\n%safter\n%s", before, now)
	}
	if err := portMap("udp:5353:53").Delete(t.Context(), l.host, a.Owner, a.addrs); err != nil {
		t.Fatal(err)
	}
	says(t, flow, "client 192.0.2.1")
}

// A DEL that ended between its change and its flows, and comes again, forgets them too, though it finds nothing that is its
// owner's any more; but not one to a container that has the port now.
func TestUDPFlowAfterADelThatComesAgain(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	serve(t, a.NS, "udp", 53, "a")
	serve(t, b.NS, "udp", 53, "b")
	serve(t, nil, "udp", 8053, "host")
	for _, p := range []nat.PortMap{portMap("udp:8053:53"), portMap("tcp:8053:53", "udp:8053:53@192.0.2.1")} {
		create(t, l, a, p)
		flow := stubborn(t, l, nil, "192.0.2.1:8053")
		says(t, flow, "a 192.0.2.9")
		broken := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
			if op == "conntrack delete" {
				return errors.New("ended")
			}
			return nil
		})
		if err := p.Delete(broken, l.host, a.Owner, a.addrs); err == nil {
			t.Error("DEL was not harmed")
		}
		if have := flow(); have != "a 192.0.2.9" {
			t.Errorf("%q: the flow is forgotten already, so it shows nothing", have)
		}
		if err := p.Delete(t.Context(), l.host, a.Owner, a.addrs); err != nil {
			t.Error(err)
		}
		says(t, flow, "host 192.0.2.9")
		// A third DEL comes when the port is another's, and one when it leads to the same address again.
		for _, now := range []*container{b, {a.NS, l.owner("again"), a.addrs}} {
			create(t, l, now, p)
			flow()
			before := shell(t, "conntrack -L -o id -p udp 2>/dev/null | grep -o 'dport=8053.*id=.*'")
			if err := p.Delete(t.Context(), l.host, a.Owner, a.addrs); err != nil {
				t.Error(err)
			}
			if after := shell(t, "conntrack -L -o id -p udp 2>/dev/null | grep -o 'dport=8053.*id=.*'"); after != before {
				t.Errorf("before\n%safter\n%s", before, after)
			}
			if err := p.Delete(t.Context(), l.host, now.Owner, now.addrs); err != nil {
				t.Error(err)
			}
		}
	}
}
