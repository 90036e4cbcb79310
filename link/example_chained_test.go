package link_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/containernetworking/cni/pkg/types"
)

// A chained plugin changes what the one before it made: all of it in one, with DEL, CHECK and rollback that follow.
func Example_chained() {
	gateway := netip.MustParseAddr("10.2.2.1")
	plugin := skel.Plugin[struct{}]{
		Name: "storage-net",
		Kind: skel.Chained,
		Steps: func(*netconf.Request, *struct{}) skel.Steps {
			return skel.Steps{
				link.Tune{MTU: 9000},
				link.Sysctls{Values: map[string]string{"net.ipv4.conf.IFNAME.rp_filter": "2"}},
				link.Neighbours{Neighbours: []link.Neighbour{{IP: gateway, MAC: netconf.MAC{2, 0, 0, 0, 0, 1}}}},
				link.Routes{Routes: []link.Route{{Dst: netip.MustParsePrefix("10.9.0.0/16"), Gateway: gateway, AdvMSS: 8900}}},
				link.SourceRouting{},
				link.Bandwidth{Egress: link.Rate{Rate: 1_000_000_000}},
			}
		},
	}
	fmt.Println(plugin.Name)
	// Output: storage-net
}

// What source-based routing comes to can be seen without root. The tables' numbers follow from the attachment.
func ExampleSourceRouting_Plan() {
	owner := link.Owner{Network: "storage", ContainerID: "c1", IfName: "net1"}
	address, err := types.ParseCIDR("10.2.2.2/24")
	if err != nil {
		log.Fatal(err)
	}
	req := &netconf.Request{}
	req.AddIP(-1, *address, []byte{10, 2, 2, 1})
	main := []link.MovedRoute{{Route: link.Route{Dst: netip.MustParsePrefix("10.2.2.0/24")}, Protocol: 2}} // link.MainRoutes reads them
	plan, err := link.SourceRouting{}.Plan(owner, req.Result.IPs, main)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Rules)
	fmt.Println(plan.Routes)
	// Output:
	// [from 10.2.2.2/32 lookup 1586902752 priority 30000]
	// [10.2.2.0/24 table 1586902752 default via 10.2.2.1 table 1586902752]
}

// A daemon limits a pod whose host's end it knows by a link of the container, and lets it go again.
func ExampleBandwidth_Ensure() {
	limit := func(ctx context.Context, netns string, owner link.Owner) error {
		host, err := link.Current()
		if err != nil {
			return err
		}
		container, err := link.Open(netns)
		if err != nil {
			return netconf.Join(err, host.Close())
		}
		outer, err := link.HostEnd(host, container, owner.IfName)
		if err == nil {
			_, err = link.Bandwidth{Ingress: link.Rate{Rate: 10_000_000}}.Ensure(ctx, host, outer, owner)
		}
		return netconf.Join(err, container.Close(), host.Close())
	}
	_ = limit // an example has no namespace
}

// The interface of a second network, whose addresses the first has too, in a routing domain of its own.
func ExampleVRF() {
	plugin := skel.Plugin[struct{}]{
		Name: "tenant",
		Kind: skel.Chained,
		Steps: func(*netconf.Request, *struct{}) skel.Steps {
			return skel.Steps{link.VRF{VRF: "red"}}
		},
	}
	fmt.Println(plugin.Name)
	// Output: tenant
}
