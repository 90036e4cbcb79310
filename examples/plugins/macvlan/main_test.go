package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/ipam/hostlocal"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

const conf = `{"cniVersion":"1.1.0","name":"net","type":"macvlan","master":"uplink","mtu":1400,
	"ipam":{"type":"test-ipam","routes":[{"dst":"0.0.0.0/0"}]}}`

// uplink makes the parent: one end of a veth pair stands for the network card, the other for its cable.
func uplink(t *testing.T) {
	skeltest.Host(t, "ip", "link", "add", "uplink", "type", "veth", "peer", "name", "wire")
	t.Cleanup(func() { skeltest.Host(t, "ip", "link", "del", "uplink") })
	// Without link-local addresses, which come by themselves in their own time, after a snapshot.
	skeltest.Host(t, "ip", "link", "set", "uplink", "addrgenmode", "none", "up")
	skeltest.Host(t, "ip", "link", "set", "wire", "addrgenmode", "none", "up")
}

// add is the ADD of a container in a namespace.
func add(ns *skeltest.NS, ipam *skeltest.IPAM) skeltest.Call {
	return skeltest.Call{Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0", Path: ipam.Path, Config: conf}
}

func TestPacketsFlowAndNothingIsLeft(t *testing.T) {
	red, blue, ipam := skeltest.NewNS(t), skeltest.NewNS(t), skeltest.NewIPAM(t)
	uplink(t)
	host, empty := skeltest.HostSnapshot(t), red.Snapshot()
	first := add(red, ipam).Run(t.Context(), t, plugin()).OK(t)
	second := add(blue, ipam).Run(t.Context(), t, plugin()).OK(t)
	for _, ip := range second.Result.IPs {
		red.Ping(ip.Address.IP.String())
	}
	eth0 := first.Result.Interfaces[0]
	if eth0.Name != "eth0" || eth0.Sandbox != red.Path || eth0.Mtu != 1400 || eth0.Mac == "" {
		t.Errorf("the result names the interface %v", eth0)
	}
	check := add(red, ipam).With(netconf.Check).WithPrev(first)
	check.Run(t.Context(), t, plugin()).OK(t)
	red.Run("ip", "link", "set", "eth0", "down")
	check.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, "eth0")
	add(red, ipam).Run(t.Context(), t, plugin()).Fails(t, netconf.CodeExists, "eth0")
	for _, ns := range []*skeltest.NS{red, blue} {
		add(ns, ipam).With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	}
	if diff := empty.Diff(red.Snapshot()) + host.Diff(skeltest.HostSnapshot(t)); diff != "" || len(ipam.Reserved()) > 0 {
		t.Errorf("left behind: %s%v", diff, ipam.Reserved())
	}
}

// The call is harmed at each of its operations in turn: everything is as before, each time.
func TestHarmedAnywhereNothingIsLeft(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	uplink(t)
	if n := skeltest.Walk(t, plugin(), add(ns, ipam), ns, ipam.Reserved); n < 5 {
		t.Errorf("an ADD of %d operations: the fault hook is not called", n)
	}
}

// The same with host-local in this process: a file is written or removed, or the index is, and the call is harmed
// before it.
func TestHarmedAnywhereNoAddressIsLost(t *testing.T) {
	ns, dir := skeltest.NewNS(t), t.TempDir()
	uplink(t)
	call := add(ns, skeltest.NewIPAM(t))
	call.Config = `{"cniVersion":"1.1.0","name":"net","type":"macvlan","master":"uplink","ipam":{"type":"host-local","dataDir":"` + dir + `","ranges":[[{"subnet":"10.1.0.0/29"}]]}}`
	leases := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "net", "10.*"))
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range found { // round and round: which one it is says nothing, but for the live one
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found[i] = string(content)
		}
		return found
	}
	compiled := skel.Plugin[config]{Name: "macvlan", Steps: func(req *netconf.Request, c *config) skel.Steps {
		return skel.Steps{link.Macvlan{Parent: link.Parent{Name: c.Master}}, ipam.FromConfig(req, hostlocal.InProcess()), link.Addresses{}}
	}}
	if n := skeltest.Walk(t, compiled, call, ns, leases); n < 10 {
		t.Errorf("an ADD of %d operations: the fault hook is not called", n)
	}
}

func TestConfigurationOfTheReferencePlugin(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	uplink(t)
	tests := []struct {
		name, conf, args string
		code             uint
		words            string // in the error, or in what ip says of the link
	}{
		{name: "layer 2", conf: `"master":"uplink"`, words: "mtu 1500"},
		{name: "mode", conf: `"master":"uplink","mode":"vepa"`, words: "macvlan mode vepa"},
		{name: "mac", conf: `"master":"uplink","mac":"02:00:00:00:00:01"`, words: "02:00:00:00:00:01"},
		{name: "MAC of the arguments", conf: `"master":"uplink","mac":"02:00:00:00:00:01"`, args: "IgnoreUnknown=1;MAC=02:00:00:00:00:02", words: "02:00:00:00:00:02"},
		{name: "mac of the runtime", conf: `"master":"uplink","runtimeConfig":{"mac":"02:00:00:00:00:03"}`, args: "MAC=02:00:00:00:00:02", words: "02:00:00:00:00:03"},
		{name: "bcqueuelen", conf: `"master":"uplink","bcqueuelen":200`, words: "bcqueuelen 200"},
		{name: "no such parent", conf: `"master":"nowhere"`, code: netconf.CodeInvalidNetworkConfig, words: `"nowhere": there is no such parent link on the host (key "master")`},
		{name: "no such mode", conf: `"master":"uplink","mode":"brigde"`, code: netconf.CodeInvalidNetworkConfig, words: "bridge"},
		{name: "mtu above the parent's", conf: `"master":"uplink","mtu":9000`, code: netconf.CodeInvalidNetworkConfig, words: "mtu"},
		{name: "two mistakes at once", conf: `"master":1,"mtu":"x"`, code: netconf.CodeDecodingFailure, words: "mtu"},
		{name: "multicast MAC", conf: `"master":"uplink","mac":"01:00:00:00:00:01"`, code: netconf.CodeInvalidNetworkConfig, words: "mac"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := add(ns, ipam)
			c.Config, c.Args = `{"cniVersion":"1.1.0","name":"net","type":"macvlan",`+test.conf+`}`, test.args
			before := ns.Snapshot()
			a := c.Run(t.Context(), t, plugin())
			if test.code != 0 {
				a.Fails(t, test.code, test.words)
			} else if a.OK(t); !strings.Contains(ns.Run("ip", "-d", "link", "show", "eth0"), test.words) {
				t.Errorf("no %q in %s", test.words, ns.Run("ip", "-d", "link", "show", "eth0"))
			}
			c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
			if diff := before.Diff(ns.Snapshot()); diff != "" {
				t.Errorf("left behind: %s", diff)
			}
		})
	}
}
