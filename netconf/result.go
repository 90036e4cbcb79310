package netconf

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

// ParseResult reads a result of any version of the specification: a prevResult, a delegate's answer.
// A result without cniVersion is taken by its shape: ip4 or ip6 make it 0.2.0, else it is of the
// version assumed, which is the configuration's. The result is the caller's own: nothing in it
// is shared. It is checked: no null in a list, every address there, every interface index inside the list,
// and no addresses in the place where another version has them (they would be lost without a word).
// An interface index of -1 is none, as an absent one: so some plugins say that they know of no interface. All errors are
// reported together, with JSON path, line and column; they carry code 6, an unknown version 1, an interface index 7.
func ParseResult(data []byte, assumed string) (*types100.Result, error) {
	if err := checkJSON("result", data); err != nil {
		return nil, err
	}
	d := decoder{op: "result", src: data, quiet: true}
	in := &resultIn{}
	d.top(in)
	old, current := in.IP4 != nil || in.IP6 != nil, len(in.IPs) > 0 || len(in.Interfaces) > 0
	v := in.CNIVersion
	switch {
	case v != "":
	case old && !current:
		v = "0.2.0"
	case current && compareVersions(assumed, "0.3.0") < 0:
		v = "0.4.0"
	default:
		v = assumed
	}
	if known := version.All.SupportedVersions(); v != "" && !slices.Contains(known, v) {
		return nil, errorAt("result", data, CodeIncompatibleVersion, "cniVersion", fmt.Errorf("version %.64q is unknown: expected one of %v", v, known))
	}
	errs := d.failures()
	if len(errs) == 0 {
		errs = in.misplaced(data, v)
	}
	if len(errs) > 0 {
		return nil, Join(errs...)
	}
	result := in.result()
	if errs := checkResult(result, data); len(errs) > 0 {
		return nil, Join(errs...)
	}
	return result, nil
}

// resultIn is a result of any version.
type resultIn struct {
	CNIVersion string                `json:"cniVersion"`
	Interfaces []*types100.Interface `json:"interfaces"`
	IPs        []*ipIn               `json:"ips"`
	Routes     []*routeIn            `json:"routes"`
	DNS        types.DNS             `json:"dns"`
	IP4        *oldIP                `json:"ip4"` // 0.1.0 and 0.2.0
	IP6        *oldIP                `json:"ip6"`
}

type ipIn struct {
	Interface *int        `json:"interface"`
	Address   types.IPNet `json:"address"`
	Gateway   net.IP      `json:"gateway"`
}

type routeIn struct {
	Dst      types.IPNet `json:"dst"`
	GW       net.IP      `json:"gw"`
	MTU      int         `json:"mtu"`
	AdvMSS   int         `json:"advmss"`
	Priority int         `json:"priority"`
	Table    *int        `json:"table"`
	Scope    *int        `json:"scope"`
}

type oldIP struct {
	IP      types.IPNet `json:"ip"`
	Gateway net.IP      `json:"gateway"`
	Routes  []*routeIn  `json:"routes"`
}

// misplaced finds addresses where version v has none, and nulls and missing addresses of the old
// form, which lose their place when they become a list.
func (in *resultIn) misplaced(data []byte, v string) (errs []error) {
	bad := func(path, format string, args ...any) {
		errs = append(errs, errorAt("result", data, CodeDecodingFailure, path, fmt.Errorf(format, args...)))
	}
	isOld := compareVersions(v, "0.3.0") < 0
	if isOld && (len(in.IPs) > 0 || len(in.Interfaces) > 0) && in.IP4 == nil && in.IP6 == nil {
		bad("ips", "a result of version %s has its addresses in ip4 and ip6", v)
	}
	for key, ip := range in.old() {
		if !isOld {
			if len(in.IPs) == 0 {
				bad(key, "a result of version %s has its addresses in ips", v)
			}
			continue
		}
		if ip.IP.IP == nil {
			bad(key+".ip", "missing: expected ADDRESS/LENGTH")
		}
		for i, r := range ip.Routes {
			if path := fmt.Sprintf("%s.routes[%d]", key, i); r == nil {
				bad(path, "expected an object, got null")
			} else if r.Dst.IP == nil {
				bad(path+".dst", "missing: expected ADDRESS/LENGTH")
			}
		}
	}
	return errs
}

// old ranges over ip4 and ip6, as far as they are there.
func (in *resultIn) old() func(yield func(string, *oldIP) bool) {
	return func(yield func(string, *oldIP) bool) {
		if in.IP4 != nil && !yield("ip4", in.IP4) {
			return
		}
		if in.IP6 != nil {
			yield("ip6", in.IP6)
		}
	}
}

// result makes the current form. A null in a list stays one, for checkResult to find.
func (in *resultIn) result() *types100.Result {
	out := &types100.Result{CNIVersion: types100.ImplementedSpecVersion, Interfaces: in.Interfaces, DNS: in.DNS}
	for _, ip := range in.IPs {
		var to *types100.IPConfig
		if ip != nil {
			to = &types100.IPConfig{Interface: ip.Interface, Address: net.IPNet(ip.Address), Gateway: ip.Gateway}
			if ip.Interface != nil && *ip.Interface == -1 {
				to.Interface = nil
			}
		}
		out.IPs = append(out.IPs, to)
	}
	routes := in.Routes
	if len(in.IPs) == 0 {
		for _, ip := range in.old() {
			out.IPs = append(out.IPs, &types100.IPConfig{Address: net.IPNet(ip.IP), Gateway: ip.Gateway})
			routes = append(routes, ip.Routes...)
		}
	}
	for _, r := range routes {
		var to *types.Route
		if r != nil {
			to = &types.Route{Dst: net.IPNet(r.Dst), GW: r.GW, MTU: r.MTU, AdvMSS: r.AdvMSS, Priority: r.Priority, Table: r.Table, Scope: r.Scope}
		}
		out.Routes = append(out.Routes, to)
	}
	return out
}

// checkResult finds what makes a result useless: to its reader when it was read from data, to its
// author when data is nil.
func checkResult(r *types100.Result, data []byte) (errs []error) {
	if r == nil {
		return nil
	}
	code := CodeDecodingFailure
	bad := func(path string, err error) bool {
		errs = append(errs, errorAt("result", data, code, path, err))
		return len(errs) < maxErrors
	}
	null, missing := errors.New("expected an object, got null"), errors.New("missing: expected ADDRESS/LENGTH")
	for i, x := range r.Interfaces {
		if x == nil && !bad(fmt.Sprintf("interfaces[%d]", i), null) {
			return errs
		}
	}
	for i, ip := range r.IPs {
		path, err := fmt.Sprintf("ips[%d]", i), error(nil)
		code = CodeDecodingFailure
		switch {
		case ip == nil:
			err = null
		case len(ip.Address.IP) == 0 || len(ip.Address.Mask) == 0:
			path, err = path+".address", missing
		case ip.Interface != nil && (*ip.Interface < 0 || *ip.Interface >= len(r.Interfaces)):
			code = CodeInvalidNetworkConfig // it decodes, and is wrong
			path, err = path+".interface", fmt.Errorf("there is no index %d: the result has %d interfaces", *ip.Interface, len(r.Interfaces))
		}
		if err != nil && !bad(path, err) {
			return errs
		}
	}
	code = CodeDecodingFailure
	for i, route := range r.Routes {
		path, err := fmt.Sprintf("routes[%d]", i), error(nil)
		switch {
		case route == nil:
			err = null
		case len(route.Dst.IP) == 0 || len(route.Dst.Mask) == 0:
			path, err = path+".dst", missing
		}
		if err != nil && !bad(path, err) {
			return errs
		}
	}
	return errs
}
