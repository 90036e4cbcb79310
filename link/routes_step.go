package link

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/cnikit/cnikit/netconf"
	"github.com/containernetworking/cni/pkg/types"
)

// Routes puts routes on a link of the container that are the plugin's own, besides those of the result, which are
// [Addresses]'. They are in the result then, but for those to nowhere ([RouteBlackhole] and the like), for which a result has
// no word. Routes of ours carry the number [Protocol]; DEL takes away those that Add made. A route to nowhere belongs to no
// link: it is the namespace's, and like a rule ([Rules]) no two attachments can have the same one. One that is not ours, but the
// container's own, will do.
type Routes struct {
	Interface     string  // the link in the container; default: CNI_IFNAME
	Routes        []Route // those without a gateway are made first
	DefaultMetric int     // for a default route where another link has one, as in Addresses; 0 is an error with code 7
}

// Name is "routes".
func (Routes) Name() string { return "routes" }

// plan is the core: to put routes on a link is a part of what Addresses does.
func (r Routes) plan(warn func(string, ...any)) *AddressPlan {
	p := &AddressPlan{Routes: slices.Clone(r.Routes), DefaultMetric: r.DefaultMetric, Warn: warn}
	for i, one := range p.Routes {
		if !one.Gateway.IsValid() && one.Scope == ScopeGlobal && one.Type == RouteUnicast {
			p.Routes[i].Scope = ScopeLink // as Addresses does, and iproute2
		}
	}
	slices.SortStableFunc(p.Routes, func(a, b Route) int { return boolInt(a.Gateway.IsValid()) - boolInt(b.Gateway.IsValid()) })
	return p
}

// check refuses what the kernel would refuse without saying why, or cut down.
func (r Routes) check() error {
	var errs []error
	for _, one := range r.Routes {
		bad := func(format string, args ...any) {
			errs = append(errs, &Error{Op: "route", Name: one.String(), Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, format, args...)})
		}
		if _, err := routeKinds.kernel("route type", one.Type); err != nil {
			bad("%w", err)
		}
		switch gw := one.Gateway; {
		case !one.Dst.IsValid():
			bad("no destination")
		case one.Dst != one.Dst.Masked():
			bad("the destination has a host part: expected %s", one.Dst.Masked())
		case one.Type != RouteUnicast && one != Route{Type: one.Type, Dst: one.Dst, Table: one.Table, Metric: one.Metric}:
			bad("it leads to nowhere: expected but a destination, a table and a metric")
		case gw.IsValid() && (gw.Is4() != one.Dst.Addr().Is4() || gw.IsMulticast() || gw.IsUnspecified() || gw.IsLoopback()):
			bad("gateway %s is not the address of a neighbour of its family", gw)
		case gw.IsValid() && one.Scope != ScopeGlobal:
			bad("scope %d is for a route without a gateway", one.Scope)
		case one.Scope != ScopeGlobal && one.Scope != ScopeLink && one.Scope != ScopeHost:
			bad("scope %d: expected 0 (global), 253 (link) or 254 (host)", one.Scope)
		}
		for _, f := range one.numbers() {
			if f.value < 0 || f.value > f.max {
				bad("%s %d: expected 0 to %d", f.name, f.value, f.max)
			}
		}
	}
	if r.DefaultMetric < 0 || int64(r.DefaultMetric) > math.MaxUint32 {
		errs = append(errs, badLink(r.Interface, "the metric %d for a second default route: expected 0 to %d", r.DefaultMetric, uint32(math.MaxUint32)))
	}
	return netconf.Join(errs...)
}

// Ensure adds the routes that are not there; one of ours to the same destination with other attributes is replaced.
// Errors are those of [AddressPlan.Ensure].
func (r Routes) Ensure(ctx context.Context, n *NS, name string) error {
	l, err := find(n, name)
	if l, err = mustBe(l, err, name); err == nil {
		err = r.check()
	}
	if err != nil {
		return err
	}
	return r.plan(nil).layRoutes(ctx, n, l)
}

// Verify compares the routes with the link's, as [AddressPlan.Verify].
func (r Routes) Verify(ctx context.Context, n *NS, name string) error {
	return r.plan(nil).Verify(ctx, n, name)
}

// Delete takes those away that have our protocol number. What is gone, be it the link, is no error.
func (r Routes) Delete(ctx context.Context, n *NS, name string) error {
	l, err := find(n, name)
	if err != nil {
		return err
	}
	return r.plan(nil).deleteRoutes(ctx, n, l)
}

// laid is what is kept for DEL: the routes that were not there before.
type laid struct {
	linkID // another one of the same name is left alone
	Routes []Route
}

func (r Routes) key(req *netconf.Request) string { return "link.routes." + ifName(req, r.Interface) }

// Add is Ensure, with the routes noted in the result. A second one is an error that Is netconf.ErrExists, and so is a route to
// nowhere that another attachment has made.
func (r Routes) Add(ctx context.Context, req *netconf.Request) error {
	if len(r.Routes) == 0 {
		return nil
	}
	name := ifName(req, r.Interface)
	plan := r.plan(req.Warn)
	n, l, err := begin(req, r.key(req), "route add", name)
	if err == nil {
		err = r.check()
	}
	var before laid
	if err == nil {
		before = laid{linkID: idOf(n, l)}
		before.Routes, err = plan.missing(n, l)
	}
	if err == nil {
		err = plan.unshared(n)
	}
	if err == nil {
		err = keep(req, r.key(req), before)
	}
	if err != nil {
		return netconf.Unchanged(err)
	}
	if err := plan.layRoutes(ctx, n, l); err != nil {
		return err
	}
	for _, one := range plan.Routes {
		if one.Type == RouteUnicast {
			req.AddRoute(one.result())
		}
	}
	return nil
}

// result is the route as a result says it.
func (r Route) result() *types.Route {
	to := &types.Route{Dst: ipNet(r.Dst), Priority: r.Metric, MTU: r.MTU, AdvMSS: r.AdvMSS}
	if r.Gateway.IsValid() {
		to.GW = r.Gateway.AsSlice()
	}
	if r.table() != TableMain {
		table := r.Table
		to.Table = &table
	}
	if r.Scope != ScopeGlobal {
		scope := r.Scope
		to.Scope = &scope
	}
	return to
}

// Check is Verify.
func (r Routes) Check(ctx context.Context, req *netconf.Request) error {
	if len(r.Routes) == 0 {
		return nil
	}
	n, err := Container(req)
	if err != nil {
		return err
	}
	return r.Verify(ctx, n, ifName(req, r.Interface))
}

// Del takes away what Add made, as far as the link is still there; without State, or with one that cannot be read, all of r's
// routes that are ours.
func (r Routes) Del(ctx context.Context, req *netconf.Request) error {
	made := laid{Routes: r.Routes}
	there, _, err := left(req, r.key(req), &made)
	if err != nil || !there && req.State != nil {
		return err
	}
	if err := r.take(ctx, req, made); err != nil && !Gone(err) {
		return err
	}
	if !there {
		return nil
	}
	return forget(req, r.key(req))
}

func (r Routes) take(ctx context.Context, req *netconf.Request, made laid) error {
	if req.Netns == "" {
		return nil
	}
	n, err := Container(req)
	if err != nil {
		return err
	}
	if now := cookie(n); now != 0 && made.Netns != 0 && now != made.Netns {
		return nil // the namespace is another one by now
	}
	name := ifName(req, r.Interface)
	l, err := find(n, name)
	if err != nil {
		return err
	}
	if l != nil && made.Index != 0 && !made.is(n, l) {
		l = nil
	}
	if err := (Routes{Routes: made.Routes}).plan(nil).deleteRoutes(ctx, n, l); err != nil {
		return fmt.Errorf("routes of %q: %w", name, err)
	}
	return nil
}
