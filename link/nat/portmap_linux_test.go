package nat_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
	"github.com/containernetworking/cni/pkg/types"
)

// Who comes by which address of the host, and whom the container sees.
func TestPortLeadsIntoTheContainer(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	other := l.container(4)
	for _, protocol := range []string{"tcp", "udp"} {
		serve(t, a.NS, protocol, 80, "a")
		serve(t, b.NS, protocol, 80, "b")
		serve(t, nil, protocol, 9000, "host")
	}
	create(t, l, a, portMap("tcp:8080:80", "udp:8080:80"))
	create(t, l, b, portMap("tcp:8081:80", "udp:8081:80", "tcp:9090:80@192.0.2.1", "udp:9090:80@2001:db8::1", "tcp:9091:80@127.0.0.1"))
	for _, protocol := range []string{"tcp", "udp"} {
		for _, c := range []struct {
			from     *skeltest.NS
			to, want string
		}{
			{l.client, "192.0.2.1:8080", "a 192.0.2.9"},
			{l.client, "[2001:db8::1]:8080", "a 2001:db8::9"},
			{l.client, "192.0.2.1:8081", "b 192.0.2.9"},
			{l.client, "[2001:db8::1]:8081", "b 2001:db8::9"},
			{nil, "127.0.0.1:8080", "a 10.1.0.1"},
			{nil, "127.0.0.1:8081", "b 10.1.0.1"},
			{nil, "127.7.7.7:8081", "b 10.1.0.1"},
			{nil, "192.0.2.1:8080", "a 192.0.2.1"},
			{nil, "[2001:db8::1]:8080", "a 2001:db8::1"},
			{nil, "10.1.0.1:8080", "a 10.1.0.1"},
			{a.NS, "192.0.2.1:8080", "a 10.1.0.1"}, // itself
			{a.NS, "10.1.0.1:8080", "a 10.1.0.1"},
			{a.NS, "[2001:db8::1]:8080", "a fd00:1::1"},
			{other.NS, "192.0.2.1:8080", "a 10.1.0.1"}, // a neighbour, to whom it would answer past the host
			{other.NS, "[fd00:1::1]:8081", "b fd00:1::1"},
			{other.NS, "10.1.0.2:80", "a 10.1.0.4"},        // not by the host
			{l.client, "192.0.2.1:9000", "host 192.0.2.9"}, // another port of the host
			{other.NS, "10.1.0.1:9000", "host 10.1.0.4"},
		} {
			answers(t, c.from, protocol, c.to, c.want)
		}
	}
	answers(t, l.client, "tcp", "192.0.2.1:9090", "b 192.0.2.9") // one address alone
	silent(t, l.client, "tcp", "[2001:db8::1]:9090")
	answers(t, l.client, "udp", "[2001:db8::1]:9090", "b 2001:db8::9")
	silent(t, l.client, "udp", "192.0.2.1:9090")
	answers(t, nil, "tcp", "127.0.0.1:9091", "b 10.1.0.1")
	silent(t, nil, "tcp", "192.0.2.1:9091")
	silent(t, l.client, "tcp", "192.0.2.1:9091")
	// By ::1 no packet gets out of the host: what listens there itself keeps its port.
	serve(t, nil, "tcp", 8080, "host")
	answers(t, nil, "tcp", "[::1]:8080", "host ::1")
}

// Where bridged packets pass through netfilter (br_netfilter, which Kubernetes loads) the kernel translates the destination on
// the bridge, and the packet goes back by the port that it came from: only if that is hairpin. Else it is routed.
func TestContainerReachesItself(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	serve(t, a.NS, "tcp", 80, "a")
	create(t, l, a, portMap("tcp:8080:80"))
	answers(t, a.NS, "tcp", "192.0.2.1:8080", "a 10.1.0.1")
	shell(t, "bridge link set dev port2 hairpin off; for f in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do if [ -e $f ]; then echo 0 > $f; fi; done")
	t.Cleanup(func() {
		shell(t, "for f in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do if [ -e $f ]; then echo 1 > $f; fi; done")
	})
	answers(t, a.NS, "tcp", "192.0.2.1:8080", "a 10.1.0.1")
	answers(t, a.NS, "tcp", "[2001:db8::1]:8080", "a fd00:1::1")
}

func create(t testing.TB, l *lab, c *container, p nat.PortMap) {
	t.Helper()
	if err := p.Create(t.Context(), l.host, c.Owner, c.addrs); err != nil {
		t.Fatal(err)
	}
	if err := p.Verify(t.Context(), l.host, c.Owner, c.addrs); err != nil {
		t.Error(err)
	}
}

func TestPortMapSources(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	serve(t, a.NS, "tcp", 80, "a")
	serve(t, b.NS, "tcp", 80, "b")
	p := portMap("tcp:8080:80")
	p.NoSNAT = true
	create(t, l, a, p)
	answers(t, l.client, "tcp", "192.0.2.1:8080", "a 192.0.2.9")
	answers(t, nil, "tcp", "192.0.2.1:8080", "a 192.0.2.1")
	silent(t, nil, "tcp", "127.0.0.1:8080")
	silent(t, a.NS, "tcp", "192.0.2.1:8080")
	if have := shell(t, "sysctl -n net.ipv4.conf.br7.route_localnet"); have != "0\n" {
		t.Errorf("route_localnet is %s", have)
	}
	p = portMap("tcp:8081:80")
	p.MasqueradeAll = true
	create(t, l, b, p)
	for _, c := range []struct {
		from     *skeltest.NS
		to, want string
	}{
		{l.client, "192.0.2.1:8081", "b 10.1.0.1"},
		{l.client, "[2001:db8::1]:8081", "b fd00:1::1"},
		{nil, "127.0.0.1:8081", "b 10.1.0.1"},
		{b.NS, "192.0.2.1:8081", "b 10.1.0.1"},
	} {
		answers(t, c.from, "tcp", c.to, c.want)
	}
}

// A container that the host reaches by a gateway alone, by the default route perhaps, is not behind the link that
// leads there: this opened the uplink, and nobody closed it again.
func TestRouteLocalnetIsNotSetTowardsAGateway(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	p := portMap("tcp:8080:80")
	flags := func() string {
		return shell(t, "sysctl -n net.ipv4.conf.wan.route_localnet net.ipv4.conf.br7.route_localnet")
	}
	for _, route := range []string{"default via 192.0.2.9", "10.7.0.0/24 via inet6 2001:db8::9 dev wan", "10.7.0.0/24 nexthop via 192.0.2.9 nexthop via 192.0.2.8"} {
		shell(t, "ip route add "+route)
		far := &container{a.NS, l.owner("far"), prefixes("10.7.0.2/24")}
		create(t, l, far, p)
		if have := flags(); have != "0\n0\n" {
			t.Errorf("%s: flags of wan and br7: %q", route, have)
		}
		if err := p.Delete(t.Context(), l.host, far.Owner, far.addrs); err != nil {
			t.Error(err)
		}
		shell(t, "ip route del "+route)
	}
	shell(t, "ip route add default via 192.0.2.9")
	create(t, l, a, p)
	if have := flags(); have != "0\n1\n" {
		t.Errorf("flags of wan and br7: %q", have)
	}
	shell(t, "ip route del default")
}

// newPair is a container that a pair of links, whose end on the host has a route for it alone, leads to; flag
// compares that one's route_localnet.
func newPair(t *testing.T) (l *lab, c *container, flag func(want string)) {
	t.Helper()
	l = newLab(t)
	ns := skeltest.NewNS(t)
	shell(t, "ip link add pair type veth peer name eth0 netns "+ns.Name+"; ip link set pair up; ip addr add 10.9.0.1/32 dev pair; ip route add 10.9.0.2/32 dev pair")
	t.Cleanup(func() { shell(t, "ip link del pair 2>/dev/null || true") })
	ns.Run("sh", "-ec", "ip addr add 10.9.0.2/32 dev eth0; ip link set eth0 up; ip route add 10.9.0.1 dev eth0; ip route add default via 10.9.0.1")
	serve(t, ns, "tcp", 80, "ptp")
	flag = func(want string) {
		t.Helper()
		if have := shell(t, "sysctl -n net.ipv4.conf.pair.route_localnet"); have != want+"\n" {
			t.Errorf("the flag is %q, expected %q", have, want)
		}
	}
	return l, &container{ns, l.owner("a"), prefixes("10.9.0.2/24")}, flag
}

// The flag of the host's end of a pair, which leads to the container alone, is given back with the last mapping that needs
// it, whoever takes that away. It stayed as long as the link.
func TestRouteLocalnetIsGivenBack(t *testing.T) {
	l, a, flag := newPair(t)
	b := &container{a.NS, l.owner("b"), a.addrs}
	p, second := portMap("tcp:8080:80"), portMap("tcp:8081:80")
	second.MasqueradeAll = true
	for name, del := range map[string]func(c *container) error{
		"by address": func(c *container) error { return p.Delete(t.Context(), l.host, c.Owner, c.addrs) },
		"by owner":   func(c *container) error { return nat.PortMap{}.Delete(t.Context(), l.host, c.Owner, nil) },
		"by GC": func(c *container) error {
			live := []types.GCAttachment{{ContainerID: "b", IfName: "eth0"}}
			if c == b {
				live = []types.GCAttachment{}
			}
			return nat.PortMap{}.Collect(t.Context(), l.host, "net", live)
		},
	} {
		create(t, l, a, p)
		answers(t, nil, "tcp", "127.0.0.1:8080", "ptp 10.9.0.1")
		create(t, l, b, second)
		for _, c := range []*container{a, b} {
			flag("1")
			if c == b {
				answers(t, nil, "tcp", "127.0.0.1:8081", "ptp 10.9.0.1")
			}
			if err := del(c); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		flag("0")
	}
}

// A DEL that ends before one of its changes, and comes again, gives the flag back too; where a new link has it anyway, it is
// left; and the link may have gone before DEL comes.
func TestRouteLocalnetIsGivenBackByADelThatComesAgain(t *testing.T) {
	l, a, flag := newPair(t)
	p := portMap("tcp:8080:80")
	for _, harmed := range []string{"sysctl", "nft"} {
		create(t, l, a, p)
		broken := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
			if strings.HasPrefix(op, harmed) {
				return errors.New("ended")
			}
			return nil
		})
		if err := p.Delete(broken, l.host, a.Owner, a.addrs); err == nil {
			t.Errorf("%s: DEL was not harmed", harmed)
		}
		if err := p.Delete(t.Context(), l.host, a.Owner, a.addrs); err != nil {
			t.Error(err)
		}
		flag("0")
		if left := elements(t); left != "" {
			t.Errorf("left: %s", left)
		}
	}
	shell(t, "sysctl -qw net.ipv4.conf.default.route_localnet=1")
	t.Cleanup(func() { shell(t, "sysctl -qw net.ipv4.conf.default.route_localnet=0") })
	create(t, l, a, p)
	if err := p.Delete(t.Context(), l.host, a.Owner, a.addrs); err != nil {
		t.Error(err)
	}
	flag("1")
	create(t, l, a, p)
	shell(t, "ip link del pair")
	if err := p.Delete(t.Context(), l.host, a.Owner, a.addrs); err != nil {
		t.Error(err)
	}
}

// CVE-2020-8558: with route_localnet a neighbour on the link could reach what listens on the host's loopback alone.
func TestHostsLoopbackStaysClosed(t *testing.T) {
	l := newLab(t)
	a, evil := l.container(2), l.container(3)
	serve(t, nil, "tcp", 7777, "host")
	serve(t, nil, "udp", 7777, "host")
	serve(t, a.NS, "tcp", 80, "a")
	create(t, l, a, portMap("tcp:8080:80"))
	answers(t, nil, "tcp", "127.0.0.1:8080", "a 10.1.0.1") // it is on
	evil.Run("sh", "-ec", `ip link set lo down; sysctl -qw net.ipv4.conf.all.route_localnet=1; ip route add 127.0.0.1 via 10.1.0.1 dev eth0 src 10.1.0.3
		ip rule add pref 1 to 127.0.0.1 lookup main; ip rule del pref 0; ip rule add pref 2 lookup local`)
	shell(t, "nft delete chain inet cnikit loopback; true")
	opened := ask(evil.NS, "tcp", "127.0.0.1:7777", long)
	if opened != "host 10.1.0.3" {
		t.Fatalf("the attack does not work without the rule, so it shows nothing: %s", opened)
	}
	if err := portMap("tcp:8080:80").Ensure(t.Context(), l.host, a.Owner, a.addrs); err != nil {
		t.Fatal(err)
	}
	silent(t, evil.NS, "tcp", "127.0.0.1:7777")
	silent(t, evil.NS, "udp", "127.0.0.1:7777")
	answers(t, nil, "tcp", "127.0.0.1:8080", "a 10.1.0.1")
	answers(t, nil, "tcp", "127.0.0.1:7777", "host 127.0.0.1")
}

// A thousand ports of one container are one batch, larger than a socket's buffer.
func TestThousandPorts(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	serve(t, a.NS, "tcp", 80, "a")
	var words []string
	for i := range 1000 {
		words = append(words, fmt.Sprintf("tcp:%d:80", 20000+i), fmt.Sprintf("udp:%d:80@192.0.2.1", 20000+i))
	}
	p := portMap(words...)
	create(t, l, a, p)
	answers(t, l.client, "tcp", "192.0.2.1:20999", "a 192.0.2.9")
	if err := p.Delete(t.Context(), l.host, a.Owner, nil); err != nil {
		t.Fatal(err)
	}
	if left := elements(t); left != "" {
		t.Errorf("left: %s", left)
	}
}

// elements lists the comments of all elements, a line each.
func elements(t testing.TB) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(shell(t, "nft list table inet "+nat.Table+" 2>/dev/null || true")) {
		if strings.Contains(line, `comment "cni:`) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

func TestDeleteFindsItsElements(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	serve(t, b.NS, "tcp", 80, "b")
	p, keep := portMap("tcp:8080:80", "udp:53:53@192.0.2.1", "tcp:443:443@::"), portMap("tcp:8081:80")
	create(t, l, b, keep)
	alone := elements(t)
	anyNetwork := a.Owner
	anyNetwork.Network = ""
	for name, del := range map[string]func() error{
		"by mappings and addresses": func() error { return p.Delete(t.Context(), l.host, a.Owner, a.addrs) },
		"by mappings":               func() error { return p.Delete(t.Context(), l.host, a.Owner, nil) },
		"by the owner":              func() error { return nat.PortMap{}.Delete(t.Context(), l.host, a.Owner, nil) },
		"by some of the mappings and one that is not there": func() error {
			return portMap("tcp:8080:80", "tcp:1:1").Delete(t.Context(), l.host, a.Owner, a.addrs)
		},
		"by the owner, of a network whose name is lost": func() error { return nat.PortMap{}.Delete(t.Context(), l.host, anyNetwork, nil) },
		"by mappings and addresses, of which one is gone": func() error {
			shell(t, "nft delete element inet cnikit ports6 '{ tcp . 8080 }' || true")
			return p.Delete(t.Context(), l.host, a.Owner, a.addrs)
		},
		"by mappings that make no sense": func() error { return portMap("xxx:0:0").Delete(t.Context(), l.host, a.Owner, nil) },
	} {
		create(t, l, a, p)
		for range 2 {
			if err := del(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if have := elements(t); have != alone {
			t.Errorf("%s: left\n%s\nexpected\n%s", name, have, alone)
		}
	}
	answers(t, l.client, "tcp", "192.0.2.1:8081", "b 192.0.2.9")
	shell(t, "nft delete table inet cnikit")
	if err := keep.Delete(t.Context(), l.host, b.Owner, b.addrs); err != nil {
		t.Error("the table is gone:", err)
	}
}
