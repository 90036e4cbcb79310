package link_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// An ipvlan has the hardware address of its parent, which a switch or a cloud may want. Key is what an error about the
// parent names, beside the link that it looked for.
func ExampleIPvlan() {
	type config struct {
		Master string          `json:"master"`
		Mode   link.IPvlanMode `json:"mode"` // "l2", "l3" or "l3s"
	}
	plugin := skel.Plugin[config]{
		Name: "ipvlan",
		Steps: func(_ *netconf.Request, c *config) skel.Steps {
			return skel.Steps{
				link.IPvlan{Parent: link.Parent{Name: c.Master, Key: "master"}, Mode: c.Mode},
				// the IPAM step
				link.Addresses{},
			}
		},
	}
	fmt.Println(plugin.Name)
	// Output: ipvlan
}

// A macvtap is a machine's link on the network of a parent. The machine's monitor opens the device whose numbers stand in the
// container's /sys/class/net/eth0/macvtap, and the addresses are the machine's: so there is no IPAM step here, and Addresses
// has none to put on the link, but sets it up.
func ExampleMacvtap() {
	plugin := skel.Plugin[struct{}]{
		Name: "macvtap",
		Steps: func(req *netconf.Request, _ *struct{}) skel.Steps {
			return skel.Steps{
				link.Macvtap{Parent: link.Parent{Name: "eno1"}, Mode: link.MacvlanBridge, MAC: req.MAC(nil)},
				link.Addresses{},
			}
		},
	}
	fmt.Println(plugin.Name)
	// Output: macvtap
}

// A bridge that all attachments of a network share, and which is their gateway: the first makes it, and it stays.
func ExampleBridge() {
	plugin := skel.Plugin[struct{}]{
		Name: "pods",
		Steps: func(*netconf.Request, *struct{}) skel.Steps {
			return skel.Steps{
				link.Bridge{Name: "pods0"},
				link.Veth{Bridge: "pods0"},
				// the IPAM step
				link.Gateway{Bridge: "pods0", Default: true},
				link.Addresses{},
			}
		},
	}
	fmt.Println(plugin.Name)
	// Output: pods
}

// A pair without a bridge: the container's only neighbour is the host, which routes.
func ExampleHostRoutes() {
	plugin := skel.Plugin[struct{}]{
		Name: "routed",
		Steps: func(*netconf.Request, *struct{}) skel.Steps {
			return skel.Steps{
				link.Veth{},
				// the IPAM step: each address with a gateway, which the host's end gets
				link.Addresses{PointToPoint: true},
				link.HostRoutes{},
			}
		},
	}
	fmt.Println(plugin.Name)
	// Output: routed
}

// A daemon changes a link for a while: what Was has read undoes it. As a step, Tune keeps that by itself until DEL.
func ExampleTune() {
	watch := func(ctx context.Context, n *link.NS, look func() error) error {
		on := true
		tune := link.Tune{Promisc: &on, MTU: 9000}
		before, err := tune.Was(n, "eth0")
		if err != nil {
			return err
		}
		if err := tune.Ensure(ctx, n, "eth0"); err != nil {
			return netconf.Join(err, before.Ensure(ctx, n, "eth0"))
		}
		return netconf.Join(look(), before.Ensure(ctx, n, "eth0"))
	}
	_ = watch // it needs an open namespace
	fmt.Println(link.Tune{MTU: 10}.Valid())
	// Output: link: mtu 10 is out of range: expected 68 to 65535
}

// Names are read as sysctl(8) reads them; a dot in the name of an interface is written as a slash, or all dots as slashes.
func ExampleSysctls() {
	for _, name := range []string{"net.ipv4.conf.IFNAME.rp_filter", "net.ipv4.conf.eth0/7.rp_filter", "net/ipv4/conf/eth0.7/rp_filter"} {
		key, err := link.SysctlKey(name, "eth0")
		fmt.Println(key, err)
	}
	step := link.Sysctls{Values: map[string]string{"kernel.hostname": "x"}}
	fmt.Println(step.Valid())
	// Output:
	// net/ipv4/conf/eth0/rp_filter <nil>
	// net/ipv4/conf/eth0.7/rp_filter <nil>
	// net/ipv4/conf/eth0.7/rp_filter <nil>
	// sysctl "kernel.hostname": expected net/PART/.../NAME
}

// The administrator's list of what a network may set; an empty one allows nothing.
func ExampleAllowedSysctls() {
	list, err := link.ParseAllowedSysctls("^net\\.core\\.somaxconn$\n^net\\.ipv4\\.conf\\.IFNAME\\.[a-z_]+$\n")
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"net.core.somaxconn", "net/ipv4/conf/IFNAME/rp_filter", "net.ipv4.ip_forward"} {
		fmt.Println(name, list.Allows(name), link.AllowedSysctls{}.Allows(name))
	}
	// Output:
	// net.core.somaxconn true false
	// net/ipv4/conf/IFNAME/rp_filter true false
	// net.ipv4.ip_forward false false
}

// Routes of the plugin's own: one by a gateway, and what is not to leave the container at all.
func ExampleRoutes() {
	step := link.Routes{Routes: []link.Route{
		{Dst: netip.MustParsePrefix("10.9.0.0/16"), Gateway: netip.MustParseAddr("10.1.1.1")},
		{Dst: netip.MustParsePrefix("169.254.169.254/32"), Type: link.RouteProhibit},
	}}
	fmt.Println(step.Routes)
	// Output: [10.9.0.0/16 via 10.1.1.1 prohibit 169.254.169.254/32]
}

// A routed pair without a queue between its ends, on which the host's programs can decide about what the container sends. The
// gateway is the host's end.
func ExampleNetkit() {
	plugin := skel.Plugin[struct{}]{
		Name: "pods",
		Steps: func(*netconf.Request, *struct{}) skel.Steps {
			return skel.Steps{
				link.Netkit{},
				// the IPAM step
				link.Addresses{PointToPoint: true},
				link.HostRoutes{},
			}
		},
	}
	fmt.Println(plugin.Name)
	// Output: pods
}
