//go:build linux

package plugins_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// ownLink is what two links of the same configuration differ in: indexes, the alias, group and protocol that mark ours, random addresses,
// names made of a hash, timers, and what the kernel counts.
var ownLink = regexp.MustCompile(`(?m)^\d+: | *alias .*$| group (default|\d+)\b|link/ether \S+|\S*_timer +\S+|(designated_(root|bridge)|bridge_id|bridge_port|cost|root_id) +\S+|veth\w+|@\w+|link-netns(id)? \S+|state \S+|,LOWER_UP|NO-CARRIER,|(usedbcqueuelen|port_id|port_no) \S+|proto 67\b`)

// told says of a result what two of the same configuration have in common.
var toldApart = regexp.MustCompile(`"mac": *"[^"]*",?|"mtu": *\d+,?|veth\w+`)

// compare asks both programs the same, one after the other, and compares the results and what look says of the kernel. It is
// false if the kernel lacks what is asked for.
func compare(t *testing.T, name, keys string, ours, reference skeltest.Binary, prepare func() *skeltest.NS, look func(ns *skeltest.NS, a skeltest.Answer) string, clean func()) bool {
	t.Helper()
	var results, states [2]string
	for i, p := range []skeltest.Binary{ours, reference} {
		ns := prepare()
		add := skeltest.Call{Command: netconf.Add, ContainerID: "c1", Netns: ns.Path, IfName: "eth0",
			Path: testbin.Reference(t, testbin.Static), Env: []string{"PATH=" + os.Getenv("PATH")},
			Config: fmt.Sprintf(`{"cniVersion":"1.0.0","name":"net","type":%q%s}`, name, keys)}
		a := add.Run(t.Context(), t, p)
		if a.Exit != 0 && i == 0 && a.Err.Code == netconf.CodeNotSupported {
			clean()
			return false
		}
		a.OK(t)
		results[i] = toldApart.ReplaceAllString(a.Stdout, "")
		results[i] = strings.ReplaceAll(regexp.MustCompile(`,(\s*})`).ReplaceAllString(results[i], "$1"), ns.Path, "NETNS")
		states[i] = strings.Join(strings.Fields(strings.ReplaceAll(ownLink.ReplaceAllString(look(ns, a), ""), ns.Name, "NS")), " ")
		add.With(netconf.Del).Run(t.Context(), t, p).OK(t)
		clean()
		ns.Remove()
	}
	if !sameJSON(t, results[0], results[1]) || states[0] != states[1] {
		t.Errorf("%s: ours\n%s\n%s\ntheirs\n%s\n%s", keys, results[0], states[0], results[1], states[1])
	}
	return true
}

// Both programs are asked the same: the result is the same, and so are the port, the bridge, and the container's link. Where
// ours does otherwise, the README says so.
func TestBridgeAnswersAsTheReferencePlugin(t *testing.T) {
	skeltest.NeedRoot(t)
	ours := skeltest.Binary(testbin.Plugin(t, "bridge"))
	reference := skeltest.Binary(filepath.Join(testbin.Reference(t, testbin.Bridge), "bridge"))
	look := func(ns *skeltest.NS, a skeltest.Answer) string {
		port := a.Result.Interfaces[1].Name
		return skeltest.Host(t, "sh", "-c", "bridge -d link show dev "+port+"; bridge vlan show dev "+port+"; ip -d link show dev br0; ip -o -4 address show dev br0; sysctl net.ipv4.ip_forward") +
			ns.Run("sh", "-c", "ip -d link show dev eth0; ip -o -4 address show dev eth0; ip route")
	}
	const ipam = `,"ipam":{"type":"static","addresses":[{"address":"10.1.0.2/24","gateway":"10.1.0.1"}]}`
	lacks := 0
	cases := []string{
		``, `,"mtu":1400`, `,"hairpinMode":true`, `,"promiscMode":true`, `,"portIsolation":true`, `,"mac":"02:00:00:00:00:07"`, `,"disableContainerInterface":true`,
		ipam, `,"isGateway":true` + ipam, `,"isDefaultGateway":true` + ipam, `,"enabledad":true` + ipam, `,"preserveDefaultVlan":true`,
		`,"vlan":10`, `,"vlan":10,"preserveDefaultVlan":true`, `,"vlanTrunk":[{"id":20},{"minID":30,"maxID":33}]`, `,"vlan":10,"vlanTrunk":[{"id":20}]`, `,"vlanTrunk":[{"minID":1,"maxID":4}],"isGateway":true` + ipam,
	}
	for _, keys := range cases {
		if !compare(t, "bridge", `,"bridge":"br0"`+keys, ours, reference, func() *skeltest.NS { return skeltest.NewNS(t) }, look, func() {
			skeltest.Host(t, "sh", "-c", "ip link del br0 2>/dev/null; sysctl -qw net.ipv4.ip_forward=0")
		}) {
			lacks++
		}
	}
	t.Logf("%d of %d configurations want what this kernel lacks", lacks, len(cases))
}

func TestMacvlanAnswersAsTheReferencePlugin(t *testing.T) {
	skeltest.NeedRoot(t)
	ours := skeltest.Binary(testbin.Plugin(t, "macvlan"))
	reference := skeltest.Binary(filepath.Join(testbin.Reference(t, testbin.Macvlan), "macvlan"))
	const ipam = `,"ipam":{"type":"static","addresses":[{"address":"10.1.0.2/24","gateway":"10.1.0.1"}],"routes":[{"dst":"0.0.0.0/0"}]}`
	for _, keys := range []string{
		`,"master":"p0"`, `,"master":"p0","mode":"bridge"`, `,"master":"p0","mode":"private"`, `,"master":"p0","mode":"vepa"`, `,"master":"p0","mode":"passthru"`,
		`,"master":"p0","mtu":1400`, `,"master":"p0","mac":"02:00:00:00:00:07"`, `,"master":"p0","bcqueuelen":500`, `,"master":"p0"` + ipam, `,"master":"q0","linkInContainer":true`, ``,
	} {
		compare(t, "macvlan", keys, ours, reference, func() *skeltest.NS {
			skeltest.Host(t, "sh", "-c", "ip link add p0 type veth peer name p1; ip link set p0 up; ip link set p1 up; ip route add default dev p0")
			ns := skeltest.NewNS(t)
			ns.Run("sh", "-c", "ip link add q0 type veth peer name q1; ip link set q0 up; ip link set q1 up")
			return ns
		}, func(ns *skeltest.NS, _ skeltest.Answer) string {
			return ns.Run("sh", "-c", "ip -d link show dev eth0; ip -o -4 address show dev eth0; ip route")
		}, func() { skeltest.Host(t, "ip", "link", "del", "p0") })
	}
}
