package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

const conf = `{"cniVersion":"1.1.0","name":"net","type":"vlan","master":"uplink","vlanId":7,"mtu":1400,
	"ipam":{"type":"test-ipam","routes":[{"dst":"0.0.0.0/0"}]}}`

// uplink makes the parent: one end of a veth pair stands for the network card, the other for that of another host on the
// same cable. On a kernel without vlan the test is skipped, after the plugin has said so, with code 103, and has left nothing.
func uplink(t *testing.T) {
	t.Helper()
	try := skeltest.NewNS(t)
	skeltest.Host(t, "ip", "link", "add", "uplink", "type", "veth", "peer", "name", "wire")
	t.Cleanup(func() {
		skeltest.Host(t, "sh", "-c", "if ip link show uplink > /dev/null 2>&1; then ip link del uplink; fi") // some tests take it away
	})
	// Without link-local addresses, which come by themselves in their own time, after a snapshot.
	skeltest.Host(t, "ip", "link", "set", "uplink", "addrgenmode", "none", "up")
	skeltest.Host(t, "ip", "link", "set", "wire", "addrgenmode", "none", "up")
	before := try.Snapshot()
	c := skeltest.Call{Command: netconf.Add, ContainerID: "try", Netns: try.Path, IfName: "eth0", Config: `{"cniVersion":"1.1.0","name":"try","type":"vlan","master":"uplink","vlanId":7}`}
	a := c.Run(t.Context(), t, plugin())
	if a.Exit == 0 || a.Err.Code != netconf.CodeNotSupported {
		c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
		return
	}
	a.Fails(t, netconf.CodeNotSupported, "the kernel lacks", "vlan")
	if diff := before.Diff(try.Snapshot()); diff != "" {
		t.Errorf("left behind on a kernel without vlan: %s", diff)
	}
	t.Skip("the kernel lacks links of the kind vlan")
}

// add is the ADD of a container in a namespace.
func add(ns *skeltest.NS, ipam *skeltest.IPAM) skeltest.Call {
	return skeltest.Call{Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0", Path: ipam.Path, Config: conf}
}

// Two hosts on one cable, a container of each in the same VLAN.
func TestPacketsFlowAndNothingIsLeft(t *testing.T) {
	red, blue, ipam := skeltest.NewNS(t), skeltest.NewNS(t), skeltest.NewIPAM(t)
	uplink(t)
	host, empty := skeltest.HostSnapshot(t), red.Snapshot()
	there := add(blue, ipam)
	there.Config = strings.Replace(conf, "uplink", "wire", 1)
	first := add(red, ipam).Run(t.Context(), t, plugin()).OK(t)
	second := there.Run(t.Context(), t, plugin()).OK(t)
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
	for _, call := range []skeltest.Call{add(red, ipam), there} {
		call.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
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

// What is asked for is made, or refused with a word that helps; a DEL follows, as a runtime's does.
func TestConfigurationOfTheReferencePlugin(t *testing.T) {
	tests := []struct {
		name, setup, conf string // setup runs on the host
		ifname            string // eth0 if empty
		code              uint
		words             string // in the error, or in what ip says of the link
	}{
		{name: "layer 2", conf: `"master":"uplink","vlanId":7`, words: "mtu 1500"},
		{name: "vlan", conf: `"master":"uplink","vlanId":7`, words: "vlan protocol 802.1Q id 7 "},
		{name: "last vlan", conf: `"master":"uplink","vlanId":4094`, words: "id 4094 "},
		{name: "vlan 0", conf: `"master":"uplink","vlanId":0`, words: "id 0 "},
		{name: "no vlan", conf: `"master":"uplink"`, words: "id 0 "},
		{name: "mtu", conf: `"master":"uplink","vlanId":7,"mtu":1300`, words: "mtu 1300"},
		{name: "mtu of the parent", conf: `"master":"uplink","vlanId":7,"mtu":1500`, words: "mtu 1500"},
		{name: "name of 15 bytes", conf: `"master":"uplink","vlanId":7`, ifname: "fifteen-bytes-1", words: "fifteen-bytes-1"},
		{name: "a name that the host has", setup: "ip link add eth0 type bridge", conf: `"master":"uplink","vlanId":7`, words: "eth0"},
		{name: "no parent named", setup: "ip route add default dev uplink", conf: `"vlanId":7`, code: netconf.CodeInvalidNetworkConfig, words: `"master"`},
		{name: "no such parent", conf: `"master":"nowhere","vlanId":7`, code: netconf.CodeInvalidNetworkConfig, words: `"nowhere": there is no such parent link on the host (key "master")`},
		{name: "no parent in the container", conf: `"master":"uplink","vlanId":7,"linkInContainer":true`, code: netconf.CodeInvalidNetworkConfig, words: "in the container"},
		{name: "the loopback", setup: "ip link set lo up", conf: `"master":"lo","vlanId":7`, code: netconf.CodeInvalidNetworkConfig, words: "takes no VLANs"},
		{name: "a parent that is down", setup: "ip link set uplink down", conf: `"master":"uplink","vlanId":7`, code: netconf.CodeTryAgainLater, words: "down"},
		{name: "reserved vlan", conf: `"master":"uplink","vlanId":4095`, code: netconf.CodeInvalidNetworkConfig, words: "vlan 4095"},
		{name: "negative vlan", conf: `"master":"uplink","vlanId":-1`, code: netconf.CodeInvalidNetworkConfig, words: "vlan -1"},
		{name: "vlan as text", conf: `"master":"uplink","vlanId":"7"`, code: netconf.CodeDecodingFailure, words: "vlanId"},
		{name: "mtu above the parent's", conf: `"master":"uplink","vlanId":7,"mtu":9000`, code: netconf.CodeInvalidNetworkConfig, words: "mtu"},
		{name: "negative mtu", conf: `"master":"uplink","vlanId":7,"mtu":-1`, code: netconf.CodeInvalidNetworkConfig, words: "mtu"},
		{name: "a vlan that the host has", setup: "ip link add u.7 link uplink type vlan id 7", conf: `"master":"uplink","vlanId":7`, code: netconf.CodeExists, words: `"u.7"`},
		{name: "another vlan of the host's", setup: "ip link add u.8 link uplink type vlan id 8", conf: `"master":"uplink","vlanId":7`, words: "id 7 "},
		{name: "a MAC, which the plugin does not set", conf: `"master":"uplink","vlanId":7,"runtimeConfig":{"mac":"02:00:00:00:00:03"}`, words: "id 7 "},
		{name: "what is no MAC", conf: `"master":"uplink","vlanId":7,"runtimeConfig":{"mac":"02:00:00"}`, code: netconf.CodeInvalidNetworkConfig, words: "mac"},
		{name: "in a chain", conf: `"master":"uplink","vlanId":7,"prevResult":{"cniVersion":"1.1.0","interfaces":[{"name":"uplink"}]}`, words: "id 7 "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
			uplink(t)
			if test.setup != "" {
				skeltest.Host(t, "sh", "-c", test.setup)
				t.Cleanup(func() { skeltest.Host(t, "sh", "-c", "ip link del eth0 2> /dev/null || true") })
			}
			c := add(ns, ipam)
			if test.ifname != "" {
				c.IfName = test.ifname
			}
			c.Config = `{"cniVersion":"1.1.0","name":"net","type":"vlan",` + test.conf + `}`
			before := ns.Snapshot()
			a := c.Run(t.Context(), t, plugin())
			if test.code != 0 {
				a.Fails(t, test.code, test.words)
			} else {
				a.OK(t)
				details := strings.Join(strings.Fields(ns.Run("ip", "-d", "link", "show", c.IfName)), " ")
				if !strings.Contains(details, test.words) {
					t.Errorf("no %q in %s", test.words, details)
				}
			}
			c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
			if diff := before.Diff(ns.Snapshot()); diff != "" || len(ipam.Reserved()) > 0 {
				t.Errorf("left behind: %s%v", diff, ipam.Reserved())
			}
		})
	}
}

// The second container of one VLAN is refused before it has an address, and the first one's connection lives.
func TestSecondContainerOfAVLAN(t *testing.T) {
	red, blue, ipam := skeltest.NewNS(t), skeltest.NewNS(t), skeltest.NewIPAM(t)
	uplink(t)
	first := add(red, ipam).Run(t.Context(), t, plugin()).OK(t)
	reserved := len(ipam.Reserved())
	add(blue, ipam).Run(t.Context(), t, plugin()).Fails(t, netconf.CodeExists, "vlan 7", "uplink", "another container")
	add(blue, ipam).With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	add(red, ipam).With(netconf.Check).WithPrev(first).Run(t.Context(), t, plugin()).OK(t)
	if len(ipam.Reserved()) != reserved {
		t.Errorf("addresses that are not free: %v", ipam.Reserved())
	}
}

// The parent goes while the container lives: the kernel takes the link with it, CHECK says so, and DEL frees the
// address, as often as it is called.
func TestDelWithTheParentGone(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	uplink(t)
	a := add(ns, ipam).Run(t.Context(), t, plugin()).OK(t)
	skeltest.Host(t, "ip", "link", "del", "uplink")
	add(ns, ipam).With(netconf.Check).WithPrev(a).Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, "eth0", "gone")
	for range 2 {
		add(ns, ipam).With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	}
	if len(ipam.Reserved()) > 0 {
		t.Errorf("addresses that are not free: %v", ipam.Reserved())
	}
}

// The suite, on a kernel that has vlan: that of a guest in most cases, where all of it would take many minutes.
func TestConforms(t *testing.T) {
	skeltest.NeedRoot(t)
	target := skeltest.Target{
		Plugin: plugin(), Path: []string{skeltest.Build(t, "github.com/cnikit/cnikit/examples/plugins/host-local")}, Parent: "p0", Single: true,
		Config: `{"cniVersion":"1.1.0","name":"net","type":"vlan","master":"p0","vlanId":7,"mtu":1400,
			"ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}}`,
	}
	if _, guest := os.LookupEnv("CNIKIT_TEST_PREBUILT"); guest {
		target.Only = regexp.MustCompile(`^(add/(taken-name|twice)|del/(all|foreign-link|stale-netns|no-netns|own-netns|parent-gone)|` +
			`check/(fresh|gone|kind|link)|gc/(live|stale)|status/(ready|parent-gone))$`)
	}
	skeltest.Conform(t, target)
}
