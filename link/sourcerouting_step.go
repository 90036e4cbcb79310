package link

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// sourced is what is kept for DEL.
type sourced struct {
	linkID // another one of the same name gets nothing back
	SourcePlan
}

func (s SourceRouting) key(req *netconf.Request) string {
	return "link.sourcerouting." + ifName(req, s.Interface)
}

// owner is whose tables they are: those of the interface that is worked on.
func (s SourceRouting) owner(req *netconf.Request) Owner {
	o := OwnerOf(req)
	o.IfName = ifName(req, s.Interface)
	return o
}

// Add does it for the addresses that the prevResult, or the result, has for the interface. The routes of the result stay as
// they are: CHECK of [Addresses] takes a route that is in one of the tables for the one in the main table.
//
// A second Add that finds all as it would make it has nothing to do, and its rollback neither; one that finds anything else
// is an error that Is netconf.ErrExists.
func (s SourceRouting) Add(ctx context.Context, req *netconf.Request) error {
	try, err := netconf.Local(req, attemptKey{s.Name(), s.owner(req)}, func() (*attempt, error) { return &attempt{}, nil })
	if err != nil {
		return err
	}
	n, plan, err := s.prepare(ctx, req)
	if err != nil || plan == nil {
		return netconf.Unchanged(err)
	}
	try.made.Store(true)
	return plan.Ensure(ctx, n, ifName(req, s.Interface))
}

func (s SourceRouting) addresses(req *netconf.Request) []*types100.IPConfig {
	name := ifName(req, s.Interface)
	return slices.Concat(addressesOf(req.Prev, name), addressesOf(req.Result, name))
}

// prepare looks, and writes down what is going to be done. The plan is nil if there is nothing to do.
func (s SourceRouting) prepare(ctx context.Context, req *netconf.Request) (*NS, *SourcePlan, error) {
	o := s.owner(req)
	n, l, err := chained(req, o.IfName)
	if err != nil {
		return nil, nil, err
	}
	var before sourced
	there, err := kept(req, s.key(req), &before)
	if err != nil {
		return nil, nil, err
	}
	main, used, err := mainRoutes(n, l, func(table int) bool { return table&^(tablesEach-1) == o.Table(0) })
	if err != nil {
		return nil, nil, err
	}
	plan, err := s.Plan(o, s.addresses(req), main)
	switch {
	case err != nil:
		return nil, nil, err
	case there && before.is(n, l) && slices.Equal(plan.Rules, before.Rules) && before.Verify(ctx, n, o.IfName) == nil:
		return nil, nil, nil
	case used, there && before.is(n, l):
		return nil, nil, done("route by the source", o.IfName)
	}
	return n, plan, keep(req, s.key(req), sourced{idOf(n, l), *plan})
}

// Check compares the rules and the tables with what Add wrote down; without that, the rules and default routes with the
// addresses of the prevResult.
func (s SourceRouting) Check(ctx context.Context, req *netconf.Request) error {
	o := s.owner(req)
	n, err := Container(req)
	if err != nil {
		return err
	}
	var made sourced
	there, err := kept(req, s.key(req), &made)
	if err != nil {
		return err
	}
	if !there {
		plan, err := s.Plan(o, addressesOf(req.Prev, o.IfName), nil)
		if err != nil {
			return err
		}
		plan.Kept = nil
		plan.Routes = slices.DeleteFunc(plan.Routes, func(r Route) bool { return !r.isDefault() })
		made.SourcePlan = *plan
	}
	return made.Verify(ctx, n, o.IfName)
}

// Del puts back what Add wrote down. Without that it takes away what is in the attachment's tables and the rules that lead
// there; in a request without State also, of a table that was given, the rules from the addresses that the interface has, or
// the prevResult says it has.
func (s SourceRouting) Del(ctx context.Context, req *netconf.Request) error {
	if idle(req, attemptKey{s.Name(), s.owner(req)}) {
		return nil
	}
	var made sourced
	there, known, err := left(req, s.key(req), &made)
	if err != nil {
		return err
	}
	if req.Netns != "" {
		if err := s.undo(ctx, req, made, known); err != nil && !Gone(err) {
			return err
		}
	}
	if !there {
		return nil
	}
	return forget(req, s.key(req))
}

func (s SourceRouting) undo(ctx context.Context, req *netconf.Request, made sourced, known bool) error {
	o := s.owner(req)
	n, err := Container(req)
	if err != nil {
		return err
	}
	l, err := find(n, o.IfName)
	if err != nil {
		return err
	}
	var from []addressed
	if req.State == nil { // else what Add made is written down, and other rules to a table that was given are others'
		if from, err = addressesThat(n, l, req.Prev, o.IfName); err != nil {
			return err
		}
	}
	if known {
		if now := cookie(n); now != 0 && made.Netns != 0 && now != made.Netns {
			return nil // the namespace is another one by now, and what Add made has gone with its own
		}
		if l == nil || !made.is(n, l) {
			made.Moved, made.Kept = nil, nil
		}
		if err := made.delete(ctx, n, o.IfName, req.Warn); err != nil {
			return fmt.Errorf("routing by the source of %q: %w", o.IfName, err)
		}
	}
	return s.leftover(ctx, n, o, from)
}

// addressesThat are those that a link has, and that a prevResult says it has.
func addressesThat(n *NS, l netlink.Link, prev *types100.Result, name string) (list []addressed, err error) {
	reader := &planner{plan: &AddressPlan{}, name: name}
	for _, ip := range addressesOf(prev, name) {
		reader.note(ip, &list) // what cannot be read had no rule
	}
	for _, family := range []int{familyV4, familyV6} {
		var have []netip.Prefix
		if l != nil {
			have, err = prefixes(n, l, family)
		}
		if err != nil {
			return nil, err
		}
		for _, p := range have {
			list = append(list, addressed{prefix: p})
		}
	}
	return list, nil
}
