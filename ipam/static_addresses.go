package ipam

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
)

// needed is plan, with an address at least.
func (s Static) needed(req *netconf.Request) ([]StaticAddress, []*types.Route, error) {
	addresses, routes, err := s.plan(req)
	if err == nil && len(addresses) == 0 {
		err = req.Invalid("ipam.addresses", "no address: expected one here, or in runtimeConfig.ips, args.cni.ips or IP of CNI_ARGS")
	}
	return addresses, routes, err
}

// plan is what an ADD would give, or all that is wrong with it.
func (s Static) plan(req *netconf.Request) ([]StaticAddress, []*types.Route, error) {
	addresses, err := s.addresses(req)
	routes, routesErr := s.routes(req)
	return addresses, routes, netconf.Join(err, routesErr)
}

// addresses are those that count, with their gateways, all of them good.
func (s Static) addresses(req *netconf.Request) ([]StaticAddress, error) {
	list, invalid, err := s.source(req)
	if err != nil {
		return nil, err
	}
	var errs []error
	seen, families := map[netip.Addr]int{}, map[bool]int{}
	for i, a := range list {
		if len(errs) >= maxErrors {
			break
		}
		addr, n := a.Address.Addr(), ipNet(a.Address.Prefix)
		first, again := seen[addr]
		families[addr.Is4()]++
		switch err := checkAddress(n); {
		case !a.Address.IsValid():
			errs = append(errs, invalid(i, "address", "missing: expected %s", a.Address.Expects()))
			continue
		case err != nil:
			errs = append(errs, invalid(i, "address", "%s %w", a.Address, err))
		case again:
			errs = append(errs, invalid(i, "address", "%s is that of addresses[%d]", a.Address, first))
		case families[addr.Is4()] > 1 && !req.Network.Is("0.3.0"):
			errs = append(errs, invalid(i, "address", "%s is the second of its family: a result of version %s has room for one: use cniVersion 0.3.0 or later", a.Address, req.Network.CNIVersion))
		}
		seen[addr] = i
		if err := checkGateway(a.Gateway.AsSlice(), n.IP); err != nil {
			errs = append(errs, invalid(i, "gateway", "%s %w", a.Gateway, err))
		}
	}
	return list, netconf.Join(errs...)
}

// maxErrors is how many errors of one kind are told: the place of each costs a walk through the configuration.
const maxErrors = 20

// invalid makes an error about a key of the address at an index.
type invalid func(i int, key, format string, args ...any) error

// source is the place whose addresses count.
func (s Static) source(req *netconf.Request) ([]StaticAddress, invalid, error) {
	own := req.For(req.Network, "") // what it notes is returned, and not noted for the caller
	asked := own.IPs()
	if err := own.Rejected(); err != nil {
		return nil, nil, err
	}
	// The others are known to be good, or lower: what is noted from here on is nobody's business.
	in := ""
	switch {
	case len(asked) == 0:
		list, err := withGateways(s.Addresses, req.Args["GATEWAY"])
		return list, func(i int, key, format string, args ...any) error {
			return req.Invalid(fmt.Sprintf("ipam.addresses[%d].%s", i, key), format, args...)
		}, err
	case len(own.Runtime().IPs) > 0:
		in = "runtimeConfig.ips"
	case len(own.CNIArgs().IPs) > 0:
		in = "args.cni.ips"
	}
	said := func(_ int, _, format string, args ...any) error {
		if in == "" {
			return ofCNIArgs("IP", format, args...)
		}
		return req.Invalid(in, format, args...)
	}
	list, err := withLengths(asked, said)
	if in == "" && err == nil {
		list, err = withGateways(list, req.Args["GATEWAY"])
	}
	return list, said, err
}

// withLengths takes the addresses that are asked for; nothing but themselves says how long their prefixes are.
func withLengths(asked []netconf.IP, said invalid) ([]StaticAddress, error) {
	var list []StaticAddress
	var errs []error
	for i, ip := range asked {
		if len(errs) == maxErrors {
			break
		}
		if usual := map[bool]int{true: 24, false: 64}[ip.Addr.Is4()]; !ip.Prefix.IsValid() {
			errs = append(errs, said(i, "", "%s has no prefix length: expected one, as in %s/%d", ip, ip, usual))
		}
		list = append(list, StaticAddress{Address: netconf.Prefix{Prefix: ip.Prefix}})
	}
	return list, netconf.Join(errs...)
}

// withGateways gives the addresses the gateways of a list with ',' between, each the one that lies in its network.
// A gateway that is nobody's would be asked for and not given, without a word.
func withGateways(list []StaticAddress, gateways string) ([]StaticAddress, error) {
	if gateways == "" || len(list) == 0 {
		return list, nil
	}
	list = slices.Clone(list)
	for text := range strings.SplitSeq(gateways, ",") {
		var gw netconf.Addr
		if err := gw.UnmarshalText([]byte(strings.TrimSpace(text))); err != nil {
			return nil, ofCNIArgs("GATEWAY", "%w", err)
		}
		found := false
		for i := range list {
			if list[i].Address.Contains(gw.Addr) {
				list[i].Gateway, found = gw, true
			}
		}
		if !found {
			return nil, ofCNIArgs("GATEWAY", "%q lies in the network of no address", gw)
		}
	}
	return list, nil
}

func ofCNIArgs(key, format string, args ...any) error {
	return &netconf.Error{Op: "environment", Path: "CNI_ARGS", Code: netconf.CodeInvalidEnvironment, Err: fmt.Errorf(key+": "+format, args...)}
}

// Route is a route of a configuration, with the keys of a result's. Who makes the routes (link.Addresses) holds the
// numbers against what the kernel takes.
type Route struct {
	Dst      netconf.Prefix `json:"dst" doc:"the network that it leads to; a host part means nothing" example:"0.0.0.0/0"`
	GW       netconf.Addr   `json:"gw" doc:"default: the gateway of an address of its family"`
	MTU      int            `json:"mtu" doc:"in bytes; default: the interface's"`
	AdvMSS   int            `json:"advmss" doc:"the TCP segment size that is told to peers, in bytes"`
	Priority int            `json:"priority" doc:"the metric; the lowest of several routes counts"`
	Table    *int           `json:"table" doc:"the routing table; default: main"`
	Scope    *int           `json:"scope" doc:"0 global, 253 link, 254 host; default: global"`
}

// routes are those of the configuration as a result has them. A destination keeps its host part, as with the reference
// plugins: who makes the route has no use for it.
func (s Static) routes(req *netconf.Request) ([]*types.Route, error) {
	var out []*types.Route
	var errs []error
	for i, r := range s.Routes {
		if len(errs) == maxErrors {
			break
		}
		bad := func(key, format string, args ...any) {
			errs = append(errs, req.Invalid(fmt.Sprintf("ipam.routes[%d].%s", i, key), format, args...))
		}
		switch dst := r.Dst.Prefix; {
		case !dst.IsValid():
			bad("dst", "missing: expected %s", r.Dst.Expects())
			continue
		case r.GW.IsValid() && r.GW.Is4() != dst.Addr().Is4():
			bad("gw", "%s is of another family than %s", r.GW, dst)
		case r.GW.IsMulticast(), r.GW.IsLoopback():
			bad("gw", "%s is no address of a router", r.GW)
		}
		out = append(out, &types.Route{Dst: ipNet(r.Dst.Prefix), GW: r.GW.AsSlice(), MTU: r.MTU, AdvMSS: r.AdvMSS, Priority: r.Priority, Table: r.Table, Scope: r.Scope})
	}
	return out, netconf.Join(errs...)
}

// ipNet is a prefix with its host part, as the types of a result have it.
func ipNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
