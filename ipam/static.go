package ipam

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// Static gives the addresses, routes and DNS settings that its configuration lists, with the keys of the
// reference static plugin. It is both the ipam section of a plugin's configuration and a [Step]; there is no store,
// so two containers of one network get the same addresses unless the runtime asks for others:
//
//	type config struct {
//		IPAM ipam.Static `json:"ipam"`
//	}
//
//	skel.Plugin[config]{
//		Kind:     skel.IPAM,
//		Validate: func(req *netconf.Request, c *config) error { return c.IPAM.Validate(req) },
//		Steps:    func(_ *netconf.Request, c *config) skel.Steps { return skel.Steps{c.IPAM} },
//	}
//
// The addresses that the runtime asks for (netconf.Request.IPs) replace all of Addresses, with their gateways; each
// needs its prefix length. GATEWAY of CNI_ARGS, one or several with ',' between, is the gateway of the addresses in
// whose network it lies, and is not looked at where the addresses are those of args.cni or runtimeConfig.
//
// An error about a key names it as it stands in the section "ipam", and has code 7, one about CNI_ARGS code 4. Nothing is
// changed by any verb: DEL and GC have nothing to do, and no program is needed.
type Static struct {
	Addresses []StaticAddress `json:"addresses" doc:"what each container gets, unless CNI_ARGS, args.cni or runtimeConfig ask for other addresses"`
	Routes    []Route         `json:"routes" doc:"routes of the container"`
	DNS       types.DNS       `json:"dns" doc:"DNS settings of the container"`
}

// StaticAddress is one address of [Static].
type StaticAddress struct {
	Address netconf.Prefix `json:"address" doc:"with its prefix length" example:"10.1.0.5/24"`
	Gateway netconf.Addr   `json:"gateway" doc:"of the same family; default: none" example:"10.1.0.1"`
}

var _ Step = Static{}

// StaticInProcess is [Static] in the place of the program "static", for [FromConfig]: no second process, and no
// program to install.
func StaticInProcess() delegate.InProcess {
	return delegate.InProcess{Type: "static", Do: doStatic, Validate: validateStatic}
}

// ownStatic is the section of a request that is the caller's: so are the other keys, and it is the caller who is strict.
func ownStatic(req *netconf.Request) (Static, error) {
	req.Section, req.Strict = "ipam", false
	conf, err := netconf.Decode[struct {
		IPAM Static `json:"ipam"`
	}](req, nil)
	return conf.IPAM, err
}

func validateStatic(req *netconf.Request) error {
	conf, err := ownStatic(req.As(req.Command))
	if err != nil {
		return err
	}
	return conf.Validate(req)
}

func doStatic(ctx context.Context, req *netconf.Request) error {
	known := version.All.SupportedVersions()
	switch {
	case req.Lenient():
		return nil // nothing of the configuration is needed to do nothing
	case !slices.Contains(known, req.Network.CNIVersion):
		return netconf.Unchanged(netconf.Errorf(netconf.CodeIncompatibleVersion, "version %q is not supported: expected one of %v", req.Network.CNIVersion, known))
	case req.Command == netconf.Version:
		return nil
	}
	conf, err := ownStatic(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	switch req.Command {
	case netconf.Add:
		return conf.Add(ctx, req)
	case netconf.Check:
		return conf.Check(ctx, req)
	}
	return conf.Status(ctx, req)
}

// Name is "static", for errors and logs.
func (s Static) Name() string { return "static" }

// Add appends the addresses and routes to req.Result, without an interface, and sets its DNS where there is any. That
// there is no address at all is an error too.
func (s Static) Add(_ context.Context, req *netconf.Request) error {
	addresses, routes, err := s.needed(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	for _, a := range addresses {
		req.AddIP(-1, ipNet(a.Address.Prefix), a.Gateway.AsSlice())
	}
	for _, r := range routes {
		req.AddRoute(r)
	}
	if !s.DNS.IsEmpty() {
		req.Result.DNS = s.DNS
	}
	return nil
}

// Check finds each address in req.Prev, with its prefix length and, where it has one, its gateway. Routes and DNS
// are not compared: a plugin further on in the chain may change them.
func (s Static) Check(_ context.Context, req *netconf.Request) error {
	if req.Prev == nil {
		return req.Invalid("prevResult", "missing: CHECK of static needs it")
	}
	addresses, _, err := s.needed(req)
	if err != nil {
		return err
	}
	have := make(map[netip.Addr]*types100.IPConfig, len(req.Prev.IPs))
	for _, ip := range req.Prev.IPs {
		addr, _ := netip.AddrFromSlice(ip.Address.IP)
		have[addr.Unmap()] = ip
	}
	var errs []error
	for _, a := range addresses {
		if err := a.differs(have[a.Address.Addr()]); err != nil && len(errs) < maxErrors {
			errs = append(errs, err)
		}
	}
	return netconf.Join(errs...)
}

// differs compares the address with the prevResult's; nil is none.
func (a StaticAddress) differs(ip *types100.IPConfig) error {
	if ip == nil {
		return fmt.Errorf("%w: the prevResult does not have %s", netconf.ErrDifferent, a.Address)
	}
	gw, _ := netip.AddrFromSlice(ip.Gateway)
	ones, _ := ip.Address.Mask.Size()
	switch {
	case ones != a.Address.Bits():
		return fmt.Errorf("%w: the prevResult has %s, and %s is given", netconf.ErrDifferent, ip.Address.String(), a.Address)
	case a.Gateway.IsValid() && gw.Unmap() != a.Gateway.Addr:
		return fmt.Errorf("%w: the prevResult has gateway %q of %s, and %s is given", netconf.ErrDifferent, ip.Gateway, a.Address, a.Gateway)
	}
	return nil
}

// Del has nothing to release.
func (s Static) Del(context.Context, *netconf.Request) error { return nil }

// GC has nothing to release.
func (s Static) GC(context.Context, *netconf.Request) error { return nil }

// Status is Validate: an ADD could be served if it brings addresses, which STATUS does not tell, or there are some.
func (s Static) Status(_ context.Context, req *netconf.Request) error { return s.Validate(req) }

// Validate finds all that is wrong with the addresses, also those that the runtime asks for, and the routes. It is
// for skel.Plugin.Validate, so that it is said before any work of other steps. That there is no address is for Add to say:
// the file of a network for runtimes that bring them has none.
func (s Static) Validate(req *netconf.Request) error {
	_, _, err := s.plan(req)
	return err
}
