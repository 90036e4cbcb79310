package route_test

import (
	"fmt"
	"net/netip"

	"github.com/cnikit/cnikit/examples/multinet/route"
)

// The second network of a pod is to have its default route for IPv4, by two gateways.
func ExamplePlan() {
	plan := route.Plan([]route.Attachment{
		{IfName: "eth0"},
		{IfName: "net1", Asked: true, Gateways: []netip.Addr{netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.9")}},
	})
	for _, owner := range plan {
		fmt.Println(owner.IfName, owner.V6, owner.Gateways)
	}
	// Then plan.Apply(ctx, netns), and Changed.Result for each attachment.

	// Output: net1 false [10.1.0.1 10.1.0.9]
}
