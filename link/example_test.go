package link_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/netip"
	"strings"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// A plugin describes an attachment by steps.
func Example() {
	type config struct {
		Master string `json:"master"`
		MTU    int    `json:"mtu"`
	}
	plugin := skel.Plugin[config]{
		Name: "macvlan",
		Steps: func(req *netconf.Request, c *config) skel.Steps {
			return skel.Steps{
				link.Macvlan{Parent: link.Parent{Name: c.Master}, MTU: c.MTU},
				link.Addresses{}, // what an IPAM step between the two answered
			}
		},
	}
	skel.Main(plugin) // in a program's main
}

// A daemon makes, checks and repairs a link without any CNI call: the core of each kind takes open
// namespaces and an owner.
func ExampleMacvlan() {
	attach := func(ctx context.Context, netns string) error {
		host, err := link.Current()
		if err != nil {
			return err
		}
		defer host.Close()
		container, err := link.Open(netns)
		if err != nil {
			return err
		}
		defer container.Close()

		owner := link.Owner{Network: "storage", ContainerID: "4f1c", IfName: "net1"}
		macvlan := link.Macvlan{Parent: link.Parent{Name: "eno1"}, MTU: 9000}
		addresses := &link.AddressPlan{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.10/24")}}

		if _, err := macvlan.Ensure(ctx, host, container, owner); err != nil {
			return errors.Join(err, macvlan.Delete(ctx, host, container, owner))
		}
		if err := addresses.Ensure(ctx, container, owner.IfName); err != nil {
			return err
		}
		return macvlan.Verify(ctx, host, container, owner, nil)
	}
	err := attach(context.Background(), "/run/netns/nowhere")
	fmt.Println(link.Gone(err) || errors.Is(err, link.ErrNotSupported))
	// Output: true
}

// A bridge and the pairs on it, for a whole network.
func ExampleVeth() {
	connect := func(ctx context.Context, host, container *link.NS, id string) error {
		owner := link.Owner{Network: "pods", ContainerID: id, IfName: "eth0"}
		if _, err := (link.Bridge{Name: "pods0"}).Ensure(ctx, host, owner); err != nil {
			return err
		}
		outer, inner, err := link.Veth{Bridge: "pods0"}.Ensure(ctx, host, container, owner)
		if err != nil {
			return err
		}
		log.Printf("%s on the host is %s in the container", outer.Attrs().Name, inner.Attrs().Name)
		return nil
	}
	_ = connect // it needs two open namespaces
}

// The marks that tell whose a link is.
func ExampleOwner() {
	owner := link.Owner{Network: "pods", ContainerID: "4f1c", IfName: "eth0"}
	fmt.Println(owner.Alias(""))
	fmt.Println(owner.Alias(link.HostRole))
	fmt.Println(owner.HostName(link.HostRole))
	// Output:
	// cni:pods:4f1c:eth0
	// cni:pods:4f1c:eth0:host
	// veth628a7d0c091
}

// A step of one's own works in the namespaces of the call, which the other steps share. It has all verbs: of one
// without GC or Status the plugin would announce versions up to 1.0.0 alone, without Check up to 0.3.1.
func ExampleNS_Sysctl() {
	const key = "net/ipv4/ip_forward"
	nothing := func(context.Context, *netconf.Request) error { return nil }
	step := skel.Funcs{
		Title: "forward",
		Add: func(ctx context.Context, req *netconf.Request) error {
			n, err := link.Container(req)
			if err != nil {
				return err
			}
			return n.Sysctl(ctx, key, "1")
		},
		Check: func(_ context.Context, req *netconf.Request) error {
			n, err := link.Container(req)
			if err != nil {
				return err
			}
			value, err := n.ReadSysctl(key)
			if err == nil && value != "1" {
				err = fmt.Errorf("sysctl %q: %w: it is %s", key, netconf.ErrDifferent, value)
			}
			return err
		},
		Del:    nothing, // it goes with the namespace
		GC:     nothing,
		Status: nothing,
	}.Step()
	plugin := skel.Plugin[struct{}]{
		Name:  "forward",
		Kind:  skel.Chained,
		Steps: func(*netconf.Request, *struct{}) skel.Steps { return skel.Steps{step} },
	}
	var answer strings.Builder
	plugin.Run(context.Background(), skel.IO{
		Env: []string{"CNI_COMMAND=VERSION"}, Stdin: strings.NewReader(`{"cniVersion":"1.1.0"}`), Stdout: &answer, Stderr: io.Discard,
	})
	fmt.Println(strings.Contains(answer.String(), `"1.1.0"]`))
	// Output: true
}
