package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Verify compares the link with the plan: it is up, has each address with its prefix length, and each
// route with all its attributes, in any table. What is there besides is no difference. Addresses that are
// still tentative and an operational state that is not up yet are waited for, up to 2 s. Differences
// are reported together, as errors that are netconf.ErrDifferent and name what is there and what was expected.
func (p *AddressPlan) Verify(ctx context.Context, n *NS, name string) error {
	l, err := byName(n, name)
	if Gone(err) {
		return different(name, "the link", "there", "not there")
	} else if err != nil {
		return err
	}
	if l.Attrs().RawFlags&unix.IFF_UP == 0 {
		return different(name, "the link", "up", "down")
	}
	errs := p.verifyAddresses(n, l)
	routeErrs, err := p.verifyRoutes(n, l)
	if err != nil {
		return err
	}
	errs = append(errs, routeErrs...)
	if err := netconf.Join(errs...); err != nil {
		return err
	}
	return p.verifySettled(ctx, n, l)
}

func (p *AddressPlan) verifyAddresses(n *NS, l netlink.Link) (errs []error) {
	name := l.Attrs().Name
	have, err := p.list(n, l)
	if err != nil {
		return []error{err}
	}
	for _, want := range p.Addresses {
		what := "address " + want.Addr().String()
		a, ok := have.exact(want)
		switch {
		case !ok && have.has(want.Addr()):
			i := slices.IndexFunc(have, func(a address) bool { return a.Addr() == want.Addr() })
			errs = append(errs, different(name, what, want, have[i].Prefix))
		case !ok:
			errs = append(errs, different(name, what, want, "not there"))
		case a.raw.Flags&unix.IFA_F_DADFAILED != 0:
			errs = append(errs, different(name, what, "usable", "a duplicate: a neighbour has it"))
		}
	}
	return errs
}

func (p *AddressPlan) verifyRoutes(n *NS, l netlink.Link) (errs []error, err error) {
	vrf, err := vrfOf(n, l)
	if err != nil {
		return nil, err
	}
	for _, v4 := range []bool{true, false} {
		if !p.routes(v4) {
			continue
		}
		have, err := anyRoutesTo(n, v4, func(k kernelRoute) bool { return k.near(l) })
		if err != nil {
			return nil, err
		}
		for i, k := range have {
			if vrf != nil && k.table() == int(vrf.Table) {
				have[i].Table = TableMain // VRF has moved it
			}
		}
		for _, want := range p.Routes {
			if want.Dst.Addr().Is4() != v4 {
				continue
			}
			if err := p.verifyRoute(l, want, have); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs, nil
}

// verifyRoute looks for a route among the link's. Of several to the same destination the nearest says
// what is different.
func (p *AddressPlan) verifyRoute(l netlink.Link, want Route, have []kernelRoute) error {
	var near *kernelRoute
	for i, k := range have {
		if want.table() == TableMain && isOwnTable(k.table()) {
			k.Table = want.table() // SourceRouting has moved it
		}
		if k.Dst != want.Dst || k.table() != want.table() {
			continue
		}
		if (want.isDefault() || want.isHalf(p.Routes)) && want.Metric == 0 && p.DefaultMetric > 0 && k.Metric == p.DefaultMetric {
			k.Metric = 0 // chosen at ADD; a result below 1.1.0 has no room for it
		}
		if want.difference(k) == "" {
			return nil
		}
		if near == nil || k.metric() == want.metric() {
			near = &have[i]
		}
	}
	what := "route " + want.String()
	if near == nil {
		return different(l.Attrs().Name, what, "there", "not there")
	}
	return &Error{Op: "check", Name: l.Attrs().Name, Err: fmt.Errorf("%w: %s: %s", netconf.ErrDifferent, what, want.difference(*near))}
}

// difference says in what the kernel's route differs from r, "" if in nothing. A source is compared if r has one.
func (r Route) difference(k kernelRoute) string {
	say := func(what string, have, want any) string {
		return fmt.Sprintf("%s is %v, expected %v", what, have, want)
	}
	switch {
	case k.Type != r.Type:
		return say("type", routeKinds.name(k.Type), routeKinds.name(r.Type))
	case k.Dst != r.Dst:
		return say("destination", k.Dst, r.Dst)
	case k.table() != r.table():
		return say("table", k.table(), r.table())
	case k.Gateway != r.Gateway:
		return say("gateway", orNone(k.Gateway), orNone(r.Gateway))
	case k.metric() != r.metric():
		return say("metric", k.metric(), r.metric())
	case k.MTU != r.MTU:
		return say("mtu", k.MTU, r.MTU)
	case k.AdvMSS != r.AdvMSS:
		return say("advmss", k.AdvMSS, r.AdvMSS)
	case r.Dst.Addr().Is4() && k.Scope != r.Scope && !r.unscoped():
		return say("scope", k.Scope, r.Scope)
	case r.Source.IsValid() && k.Source != r.Source:
		return say("source", orNone(k.Source), r.Source)
	}
	return ""
}

// verifySettled waits for what is only transient.
func (p *AddressPlan) verifySettled(ctx context.Context, n *NS, l netlink.Link) error {
	name := l.Attrs().Name
	var waiting error
	err := poll(ctx, checkTimeout, func(time.Duration) error {
		now, err := byIndex(n, l)
		if err != nil {
			return err
		}
		switch state := now.Attrs().OperState; {
		case state == netlink.OperUp, state == netlink.OperUnknown: // unknown: the kind has no states, as dummy
		case l.Type() == tapKind: // it is up, and detection ends, while a program has it open, which comes and goes
			return nil
		default:
			waiting = different(name, "operational state", "up", state)
			return errPending
		}
		address, err := p.tentative(n, l)
		switch {
		case err == nil:
			return nil
		case err == errPending:
			waiting = different(name, "address "+address.Addr().String(), "usable", "tentative")
			return err
		}
		return &Error{Op: "check", Name: name, Err: fmt.Errorf("%w: address %s: %w", netconf.ErrDifferent, address.Addr(), err)}
	})
	if errors.Is(err, errPending) || err != nil && ctx.Err() != nil && waiting != nil {
		return waiting
	}
	return err
}
