package link

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// MainRoutes lists the routes of a link in the main table that [SourceRouting.Plan] is about: unicast ones, of one next
// hop, that no router has advertised.
func MainRoutes(n *NS, name string) ([]MovedRoute, error) {
	l, err := byName(n, name)
	if err != nil {
		return nil, err
	}
	list, _, err := mainRoutes(n, l, nil)
	return list, err
}

// mainRoutes is MainRoutes; used tells besides whether one of the tables has a route.
func mainRoutes(n *NS, l netlink.Link, tables func(int) bool) (list []MovedRoute, used bool, err error) {
	for _, v4 := range []bool{true, false} {
		all, err := anyRoutesTo(n, v4, func(kernelRoute) bool { return true })
		if err != nil {
			return nil, false, err
		}
		for _, k := range all {
			used = used || tables != nil && tables(k.table())
			advertised := k.protocol == unix.RTPROT_RA || k.protocol == unix.RTPROT_REDIRECT
			if k.link == l.Attrs().Index && k.table() == TableMain && k.raw.Type == unicastRoute && len(k.raw.MultiPath) == 0 && !advertised {
				list = append(list, MovedRoute{k.Route, k.protocol})
			}
		}
	}
	return list, used, nil
}

// request is the route in the main table, as whoever made it.
func (m MovedRoute) request(index int) *netlink.Route {
	req := m.Route.request(index)
	req.Protocol = netlink.RouteProtocol(m.Protocol)
	return req
}

// Ensure makes the tables' routes, then the rules, and takes out of the main table last what was moved: there is a way for
// packets all the time. What is so already is not touched.
func (p *SourcePlan) Ensure(ctx context.Context, n *NS, name string) error {
	l, err := byName(n, name)
	if err != nil {
		return err
	}
	for _, r := range slices.Concat(p.Routes, p.Kept) {
		if err := r.ensure(ctx, n, l); err != nil {
			return err
		}
	}
	if err := (Rules{Rules: p.Rules}).Ensure(ctx, n); err != nil {
		return err
	}
	for _, m := range p.Moved {
		err := alter(ctx, "route del", fmt.Sprintf("%s dev %s", m.Route, name), func() error { return n.Handle().RouteDel(m.request(l.Attrs().Index)) })
		if err != nil && !Gone(err) {
			return err
		}
	}
	return nil
}

// Verify looks for the rules and the tables' routes. Differences are reported together, and each Is netconf.ErrDifferent.
func (p *SourcePlan) Verify(ctx context.Context, n *NS, name string) error {
	l, err := find(n, name)
	if err != nil {
		return err
	}
	if l == nil {
		return different(name, "the link", "there", "gone")
	}
	errs, err := (&AddressPlan{Routes: slices.Concat(p.Routes, p.Kept)}).verifyRoutes(n, l)
	return netconf.Join(append(errs, err, Rules{Rules: p.Rules}.Verify(ctx, n))...)
}

// Delete gives the main table back what was moved, as far as the link is there, and takes the rest away. What is gone
// is no error.
func (p *SourcePlan) Delete(ctx context.Context, n *NS, name string) error {
	return p.delete(ctx, n, name, nil)
}

func (p *SourcePlan) delete(ctx context.Context, n *NS, name string, warn func(string, ...any)) error {
	l, err := find(n, name)
	if err != nil {
		return err
	}
	var errs []error
	if l != nil {
		errs = append(errs, p.giveBack(ctx, n, l, warn))
	}
	errs = append(errs, Rules{Rules: p.Rules}.Delete(ctx, n))
	if l != nil {
		errs = append(errs, (&AddressPlan{Routes: slices.Concat(p.Routes, p.Kept)}).deleteRoutes(ctx, n, l))
	}
	return netconf.Join(errs...)
}

// giveBack puts the moved routes back, those without a gateway first. What the kernel does not take any more (an address
// is gone, the link is down) is a warning.
func (p *SourcePlan) giveBack(ctx context.Context, n *NS, l netlink.Link, warn func(string, ...any)) error {
	var errs []error
	back := slices.Clone(p.Moved)
	slices.SortStableFunc(back, func(a, b MovedRoute) int { return boolInt(a.Gateway.IsValid()) - boolInt(b.Gateway.IsValid()) })
	for _, m := range back {
		what := fmt.Sprintf("%s dev %s", m.Route, l.Attrs().Name)
		err := alter(ctx, "route add", what, func() error { return n.Handle().RouteAdd(m.request(l.Attrs().Index)) })
		switch {
		case err == nil, errors.Is(err, unix.EEXIST):
		case hopeless(err), errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETDOWN), Gone(err):
			if warn != nil {
				warn("a route cannot be put back into the main table", "route", what, "error", err.Error())
			}
		default:
			errs = append(errs, err)
		}
	}
	return netconf.Join(errs...)
}

// leftover finds what there is of an attachment without its record: the rules that lead to its tables, or to the table of s
// from one of the addresses, and the tables' routes.
func (s SourceRouting) leftover(ctx context.Context, n *NS, o Owner, from []addressed) error {
	own := func(table int) bool { return table&^(tablesEach-1) == o.Table(0) }
	rules, err := ourRules(n, func(r Rule) bool {
		return own(r.Table) || s.Table != 0 && r.Table == s.Table && slices.ContainsFunc(from, func(a addressed) bool {
			return r.From.IsSingleIP() && r.From.Addr() == a.prefix.Addr()
		})
	})
	errs := []error{err, Rules{Rules: rules}.Delete(ctx, n)}
	for _, v4 := range []bool{true, false} {
		routes, err := routesTo(n, v4, func(k kernelRoute) bool { return own(k.table()) && k.protocol == Protocol })
		errs = append(errs, err)
		for _, k := range routes {
			errs = append(errs, k.remove(ctx, n, linkName(n, k.link)))
		}
	}
	return netconf.Join(errs...)
}
