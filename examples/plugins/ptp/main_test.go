package main

import (
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

const conf = `{"cniVersion":"1.1.0","name":"net","type":"ptp","mtu":1400,"ipam":{"type":"test-ipam"}}`

// add is the ADD of a container in a namespace, with default routes.
func add(ns *skeltest.NS, ipam *skeltest.IPAM) skeltest.Call {
	ipam.Answer(`{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.@N@/24","gateway":"10.1.0.1"},{"address":"fd00:1::@N@/64","gateway":"fd00:1::1"}],
		"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]}`)
	return skeltest.Call{Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0", Path: ipam.Path, Config: conf}
}

func TestPacketsFlowAndNothingIsLeft(t *testing.T) {
	red, blue, ipam := skeltest.NewNS(t), skeltest.NewNS(t), skeltest.NewIPAM(t)
	host, empty := skeltest.HostSnapshot(t), red.Snapshot()
	first := add(red, ipam).Run(t.Context(), t, plugin()).OK(t)
	second := add(blue, ipam).Run(t.Context(), t, plugin()).OK(t)
	for _, ip := range second.Result.IPs {
		red.Ping(ip.Address.IP.String()) // forwarded by the host: the first packet, without a wait
		red.Ping(ip.Gateway.String())    // the host's end
	}
	if i := first.Result.Interfaces; len(i) != 2 || i[0].Sandbox != "" || i[1].Name != "eth0" || i[1].Mtu != 1400 {
		t.Errorf("interfaces %v: expected the host's end, then the container's", i)
	}
	check := add(red, ipam).With(netconf.Check).WithPrev(first)
	check.Run(t.Context(), t, plugin()).OK(t)
	skeltest.Host(t, "ip", "route", "del", first.Result.IPs[0].Address.IP.String())
	check.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, first.Result.IPs[0].Address.IP.String())
	for _, ns := range []*skeltest.NS{red, blue} {
		add(ns, ipam).With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	}
	if diff := empty.Diff(red.Snapshot()) + host.Diff(skeltest.HostSnapshot(t)); diff != "" || len(ipam.Reserved()) > 0 {
		t.Errorf("left behind: %s%v", diff, ipam.Reserved())
	}
}

// The call is harmed at each of its operations in turn: everything is as before, each time.
func TestHarmedAnywhereNothingIsLeft(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	if n := skeltest.Walk(t, plugin(), add(ns, ipam), ns, ipam.Reserved); n < 8 {
		t.Errorf("an ADD of %d operations: the fault hook is not called", n)
	}
}

func TestRefusedBeforeAnyWork(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	for conf, key := range map[string]string{
		`{"cniVersion":"1.1.0","name":"net","type":"ptp"}`:                                                                      "ipam",
		`{"cniVersion":"1.1.0","name":"net","type":"ptp","ipMasq":true,"ipMasqBackend":"iptables","ipam":{"type":"test-ipam"}}`: "ipMasqBackend",
	} {
		c := add(ns, ipam)
		c.Config = conf
		c.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, key)
	}
	if len(ipam.Calls()) > 0 {
		t.Errorf("IPAM was called: %v", ipam.Calls())
	}
}
