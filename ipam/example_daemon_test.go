package ipam_test

import (
	"context"
	"fmt"
	"os"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/ipam/hostlocal"
	"github.com/cnikit/cnikit/netconf"
)

// Package ipam in a daemon, which is called by nobody's environment and stdin: the request is made by hand. What is
// needed of it:
//
//   - always Network and Config, the latter as the bytes of the former, and Command by way of req.As: FromConfig looks at it;
//   - ADD, CHECK and DEL: ContainerID and IfName, by which a lease is found. CHECK also Prev. Netns and Args are for
//     IPAM plugins that look at them, as dhcp does;
//   - GC: Network.ValidAttachments; nil would be no list, which is an error;
//   - where the IPAM plugin is a program: Path and Environ. Stderr and Warn may be nil.
func Example_daemon() {
	dir, err := os.MkdirTemp("", "leases")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	network, err := netconf.ParseNetwork(fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":"lan","type":"mine","ipam":{"type":"host-local","dataDir":%q,"subnet":"192.0.2.0/24"}}`, dir))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	req := &netconf.Request{ContainerID: "pod1", IfName: "eth0", Network: network, Config: network.Bytes(),
		Path: []string{"/opt/cni/bin"}, Environ: os.Environ()}
	defer req.Close()
	// serve makes a step for a verb: a section that is wrong is told by Rejected, before any work.
	serve := func(verb netconf.Command, of *netconf.Request, call func(ipam.Step, context.Context, *netconf.Request) error) (*netconf.Request, error) {
		of = of.As(verb)
		step := ipam.FromConfig(of, hostlocal.InProcess())
		if err := of.Rejected(); err != nil || step == nil {
			return of, err
		}
		return of, call(step, ctx, of)
	}

	added, err := serve(netconf.Add, req, ipam.Step.Add)
	if err != nil {
		fmt.Println(netconf.Code(err), err) // unless netconf.IsUnchanged(err) a DEL is due
		return
	}
	fmt.Println(added.Result.IPs[0].Address.String())
	req.Prev = added.Result // CHECK, then and later; a daemon that was started again has it from its own store
	_, err = serve(netconf.Check, req, ipam.Step.Check)
	fmt.Println("CHECK", err)
	_, err = serve(netconf.Status, req, ipam.Step.Status)
	fmt.Println("STATUS", err)

	gone := req.As(netconf.GC)
	gone.Network.ValidAttachments = []types.GCAttachment{} // pod1 is no more
	_, err = serve(netconf.GC, gone, ipam.Step.GC)
	fmt.Println("GC", err)
	_, err = serve(netconf.Check, req, ipam.Step.Check)
	fmt.Println("CHECK", netconf.Code(err))
	_, err = serve(netconf.Del, req, ipam.Step.Del) // nothing is left: no error
	fmt.Println("DEL", err)
	// Output:
	// 192.0.2.2/24
	// CHECK <nil>
	// STATUS <nil>
	// GC <nil>
	// CHECK 102
	// DEL <nil>
}
