package main

import (
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

const conf = `{"cniVersion":"1.1.0","name":"net","type":"tap","mtu":1400,"ipam":{"type":"test-ipam","routes":[{"dst":"0.0.0.0/0"}]}}`

// add is the ADD of a container in a namespace.
func add(ns *skeltest.NS, ipam *skeltest.IPAM) skeltest.Call {
	return skeltest.Call{Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0", Path: ipam.Path, Config: conf}
}

// Nothing is left of a tap, on either side.
func TestNothingIsLeft(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	host, empty := skeltest.HostSnapshot(t), ns.Snapshot()
	a := add(ns, ipam).Run(t.Context(), t, plugin()).OK(t)
	if eth0 := a.Result.Interfaces[0]; eth0.Name != "eth0" || eth0.Sandbox != ns.Path || eth0.Mtu != 1400 || eth0.Mac == "" {
		t.Errorf("the result names the interface %v", eth0)
	}
	check := add(ns, ipam).With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, plugin()).OK(t)
	ns.Run("ip", "link", "set", "eth0", "down")
	check.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, "eth0")
	add(ns, ipam).Run(t.Context(), t, plugin()).Fails(t, netconf.CodeExists, "eth0")
	add(ns, ipam).With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	if diff := empty.Diff(ns.Snapshot()) + host.Diff(skeltest.HostSnapshot(t)); diff != "" || len(ipam.Reserved()) > 0 {
		t.Errorf("left behind: %s%v", diff, ipam.Reserved())
	}
}

// The call is harmed at each of its operations in turn: everything is as before, each time.
func TestHarmedAnywhereNothingIsLeft(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	if n := skeltest.Walk(t, plugin(), add(ns, ipam), ns, ipam.Reserved); n < 5 {
		t.Errorf("an ADD of %d operations: the fault hook is not called", n)
	}
}

func TestConfigurationOfTheReferencePlugin(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	ns.Run("sh", "-c", "ip link add br0 type bridge; ip link set br0 addrgenmode none up")
	for _, test := range []struct {
		name, conf, args string
		code             uint
		words            string // in the error, or in what ip says of the link
	}{
		{name: "layer 2", words: "tun type tap"},
		{name: "up", words: ",UP"},
		{name: "multiQueue", conf: `,"multiQueue":true`, words: "multi_queue"},
		{name: "owner and group", conf: `,"owner":107,"group":108`, words: "user 107 group 108"},
		{name: "group", conf: `,"group":108`, words: "group 108"},
		{name: "root", conf: `,"owner":0`, words: "user root"},
		{name: "mtu", conf: `,"mtu":9000`, words: "mtu 9000"},
		{name: "bridge", conf: `,"bridge":"br0"`, words: "master br0"},
		{name: "mac", conf: `,"mac":"02:00:00:00:00:01"`, words: "02:00:00:00:00:01"},
		{name: "MAC of the arguments", conf: `,"mac":"02:00:00:00:00:01"`, args: "IgnoreUnknown=1;MAC=02:00:00:00:00:02", words: "02:00:00:00:00:02"},
		{name: "mac of the runtime", conf: `,"runtimeConfig":{"mac":"02:00:00:00:00:03"}`, args: "MAC=02:00:00:00:00:02", words: "02:00:00:00:00:03"},
		{name: "selinuxContext", conf: `,"selinuxContext":"system_u:system_r:container_t:s0"`, code: netconf.CodeInvalidNetworkConfig, words: "selinuxContext"},
		{name: "no such bridge", conf: `,"bridge":"br9"`, code: netconf.CodeInvalidNetworkConfig, words: "br9"},
		{name: "mtu too large", conf: `,"mtu":65536`, code: netconf.CodeInvalidNetworkConfig, words: "mtu"},
		{name: "an owner that is none", conf: `,"owner":-1`, code: netconf.CodeDecodingFailure, words: "owner"},
		{name: "multicast MAC", conf: `,"mac":"01:00:00:00:00:01"`, code: netconf.CodeInvalidNetworkConfig, words: "mac"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := add(ns, ipam)
			c.Config, c.Args = `{"cniVersion":"1.1.0","name":"net","type":"tap"`+test.conf+`}`, test.args
			before := ns.Snapshot()
			a := c.Run(t.Context(), t, plugin())
			if test.code != 0 {
				a.Fails(t, test.code, test.words)
			} else if a.OK(t); !strings.Contains(ns.Run("ip", "-d", "link", "show", "eth0"), test.words) {
				t.Errorf("no %q in %s", test.words, ns.Run("ip", "-d", "link", "show", "eth0"))
			}
			c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
			if diff := before.Diff(ns.Snapshot()); diff != "" && test.name != "bridge" { // which takes its MAC from its ports
				t.Errorf("left behind: %s", diff)
			}
		})
	}
}
