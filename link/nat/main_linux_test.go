package nat_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// lab is a host with a link "wan" to a client, which knows no way to containers, and a bridge "br7" for containers.
type lab struct {
	t      testing.TB
	host   *link.NS
	client *skeltest.NS
}

func newLab(t testing.TB) *lab {
	t.Helper()
	skeltest.NeedRoot(t)
	host, err := link.Current()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() }) // a test's last act
	if err := nat.Probe(t.Context(), host); errors.Is(err, link.ErrNotSupported) {
		t.Skip(err)
	}
	l := &lab{t, host, skeltest.NewNS(t)}
	shell(t, `ip link add wan type veth peer name eth0 netns `+l.client.Name+`
		ip link add br7 type bridge
		for l in wan br7; do sysctl -qw net.ipv6.conf.$l.accept_dad=0; ip link set $l up; done
		ip addr add 192.0.2.1/24 dev wan; ip addr add 2001:db8::1/64 dev wan nodad
		ip addr add 10.1.0.1/24 dev br7; ip addr add fd00:1::1/64 dev br7 nodad
		sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1`)
	t.Cleanup(func() {
		shell(t, `nft delete table inet `+nat.Table+` 2>/dev/null || true; ip link del wan; ip link del br7; conntrack -F 2>/dev/null`)
	})
	l.client.Run("sh", "-ec", `sysctl -qw net.ipv6.conf.eth0.accept_dad=0; ip addr add 192.0.2.9/24 dev eth0
		ip addr add 2001:db8::9/64 dev eth0 nodad; ip link set eth0 up`)
	return l
}

func (l *lab) owner(id string) link.Owner {
	return link.Owner{Network: "net", ContainerID: id, IfName: "eth0"}
}

func prefixes(all ...string) (out []netip.Prefix) {
	for _, p := range all {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func shell(t testing.TB, script string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// container is a namespace with eth0, a port of br7. The port is hairpin, for the sake of br_netfilter: see
// TestContainerReachesItself.
type container struct {
	*skeltest.NS
	link.Owner
	addrs []netip.Prefix
}

func (l *lab) container(n int) *container {
	l.t.Helper()
	c := &container{NS: skeltest.NewNS(l.t), Owner: l.owner(fmt.Sprint("c", n))}
	c.addrs = prefixes(fmt.Sprintf("10.1.0.%d/24", n), fmt.Sprintf("fd00:1::%d/64", n))
	shell(l.t, fmt.Sprintf(`ip link add port%d type veth peer name eth0 netns %s; sysctl -qw net.ipv6.conf.port%d.accept_dad=0
		ip link set port%d master br7 up; bridge link set dev port%d hairpin on`, n, c.Name, n, n, n))
	c.Run("sh", "-ec", fmt.Sprintf(`sysctl -qw net.ipv6.conf.eth0.accept_dad=0; ip addr add %s dev eth0; ip addr add %s dev eth0 nodad; ip link set eth0 up
		ip route add default via 10.1.0.1; ip -6 route add default via fd00:1::1`, c.addrs[0], c.addrs[1]))
	// With the namespace it goes in the kernel's own time, and the next test's has its name.
	l.t.Cleanup(func() { shell(l.t, fmt.Sprintf("ip link del port%d 2>/dev/null || true", n)) })
	return c
}

// within runs f in a namespace; nil is the host's.
func within(ns *skeltest.NS, f func()) {
	if ns == nil {
		f()
		return
	}
	ns.Do(f)
}

// serve answers in a namespace, on all its addresses, with a name and the sender's address.
func serve(t testing.TB, ns *skeltest.NS, protocol string, port int, name string) {
	t.Helper()
	var err error
	at := fmt.Sprintf("[::]:%d", port)
	if protocol == "udp" {
		var conn net.PacketConn
		within(ns, func() { conn, err = net.ListenPacket("udp", at) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // the end of the goroutine
		go func() {
			buf := make([]byte, 64)
			for {
				_, from, err := conn.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = conn.WriteTo([]byte(answer(name, from)), from) // who waits for it fails
			}
		}()
		return
	}
	var l net.Listener
	within(ns, func() { l, err = net.Listen("tcp", at) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(answer(name, conn.RemoteAddr())))
			_ = conn.Close()
		}
	}()
}

func answer(name string, from net.Addr) string {
	return name + " " + netip.MustParseAddrPort(from.String()).Addr().Unmap().String()
}

// What answers does so in a millisecond; a machine that has other work to do may need long. Who does not answer would not
// do so later.
const (
	long  = 10 * time.Second
	short = 300 * time.Millisecond
)

// ask sends a packet from a namespace, and returns what the server answers: its name and whom it sees.
func ask(ns *skeltest.NS, protocol, to string, wait time.Duration) string {
	var conn net.Conn
	var err error
	within(ns, func() { conn, err = (&net.Dialer{Timeout: wait}).Dial(protocol, to) })
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	return exchange(conn, wait)
}

func exchange(conn net.Conn, wait time.Duration) string {
	buf := make([]byte, 64)
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		return err.Error()
	}
	if conn.LocalAddr().Network() == "udp" {
		if _, err := conn.Write([]byte("?")); err != nil {
			return err.Error()
		}
	}
	n, err := conn.Read(buf)
	if err != nil {
		return err.Error()
	}
	return string(buf[:n])
}

func answers(t testing.TB, ns *skeltest.NS, protocol, to, want string) {
	t.Helper()
	if have := ask(ns, protocol, to, long); have != want {
		t.Errorf("%s %s: %q, expected %q", protocol, to, have, want)
	}
}

// silent: nobody answers.
func silent(t testing.TB, ns *skeltest.NS, protocol, to string) {
	t.Helper()
	if have := ask(ns, protocol, to, short); !strings.Contains(have, "timeout") && !strings.Contains(have, "refused") && !strings.Contains(have, "unreachable") {
		t.Errorf("%s %s: %q, expected no answer", protocol, to, have)
	}
}

func portMap(words ...string) nat.PortMap {
	var p nat.PortMap
	for _, w := range words {
		var m netconf.PortMapping
		host := ""
		if i := strings.LastIndex(w, "@"); i >= 0 {
			w, host = w[:i], w[i+1:]
			m.HostIP.Addr = netip.MustParseAddr(host)
		}
		if _, err := fmt.Sscanf(w, "%3s:%d:%d", &m.Protocol, &m.HostPort, &m.ContainerPort); err != nil {
			panic(w)
		}
		p.Mappings = append(p.Mappings, m)
	}
	return p
}
