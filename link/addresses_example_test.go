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

// In a plugin Addresses is the step after IPAM's. This plugin puts its interfaces beside others: a default
// route of its own comes behind theirs.
func ExampleAddresses() {
	_ = skel.Plugin[struct{}]{
		Name: "macvlan",
		Steps: func(*netconf.Request, *struct{}) skel.Steps {
			return skel.Steps{
				link.Macvlan{Parent: link.Parent{Name: "eno1"}},
				// the IPAM step
				link.Addresses{DefaultMetric: 2000},
			}
		},
	}
}

// What a result comes to can be seen without root. The gateway of a cloud's /32 is reached on the link.
func ExampleAddresses_Plan() {
	answer, err := netconf.ParseResult([]byte(`{
		"ips": [{"address": "10.1.1.2/32", "gateway": "169.254.1.1"}],
		"routes": [{"dst": "0.0.0.0/0"}]
	}`), "1.1.0")
	if err != nil {
		log.Fatal(err)
	}
	plan, err := link.Addresses{}.Plan("eth0", answer, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Addresses, plan.Routes)
	// Output: [10.1.1.2/32] [default via 169.254.1.1 onlink]
}

// A daemon needs no call: it says what is to be there, repairs, and compares.
func ExampleAddressPlan_Ensure() {
	repair := func(ctx context.Context, netns string) error {
		n, err := link.Open(netns)
		if err != nil {
			return err
		}
		plan := &link.AddressPlan{
			Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.1.2/24")},
			Routes:    []link.Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("10.1.1.1")}},
		}
		err = plan.Ensure(ctx, n, "eth0")
		if err == nil {
			err = plan.Verify(ctx, n, "eth0")
		}
		return netconf.Join(err, n.Close())
	}
	_ = repair // an example has no namespace
}
