//go:build linux

package plugins_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// masquerading are the programs that have "ipMasq", each with keys that make the host the container's gateway.
var masquerading = []struct{ name, keys string }{
	{"bridge", `"bridge":"br0","isDefaultGateway":true`},
	{"ptp", `"mtu":1400`},
}

// eachMasquerading runs a test with each of them and a namespace behind the host that knows no way back to containers: only who
// is masqueraded gets an answer. On a kernel without nftables in the family inet it is skipped, after the plugin has
// said so with code 103.
func eachMasquerading(t *testing.T, test func(t *testing.T, program skeltest.Binary, call skeltest.Call, ns *skeltest.NS)) {
	skeltest.NeedRoot(t)
	for _, p := range masquerading {
		t.Run(p.name, func(t *testing.T) {
			program, world, ns, ipam := skeltest.Binary(testbin.Plugin(t, p.name)), skeltest.NewNS(t), skeltest.NewNS(t), skeltest.NewIPAM(t)
			skeltest.Host(t, "sh", "-ec", `ip link add wan type veth peer name eth0 netns `+world.Name+`; ip link set wan addrgenmode none up
				ip addr add 192.0.2.1/24 dev wan; ip addr add 2001:db8::1/64 dev wan nodad`)
			t.Cleanup(func() {
				skeltest.Host(t, "sh", "-c", "ip link del wan; ip link del br0 2>/dev/null; nft delete table inet cnikit 2>/dev/null; true")
			})
			world.Run("sh", "-ec", `ip link set eth0 addrgenmode none up; ip addr add 192.0.2.9/24 dev eth0; ip addr add 2001:db8::9/64 dev eth0 nodad`)
			ipam.Answer(`{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.@N@/24","gateway":"10.1.0.1"},{"address":"fd00:1::@N@/64","gateway":"fd00:1::1"}],
				"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]}`)
			call := skeltest.Call{
				Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0", Path: ipam.Path, Env: []string{"PATH=" + os.Getenv("PATH")},
				Config: fmt.Sprintf(`{"cniVersion":"1.1.0","name":"net","type":%q,%s,"ipMasq":true,"ipam":{"type":"test-ipam"}}`, p.name, p.keys),
			}
			a := call.Run(t.Context(), t, program)
			call.With(netconf.Del).Run(t.Context(), t, program).OK(t)
			if a.Exit != 0 && a.Err.Code == netconf.CodeNotSupported {
				t.Skip(a.Err.Msg)
			}
			test(t, program, call, ns)
		})
	}
}

// without is a call of the same network, whose "ipMasq" somebody has taken away.
func without(call skeltest.Call) skeltest.Call {
	call.Config = strings.Replace(call.Config, `"ipMasq":true,`, ``, 1)
	return call
}

func TestMasquerade(t *testing.T) {
	eachMasquerading(t, func(t *testing.T, program skeltest.Binary, call skeltest.Call, ns *skeltest.NS) {
		run := func(c skeltest.Call) skeltest.Answer { return c.Run(t.Context(), t, program) }
		before := skeltest.HostSnapshot(t)
		gone := func(what string) {
			t.Helper()
			if diff := before.Diff(skeltest.HostSnapshot(t)); diff != "" {
				t.Errorf("left behind by %s: %s", what, diff)
			}
		}
		added := run(call).OK(t)
		ns.Ping("192.0.2.9")
		ns.Ping("2001:db8::9")
		check := call.With(netconf.Check).WithPrev(added)
		run(check).OK(t)
		skeltest.Host(t, "nft", "flush", "chain", "inet", "cnikit", "postrouting")
		run(check).Fails(t, netconf.CodeDifferent, "table cnikit")
		run(call.With(netconf.Del)).OK(t)

		run(call).OK(t) // brings the rules back
		ns.Ping("192.0.2.9")
		run(without(call.With(netconf.Del))).OK(t) // what the network was when it was made is no longer known
		gone("DEL")
		run(call).OK(t)
		gc := call.With(netconf.GC)
		gc.Config = strings.Replace(call.Config, "{", `{"cni.dev/valid-attachments":[],`, 1)
		run(gc).OK(t)
		gone("GC")
		run(call.With(netconf.Del)).OK(t)
		run(call.With(netconf.Status)).OK(t)
	})
}

// Of a network that is not masqueraded nothing is in the table, and none is made.
func TestNoMasqueradeNoTable(t *testing.T) {
	eachMasquerading(t, func(t *testing.T, program skeltest.Binary, call skeltest.Call, _ *skeltest.NS) {
		skeltest.Host(t, "nft", "delete", "table", "inet", "cnikit") // of the call that tried
		without(call).Run(t.Context(), t, program).OK(t)
		without(call).With(netconf.Del).Run(t.Context(), t, program).OK(t)
		for _, line := range skeltest.HostSnapshot(t) {
			if strings.Contains(line, "cnikit") {
				t.Error(line)
			}
		}
	})
}
