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

const conf = `{"cniVersion":"1.1.0","name":"net","type":"ipvlan","master":"uplink","mtu":1400,
	"ipam":{"type":"test-ipam","routes":[{"dst":"0.0.0.0/0"}]}}`

// uplink makes the parent: one end of a veth pair stands for the network card, the other for its cable. On a kernel
// without ipvlan the test is skipped, after the plugin has said so, with code 103, and has left nothing.
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
	c := skeltest.Call{Command: netconf.Add, ContainerID: "try", Netns: try.Path, IfName: "eth0", Config: `{"cniVersion":"1.1.0","name":"try","type":"ipvlan","master":"uplink"}`}
	a := c.Run(t.Context(), t, plugin())
	if a.Exit == 0 || a.Err.Code != netconf.CodeNotSupported {
		c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
		return
	}
	a.Fails(t, netconf.CodeNotSupported, "the kernel lacks", "ipvlan")
	if diff := before.Diff(try.Snapshot()); diff != "" {
		t.Errorf("left behind on a kernel without ipvlan: %s", diff)
	}
	t.Skip("the kernel lacks links of the kind ipvlan")
}

// add is the ADD of a container in a namespace.
func add(ns *skeltest.NS, ipam *skeltest.IPAM) skeltest.Call {
	return skeltest.Call{Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0", Path: ipam.Path, Config: conf}
}

func TestPacketsFlowAndNothingIsLeft(t *testing.T) {
	for _, mode := range []string{"l2", "l3", "l3s"} {
		t.Run(mode, func(t *testing.T) {
			red, blue, ipam := skeltest.NewNS(t), skeltest.NewNS(t), skeltest.NewIPAM(t)
			uplink(t)
			host, empty := skeltest.HostSnapshot(t), red.Snapshot()
			call := func(ns *skeltest.NS) skeltest.Call {
				c := add(ns, ipam)
				c.Config = strings.Replace(conf, `"mtu"`, `"mode":"`+mode+`","mtu"`, 1)
				return c
			}
			first := call(red).Run(t.Context(), t, plugin()).OK(t)
			second := call(blue).Run(t.Context(), t, plugin()).OK(t)
			for _, ip := range second.Result.IPs {
				red.Ping(ip.Address.IP.String())
			}
			eth0 := first.Result.Interfaces[0]
			if eth0.Name != "eth0" || eth0.Sandbox != red.Path || eth0.Mtu != 1400 || eth0.Mac == "" {
				t.Errorf("the result names the interface %v", eth0)
			}
			check := call(red).With(netconf.Check).WithPrev(first)
			check.Run(t.Context(), t, plugin()).OK(t)
			red.Run("ip", "link", "set", "eth0", "down")
			check.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, "eth0")
			call(red).Run(t.Context(), t, plugin()).Fails(t, netconf.CodeExists, "eth0")
			for _, ns := range []*skeltest.NS{red, blue} {
				call(ns).With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
			}
			if diff := empty.Diff(red.Snapshot()) + host.Diff(skeltest.HostSnapshot(t)); diff != "" || len(ipam.Reserved()) > 0 {
				t.Errorf("left behind: %s%v", diff, ipam.Reserved())
			}
		})
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
		{name: "layer 2", conf: `"master":"uplink"`, words: "mtu 1500"},
		{name: "default parent", setup: "ip route add default dev uplink", conf: `"mtu":0`, words: "mode l2 bridge"},
		{name: "no default parent", conf: `"mtu":0`, code: netconf.CodeInvalidNetworkConfig, words: "default route"},
		{name: "l3", conf: `"master":"uplink","mode":"l3"`, words: "mode l3 bridge"},
		{name: "l3s", conf: `"master":"uplink","mode":"l3s"`, words: "mode l3s bridge"},
		{name: "private", conf: `"master":"uplink","flag":"private"`, words: "mode l2 private"},
		{name: "vepa", conf: `"master":"uplink","flag":"vepa"`, words: "mode l2 vepa"},
		{name: "mtu", conf: `"master":"uplink","mtu":1300`, words: "mtu 1300"},
		{name: "name of 15 bytes", conf: `"master":"uplink"`, ifname: "fifteen-bytes-1", words: "fifteen-bytes-1"},
		{name: "a name that the host has", setup: "ip link add eth0 type bridge", conf: `"master":"uplink"`, words: "eth0"},
		{name: "no such parent", conf: `"master":"nowhere"`, code: netconf.CodeInvalidNetworkConfig, words: `"nowhere": there is no such parent link on the host (key "master")`},
		{name: "no parent in the container", conf: `"master":"uplink","linkInContainer":true`, code: netconf.CodeInvalidNetworkConfig, words: "uplink"},
		{name: "no such mode", conf: `"master":"uplink","mode":"l4"`, code: netconf.CodeInvalidNetworkConfig, words: "l2, l3 or l3s"},
		{name: "another case", conf: `"master":"uplink","mode":"L3"`, code: netconf.CodeInvalidNetworkConfig, words: `"L3"`},
		{name: "mtu above the parent's", conf: `"master":"uplink","mtu":9000`, code: netconf.CodeInvalidNetworkConfig, words: "mtu"},
		{name: "mtu below IPv6's", conf: `"master":"uplink","mtu":1279,"ipam":{"type":"test-ipam"}`, code: netconf.CodeInvalidNetworkConfig, words: "1280"},
		{name: "two mistakes at once", conf: `"master":1,"mtu":"x"`, code: netconf.CodeDecodingFailure, words: "mtu"},
		{name: "a MAC, which cannot be", conf: `"master":"uplink","runtimeConfig":{"mac":"02:00:00:00:00:03"}`, words: "mode l2 bridge"},
		{name: "what is no MAC", conf: `"master":"uplink","runtimeConfig":{"mac":"02:00:00"}`, code: netconf.CodeInvalidNetworkConfig, words: "mac"},
		{name: "a macvlan's parent", setup: "ip link add m0 link uplink type macvlan", conf: `"master":"uplink"`, code: netconf.CodeInvalidNetworkConfig, words: "busy"},
		{name: "another mode on the parent", setup: "ip link add i0 link uplink type ipvlan mode l3", conf: `"master":"uplink"`, code: netconf.CodeInvalidNetworkConfig, words: `"i0"`},
		{name: "in a chain", conf: `"prevResult":{"cniVersion":"1.1.0","interfaces":[{"name":"uplink"}],"ips":[{"address":"10.7.0.2/24","interface":0}]}`, words: "mode l2 bridge"},
		{name: "in a chain with two", conf: `"prevResult":{"cniVersion":"1.1.0","interfaces":[{"name":"uplink"},{"name":"wire"}]}`, code: netconf.CodeInvalidNetworkConfig, words: "2 interfaces"},
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
			c.Config = `{"cniVersion":"1.1.0","name":"net","type":"ipvlan",` + test.conf + `}`
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

// The parent goes while the container lives: the kernel takes the ipvlan with it, CHECK says so, and DEL frees the
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

// The suite, on a kernel that has ipvlan: that of a guest in most cases, where all of it would take many minutes.
func TestConforms(t *testing.T) {
	skeltest.NeedRoot(t)
	target := skeltest.Target{
		Plugin: plugin(), Path: []string{skeltest.Build(t, "github.com/cnikit/cnikit/examples/plugins/host-local")},
		Config: `{"cniVersion":"1.1.0","name":"net","type":"ipvlan","master":"p0","mtu":1400,
			"ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}}`,
	}
	if _, guest := os.LookupEnv("CNIKIT_TEST_PREBUILT"); guest {
		target.Only = regexp.MustCompile(`^(add/(taken-name|twice|two-interfaces)|del/(all|foreign-link|stale-netns|no-netns|own-netns|parent-gone)|` +
			`check/(fresh|gone|kind|link)|gc/(live|stale)|status/(ready|parent-gone))$`)
	}
	skeltest.Conform(t, target)
}
