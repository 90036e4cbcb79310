package main

import (
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// needed skips the test on a kernel without VRFs, after the plugin has said so, with code 103, and has changed nothing.
func needed(t *testing.T) {
	t.Helper()
	skeltest.NeedRoot(t)
	ns, c := add(t, `,"vrfname":"red"`)
	before := ns.Snapshot()
	a := c.Run(t.Context(), t, plugin())
	if a.Exit == 0 || a.Err.Code != netconf.CodeNotSupported {
		c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
		return
	}
	a.Fails(t, netconf.CodeNotSupported, "the kernel lacks", "vrf")
	if diff := before.Diff(ns.Snapshot()); diff != "" {
		t.Errorf("left behind on a kernel without VRFs: %s", diff)
	}
	t.Skip("the kernel lacks links of the kind vrf")
}

// wire makes a link of a container with a neighbour, as the plugin before makes it. All of them have the same addresses.
func wire(t *testing.T, ns *skeltest.NS, name string) {
	neighbour := skeltest.NewNS(t)
	neighbour.Run("ip", "link", "add", "p0", "type", "veth", "peer", "name", name, "netns", ns.Name)
	neighbour.Run("sh", "-ec", "ip link set p0 addrgenmode none up; ip address add 10.1.0.1/24 dev p0; ip address add 192.0.2.99/32 dev lo; "+
		"ip address add fd00:1::1/64 dev p0 nodad; ip address add 2001:db8::99/128 dev lo nodad; ip link set lo up")
	ns.Run("sh", "-ec", "ip link set "+name+" addrgenmode none up; ip address add 10.1.0.2/24 dev "+name+"; ip address add fd00:1::2/64 dev "+name+" nodad; "+
		"ip route add default via 10.1.0.1 dev "+name+"; ip -6 route add default via fd00:1::1 dev "+name)
}

// add is the ADD behind a plugin that has made eth0. more are keys of the configuration.
func add(t *testing.T, more string) (*skeltest.NS, skeltest.Call) {
	ns := skeltest.NewNS(t)
	wire(t, ns, "eth0")
	return ns, call(ns, "eth0", more)
}

func call(ns *skeltest.NS, name, more string) skeltest.Call {
	return skeltest.Call{
		Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: name,
		Config: `{"cniVersion":"1.1.0","name":"net","type":"vrf"` + more + `}`,
		Prev: `{"cniVersion":"1.1.0","interfaces":[{"name":"` + name + `","sandbox":"` + ns.Path + `"}],` +
			`"ips":[{"address":"10.1.0.2/24","gateway":"10.1.0.1","interface":0},{"address":"fd00:1::2/64","gateway":"fd00:1::1","interface":0}],` +
			`"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]}`,
	}
}

// Two networks with the same addresses, each in a VRF of its own: what is bound to one goes out of it. DEL gives the routes back.
func TestPacketsFlowAndNothingIsLeft(t *testing.T) {
	needed(t)
	ns, c := add(t, `,"vrfname":"red"`)
	before := ns.Snapshot()
	a := c.Run(t.Context(), t, plugin()).OK(t)
	wire(t, ns, "eth1")
	second := call(ns, "eth1", `,"vrfname":"blue","table":77`)
	b := second.Run(t.Context(), t, plugin()).OK(t)
	for _, vrf := range []string{"red", "blue"} {
		for _, to := range []string{"10.1.0.1", "192.0.2.99", "fd00:1::1", "2001:db8::99"} {
			ns.Run("ping", "-n", "-c", "1", "-W", "5", "-I", vrf, to)
		}
	}
	if _, err := ns.Try("ping", "-n", "-c", "1", "-W", "1", "192.0.2.99"); err == nil {
		t.Error("what is bound to no VRF leads out of one")
	}
	if a.Result.Interfaces[0].Name != "eth0" || len(a.Result.IPs) != 2 || len(a.Result.Routes) != 2 {
		t.Errorf("the prevResult is not passed on: %v", a.Result)
	}
	check := c.With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, plugin()).OK(t)
	second.With(netconf.Check).WithPrev(b).Run(t.Context(), t, plugin()).OK(t)
	c.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeExists, "eth0")
	ns.Run("ip", "link", "set", "eth0", "nomaster")
	check.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, "red")
	ns.Run("ip", "link", "set", "eth0", "master", "red")
	for range 2 {
		second.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t) // without a prevResult
	}
	ns.Run("ip", "link", "del", "eth1")
	for range 2 {
		c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	}
	if diff := before.Diff(ns.Snapshot()); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

// The call is harmed at each of its operations in turn: everything is as before, each time.
func TestHarmedAnywhereNothingIsLeft(t *testing.T) {
	needed(t)
	ns, c := add(t, `,"vrfname":"red"`)
	if n := skeltest.Walk(t, plugin(), c, ns, nil); n < 4 {
		t.Errorf("an ADD of %d operations: the fault hook is not called", n)
	}
}

func TestConfigurationOfTheReferencePlugin(t *testing.T) {
	needed(t)
	tests := []struct {
		name, conf, before string
		code               uint
		words              string // in the error, or in what ip says
	}{
		{name: "a VRF of its own", conf: `,"vrfname":"red"`, words: "vrf table 1 "},
		{name: "table", conf: `,"vrfname":"red","table":4294967295`, words: "vrf table 4294967295 "},
		{name: "table 0", conf: `,"vrfname":"red","table":0`, words: "vrf table 1 "},
		{name: "a table that another VRF has is not chosen", conf: `,"vrfname":"red"`, before: "ip link add green type vrf table 1", words: "vrf table 2 "},
		{name: "a VRF that is there, with its table", conf: `,"vrfname":"red"`, before: "ip link add red type vrf table 9", words: "vrf table 9 "},
		{name: "and the same table", conf: `,"vrfname":"red","table":9`, before: "ip link add red type vrf table 9", words: "vrf table 9 "},
		{name: "another table", conf: `,"vrfname":"red","table":8`, before: "ip link add red type vrf table 9", code: netconf.CodeInvalidNetworkConfig, words: "table 9"},
		{name: "no VRF", conf: `,"vrfname":"red"`, before: "ip link add red type bridge", code: netconf.CodeInvalidNetworkConfig, words: "bridge"},
		{name: "a port already", conf: `,"vrfname":"red"`, before: "ip link add br0 type bridge; ip link set eth0 master br0", code: netconf.CodeInvalidNetworkConfig, words: "br0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ns, c := add(t, test.conf)
			if test.before != "" {
				ns.Run("sh", "-ec", test.before)
			}
			before := ns.Snapshot()
			a := c.Run(t.Context(), t, plugin())
			if test.code != 0 {
				a.Fails(t, test.code, test.words)
				if diff := before.Diff(ns.Snapshot()); diff != "" {
					t.Errorf("changed: %s", diff)
				}
			} else if look := ns.Run("ip", "-d", "link", "show", "dev", "red"); !strings.Contains(look, test.words) {
				a.OK(t)
				t.Errorf("no %q in %s", test.words, look)
			}
			c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
			after := ns.Snapshot()
			if diff := before.Diff(after); diff != "" && !strings.Contains(test.before, "red type vrf") { // one that was down is up now
				t.Errorf("left behind: %s", diff)
			}
		})
	}
}

// What can be told without a look at the kernel is told before any work.
func TestConfigurationThatIsNone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ conf, words string }{
		{``, "vrfname"},
		{`,"vrfname":""`, "vrfname"},
		{`,"vrfname":"a/b"`, "a/b"},
		{`,"vrfname":"sixteen-bytes-xx"`, "sixteen-bytes-xx"},
		{`,"vrfname":"red","table":255`, "table 255"},
		{`,"vrfname":"red","table":-1`, "table -1"},
		{`,"vrfname":"red","table":4294967296`, "table 4294967296"},
		{`,"vrfname":7`, "vrfname"},
	} {
		c := skeltest.Call{
			Command: netconf.Add, ContainerID: "c1", Netns: "/none", IfName: "eth0",
			Config: `{"cniVersion":"1.1.0","name":"net","type":"vrf"` + test.conf + `}`,
			Prev:   `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/none"}]}`,
		}
		a := c.Run(t.Context(), t, plugin())
		if a.Exit == 0 || !strings.Contains(a.Err.Msg+a.Err.Details, test.words) || a.Err.Code != netconf.CodeInvalidNetworkConfig && a.Err.Code != netconf.CodeDecodingFailure {
			t.Errorf("%s: %s", test.conf, a.Stdout)
		}
	}
}
