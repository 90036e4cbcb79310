//go:build linux

package plugins_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// A list of an interface's plugin and all that change what it made, as a runtime calls it: packets flow, CHECK of the whole
// list passes although the later ones have changed what the first made, and the DEL of all leaves nothing, in the
// versions that say less in their results too.
func TestChainOfAll(t *testing.T) {
	skeltest.NeedRoot(t)
	var path []string
	for _, name := range []string{"ptp", "macvlan", "tuning", "sbr", "bandwidth", "portmap"} {
		path = append(path, filepath.Dir(testbin.Plugin(t, name)))
	}
	path = append(path, testbin.Reference(t, testbin.HostLocal))
	skeltest.Host(t, "ip", "link", "add", "uplink", "type", "veth", "peer", "name", "wire")
	t.Cleanup(func() { skeltest.Host(t, "ip", "link", "del", "uplink") })
	for _, name := range []string{"uplink", "wire"} {
		skeltest.Host(t, "ip", "link", "set", name, "addrgenmode", "none", "up")
	}
	skeltest.Host(t, "ip", "address", "add", "10.1.0.1/24", "dev", "wire")
	t.Cleanup(func() { skeltest.Host(t, "sysctl", "-qw", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0") })
	client := outside(t)
	for _, first := range []string{`{"type":"ptp","ipMasq":true,%s}`, `{"type":"macvlan","master":"uplink",%s}`} {
		for _, version := range []string{"0.4.0", "1.0.0", "1.1.0"} {
			name := strings.Split(first, `"`)[3]
			t.Run(name+" "+version, func(t *testing.T) {
				host := `,{"type":"bandwidth","capabilities":{"bandwidth":true},"unshapedSubnets":["198.51.100.0/24"]},{"type":"portmap","capabilities":{"portMappings":true}}`
				if name != "ptp" { // there is no other end to limit, and the host has no way into the container
					host = ""
				}
				ipam := `"ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24","rangeStart":"10.1.0.10"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"},{"dst":"198.51.100.0/24"}]}`
				network, err := delegate.ParseNetwork([]byte(`{"cniVersion":"` + version + `","name":"chain","plugins":[` + fmt.Sprintf(first, ipam) + `,
					{"type":"sbr"},{"type":"tuning","capabilities":{"mac":true},"mtu":1400,"promisc":true,"sysctl":{"net.ipv4.conf.IFNAME.rp_filter":"2"}}` + host + `]}`))
				if err != nil {
					t.Fatal(err)
				}
				chain(t, network, path, client, host != "")
			})
		}
	}
}

// outside makes a namespace beyond the host, which is 192.0.2.1 there. It knows no way to a container.
func outside(t *testing.T) *skeltest.NS {
	client := skeltest.NewNS(t)
	skeltest.Host(t, "sh", "-ec", "ip link add out type veth peer name eth0 netns "+client.Name+"; ip link set out addrgenmode none up; ip address add 192.0.2.1/24 dev out")
	client.Run("sh", "-ec", "ip link set eth0 addrgenmode none up; ip address add 192.0.2.2/24 dev eth0")
	t.Cleanup(func() { skeltest.Host(t, "sh", "-c", "nft delete table inet cnikit 2>/dev/null; true") }) // it stays for the next
	return client
}

// outAndIn: what the container sends has the host's address outside, and who comes to the host's port is answered by it.
func outAndIn(t *testing.T, ns, client *skeltest.NS, address string) {
	t.Helper()
	ns.Run("ping", "-n", "-c", "1", "-W", "2", "-I", address, "192.0.2.2")
	ns.Do(func() {
		l, err := net.Listen("tcp4", ":80")
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = l.Close() }) // nobody comes any more
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte(c.RemoteAddr().(*net.TCPAddr).IP.String())) // the client says what it has got
				_ = c.Close()
			}
		}()
	})
	client.Do(func() {
		c, err := net.DialTimeout("tcp4", "192.0.2.1:8080", 5*time.Second)
		if err != nil {
			t.Errorf("the mapped port: %v", err)
			return
		}
		defer c.Close()
		if from, err := io.ReadAll(c); err != nil || string(from) != "192.0.2.2" {
			t.Errorf("the container sees %q (%v), expected the client", from, err)
		}
	})
}

func chain(t *testing.T, network *delegate.Network, path []string, client *skeltest.NS, reached bool) {
	ns := skeltest.NewNS(t)
	look := func() skeltest.Snapshot {
		tc := skeltest.Host(t, "tc", "qdisc", "show")
		return append(append(ns.Snapshot(), skeltest.HostSnapshot(t)...), strings.Split(tc, "\n")...)
	}
	req := &netconf.Request{ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0", Path: path}
	req.Network.RuntimeConfig = map[string]json.RawMessage{
		"mac": json.RawMessage(`"02:00:00:00:00:05"`), "bandwidth": json.RawMessage(`{"ingressRate":80000000,"egressRate":40000000}`),
		"portMappings": json.RawMessage(`[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]`),
	}
	defer req.Close()
	if reached && !tableThere() { // the first attachment makes the table of all
		once(t, network, req)
	}
	before := look()
	result, err := network.Add(t.Context(), nil, req)
	if netconf.Code(err) == netconf.CodeNotSupported {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := req.SetPrev(result.JSON); err != nil {
		t.Fatal(err)
	}
	ns.Run("ping", "-n", "-c", "1", "-W", "2", "-I", req.Prev.IPs[0].Address.IP.String(), "10.1.0.1") // the main table is empty
	if reached {
		outAndIn(t, ns, client, req.Prev.IPs[0].Address.IP.String())
	}
	for _, words := range []string{"02:00:00:00:00:05", "mtu 1400", "PROMISC"} {
		if show := ns.Run("ip", "link", "show", "eth0"); !strings.Contains(show, words) {
			t.Errorf("no %q in %s", words, show)
		}
	}
	if !strings.Contains(string(result.JSON), "02:00:00:00:00:05") {
		t.Errorf("result %s", result.JSON)
	}
	if err := network.Check(t.Context(), nil, req); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	ns.Run("ip", "rule", "del", "priority", "30000")
	if err := network.Check(t.Context(), nil, req); netconf.Code(err) != netconf.CodeDifferent {
		t.Errorf("CHECK without a rule: %v", err)
	}
	for range 2 {
		if err := network.Del(t.Context(), nil, req); err != nil {
			t.Errorf("DEL: %v", err)
		}
	}
	if diff := before.Diff(look()); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}

func tableThere() bool { return exec.Command("nft", "list", "table", "inet", "cnikit").Run() == nil }

// once is an ADD and DEL before what counts.
func once(t *testing.T, network *delegate.Network, req *netconf.Request) {
	t.Helper()
	_, err := network.Add(t.Context(), nil, req)
	if netconf.Code(err) == netconf.CodeNotSupported {
		t.Skip(err)
	}
	if err == nil {
		err = network.Del(t.Context(), nil, req)
	}
	if err != nil {
		t.Fatal(err)
	}
}
