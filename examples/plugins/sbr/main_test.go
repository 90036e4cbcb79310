package main

import (
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// add is the ADD behind a plugin that has made net1 beside eth0. What both lead to has 192.0.2.99; the way back from
// there goes by the link that the source belongs to. more are keys of the configuration.
func add(t *testing.T, more string) (*skeltest.NS, skeltest.Call) {
	ns := skeltest.NewNS(t)
	for i, name := range []string{"eth0", "net1"} {
		n := string(rune('1' + i))
		neighbour := skeltest.NewNS(t)
		neighbour.Run("ip", "link", "add", "p0", "type", "veth", "peer", "name", name, "netns", ns.Name)
		neighbour.Run("sh", "-ec", "ip link set p0 addrgenmode none up; ip address add 10."+n+".0.1/24 dev p0; ip address add 192.0.2.99/32 dev lo; "+
			"ip address add fd0"+n+"::1/64 dev p0 nodad; ip address add 2001:db8::99/128 dev lo nodad")
		ns.Run("sh", "-ec", "ip link set "+name+" addrgenmode none up; ip address add 10."+n+".0.2/24 dev "+name+"; ip address add fd0"+n+"::2/64 dev "+name+" nodad")
	}
	ns.Run("sh", "-ec", "ip route add default via 10.1.0.1; ip route add default via fd01::1; ip route add 198.51.100.0/24 via 10.2.0.1")
	return ns, skeltest.Call{
		Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "net1",
		Config: `{"cniVersion":"1.1.0","name":"net","type":"sbr"` + more + `}`,
		Prev: `{"cniVersion":"1.1.0","interfaces":[{"name":"net1"},{"name":"net1","sandbox":"` + ns.Path + `"}],` +
			`"ips":[{"address":"10.2.0.2/24","gateway":"10.2.0.1","interface":1},{"address":"fd02::2/64","gateway":"fd02::1","interface":1}],` +
			`"routes":[{"dst":"198.51.100.0/24","gw":"10.2.0.1"}]}`,
	}
}

func pings(ns *skeltest.NS, source, address string) bool {
	_, err := ns.Try("ping", "-n", "-c", "1", "-W", "1", "-I", source, address)
	return err == nil
}

func TestPacketsFlowAndNothingIsLeft(t *testing.T) {
	ns, c := add(t, "")
	before := ns.Snapshot()
	if pings(ns, "10.2.0.2", "192.0.2.99") {
		t.Fatal("it works without the plugin: the test proves nothing")
	}
	a := c.Run(t.Context(), t, plugin()).OK(t)
	for source, address := range map[string]string{"10.1.0.2": "192.0.2.99", "10.2.0.2": "192.0.2.99", "fd01::2": "2001:db8::99", "fd02::2": "2001:db8::99"} {
		if !pings(ns, source, address) {
			t.Errorf("no answer from %s to %s", address, source)
		}
	}
	check := c.With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, plugin()).OK(t)
	ns.Run("ip", "rule", "del", "from", "10.2.0.2")
	check.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, "10.2.0.2")
	for range 2 {
		c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t) // without a prevResult
	}
	if diff := before.Diff(ns.Snapshot()); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

// The call is harmed at each of its operations in turn: everything is as before, each time.
func TestHarmedAnywhereNothingIsLeft(t *testing.T) {
	ns, c := add(t, "")
	if n := skeltest.Walk(t, plugin(), c, ns, nil); n < 8 {
		t.Errorf("an ADD of %d operations: the fault hook is not called", n)
	}
}

func TestConfigurationOfTheReferencePlugin(t *testing.T) {
	tests := []struct {
		name, conf, prev string
		code             uint
		words            string // in the error, or in what ip says
	}{
		{name: "table", conf: `,"table":100`, words: "from 10.2.0.2 lookup 100 proto 67"},
		{name: "table, and the main one keeps its routes", conf: `,"table":100`, words: "198.51.100.0/24 via 10.2.0.1 dev net1"},
		{name: "gateways", conf: `,"gateways":["10.2.0.9","fd02::9"]`, words: "default via 10.2.0.9 dev net1 table 1"},
		{name: "addSourceHints", conf: `,"addSourceHints":true`, words: "10.2.0.0/24 dev net1 proto kernel scope link src 10.2.0.2 \\"},
		{name: "two gateways of a family", conf: `,"gateways":["10.2.0.9","10.2.0.8"]`, code: netconf.CodeInvalidNetworkConfig, words: "10.2.0.8"},
		{name: "a gateway that is none", conf: `,"gateways":["10.2.0.300"]`, code: netconf.CodeInvalidNetworkConfig, words: "gateways[0]"},
		{name: "a table that is none", conf: `,"table":-1`, code: netconf.CodeInvalidNetworkConfig, words: "table -1"},
		{name: "no addresses", prev: `{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"/x"}]}`, code: netconf.CodeInvalidNetworkConfig, words: "no address"},
		// An index that leads nowhere had the routes of the whole interface moved.
		{name: "an index that is none", prev: `{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"/x"}],"ips":[{"address":"10.2.0.2/24","interface":7}]}`, code: netconf.CodeInvalidNetworkConfig, words: "index 7"},
		{name: "another interface's address", prev: `{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"/x"},{"name":"x","sandbox":"/x"}],"ips":[{"address":"10.2.0.2/24","interface":1}]}`, code: netconf.CodeInvalidNetworkConfig, words: "no address"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ns, c := add(t, test.conf)
			if test.prev != "" {
				c.Prev = strings.ReplaceAll(test.prev, "/x", ns.Path)
			}
			before := ns.Snapshot()
			a := c.Run(t.Context(), t, plugin())
			look := ns.Run("sh", "-c", "ip -o rule; ip -o -6 rule; ip -o route show table all; ip -o route show table main | sed 's/$/\\\\/'")
			if test.code != 0 {
				a.Fails(t, test.code, test.words)
				if diff := before.Diff(ns.Snapshot()); diff != "" {
					t.Errorf("changed: %s", diff)
				}
			} else if a.OK(t); !strings.Contains(look, test.words) {
				t.Errorf("no %q in %s", test.words, look)
			}
			c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
			if diff := before.Diff(ns.Snapshot()); diff != "" {
				t.Errorf("left behind: %s", diff)
			}
		})
	}
}
