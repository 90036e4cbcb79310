package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// add is the ADD of a container in a namespace; more are further keys of the configuration.
func add(ns *skeltest.NS, ipam *skeltest.IPAM, more string) skeltest.Call {
	return skeltest.Call{
		Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0", Path: ipam.Path,
		Config: `{"cniVersion":"1.1.0","name":"net","type":"bridge","bridge":"br0",` + more + `"ipam":{"type":"test-ipam"}}`,
	}
}

func removeBridge(t *testing.T) {
	t.Cleanup(func() { skeltest.Host(t, "ip", "link", "del", "br0") })
}

func TestPacketsFlowAndNothingIsLeft(t *testing.T) {
	red, blue, ipam := skeltest.NewNS(t), skeltest.NewNS(t), skeltest.NewIPAM(t)
	const gateway = `"isDefaultGateway":true,"hairpinMode":true,`
	removeBridge(t)
	add(red, ipam, gateway).Run(t.Context(), t, plugin()).OK(t) // makes the bridge, which stays
	add(red, ipam, gateway).With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	host, empty := skeltest.HostSnapshot(t), red.Snapshot()

	first := add(red, ipam, gateway).Run(t.Context(), t, plugin()).OK(t)
	second := add(blue, ipam, gateway).Run(t.Context(), t, plugin()).OK(t)
	for _, ip := range second.Result.IPs {
		red.Ping(ip.Address.IP.String()) // over the bridge
		red.Ping(ip.Gateway.String())    // the bridge itself
	}
	skeltest.Host(t, "ip", "address", "add", "192.0.2.1/32", "dev", "lo") // a world behind the host
	red.Ping("192.0.2.1")                                                 // by the default route
	skeltest.Host(t, "ip", "address", "del", "192.0.2.1/32", "dev", "lo")
	names := []string{}
	for _, i := range first.Result.Interfaces {
		names = append(names, i.Name)
	}
	if len(names) != 3 || names[0] != "br0" || names[2] != "eth0" {
		t.Errorf("interfaces %v: expected the bridge, the host's end, the container's", names)
	}
	check := add(red, ipam, gateway).With(netconf.Check).WithPrev(first)
	check.Run(t.Context(), t, plugin()).OK(t)
	skeltest.Host(t, "ip", "link", "set", names[1], "nomaster")
	check.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, names[1], "br0")
	for _, ns := range []*skeltest.NS{red, blue} {
		add(ns, ipam, gateway).With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	}
	if diff := empty.Diff(red.Snapshot()) + host.Diff(skeltest.HostSnapshot(t)); diff != "" || len(ipam.Reserved()) > 0 {
		t.Errorf("left behind: %s%v", diff, ipam.Reserved())
	}
}

// The call is harmed at each of its operations in turn: everything is as before, each time.
func TestHarmedAnywhereNothingIsLeft(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	removeBridge(t)
	if n := skeltest.Walk(t, plugin(), add(ns, ipam, `"isGateway":true,`), ns, ipam.Reserved); n < 8 {
		t.Errorf("an ADD of %d operations: the fault hook is not called", n)
	}
}

func TestKeysThatAreWrongOrNotServedAreRefusedBeforeAnyWork(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	host := skeltest.HostSnapshot(t)
	for keys, words := range map[string]string{
		`"macspoofchk":true`:                       "macspoofchk, not served",
		`"ipMasq":true,"ipMasqBackend":"iptables"`: "ipMasqBackend, nftables",
		`"hairpinMode":true,"promiscMode":true`:    "hairpinMode, promiscMode",
		`"disableContainerInterface":true`:         "disableContainerInterface, ipam",
		`"vlan":4095`:                              "vlan, 4095, 1 to 4094",
		`"vlan":-1`:                                "vlan, -1",
		`"vlanTrunk":[{"id":5},{"id":4095}]`:       "vlanTrunk[1], 4095",
		`"vlanTrunk":[{"minID":7}]`:                "vlanTrunk[0], maxID",
		`"vlanTrunk":[{"maxID":7}]`:                "vlanTrunk[0], minID",
		`"vlanTrunk":[{"minID":7,"maxID":6}]`:      "vlanTrunk[0], 7 to 6",
		`"vlanTrunk":[{}]`:                         "vlanTrunk[0], expected id",
		`"vlan":5,"vlanTrunk":[{"id":0}]`:          "vlanTrunk[0], 0 to 0",
		`"vlan":"twenty"`:                          "vlan",
	} {
		a := add(ns, ipam, keys+",").Run(t.Context(), t, plugin())
		if a.Exit == 0 {
			t.Errorf("%s: accepted", keys)
			continue
		}
		for word := range strings.SplitSeq(words, ", ") {
			if !strings.Contains(a.Err.Msg, word) {
				t.Errorf("%s: no %q in %q", keys, word, a.Err.Msg)
			}
		}
		if want := map[bool]uint{true: netconf.CodeDecodingFailure, false: netconf.CodeInvalidNetworkConfig}[strings.Contains(keys, "twenty")]; a.Err.Code != want {
			t.Errorf("%s: code %d, expected %d", keys, a.Err.Code, want)
		}
	}
	if diff := host.Diff(skeltest.HostSnapshot(t)); diff != "" || len(ipam.Calls()) > 0 {
		t.Errorf("work was done: %s, IPAM calls %v", diff, ipam.Calls())
	}
	removeBridge(t)
	harmless := `"ipMasq":false,"vlan":0,"vlanTrunk":[],"preserveDefaultVlan":false,"ipMasqBackend":"iptables","macspoofchk":false,`
	if a := add(ns, ipam, harmless).Run(t.Context(), t, plugin()).OK(t); a.Stderr != "" {
		t.Errorf("a configuration of the reference plugin has warnings: %s", a.Stderr)
	}
}

// Without ipam there is a layer-2 attachment, up, or down for who is in the container.
func TestTheContainersEndStaysDown(t *testing.T) {
	removeBridge(t)
	for _, down := range []bool{false, true} {
		ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
		call := add(ns, ipam, "")
		call.Config = fmt.Sprintf(`{"cniVersion":"1.1.0","name":"net","type":"bridge","bridge":"br0","disableContainerInterface":%v}`, down)
		made := call.Run(t.Context(), t, plugin()).OK(t)
		if up := strings.Contains(ns.Run("ip", "link", "show", "dev", "eth0"), ",UP"); up == down {
			t.Errorf("disableContainerInterface %v: up %v", down, up)
		}
		call.With(netconf.Check).WithPrev(made).Run(t.Context(), t, plugin()).OK(t)
		call.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	}
}

// The keys for VLANs, with packets, in a kernel that has them: two containers of VLAN 10, one of VLAN 20, one with a trunk.
func TestVLANsOfTheConfiguration(t *testing.T) {
	ipam := skeltest.NewIPAM(t)
	var at []*skeltest.NS
	for i, keys := range []string{`"vlan":10,"isGateway":true,`, `"vlan":10,"isGateway":true,`, `"vlan":20,`, `"vlanTrunk":[{"minID":9,"maxID":11},{"id":20}],`} {
		ns := skeltest.NewNS(t)
		call := add(ns, ipam, keys)
		a := call.Run(t.Context(), t, plugin())
		if a.Exit != 0 && a.Err.Code == netconf.CodeNotSupported && i == 0 {
			t.Skip(a.Err.Msg) // the kernel lacks VLAN filtering: link.ErrNotSupported
		}
		if i == 0 {
			removeBridge(t)
		}
		a.OK(t)
		t.Cleanup(func() { call.With(netconf.Del).Run(context.Background(), t, plugin()).OK(t) })
		call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, plugin()).OK(t)
		at = append(at, ns)
		for _, ip := range a.Result.IPs {
			if i == 1 {
				at[0].Ping(ip.Address.IP.String())
				at[0].Ping(ip.Gateway.String())
			}
			if _, err := at[0].Try("ping", "-c", "1", "-W", "1", ip.Address.IP.String()); i > 1 && err == nil {
				t.Errorf("VLAN 10 reaches %s of %s", ip.Address.IP, keys)
			}
		}
		if i == 3 {
			ns.Run("sh", "-c", "ip address flush dev eth0; ip link add link eth0 name t10 type vlan id 10 && ip link set t10 up && ip address add 192.0.2.2/24 dev t10")
			at[0].Run("ip", "address", "add", "192.0.2.1/24", "dev", "eth0")
			ns.Ping("192.0.2.1")
		}
	}
	skeltest.Host(t, "ip", "link", "show", "dev", "br0.10")
}
