package nat_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
	"github.com/containernetworking/cni/pkg/types"
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

// The address is given again while the DEL of its former owner is at work, before and after its change: it took the flag
// from the new one, who was then not reached by 127.0.0.1 and whose CHECK failed. The other way round, nobody needs the
// flag any more when an ADD writes it.
func TestRouteLocalnetFollowsWhoActsMeanwhile(t *testing.T) {
	l, a, flag := newPair(t)
	b := &container{a.NS, l.owner("b"), a.addrs}
	p, second := portMap("tcp:8080:80"), portMap("tcp:8081:80")
	del := func(p nat.PortMap, c *container) {
		t.Helper()
		if err := p.Delete(t.Context(), l.host, c.Owner, c.addrs); err != nil {
			t.Error(err)
		}
	}
	for _, when := range []string{"nft release", "sysctl"} {
		create(t, l, a, p)
		happened := false
		ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
			if !happened && strings.HasPrefix(op, when) {
				happened = true
				create(t, l, b, second)
			}
			return nil
		})
		if err := p.Delete(ctx, l.host, a.Owner, a.addrs); err != nil || !happened {
			t.Errorf("%s: happened: %t; %v", when, happened, err)
		}
		flag("1")
		if err := second.Verify(t.Context(), l.host, b.Owner, b.addrs); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		answers(t, nil, "tcp", "127.0.0.1:8081", "ptp 10.9.0.1")
		del(second, b)
		flag("0")
	}
	happened := false
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if !happened && strings.HasPrefix(op, "sysctl") {
			happened = true
			del(p, a)
		}
		return nil
	})
	if err := p.Create(ctx, l.host, a.Owner, a.addrs); err != nil || !happened {
		t.Errorf("happened: %t; %v", happened, err)
	}
	flag("0")
}

// What Ensure takes away is given back as by DEL: it left the flag, and so did the DEL after it, which found nothing
// to go by any more.
func TestEnsureGivesRouteLocalnetBack(t *testing.T) {
	l, a, flag := newPair(t)
	p := portMap("tcp:8080:80")
	without, moved := p, *a
	without.NoSNAT = true
	moved.addrs = prefixes("10.9.0.3/24")
	v6 := portMap("tcp:8080:80@2001:db8::1")
	six := *a
	six.addrs = prefixes("10.9.0.2/24", "fd00:9::2/64")
	for _, c := range []struct {
		name string
		p    nat.PortMap
		to   *container
	}{{"without source translation", without, a}, {"another address", p, &moved}, {"IPv6 alone", v6, &six}} {
		create(t, l, a, p)
		flag("1")
		for range 2 {
			if err := c.p.Ensure(t.Context(), l.host, c.to.Owner, c.to.addrs); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			flag("0")
		}
		if err := c.p.Verify(t.Context(), l.host, c.to.Owner, c.to.addrs); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := c.p.Delete(t.Context(), l.host, c.to.Owner, c.to.addrs); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		flag("0")
	}
}

// Flags of 1,000 stale attachments were looked for between a look at the ruleset and the change, 0.3 ms each: beside
// a program that changes a table of its own 20 times a second GC never ended.
func TestCollectEndsWhileOthersChangeTheRuleset(t *testing.T) {
	l := newLab(t)
	crowd(t, l.host, 1000)
	shell(t, "ip route add 10.2.0.0/16 dev br7; nft add table ip busy; nft add set ip busy s '{ type inet_service; }'")
	t.Cleanup(func() { shell(t, "nft delete table ip busy") })
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	done := make(chan error)
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-tick.C:
			}
			if out, err := exec.Command("nft", "add", "element", "ip", "busy", "s", fmt.Sprintf("{ %d }", n)).CombinedOutput(); err != nil {
				cancel()
				done <- fmt.Errorf("%w: %s", err, out)
				return
			}
		}
	}()
	err := nat.PortMap{}.Collect(ctx, l.host, "crowd", []types.GCAttachment{})
	cancel()
	if other := <-done; err != nil || other != nil {
		t.Errorf("%v; the other program: %v", err, other)
	}
	if left := elements(t); strings.Contains(left, "tcp") {
		t.Errorf("left:\n%.300s", left)
	}
}
