package nat

import (
	"context"
	"errors"
	"net/netip"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// Add is Create for the addresses of the interface. A mapping for one address of the host, whose family the container
// does not have, is left out with a warning. Nothing is done in the container's namespace, but it must be one.
func (p PortMap) Add(ctx context.Context, req *netconf.Request) error {
	if _, err := link.Container(req); err != nil {
		return netconf.Unchanged(err)
	}
	if len(p.Mappings) == 0 {
		return nil
	}
	host, err := link.Host(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	addrs := addressesOf(req)
	if ports, err := p.expand(targets(addrs)); err == nil && req.Warn != nil {
		for i, families := range ports {
			if m := p.Mappings[i]; len(families) == 0 {
				req.Warn("the container has no address of the family: the port is not mapped", "hostIP", m.HostIP.String(), "hostPort", m.HostPort)
			}
		}
	}
	return p.Create(ctx, host, link.OwnerOf(req), addrs)
}

// Check is Verify for the addresses of the prevResult.
func (p PortMap) Check(ctx context.Context, req *netconf.Request) error {
	if len(p.Mappings) == 0 {
		return nil
	}
	host, err := link.Host(req)
	if err != nil {
		return err
	}
	return p.Verify(ctx, host, link.OwnerOf(req), addressesOf(req))
}

// Del is Delete for the addresses of the prevResult or, in a rollback, of the result.
func (p PortMap) Del(ctx context.Context, req *netconf.Request) error {
	host, err := link.Host(req)
	if err != nil {
		return err
	}
	return p.Delete(ctx, host, link.OwnerOf(req), addressesOf(req))
}

// GC is Collect for the network and the list of the call.
func (p PortMap) GC(ctx context.Context, req *netconf.Request) error {
	host, err := link.Host(req)
	if err != nil {
		return err
	}
	return p.Collect(ctx, host, req.Network.Name, req.Network.ValidAttachments)
}

// Status is Probe.
func (PortMap) Status(ctx context.Context, req *netconf.Request) error { return probe(ctx, req) }

// local tells whether an address is the host's: its routing says so.
func local(host *link.NS, a netip.Addr) (bool, error) {
	routes, err := host.Handle().RouteGet(a.AsSlice())
	if unreachable(err) {
		return false, nil
	}
	if err != nil {
		return false, &link.Error{Op: "route get", Name: a.String(), Err: err}
	}
	return len(routes) > 0 && routes[0].Type == routeLocal, nil
}

const (
	routeUnicast = 1 // RTN_UNICAST
	routeLocal   = 2 // RTN_LOCAL
)

func unreachable(err error) bool {
	return link.Gone(err) || errors.Is(err, errNoRoute) || errors.Is(err, errNoNetwork)
}
