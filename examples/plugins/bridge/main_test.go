package main

import (
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

func TestKeysThatAreNotServedAreRefusedBeforeAnyWork(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	host := skeltest.HostSnapshot(t)
	for _, key := range []string{`"vlan":5`, `"vlanTrunk":[{"id":5}]`, `"macspoofchk":true`, `"disableContainerInterface":true`} {
		name, _, _ := strings.Cut(strings.Trim(key, `"`), `"`)
		add(ns, ipam, key+",").Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, name, "not served")
	}
	all := add(ns, ipam, `"macspoofchk":true,"vlan":5,`).Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, "macspoofchk", "vlan")
	add(ns, ipam, `"ipMasq":true,"ipMasqBackend":"iptables",`).Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, "ipMasqBackend", "nftables")
	if diff := host.Diff(skeltest.HostSnapshot(t)); diff != "" || len(ipam.Calls()) > 0 {
		t.Errorf("work was done: %s, IPAM calls %v, %s", diff, ipam.Calls(), all.Err.Msg)
	}
	removeBridge(t)
	harmless := `"ipMasq":false,"vlan":0,"vlanTrunk":[],"preserveDefaultVlan":false,"ipMasqBackend":"iptables","macspoofchk":false,`
	if a := add(ns, ipam, harmless).Run(t.Context(), t, plugin()).OK(t); a.Stderr != "" {
		t.Errorf("a configuration of the reference plugin has warnings: %s", a.Stderr)
	}
}
