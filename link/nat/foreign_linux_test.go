package nat_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// others are the tables of a service proxy (as kube-proxy makes them, with its marks) and of iptables-nft, and what
// iptables-legacy has: services, a masqueraded mark, a published port.
const others = `
nft -f - <<'END'
table ip proxy {
	map services { type ipv4_addr . inet_proto . inet_service : verdict; }
	chain to-a { mark set mark | 0x4000 ; meta l4proto tcp dnat to 10.1.0.2:80 ; }
	chain to-b { meta l4proto tcp dnat to 10.1.0.3:80 ; }
	chain services {
		ip daddr . meta l4proto . th dport vmap @services
		fib daddr type local tcp dport 30080 goto to-a
		fib daddr type local tcp dport 8082 goto to-b
	}
	chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
	chain nat-output { type nat hook output priority -100; jump services; }
	chain nat-postrouting { type nat hook postrouting priority srcnat; mark & 0x4000 != 0 mark set mark ^ 0x4000 masquerade fully-random; }
	chain filter-forward { type filter hook forward priority -110; ct state invalid drop; }
}
add element ip proxy services { 10.96.0.10 . tcp . 80 : goto to-b }
END
iptables-nft -t nat -N PUBLISHED; iptables-nft -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j PUBLISHED
iptables-nft -t nat -A PUBLISHED -p tcp --dport 9999 -j DNAT --to-destination 10.1.0.3:80
iptables-nft -t nat -A POSTROUTING -s 10.77.0.0/16 ! -d 10.77.0.0/16 -j MASQUERADE
`

// Rules of others, which were there before or come later, work as without ours, and ours as without theirs. None of
// theirs is changed by anything that we do.
func TestBesideTablesOfOthers(t *testing.T) {
	if _, err := exec.LookPath("iptables-nft"); err != nil {
		t.Fatal(err)
	}
	for name, first := range map[string]bool{"theirs are first": true, "ours are first": false} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			a, b, c := l.container(2), l.container(3), l.container(4)
			t.Cleanup(func() { shell(t, "nft delete table ip proxy; nft delete table ip nat || true") })
			serve(t, a.NS, "tcp", 80, "a")
			serve(t, b.NS, "tcp", 80, "b")
			serve(t, l.client, "tcp", 80, "client")
			if first {
				shell(t, others)
			}
			create(t, l, a, portMap("tcp:8081:80", "tcp:8082:80", "udp:8081:80"))
			create(t, l, b, portMap("tcp:8083:80"))
			masquerade(t, l, c)
			if !first {
				shell(t, others)
			}
			theirs := shell(t, "nft -s list table ip proxy; nft -s list table ip nat")
			answers(t, l.client, "tcp", "192.0.2.1:8081", "a 192.0.2.9")
			answers(t, l.client, "tcp", "192.0.2.1:30080", "a 10.1.0.1") // their mark masquerades
			answers(t, l.client, "tcp", "192.0.2.1:9999", "b 192.0.2.9")
			answers(t, l.client, "tcp", "192.0.2.1:8082", "b 192.0.2.9") // claimed by both: a service stays a service
			answers(t, nil, "tcp", "127.0.0.1:8081", "a 10.1.0.1")
			answers(t, c.NS, "tcp", "192.0.2.1:8083", "b 10.1.0.1")
			// By a service, whose source is kept, although b has a mapped port: b's answer crosses the bridge alone, and only with
			// br_netfilter, which service proxies ask for, it is translated back. Debian's 6.12 has it as a module.
			if _, err := os.Stat("/proc/sys/net/bridge/bridge-nf-call-iptables"); err == nil {
				answers(t, c.NS, "tcp", "10.96.0.10:80", "b 10.1.0.4")
			}
			answers(t, c.NS, "tcp", "192.0.2.9:80", "client 192.0.2.1")
			for _, x := range []*container{a, b, c} {
				if err := (nat.PortMap{}).Delete(t.Context(), l.host, x.Owner, x.addrs); err != nil {
					t.Error(err)
				}
				if err := (nat.Masquerade{}).Delete(t.Context(), l.host, x.Owner, nil); err != nil {
					t.Error(err)
				}
			}
			if now := shell(t, "nft -s list table ip proxy; nft -s list table ip nat"); now != theirs {
				t.Errorf("theirs are changed:\n%s\nthey were\n%s", now, theirs)
			}
			answers(t, l.client, "tcp", "192.0.2.1:9999", "b 192.0.2.9")
		})
	}
}

// The bit of the mark is ours from the translation of the destination to that of the source, and nobody's after that.
func TestMarkStaysInside(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	serve(t, a.NS, "tcp", 80, "a")
	create(t, l, a, portMap("tcp:8080:80"))
	shell(t, `nft add table inet watch; nft add chain inet watch out '{ type filter hook postrouting priority 300; }'
		nft add rule inet watch out meta mark and 0x2000 != 0 counter comment marked; nft add rule inet watch out tcp dport 80 counter comment sent`)
	t.Cleanup(func() { shell(t, "nft delete table inet watch") })
	for _, from := range []*skeltest.NS{l.client, a.NS, nil} {
		answers(t, from, "tcp", "192.0.2.1:8080", map[*skeltest.NS]string{l.client: "a 192.0.2.9", a.NS: "a 10.1.0.1", nil: "a 192.0.2.1"}[from])
	}
	list := shell(t, "nft list table inet watch")
	for line := range strings.Lines(list) {
		if contains(line, "marked") != contains(line, "packets 0 ") && contains(line, "packets") {
			t.Error(line)
		}
	}
}
