package nat

import (
	"context"
	"errors"
	"fmt"
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

// routeLoopback lets packets from 127.0.0.1 out by the link that leads to a container: its own end of a pair, with which the
// flag goes, or a bridge, which others share and on which it stays.
func (p PortMap) routeLoopback(ctx context.Context, host *link.NS, a netip.Addr) error {
	key, err := p.loopbackKey(host, a)
	if err != nil || key == "" {
		return err
	}
	return host.Sysctl(ctx, key, "1")
}

func (p PortMap) verifyLoopback(host *link.NS, a netip.Addr) error {
	key, err := p.loopbackKey(host, a)
	if err != nil || key == "" {
		return err
	}
	have, err := host.ReadSysctl(key)
	if err == nil && have != "1" {
		err = different(key, 1, have)
	}
	return err
}

// loopbackKey is the sysctl of the link by which the host reaches a container; empty if it is not needed, or there
// is none: a container behind a gateway is not on this host, as far as its routes know, and the link that
// leads to the gateway is the host's way out, whose flag nobody would give back.
func (p PortMap) loopbackKey(host *link.NS, a netip.Addr) (string, error) {
	if p.NoSNAT || !a.Is4() {
		return "", nil
	}
	routes, err := host.Handle().RouteGet(a.AsSlice())
	if unreachable(err) || err == nil && len(routes) == 0 {
		return "", nil // the host itself does not reach it, by no address
	}
	if err != nil {
		return "", &link.Error{Op: "route get", Name: a.String(), Err: err}
	}
	if r := routes[0]; r.Gw != nil || r.Via != nil {
		return "", nil
	}
	l, err := host.Handle().LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", &link.Error{Op: "link get", Name: fmt.Sprint(routes[0].LinkIndex), Err: err}
	}
	if l.Attrs().Name == "lo" {
		return "", nil
	}
	return "net/ipv4/conf/" + l.Attrs().Name + "/route_localnet", nil
}

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

const routeLocal = 2 // RTN_LOCAL

func unreachable(err error) bool {
	return link.Gone(err) || errors.Is(err, errNoRoute) || errors.Is(err, errNoNetwork)
}
