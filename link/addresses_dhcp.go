package link

import (
	"context"

	"github.com/cnikit/cnikit/netconf"
)

// dhcp is the type of the IPAM plugin that gives an address back from that address: a RELEASE goes from the lease's address
// to the server (RFC 2131, 4.4.4), and the reference plugin's daemon binds a socket to it. With the address off the link
// that is "cannot assign requested address" in the daemon's log, the DEL a success, and the lease taken until it ends.
const dhcp = "dhcp"

// forRelease is what Del does where the IPAM plugin is dhcp, whose own DEL comes next. The addresses stay, and go with the
// link. In the rollback of an Add that did not come to put them there it puts them there: each retry of a pod that is refused,
// for its second default route say, has another id and so another lease, and a pool was empty before the first lease's end.
func (a Addresses) forRelease(ctx context.Context, req *netconf.Request) error {
	name := a.name(req)
	if netconf.Attached(req.Result, name) < 0 || req.Netns == "" {
		return nil
	}
	plan := a.made(name, req.Result)
	plan.Routes, plan.Warn = nil, req.Warn // the server is a neighbour, or heard of by way of one
	n, err := Container(req)
	if err == nil {
		err = plan.Ensure(ctx, n, name)
	}
	if Gone(err) {
		return nil
	}
	return err
}
