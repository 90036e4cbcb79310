package link_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// shaped makes a container with eth0, whose pair's other end is vh on the host with the addresses 10.1.1.1, 10.1.9.1,
// fd00::1 and fd09::1, and the ADD of a plugin behind the one that made it.
func shaped(t *testing.T, step skel.Step) (container *skeltest.NS, p skel.Plugin[struct{}], call skeltest.Call) {
	t.Helper()
	container = space(t)
	skeltest.Host(t, "sh", "-ec", "ip link add vh type veth peer name eth0 netns "+container.Name+"; ip link set vh addrgenmode none up; "+
		"ip address add 10.1.1.1/24 dev vh; ip address add 10.1.9.1/32 dev vh; ip address add fd00::1/64 dev vh nodad; ip address add fd09::1/128 dev vh nodad")
	t.Cleanup(func() { ignore(t, "ip link del vh") })
	container.Run("sh", "-ec", "ip link set eth0 addrgenmode none up; ip address add 10.1.1.2/24 dev eth0; ip address add fd00::2/64 dev eth0 nodad; "+
		"ip route add default via 10.1.1.1; ip route add default via fd00::1")
	skeltest.Eventually(t, "packets flow", func() bool {
		_, err := container.Try("ping", "-n", "-c", "1", "-W", "1", "fd00::1")
		return err == nil
	})
	host, _ := spaces(t, container)
	try := link.Owner{Network: "try", ContainerID: "try", IfName: "eth0"}
	if _, err := some().Create(t.Context(), host, hostLink(t, "vh"), try); errors.Is(err, link.ErrNotSupported) {
		t.Skip(err)
	}
	if err := some().Delete(t.Context(), host, hostLink(t, "vh"), try); err != nil {
		t.Fatal(err)
	}
	p = plugin(step)
	p.Kind = skel.Chained
	call = add(container, container.Name)
	call.Prev = `{"cniVersion":"1.1.0","interfaces":[{"name":"vh"},{"name":"eth0","sandbox":"` + container.Path + `"}],"ips":[{"address":"10.1.1.2/24","interface":1}]}`
	return container, p, call
}

const mbit = 1000 * 1000

// both limits each direction to another rate.
var both = link.Bandwidth{Ingress: link.Rate{Rate: 8 * mbit, Burst: 400_000}, Egress: link.Rate{Rate: 4 * mbit, Burst: 200_000}}

// tc is everything that tc says of the links of the host.
func tc(t *testing.T) string {
	t.Helper()
	return skeltest.Host(t, "sh", "-c", "tc qdisc show; for l in $(ip -br link | sed 's/[@ ].*//'); do tc class show dev $l; tc filter show dev $l ingress; tc filter show dev $l; done")
}

// octets is how many bytes of IP a namespace has received, by the kernel's counters.
func octets(t *testing.T, in func(string, ...string) string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(in("awk", "$1 == \"IpExt:\" && $2 == \"InNoRoutes\" {for (i = 1; i <= NF; i++) if ($i == \"InOctets\") f = i} "+
		"$1 == \"IpExt:\" && $2 != \"InNoRoutes\" {n += $f} $1 == \"Ip6InOctets\" {n += $2} END {print n}", "/proc/net/netstat", "/proc/net/snmp6"), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// blast sends datagrams of 1000 bytes from one end to an address of the other as fast as they go, and tells how many bytes
// of IP have come through, and how long that took. try runs a program at the sender's end.
func blast(t *testing.T, from func(func()), try func(string, ...string) (string, error), address string, in func(string, ...string) string, datagrams int) (received int, took time.Duration) {
	t.Helper()
	to := &net.UDPAddr{IP: net.ParseIP(address), Port: 9}
	before := octets(t, in)
	begun := time.Now()
	from(func() {
		c, err := net.ListenPacket("udp", ":0") // not connected: nobody listens there, and that is not to be told
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		for range datagrams {
			_, _ = c.WriteTo(make([]byte, 1000), to) // a full queue is what is looked for
		}
	})
	// A queue gives out in the order in which it took: when a ping has come through that, all before it has.
	skeltest.Eventually(t, "a ping comes through behind the datagrams", func() bool {
		_, err := try("ping", "-n", "-c", "1", "-W", "1", address)
		return err == nil
	})
	received = octets(t, in) - before
	return received, time.Since(begun)
}

// onHost runs a program on the host, which may fail.
func onHost(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	return string(out), err
}

// TestBandwidth: what gets through is the burst and what the rate allows for the time, in each direction; what the subnets
// exclude gets through whole.
func TestBandwidth(t *testing.T) {
	const datagrams, whole = 3000, 3000 * 1028
	subnets := func(text ...string) (out []netip.Prefix) {
		for _, p := range text {
			out = append(out, prefix(p))
		}
		return out
	}
	tests := []struct {
		name             string
		unshaped, shaped []netip.Prefix
		limited, free    []string
	}{
		{name: "all", limited: []string{"10.1.1.", "10.1.9.", "fd00::", "fd09::"}},
		{name: "unshaped", unshaped: subnets("10.1.9.0/25", "192.0.2.0/24", "fd09::/62"), limited: []string{"10.1.1.", "fd00::"}, free: []string{"10.1.9.", "fd09::"}},
		{name: "shaped", shaped: subnets("10.1.9.1/32", "fd09::1/128"), limited: []string{"10.1.9.", "fd09::"}, free: []string{"10.1.1.", "fd00::"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			step := both
			step.Unshaped, step.Shaped = test.unshaped, test.shaped
			container, p, call := shaped(t, step)
			container.Run("sh", "-ec", "ip address add 10.1.9.2/32 dev eth0; ip address add fd09::2/128 dev eth0 nodad")
			skeltest.Host(t, "sh", "-ec", "ip route add 10.1.9.2 dev vh src 10.1.9.1; ip -6 route add fd09::2 dev vh src fd09::1")
			before := tc(t)
			a := call.Run(t.Context(), t, p).OK(t)
			call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
			host := func(name string, args ...string) string { return skeltest.Host(t, name, args...) }
			for _, direction := range []struct {
				name string
				end  string // of the addresses
				from func(func())
				try  func(string, ...string) (string, error)
				in   func(string, ...string) string
				rate link.Rate
			}{
				{"ingress", "2", func(f func()) { f() }, onHost, container.Run, both.Ingress},
				{"egress", "1", container.Do, container.Try, host, both.Egress},
			} {
				for _, network := range append(test.limited, test.free...) {
					got, took := blast(t, direction.from, direction.try, network+direction.end, direction.in, datagrams)
					burst := int(direction.rate.Burst) / 8
					allowed := burst + int(took.Seconds()*float64(direction.rate.Rate)/8) + 20_000 // headers of Ethernet do not count here, other packets do
					free := slices.Contains(test.free, network)
					t.Logf("%s to %s%s: %d bytes in %v", direction.name, network, direction.end, got, took)
					if free && got < whole*9/10 {
						t.Errorf("%s to %s: %d of %d bytes came through, expected all", direction.name, network, got, whole)
					}
					if !free && (got > allowed || got < burst/2) {
						t.Errorf("%s to %s: %d of %d bytes came through in %v, expected %d to %d", direction.name, network, got, whole, took, burst/2, allowed)
					}
				}
			}
			for range 2 {
				call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
			}
			if now := tc(t); now != before {
				t.Errorf("left behind:\n%s\nbefore:\n%s", now, before)
			}
		})
	}
}
