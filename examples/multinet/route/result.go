package route

import (
	"bytes"
	"encoding/json"
	"net"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// Result is an attachment's result with the default routes that it has now; all else stays, byte for byte where the
// result's version has a list of routes (since 0.3.0). A nil Changed changes nothing.
func (c *Changed) Result(ifname string, result delegate.Result) (delegate.Result, error) {
	if c == nil || result.Result == nil {
		return result, nil
	}
	var drop []int // of the result's routes
	var add []*types.Route
	for _, o := range c.owners {
		own := o.IfName == ifname
		if own && len(o.Gateways) == 0 {
			continue // they are what its plugins said
		}
		for i, r := range result.Routes {
			if isDefault(r, o.V6) {
				drop = append(drop, i)
			}
		}
		for _, r := range c.now {
			if own && r.Dst.Addr().Is6() == o.V6 {
				add = append(add, asResult(r.Route))
			}
		}
	}
	if len(drop)+len(add) == 0 {
		return result, nil
	}
	text, err := rewrite(result, drop, add)
	if err != nil {
		return result, err
	}
	parsed, err := netconf.ParseResult(text, result.CNIVersion)
	if err != nil {
		return result, err
	}
	return delegate.Result{Result: parsed, JSON: text}, nil
}

// Without tells whether an interface has no default route, of neither family. A nil Changed does not know, and says no.
func (c *Changed) Without(ifname string) bool {
	return c != nil && !slices.ContainsFunc(c.now, func(r link.LinkRoute) bool { return r.Link == ifname })
}

// isDefault tells whether a route of a result is one that Apply takes away: a default route of the main table.
func isDefault(r *types.Route, v6 bool) bool {
	bits, size := r.Dst.Mask.Size()
	main := r.Table == nil || *r.Table == 0 || *r.Table == link.TableMain
	return bits == 0 && (size == 8*net.IPv6len && r.Dst.IP.To4() == nil) == v6 && main
}

// asResult is a route as a result says it.
func asResult(r link.Route) *types.Route {
	to := &types.Route{
		Dst:      net.IPNet{IP: r.Dst.Addr().AsSlice(), Mask: net.CIDRMask(0, r.Dst.Addr().BitLen())},
		Priority: r.Metric, MTU: r.MTU, AdvMSS: r.AdvMSS,
	}
	if r.Gateway.IsValid() {
		to.GW = r.Gateway.AsSlice()
	}
	return to
}

// rewrite is the result's text without some of its routes and with others.
func rewrite(result delegate.Result, drop []int, add []*types.Route) (json.RawMessage, error) {
	var head struct {
		CNIVersion string          `json:"cniVersion"`
		Routes     json.RawMessage `json:"routes"`
	}
	if err := json.Unmarshal(result.JSON, &head); err != nil {
		return nil, err // cannot be: it was parsed
	}
	old := netconf.Members(head.Routes, 0)
	if (netconf.Network{CNIVersion: head.CNIVersion}).Is("0.3.0") && len(old) == len(result.Routes) {
		list := []json.RawMessage{}
		for i, m := range old {
			if !slices.Contains(drop, i) {
				list = append(list, m.Value(head.Routes))
			}
		}
		for _, r := range add {
			text, err := json.Marshal(r)
			if err != nil {
				return nil, err
			}
			list = append(list, text)
		}
		routes, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		return netconf.Patch(result.JSON, "routes", routes)
	}
	return encode(result.Result, head.CNIVersion, drop, add)
}

// encode is for the versions that have each family's routes at its address.
func encode(result *types100.Result, version string, drop []int, add []*types.Route) (json.RawMessage, error) {
	changed := *result
	changed.Routes = nil
	for i, r := range result.Routes {
		if !slices.Contains(drop, i) {
			changed.Routes = append(changed.Routes, r)
		}
	}
	changed.Routes = append(changed.Routes, add...)
	var text bytes.Buffer
	if err := netconf.EncodeResult(&text, nil, &changed, version); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}
