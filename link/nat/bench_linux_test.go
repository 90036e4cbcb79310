package nat_test

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
)

// crowd fills the table with attachments of others: half with a port of all addresses, half of one.
func crowd(b testing.TB, host *link.NS, n int) {
	b.Helper()
	for i := range n {
		o := link.Owner{Network: "crowd", ContainerID: fmt.Sprintf("%064d", i), IfName: "eth0"}
		addrs := []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}), 16)}
		var m netconf.PortMapping
		m.HostPort, m.ContainerPort, m.Protocol = 10000+i, 80, "tcp"
		if i%2 == 1 {
			m.HostIP.Addr = netip.MustParseAddr("192.0.2.1")
		}
		if err := (nat.PortMap{Mappings: []netconf.PortMapping{m}}).Create(b.Context(), host, o, addrs); err != nil {
			b.Fatal(err)
		}
		if err := (nat.Masquerade{}).Create(b.Context(), host, o, addrs); err != nil {
			b.Fatal(err)
		}
	}
}

// strangers makes a table of somebody else's with 5,000 rules, in a chain that is called where hook says, or not at all.
func strangers(b testing.TB, hook string) {
	b.Helper()
	var rules strings.Builder
	rules.WriteString("table ip strangers { chain c { " + hook + "\n")
	for i := range 5000 {
		fmt.Fprintf(&rules, "ip saddr 10.%d.%d.%d tcp dport %d accept\n", 3+i>>14, i>>8&0xff, i&0xff, i+1)
	}
	rules.WriteString("}\n}\n")
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("nft: %v\n%.300s", err, out)
	}
}

// What one attachment costs beside 0 and 5,000 others, and one that is found by its owner alone.
func BenchmarkAttachments(b *testing.B) {
	for _, n := range []int{0, 5000} {
		b.Run(fmt.Sprint("beside=", n), func(b *testing.B) {
			l := newLab(b)
			a := l.container(2)
			if n > 0 {
				crowd(b, l.host, n)
				strangers(b, "")
				b.Cleanup(func() { shell(b, "nft delete table ip strangers") })
			}
			p, m := portMap("tcp:8080:80", "tcp:8443:443"), nat.Masquerade{}
			single := portMap("tcp:8080:80@192.0.2.1", "tcp:8443:443@192.0.2.1")
			for name, f := range map[string][2]func() error{
				"ports": {func() error { return p.Create(b.Context(), l.host, a.Owner, a.addrs) },
					func() error { return p.Delete(b.Context(), l.host, a.Owner, a.addrs) }},
				"ports-of-one-address": {func() error { return single.Create(b.Context(), l.host, a.Owner, a.addrs) },
					func() error { return single.Delete(b.Context(), l.host, a.Owner, a.addrs) }},
				"masquerade": {func() error { return m.Create(b.Context(), l.host, a.Owner, a.addrs) },
					func() error { return m.Delete(b.Context(), l.host, a.Owner, a.addrs) }},
				"ports-by-owner": {func() error { return p.Create(b.Context(), l.host, a.Owner, a.addrs) },
					func() error { return nat.PortMap{}.Delete(b.Context(), l.host, a.Owner, nil) }},
			} {
				for i, what := range []string{"ADD", "DEL"} {
					b.Run(name+"/"+what, func(b *testing.B) {
						for b.Loop() {
							b.StopTimer()
							if i == 1 {
								run(b, f[0])
							}
							b.StartTimer()
							run(b, f[i])
							b.StopTimer()
							if i == 0 {
								run(b, f[1])
							}
							b.StartTimer()
						}
					})
				}
			}
		})
	}
}

func run(b *testing.B, f func() error) {
	b.Helper()
	if err := f(); err != nil {
		b.Fatal(err)
	}
}

// surroundings are what a packet through one mapping may have beside it. Rules of others that the kernel goes through one by one for
// each packet, in a chain of theirs or of policy routing, are not this package's to make cheaper: they are reported
// beside it.
var surroundings = []struct {
	name string
	make func(b *testing.B, l *lab)
}{
	{"nothing", func(*testing.B, *lab) {}},
	{"mappings=5000", func(b *testing.B, l *lab) { crowd(b, l.host, 5000) }},
	{"foreign-nft-rules=5000", func(b *testing.B, _ *lab) {
		strangers(b, "type filter hook forward priority 0;")
		b.Cleanup(func() { shell(b, "nft delete table ip strangers") })
	}},
	{"ip-rules=5000", func(b *testing.B, _ *lab) {
		each := func(verb string) {
			var lines strings.Builder
			for i := range 5000 {
				fmt.Fprintf(&lines, "rule %s from 10.3.%d.%d lookup 1000 priority 30000\n", verb, i>>8, i&0xff)
			}
			cmd := exec.Command("ip", "-batch", "-")
			cmd.Stdin = strings.NewReader(lines.String())
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("ip rule %s: %v\n%.300s", verb, err, out)
			}
		}
		each("add")
		b.Cleanup(func() { each("del") })
	}},
}

// What a connection by a mapped port costs, whose first packet alone is looked up in the maps; a packet and its answer of a flow
// that is there; and the packets of such a flow that the host forwards in a second, one way.
func BenchmarkPackets(b *testing.B) {
	for _, beside := range surroundings {
		b.Run("beside="+beside.name, func(b *testing.B) {
			l := newLab(b)
			a := l.container(2)
			serve(b, a.NS, "tcp", 80, "a")
			serve(b, a.NS, "udp", 80, "a")
			beside.make(b, l)
			run(b, func() error {
				return portMap("tcp:8080:80", "udp:8080:80", "udp:8081:9").Create(b.Context(), l.host, a.Owner, a.addrs)
			})
			b.Run("connection", func(b *testing.B) {
				for b.Loop() {
					answers(b, l.client, "tcp", "192.0.2.1:8080", "a 192.0.2.9")
				}
			})
			b.Run("packet", func(b *testing.B) {
				ask := stubborn(b, l, nil, "192.0.2.1:8080")
				for b.Loop() {
					if have := ask(); have != "a 192.0.2.9" {
						b.Fatal(have)
					}
				}
			})
			b.Run("flood", func(b *testing.B) { flood(b, l, a) })
		})
	}
}

// flood sends as fast as it can to a port of the container where nobody reads, and counts what leaves the host towards it.
func flood(b *testing.B, l *lab, a *container) {
	var sink net.PacketConn
	var conn net.Conn
	var err error
	within(a.NS, func() { sink, err = net.ListenPacket("udp4", ":9") })
	if err != nil {
		b.Fatal(err)
	}
	defer sink.Close()
	within(l.client, func() { conn, err = net.Dial("udp4", "192.0.2.1:8081") })
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	forwarded := func() uint64 {
		port, err := l.host.Handle().LinkByName("port2")
		if err != nil {
			b.Fatal(err)
		}
		return port.Attrs().Statistics.TxPackets
	}
	packet := make([]byte, 64)
	before := forwarded()
	for b.Loop() {
		if _, err := conn.Write(packet); err != nil {
			b.Fatal(err)
		}
	}
	n := forwarded() - before
	if n < uint64(b.N)/2 {
		b.Fatalf("%d of %d packets were forwarded", n, b.N)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "forwarded/s")
}
