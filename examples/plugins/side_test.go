//go:build linux

package plugins_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// static10 is an ipam section that both sides are given.
const static10 = `,"ipam":{"type":"static","addresses":[{"address":"10.1.0.2/24","gateway":"10.1.0.1"}],"routes":[{"dst":"0.0.0.0/0"}]}`

// Both programs are asked the same: the result is the same, and so are the container's link, address and routes. Where ours does
// otherwise, the README of the plugin says so.
func TestOtherKindsAnswerAsTheReferencePlugin(t *testing.T) {
	skeltest.NeedRoot(t)
	for _, p := range []struct {
		name, reference string
		keys            []string
	}{
		{"vlan", testbin.VLAN, []string{`,"master":"p0","vlanId":7`, `,"master":"p0","vlanId":7,"mtu":1400`, `,"master":"p0","vlanId":4094` + static10, `,"master":"p0"` + static10, `,"master":"q0","vlanId":7,"linkInContainer":true` + static10}},
		{"dummy", testbin.Dummy, []string{static10}},
		{"host-device", testbin.HostDevice, []string{`,"device":"p0"`, `,"device":"p0"` + static10, `,"hwaddr":"02:00:00:00:00:d0"` + static10}},
	} {
		t.Run(p.name, func(t *testing.T) {
			ours := skeltest.Binary(testbin.Plugin(t, p.name))
			reference := skeltest.Binary(filepath.Join(testbin.Reference(t, p.reference), p.name))
			for _, keys := range p.keys {
				if !compare(t, p.name, keys, ours, reference, func() *skeltest.NS {
					skeltest.Host(t, "sh", "-ec", "ip link add p0 address 02:00:00:00:00:d0 type veth peer name p1; ip link set p0 up; ip link set p1 up")
					ns := skeltest.NewNS(t)
					ns.Run("sh", "-ec", "ip link add q0 address 02:00:00:00:00:d1 type veth peer name q1; ip link set q0 up; ip link set q1 up")
					return ns
				}, func(ns *skeltest.NS, _ skeltest.Answer) string {
					return ns.Run("sh", "-c", "ip -d link show dev eth0; ip -o -4 address show dev eth0; ip route")
				}, func() { skeltest.Host(t, "ip", "link", "del", "p1") }) {
					t.Skipf("the kernel lacks links of the kind %s", p.name)
				}
			}
		})
	}
}

// The same of vrf, behind a plugin that has made eth0: routes, IPv6 addresses and VRF are the same.
func TestVRFAnswersAsTheReferencePlugin(t *testing.T) {
	skeltest.NeedRoot(t)
	ours := skeltest.Binary(testbin.Plugin(t, "vrf"))
	reference := skeltest.Binary(filepath.Join(testbin.Reference(t, testbin.VRF), "vrf"))
	for _, c := range []struct{ keys, before string }{
		{`,"vrfname":"red"`, "true"},
		{`,"vrfname":"red","table":77`, "true"},
		{`,"vrfname":"red"`, "ip link add red type vrf table 9; ip link set red up"},
		{`,"vrfname":"red"`, "ip link add blue type vrf table 1"},
	} {
		var results, states [2]string
		for i, p := range []skeltest.Binary{ours, reference} {
			ns := skeltest.NewNS(t)
			ns.Run("sh", "-ec", "ip link add eth0 address 02:00:00:00:00:d0 type veth peer name q1; ip link set q1 addrgenmode none up; ip link set eth0 addrgenmode none up; "+
				"ip address add 10.1.0.2/24 dev eth0; ip address add fd00:1::2/64 dev eth0 nodad; ip route add default via 10.1.0.1; ip -6 route add default via fd00:1::1 dev eth0")
			if _, err := ns.Try("sh", "-c", "ip link add try0 type vrf table 99 && ip link del try0"); err != nil {
				t.Skip("the kernel lacks links of the kind vrf")
			}
			ns.Run("sh", "-ec", c.before)
			add := skeltest.Call{Command: netconf.Add, ContainerID: "c1", Netns: ns.Path, IfName: "eth0", Path: "/none",
				Config: fmt.Sprintf(`{"cniVersion":"1.0.0","name":"net","type":"vrf"%s}`, c.keys),
				Prev:   fmt.Sprintf(`{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":%q}],"ips":[{"address":"10.1.0.2/24","interface":0}]}`, ns.Path)}
			a := add.Run(t.Context(), t, p).OK(t)
			results[i] = strings.ReplaceAll(a.Stdout, ns.Path, "NETNS")
			states[i] = ownLink.ReplaceAllString(ns.Run("sh", "-c", "ip -d link show dev red; ip -o link show master red; ip -o -6 address show dev eth0 scope global; "+
				"(ip route show vrf red; ip -6 route show vrf red; ip route; ip -6 route show default) | grep -vE 'fe80::|ff00::' | sort"), "")
			add.With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
		}
		if !sameJSON(t, results[0], results[1]) || states[0] != states[1] {
			t.Errorf("%s, %s: ours\n%s\n%s\ntheirs\n%s\n%s", c.keys, c.before, results[0], states[0], results[1], states[1])
		}
	}
}
