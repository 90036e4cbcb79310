package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// world is a namespace behind the host that knows no way back to containers: only who is masqueraded gets an answer.
// On a kernel without nftables in the family inet the test is skipped, after the plugin has said so with code 103.
func world(t *testing.T, try skeltest.Call) *skeltest.NS {
	t.Helper()
	ns := skeltest.NewNS(t)
	skeltest.Host(t, "sh", "-ec", `ip link add wan type veth peer name eth0 netns `+ns.Name+`; ip link set wan addrgenmode none up
		ip addr add 192.0.2.1/24 dev wan; ip addr add 2001:db8::1/64 dev wan nodad`)
	t.Cleanup(func() {
		skeltest.Host(t, "sh", "-c", "ip link del wan; nft delete table inet cnikit 2>/dev/null; true")
	})
	ns.Run("sh", "-ec", `ip link set eth0 addrgenmode none up; ip addr add 192.0.2.9/24 dev eth0; ip addr add 2001:db8::9/64 dev eth0 nodad`)
	a := try.Run(t.Context(), t, plugin())
	try.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	if a.Exit != 0 && a.Err.Code == netconf.CodeNotSupported {
		t.Skip(a.Err.Msg)
	}
	return ns
}

func TestMasquerade(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	call := add(ns, ipam)
	call.Config = strings.Replace(call.Config, `"mtu"`, `"ipMasq":true,"mtu"`, 1)
	world(t, call)
	before := skeltest.HostSnapshot(t)
	added := call.Run(t.Context(), t, plugin()).OK(t)
	ns.Ping("192.0.2.9")
	ns.Ping("2001:db8::9")
	check := call.With(netconf.Check).WithPrev(added)
	check.Run(t.Context(), t, plugin()).OK(t)
	skeltest.Host(t, "nft", "flush", "chain", "inet", "cnikit", "postrouting")
	check.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, "table cnikit")
	call.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)

	call.Run(t.Context(), t, plugin()).OK(t) // brings the rules back
	ns.Ping("192.0.2.9")
	off := call.With(netconf.Del) // what the network was when it was made is no longer known
	off.Config = strings.Replace(off.Config, `"ipMasq":true`, `"ipMasq":false`, 1)
	off.Run(t.Context(), t, plugin()).OK(t)
	if diff := before.Diff(skeltest.HostSnapshot(t)); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
	call.Run(t.Context(), t, plugin()).OK(t)
	gc := call.With(netconf.GC)
	gc.Config = strings.Replace(call.Config, "{", `{"cni.dev/valid-attachments":[],`, 1)
	gc.Run(t.Context(), t, plugin()).OK(t)
	if diff := before.Diff(skeltest.HostSnapshot(t)); diff != "" {
		t.Errorf("left behind by GC: %s", diff)
	}
	call.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	call.With(netconf.Status).Run(t.Context(), t, plugin()).OK(t)
}

func TestMasqueradeHarmedAnywhereNothingIsLeft(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	call := add(ns, ipam)
	call.Config = strings.Replace(call.Config, `"mtu"`, `"ipMasq":true,"mtu"`, 1)
	world(t, call)
	skeltest.Walk(t, plugin(), call, ns, ipam.Reserved)
	var ops []string
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		ops = append(ops, op)
		return nil
	})
	call.Run(ctx, t, plugin()).OK(t)
	call.With(netconf.Del).Run(ctx, t, plugin()).OK(t)
	for _, op := range []string{"nft claim", "nft release"} {
		if !slices.Contains(ops, op) {
			t.Errorf("%q is not announced to the fault hook: %q", op, ops)
		}
	}
}

// Of a network that is not masqueraded nothing is in the table, and none is made.
func TestNoMasqueradeNoTable(t *testing.T) {
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	call := add(ns, ipam)
	call.Config = strings.Replace(call.Config, `"mtu"`, `"ipMasq":true,"mtu"`, 1)
	call.Config = strings.Replace(call.Config, `"ipMasq":true,`, ``, 1)
	if !json.Valid([]byte(call.Config)) {
		t.Fatal(call.Config)
	}
	call.Run(t.Context(), t, plugin()).OK(t)
	call.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	for _, line := range skeltest.HostSnapshot(t) {
		if strings.Contains(line, "cnikit") {
			t.Error(line)
		}
	}
}
