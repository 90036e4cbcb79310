package hostlocal

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	cniversion "github.com/containernetworking/cni/pkg/version"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// DefaultDataDir is where the leases of all networks are, a folder for each, unless the configuration says otherwise.
const DefaultDataDir = "/var/lib/cni/networks"

// Config is the ipam section of a plugin's configuration, with the keys of the reference host-local, and the step
// that gives the addresses, for [FromConfig] of package ipam or in a plugin of its own:
//
//	type config struct {
//		IPAM hostlocal.Config `json:"ipam"`
//	}
//
//	skel.Plugin[config]{
//		Kind:     skel.IPAM,
//		Validate: func(req *netconf.Request, c *config) error { return c.IPAM.Validate(req) },
//		Steps:    func(_ *netconf.Request, c *config) skel.Steps { return skel.Steps{c.IPAM} },
//	}
//
// [FromConfig]: https://pkg.go.dev/github.com/cnikit/cnikit/ipam#FromConfig
type Config struct {
	Ranges     [][]Range      `json:"ranges" doc:"sets of ranges: each container gets one address from each set; runtimeConfig.ipRanges come before them"`
	Subnet     netconf.Prefix `json:"subnet" doc:"the old form: a set of one range, before those of ranges"`
	RangeStart netconf.Addr   `json:"rangeStart" doc:"of the old form"`
	RangeEnd   netconf.Addr   `json:"rangeEnd" doc:"of the old form"`
	Gateway    netconf.Addr   `json:"gateway" doc:"of the old form"`
	Routes     []*types.Route `json:"routes" doc:"routes of the container"`
	DataDir    string         `json:"dataDir" doc:"the folder of the leases, in a folder of the network's name; default /var/lib/cni/networks"`
	ResolvConf string         `json:"resolvConf" doc:"a file whose DNS settings the container gets"`
}

// Range is a part of a subnet from which addresses are given.
type Range struct {
	Subnet     netconf.Prefix `json:"subnet" doc:"without a host part, at least a /30 or a /126" example:"10.1.0.0/24"`
	RangeStart netconf.Addr   `json:"rangeStart" doc:"the first address; default: the subnet's first"`
	RangeEnd   netconf.Addr   `json:"rangeEnd" doc:"the last address; default: the subnet's last"`
	Gateway    netconf.Addr   `json:"gateway" doc:"never given to a container; default: the subnet's first address"`
}

// InProcess is [Config] in the place of the program "host-local", for ipam.FromConfig: no second process, and no
// program to install. The files are the same, so that it can be changed from one to the other and back, and both can
// be used at once.
func InProcess() delegate.InProcess {
	return delegate.InProcess{Type: "host-local", Do: do, Validate: validate}
}

// own is the section of a request that is the caller's. It is decoded once for validate and do: to do it again was a sixth
// of the time of an ADD in here.
func own(req *netconf.Request) (Config, error) {
	req.Section, req.Strict = "ipam", false // the other keys are the caller's; it is the caller who is strict
	conf, err := netconf.Local(req, section{string(req.Config), req.Lenient()}, func() (*decoded, error) {
		return netconf.Decode[decoded](req, nil)
	})
	if err != nil {
		return Config{}, err
	}
	return conf.IPAM, nil
}

// section is the key of what is kept of a configuration; what a DEL has decoded leniently is not for an ADD.
type section struct {
	config  string
	lenient bool
}

type decoded struct {
	IPAM Config `json:"ipam"`
}

// Close has nothing to close.
func (*decoded) Close() error { return nil }

func validate(req *netconf.Request) error {
	conf, err := own(req.As(req.Command))
	if err != nil {
		return err
	}
	return conf.Validate(req)
}

func do(ctx context.Context, req *netconf.Request) error {
	known := cniversion.All.SupportedVersions()
	switch {
	case !req.Lenient() && !slices.Contains(known, req.Network.CNIVersion):
		return netconf.Unchanged(netconf.Errorf(netconf.CodeIncompatibleVersion, "version %q is not supported: expected one of %v", req.Network.CNIVersion, known))
	case req.Command == netconf.Version:
		return nil
	}
	conf, err := own(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	switch req.Command {
	case netconf.Add:
		return conf.Add(ctx, req)
	case netconf.Check:
		return conf.Check(ctx, req)
	case netconf.Del:
		return conf.Del(ctx, req)
	case netconf.GC:
		return conf.GC(ctx, req)
	}
	return conf.Status(ctx, req)
}

// Name is "host-local", for errors and logs.
func (c Config) Name() string { return "host-local" }

// Validate finds all that is wrong with ranges, routes and the addresses that are asked for. It is for
// skel.Plugin.Validate, so that it is said before any work of other steps; Add and Status do it themselves.
func (c Config) Validate(req *netconf.Request) error {
	_, _, err := c.wanted(req)
	return err
}

// wanted is the sets, and for each the address that is asked for, if any.
func (c Config) wanted(req *netconf.Request) (sets, []netip.Addr, error) {
	all, err := c.sets(req)
	errs := []error{err, c.checkRoutes(req), c.checkDir(req)}
	own := req.For(req.Network, "") // what it notes is returned, and not noted for the caller
	own.Config = req.Config
	asked := own.IPs()
	if errs = append(errs, own.Rejected()); netconf.Join(errs...) != nil {
		return sets{}, nil, netconf.Join(slices.Compact(errs)...)
	}
	for _, a := range asked {
		if !all.contains(a.Addr) {
			errs = append(errs, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "the address %s is asked for, and lies in none of the ranges %s", a.Addr, all))
		} else if all.gateways[a.Addr] {
			errs = append(errs, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "the address %s is asked for, and is a gateway", a.Addr))
		}
	}
	want := make([]netip.Addr, len(all.all))
	for i, one := range all.all {
		for j, a := range asked {
			if one.contains(a.Addr) {
				want[i], asked = a.Addr, slices.Delete(slices.Clone(asked), j, j+1)
				break
			}
		}
	}
	if len(asked) > 0 && netconf.Join(errs...) == nil {
		errs = append(errs, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "the address %s is asked for beside another of the same ranges: each set gives one", asked[0].Addr))
	}
	return all, want, netconf.Join(errs...)
}

func (c Config) checkRoutes(req *netconf.Request) error {
	var errs []error
	for i, r := range c.Routes {
		if r == nil || r.Dst.IP == nil {
			errs = append(errs, req.Invalid(fmt.Sprintf("ipam.routes[%d]", i), "expected a route with a dst"))
		} else if r.GW != nil && (r.GW.To4() != nil) != (r.Dst.IP.To4() != nil) {
			errs = append(errs, req.Invalid(fmt.Sprintf("ipam.routes[%d].gw", i), "%s is of another family than %s", r.GW, r.Dst.String()))
		}
	}
	return netconf.Join(errs...)
}

func (c Config) checkDir(req *netconf.Request) error {
	if strings.ContainsRune(c.DataDir, 0) {
		return req.Invalid("ipam.dataDir", "%q is no path", c.DataDir)
	}
	return nil
}

// dir is the folder of the network's leases. A network's name cannot lead out of dataDir.
func (c Config) dir(req *netconf.Request) (string, error) {
	if err := netconf.CheckName(req.Network.Name); err != nil {
		return "", req.Invalid("name", "%w", err)
	}
	base := c.DataDir
	if base == "" {
		base = DefaultDataDir
	}
	return filepath.Join(base, req.Network.Name), nil
}

// dns reads the file of resolvConf.
func (c Config) dns(req *netconf.Request) (types.DNS, error) {
	var dns types.DNS
	if c.ResolvConf == "" {
		return dns, nil
	}
	text, err := os.ReadFile(c.ResolvConf)
	if err != nil {
		return dns, req.Invalid("ipam.resolvConf", "%w", err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0][0] == '#' || words[0][0] == ';' {
			continue
		}
		switch words[0] {
		case "nameserver":
			dns.Nameservers = append(dns.Nameservers, words[1])
		case "domain":
			dns.Domain = words[1]
		case "search":
			dns.Search = append(dns.Search, words[1:]...)
		case "options":
			dns.Options = append(dns.Options, words[1:]...)
		}
	}
	return dns, nil
}

// ipNet is an address with the length of its subnet, as the types of a result have it.
func ipNet(a netip.Addr, subnet netip.Prefix) net.IPNet {
	return net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(subnet.Bits(), a.BitLen())}
}
