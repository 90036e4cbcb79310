package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Ensure makes the VRF, if it is not there, and puts the link into it; what is so already is not touched. A link that is a
// part of something else, and a VRF of another table, have code 7; a kernel without VRFs gives ErrNotSupported.
func (v VRF) Ensure(ctx context.Context, n *NS, name string) error {
	l, err := byName(n, name)
	if err != nil {
		return err
	}
	if _, err := v.fits(n, l); err != nil {
		return err
	}
	had, err := belongingsOf(n, l, TableMain)
	if err != nil {
		return err
	}
	return v.enslave(ctx, n, l, had)
}

func (v VRF) enslave(ctx context.Context, n *NS, l netlink.Link, had belongings) error {
	vrf, err := v.ready(ctx, n, l)
	if err != nil || l.Attrs().MasterIndex == vrf.Index {
		return err
	}
	err = alter(ctx, "link master", l.Attrs().Name, func() error { return n.Handle().LinkSetMaster(l, vrf) })
	if err != nil {
		return err
	}
	return had.restore(ctx, n, l, int(vrf.Table), nil)
}

// ready is the VRF, up. It is made and set up in one message, so that none is left that is nobody's.
func (v VRF) ready(ctx context.Context, n *NS, l netlink.Link) (*netlink.Vrf, error) {
	for {
		vrf, err := v.fits(n, l)
		if err != nil {
			return nil, err
		}
		if vrf != nil {
			if vrf.Flags&net.FlagUp == 0 {
				err = up(ctx, n, vrf)
			}
			return vrf, err
		}
		table := v.Table
		if table == 0 {
			if table, err = freeTable(n); err != nil {
				return nil, err
			}
		}
		fresh := &netlink.Vrf{LinkAttrs: netlink.NewLinkAttrs(), Table: uint32(table)}
		fresh.Name, fresh.Group, fresh.Flags = v.VRF, vrfGroup(), net.FlagUp
		err = alter(ctx, "link add", v.VRF, func() error { return lacking(fresh, n.Handle().LinkAdd(fresh)) })
		if err != nil && !errors.Is(err, unix.EEXIST) { // another call, for another interface of the container, was faster
			return nil, err
		}
	}
}

// freeTable is the lowest table that no VRF has and that has no routes.
func freeTable(n *NS) (int, error) {
	taken := map[int]bool{unix.RT_TABLE_DEFAULT: true, TableMain: true, tableLocal: true}
	links, err := whole(n.Handle().LinkList)
	if err != nil {
		return 0, &Error{Op: "link list", Err: err}
	}
	for _, l := range links {
		if vrf, ok := l.(*netlink.Vrf); ok {
			taken[int(vrf.Table)] = true
		}
	}
	for _, v4 := range []bool{true, false} {
		routes, err := anyRoutesTo(n, v4, func(kernelRoute) bool { return true })
		if err != nil {
			return 0, err
		}
		for _, r := range routes {
			taken[r.table()] = true
		}
	}
	table := 1
	for taken[table] {
		table++
	}
	return table, nil
}

// belongingsOf lists what a link would lose, whose routes are in a table of their own besides others: its lasting IPv6
// addresses, and its routes but for the kernel's own and routers'.
func belongingsOf(n *NS, l netlink.Link, table int) (b belongings, err error) {
	list, err := whole(func() ([]netlink.Addr, error) { return n.Handle().AddrList(l, netlink.FAMILY_V6) })
	if err != nil {
		return b, &Error{Op: "address show dev", Name: l.Attrs().Name, Err: err}
	}
	for _, a := range list {
		if prefix, ok := prefixOf(*a.IPNet); ok && a.Flags&unix.IFA_F_PERMANENT != 0 && a.Peer == nil {
			b.Addresses = append(b.Addresses, keptAddress{prefix, a.Flags})
		}
	}
	slices.Reverse(b.Addresses) // the kernel lists the newest first, and prefers it as a source
	for _, v4 := range []bool{true, false} {
		routes, err := routesTo(n, v4, func(k kernelRoute) bool {
			byKernel := k.protocol == unix.RTPROT_KERNEL || k.protocol == unix.RTPROT_RA || k.protocol == unix.RTPROT_REDIRECT
			return k.link == l.Attrs().Index && !byKernel && len(k.raw.MultiPath) == 0
		})
		if err != nil {
			return b, err
		}
		for _, k := range routes {
			if k.table() == table {
				k.Table = TableMain
			}
			b.Routes = append(b.Routes, MovedRoute{k.Route, k.protocol})
		}
	}
	slices.SortStableFunc(b.Routes, func(x, y MovedRoute) int { return boolInt(x.Gateway.IsValid()) - boolInt(y.Gateway.IsValid()) })
	return b, nil
}

// restore makes on a link what it had, the routes of the main table in another. What is there is left. With warn, what the
// kernel does not take is a warning: the link may be down by now, or an address gone.
func (b belongings) restore(ctx context.Context, n *NS, l netlink.Link, table int, warn func(string, ...any)) error {
	name := l.Attrs().Name
	make := func(op, what string, do func() error) error {
		err := alter(ctx, op, what+" dev "+name, do)
		lost := hopeless(err) || errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETDOWN) || Gone(err)
		switch {
		case errors.Is(err, unix.EEXIST) && (warn != nil || op != "route add"):
			return nil
		case warn != nil && lost:
			warn("a link does not get back what it had", "what", what, "link", name, "error", err.Error())
			return nil
		}
		return err
	}
	var errs []error
	for _, a := range b.Addresses {
		ipnet := ipNet(a.Prefix)
		// The kernel has looked for duplicates before: only one that it was still looking for begins again.
		addr := &netlink.Addr{IPNet: &ipnet, Flags: a.Flags & unix.IFA_F_NOPREFIXROUTE}
		if a.Flags&unix.IFA_F_TENTATIVE == 0 {
			addr.Flags |= unix.IFA_F_NODAD
		}
		errs = append(errs, make("address add", a.Prefix.String(), func() error { return n.Handle().AddrAdd(l, addr) }))
	}
	for _, r := range b.Routes {
		if r.table() == TableMain {
			r.Table = table
		}
		err := make("route add", r.Route.String(), func() error { return n.Handle().RouteAdd(r.request(l.Attrs().Index)) })
		if errors.Is(err, unix.EEXIST) {
			err = inTheWay(n, l, r.Route)
		}
		errs = append(errs, err)
	}
	return netconf.Join(errs...)
}

// inTheWay is an error with code 7 if a route that is there is another link's: it would lead that one's packets astray.
func inTheWay(n *NS, l netlink.Link, r Route) error {
	there, err := anyRoutesTo(n, r.Dst.Addr().Is4(), func(k kernelRoute) bool { return k.same(r) })
	if err != nil || slices.ContainsFunc(there, func(k kernelRoute) bool { return k.link == l.Attrs().Index }) {
		return err
	}
	for _, k := range there {
		return &Error{Op: "route add", Name: fmt.Sprintf("%s dev %s", r, l.Attrs().Name), Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig,
			"there is %s dev %q already", k, linkName(n, k.link))}
	}
	return nil
}

// release puts a link out of a VRF, with what it had before, and what it got since.
func release(ctx context.Context, n *NS, l netlink.Link, name string, had belongings, warn func(string, ...any)) error {
	vrf, err := vrfOf(n, l)
	if err != nil {
		return err
	}
	if vrf == nil { // an Add that was killed, or failed, in the middle; or the link has lost its VRF
		return had.restore(ctx, n, l, TableMain, lenient(warn))
	}
	if vrf.Name != name {
		return nil // it is in another one now: somebody else has moved it
	}
	now, err := belongingsOf(n, l, int(vrf.Table))
	if err != nil {
		return err
	}
	if err := alter(ctx, "link nomaster", l.Attrs().Name, func() error { return n.Handle().LinkSetNoMaster(l) }); err != nil {
		return err
	}
	warn = lenient(warn)
	return netconf.Join(had.restore(ctx, n, l, TableMain, warn), now.restore(ctx, n, l, TableMain, warn))
}

// lenient is a warn that may be called.
func lenient(warn func(string, ...any)) func(string, ...any) {
	if warn == nil {
		return func(string, ...any) {}
	}
	return warn
}

// vrfOf is the VRF that a link is in, nil for none.
func vrfOf(n *NS, l netlink.Link) (*netlink.Vrf, error) {
	if l.Attrs().MasterIndex == 0 {
		return nil, nil
	}
	master, err := findIndex(n, l.Attrs().MasterIndex)
	vrf, _ := master.(*netlink.Vrf) // it may be a bridge
	return vrf, err
}

// sweep takes a VRF away that this package has made and that no link is in.
func sweep(ctx context.Context, n *NS, name string) error {
	there, err := find(n, name)
	vrf, ok := there.(*netlink.Vrf)
	if err != nil || !ok || vrf.Group != vrfGroup() {
		return err
	}
	links, err := whole(n.Handle().LinkList)
	if err != nil {
		return &Error{Op: "link list", Err: err}
	}
	if slices.ContainsFunc(links, func(l netlink.Link) bool { return l.Attrs().MasterIndex == vrf.Index }) {
		return nil
	}
	return remove(ctx, n, vrf)
}

// Verify compares the VRF, its table and whether the link is in it. Differences are reported together, and each Is
// netconf.ErrDifferent.
func (v VRF) Verify(_ context.Context, n *NS, name string) error {
	l, err := find(n, name)
	if err != nil {
		return err
	}
	if l == nil {
		return different(name, "the link", "there", "gone")
	}
	there, err := find(n, v.VRF)
	if err != nil {
		return err
	}
	vrf, ok := there.(*netlink.Vrf)
	switch {
	case there == nil:
		return different(v.VRF, "the VRF", "there", "gone")
	case !ok:
		return different(v.VRF, "the kind", vrfKind, there.Type())
	}
	var errs []error
	if vrf.Flags&net.FlagUp == 0 {
		errs = append(errs, different(v.VRF, "the state", "up", "down"))
	}
	if v.Table != 0 && vrf.Table != uint32(v.Table) {
		errs = append(errs, different(v.VRF, "the table", v.Table, vrf.Table))
	}
	if in := l.Attrs().MasterIndex; in != vrf.Index {
		have := "none"
		if in != 0 {
			have = linkName(n, in)
		}
		errs = append(errs, different(name, "the VRF", v.VRF, have))
	}
	return netconf.Join(errs...)
}

// Delete puts the link out of the VRF, with its routes and IPv6 addresses, and takes the VRF away if no other link is in it
// and Ensure has made it. What is gone is no error.
func (v VRF) Delete(ctx context.Context, n *NS, name string) error {
	l, err := find(n, name)
	if err != nil {
		return err
	}
	if l != nil {
		if err := release(ctx, n, l, v.VRF, belongings{}, nil); err != nil && !Gone(err) {
			return fmt.Errorf("vrf %q: %w", v.VRF, err)
		}
	}
	return sweep(ctx, n, v.VRF)
}
