package nat_test

import (
	"context"
	"slices"
	"testing"

	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// The steps of a plugin that masquerades and maps a port are harmed at each of their operations in turn: everything is as
// before, each time.
func TestHarmedAnywhereNothingIsLeft(t *testing.T) {
	newLab(t)
	ns, allocator := skeltest.NewNS(t), skeltest.NewIPAM(t)
	allocator.Answer(`{"cniVersion":"1.0.0","ips":[{"address":"10.8.0.@N@/24","gateway":"10.8.0.1"},{"address":"fd00:8::@N@/64","gateway":"fd00:8::1"}],
		"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]}`)
	p := skel.Plugin[struct{}]{Name: "natted", About: "has both steps", Steps: func(req *netconf.Request, _ *struct{}) skel.Steps {
		return skel.Steps{
			link.Veth{}, ipam.FromConfig(req), link.Addresses{PointToPoint: true}, link.HostRoutes{},
			nat.Masquerade{}, portMap("tcp:8080:80", "udp:53:53@192.0.2.1"),
		}
	}}
	call := skeltest.Call{
		Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0", Path: allocator.Path,
		Config: `{"cniVersion":"1.1.0","name":"net","type":"natted","ipam":{"type":"test-ipam"}}`,
	}
	skeltest.Walk(t, p, call, ns, allocator.Reserved)
	var ops []string
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		ops = append(ops, op)
		return nil
	})
	call.Run(ctx, t, p).OK(t)
	call.With(netconf.Del).Run(ctx, t, p).OK(t)
	for op, n := range map[string]int{"nft claim": 2, "nft release": 2} {
		if have := len(slices.DeleteFunc(slices.Clone(ops), func(s string) bool { return s != op })); have != n {
			t.Errorf("%q is announced to the fault hook %d times, expected %d: %q", op, have, n, ops)
		}
	}
}
