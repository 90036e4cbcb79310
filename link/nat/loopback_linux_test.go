package nat_test

import (
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// localnet is the flag of a link of the host.
func localnet(t testing.TB, name string) string {
	t.Helper()
	return strings.TrimSpace(shell(t, "sysctl -n net.ipv4.conf."+name+".route_localnet"))
}

// The container of a macvlan has an address of the subnet of its parent, the host's way out: that got the flag, and nobody
// gave it back. (It is a pair here, as in a node that is a container itself.)
func TestRouteLocalnetIsNotSetOnTheUplinkForAMacvlan(t *testing.T) {
	l := newLab(t)
	ns := skeltest.NewNS(t)
	shell(t, "ip link add mv0 link wan type macvlan mode bridge; ip link set mv0 netns "+ns.Name)
	ns.Run("sh", "-ec", "ip link set mv0 name eth0; ip addr add 192.0.2.77/24 dev eth0; ip link set eth0 up")
	c := &container{ns, l.owner("mv"), prefixes("192.0.2.77/24")}
	p := portMap("tcp:8080:80")
	create(t, l, c, p) // CHECK goes by the same rule
	if have := localnet(t, "wan"); have != "0" {
		t.Errorf("after ADD: %s", have)
	}
	if err := p.Ensure(t.Context(), l.host, c.Owner, c.addrs); err != nil {
		t.Error(err)
	}
	if err := p.Delete(t.Context(), l.host, c.Owner, c.addrs); err != nil {
		t.Error(err)
	}
	if have := localnet(t, "wan"); have != "0" {
		t.Errorf("after DEL: %s", have)
	}
}

// Only a bridge, and the end of a pair with a route for the one address, are surely made for containers.
func TestRouteLocalnetIsTouchedOnNoOtherLink(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	a.addrs = prefixes("10.7.0.2/24")
	shell(t, "ip link add shim link wan type macvlan mode bridge; ip link set shim up; ip link add pair type veth peer name riap; ip link set pair up; ip link set riap up")
	t.Cleanup(func() { shell(t, "ip link del shim; ip link del pair") })
	p := portMap("tcp:8080:80")
	for _, c := range []struct{ name, route, link, want string }{
		{"one address behind a link of another kind", "10.7.0.2", "shim", "0"},
		{"a subnet behind a link of another kind", "10.7.0.0/24", "shim", "0"},
		{"a subnet behind a pair", "10.7.0.0/24", "pair", "0"},
		{"all addresses behind a pair", "default", "pair", "0"},
		{"all addresses behind a bridge", "default", "br7", "0"},
		{"an address of the host", "local 10.7.0.2", "pair", "0"},
		{"one address behind a pair", "10.7.0.2", "pair", "1"},
		{"a subnet behind a bridge", "10.7.0.0/24", "br7", "1"},
	} {
		shell(t, "ip route add "+c.route+" dev "+c.link)
		create(t, l, a, p)
		if have := localnet(t, c.link); have != c.want {
			t.Errorf("%s: after ADD %s, expected %s", c.name, have, c.want)
		}
		// What is not touched is not reset either.
		shell(t, "sysctl -qw net.ipv4.conf."+c.link+".route_localnet=1")
		if err := p.Delete(t.Context(), l.host, a.Owner, a.addrs); err != nil {
			t.Error(err)
		}
		want := "1"
		if c.want == "1" && c.link == "pair" {
			want = "0"
		}
		if have := localnet(t, c.link); have != want {
			t.Errorf("%s: after DEL %s, expected %s", c.name, have, want)
		}
		shell(t, "ip route del "+c.route+" dev "+c.link+"; sysctl -qw net.ipv4.conf."+c.link+".route_localnet=0")
	}
}

// A bridge, whose flag others behind it may need, keeps it: no test noticed when the DEL of one of two containers took it.
func TestABridgeKeepsRouteLocalnetForTheOthers(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	serve(t, b.NS, "tcp", 80, "b")
	p, second := portMap("tcp:8080:80"), portMap("tcp:8081:80")
	for name, del := range map[string]func() error{
		"by address": func() error { return p.Delete(t.Context(), l.host, a.Owner, a.addrs) },
		"by owner":   func() error { return nat.PortMap{}.Delete(t.Context(), l.host, a.Owner, nil) },
	} {
		create(t, l, a, p)
		if err := second.Ensure(t.Context(), l.host, b.Owner, b.addrs); err != nil {
			t.Fatal(err)
		}
		if err := del(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		answers(t, nil, "tcp", "127.0.0.1:8081", "b 10.1.0.1")
		if err := second.Verify(t.Context(), l.host, b.Owner, b.addrs); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
