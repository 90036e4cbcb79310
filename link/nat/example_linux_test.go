package nat_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/containernetworking/cni/pkg/types"
)

// A daemon repairs with the core, which knows no CNI call: what somebody flushed comes back, what is there stays.
func ExamplePortMap_Ensure() {
	repair := func(ctx context.Context, o link.Owner, addrs []netip.Prefix, ports []netconf.PortMapping) error {
		host, err := link.Current()
		if err != nil {
			return err
		}
		p := nat.PortMap{Mappings: ports}
		return netconf.Join(p.Ensure(ctx, host, o, addrs), nat.Masquerade{}.Ensure(ctx, host, o, addrs), host.Close())
	}
	if os.Getuid() != 0 {
		return // it needs the right to change the host's network
	}
	o := link.Owner{Network: "web", ContainerID: "a1", IfName: "eth0"}
	_ = repair(context.Background(), o, []netip.Prefix{netip.MustParsePrefix("10.1.0.2/24")},
		[]netconf.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}}) // a daemon logs the error
}

// As steps: the bridge example has the first, the portmap example is the second.
func Example_steps() {
	steps := func(req *netconf.Request) skel.Steps {
		return skel.Steps{
			link.Veth{},
			link.Addresses{PointToPoint: true},
			link.HostRoutes{},
			nat.Masquerade{},
			nat.PortMap{Mappings: req.Runtime().PortMappings},
		}
	}
	for _, s := range steps(&netconf.Request{}) {
		fmt.Println(s.(skel.Namer).Name())
	}
	// Output:
	// veth
	// addresses
	// hostroutes
	// masquerade
	// portmap
}

// A runtime that knows what lives takes away the rest.
func ExampleMasquerade_Collect() {
	collect := func(ctx context.Context, host *link.NS, alive []types.GCAttachment) error {
		return netconf.Join(
			nat.Masquerade{}.Collect(ctx, host, "web", alive),
			nat.PortMap{}.Collect(ctx, host, "web", alive))
	}
	_ = collect // it needs a host
}
