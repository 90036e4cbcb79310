package link

import (
	"net/netip"
	"slices"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// SourceRouting has packets leave by the interface whose address they come from, where a container has several: what is
// sent from an address of the interface is looked up in a table of its own, which has the interface's routes and a default
// route to the address's gateway. The main table loses them, so that nothing else goes out there.
//
// The tables are [Owner.Table]: their numbers follow from the attachment, so two ADDs at once never choose the same, none
// is looked for, and DEL finds what is left without a prevResult. There is one for the interface; a second gateway of a
// family has the next. IPv6's link-local route stays in the main table too, for the kernel itself needs it, and so do routes that
// a router advertises.
//
// How it was is kept in req.State; DEL, and the rollback, put it back.
type SourceRouting struct {
	Interface string // the link in the container; default: CNI_IFNAME

	// Table is a table that has its routes already: IPAM may give each route one. No route is moved then. 0 (default):
	// tables of the attachment's own.
	Table int

	// Gateways stand in for those of the addresses: one at most of each family.
	Gateways []netip.Addr

	// KeepSubnets leaves the routes to the subnets of the addresses in the main table, and puts them there if they are
	// not: who binds to no address reaches a neighbour by this interface too.
	KeepSubnets bool
}

// Name is "sourcerouting".
func (SourceRouting) Name() string { return "sourcerouting" }

// tablesEach is how many tables an attachment can have: as many as it has gateways of one family.
const tablesEach = 32

// Table is the number of the i-th routing table of the owner's own, i from 0 to 31: a hash between 2^30 and 2^31, beyond
// what people choose.
func (o Owner) Table(i int) int {
	return 1<<30 | int(o.sum("table")>>39)*tablesEach | i
}

// isOwnTable tells whether a table is one of somebody's own.
func isOwnTable(table int) bool { return int64(table)>>30 == 1 }

// SourcePlan is what is to be on one link: the core of [SourceRouting], which knows no call.
type SourcePlan struct {
	Rules  []Rule       // one for each address
	Routes []Route      // in the tables
	Moved  []MovedRoute // taken out of the main table, or, with a Kept, not
	Kept   []Route      // to be in the main table
}

// MovedRoute is a route as it was in the main table.
type MovedRoute struct {
	Route
	Protocol int // who had made it, by the kernel's number: 2 is the kernel itself
}

// group are the addresses of one family that have one gateway, and so one table.
type group struct {
	v4      bool
	gateway netip.Addr // the zero value: none
	ours    []addressed
	table   int
}

// near tells whether a gateway belongs to the group.
func (g group) near(gw netip.Addr) bool {
	return g.gateway == gw || slices.ContainsFunc(g.ours, func(a addressed) bool { return a.near(gw) })
}

// Plan says what is to be done for addresses of an interface and the routes that it has in the main table. It touches
// nothing. No address, a gateway that is none, and more of them than there are tables have code 7.
func (s SourceRouting) Plan(o Owner, ips []*types100.IPConfig, main []MovedRoute) (*SourcePlan, error) {
	groups, err := s.groups(o, ips)
	if err != nil {
		return nil, err
	}
	p := &SourcePlan{}
	for _, g := range groups {
		for _, a := range g.ours {
			p.Rules = append(p.Rules, Rule{From: netip.PrefixFrom(a.prefix.Addr(), a.prefix.Addr().BitLen()), Table: g.table})
		}
	}
	if s.Table != 0 {
		return p, nil
	}
	for _, r := range main {
		in := s.tables(r.Route, groups)
		for _, g := range in {
			copied := r.Route
			copied.Table = g.table
			p.route(copied)
		}
		if len(in) > 0 && (r.Gateway.IsValid() || !s.KeepSubnets) {
			p.Moved = append(p.Moved, r)
		}
	}
	for _, g := range groups {
		p.subnets(g, main, s.KeepSubnets)
		p.standard(g)
	}
	slices.SortStableFunc(p.Routes, func(a, b Route) int { return boolInt(a.Gateway.IsValid()) - boolInt(b.Gateway.IsValid()) })
	return p, nil
}

// groups sorts the addresses by family and gateway.
func (s SourceRouting) groups(o Owner, ips []*types100.IPConfig) ([]group, error) {
	fixed, err := s.gateways()
	if err != nil {
		return nil, err
	}
	reader := &planner{plan: &AddressPlan{}, name: o.IfName}
	var all []group
	seen := map[bool]int{} // how many gateways of a family
	for _, ip := range ips {
		reader.note(ip, &reader.ours)
	}
	for _, a := range reader.ours {
		v4 := a.prefix.Addr().Is4()
		if gw, ok := fixed[v4]; ok {
			a.gateway = gw
		}
		i := slices.IndexFunc(all, func(g group) bool {
			return g.v4 == v4 && (g.gateway == a.gateway || !a.gateway.IsValid())
		})
		if i < 0 {
			g := group{v4: v4, gateway: a.gateway, table: s.Table}
			if s.Table == 0 {
				g.table = o.Table(min(seen[v4], tablesEach-1))
			}
			all, i = append(all, g), len(all)
			seen[v4]++
		}
		all[i].ours = append(all[i].ours, a)
	}
	switch {
	case len(reader.errs) > 0:
		return nil, netconf.Join(reader.errs...)
	case len(all) == 0:
		return nil, badLink(o.IfName, "it has no address in the result: there is nothing to route by")
	case seen[true] > tablesEach || seen[false] > tablesEach:
		return nil, badLink(o.IfName, "its addresses have more than %d gateways of one family", tablesEach)
	case s.Table < 0 || int64(s.Table) > 1<<32-1:
		return nil, badLink(o.IfName, "table %d: expected 1 to %d", s.Table, uint32(1<<32-1))
	}
	return all, nil
}

// gateways are the fixed ones by family: true is IPv4.
func (s SourceRouting) gateways() (map[bool]netip.Addr, error) {
	fixed := map[bool]netip.Addr{}
	for _, gw := range s.Gateways {
		gw = gw.Unmap()
		other, twice := fixed[gw.Is4()]
		switch {
		case !gw.IsValid() || gw.IsUnspecified() || gw.IsMulticast() || gw.IsLoopback():
			return nil, badLink(s.Interface, "gateway %s is not the address of a neighbour", gw)
		case twice:
			return nil, badLink(s.Interface, "gateways %s and %s are of one family: expected one of each at most", other, gw)
		}
		fixed[gw.Is4()] = gw
	}
	return fixed, nil
}

// tables are the groups whose tables a route of the main table belongs into; none if it stays.
func (s SourceRouting) tables(r Route, groups []group) []group {
	if r.Dst.Addr().IsLinkLocalUnicast() || r.Dst.Addr().IsMulticast() {
		return nil
	}
	family := slices.DeleteFunc(slices.Clone(groups), func(g group) bool { return g.v4 != r.Dst.Addr().Is4() })
	if !r.Gateway.IsValid() {
		return family
	}
	near := slices.DeleteFunc(slices.Clone(family), func(g group) bool { return !g.near(r.Gateway) })
	if len(near) > 0 {
		return near
	}
	return family
}

// route adds a route to a table unless there is one in its place.
func (p *SourcePlan) route(r Route) {
	if !slices.ContainsFunc(p.Routes, r.same) {
		p.Routes = append(p.Routes, r)
	}
}

// subnets gives the group's table the routes to the subnets of its addresses, where the main table does not have
// them, and that one too, if it is to keep them.
func (p *SourcePlan) subnets(g group, main []MovedRoute, keep bool) {
	for _, a := range g.ours {
		subnet := a.prefix.Masked()
		there := slices.ContainsFunc(main, func(r MovedRoute) bool { return r.Dst == subnet })
		if subnet.IsSingleIP() || there {
			continue
		}
		r := Route{Dst: subnet, Table: g.table, Scope: ScopeLink}
		p.route(r) // without a source, which the packets that come here have
		r.Table, r.Source = 0, a.prefix.Addr()
		if keep && !slices.ContainsFunc(p.Kept, r.same) {
			p.Kept = append(p.Kept, r)
		}
	}
}

// standard gives the group's table its default route: that to its gateway, in the place of one that was moved there and
// goes elsewhere, or has the same metric.
func (p *SourcePlan) standard(g group) {
	if !g.gateway.IsValid() {
		return
	}
	there := func(r Route) bool { return r.isDefault() && r.Table == g.table && r.Dst.Addr().Is4() == g.v4 }
	if slices.ContainsFunc(p.Routes, func(r Route) bool { return there(r) && r.Gateway == g.gateway }) {
		return
	}
	p.Routes = slices.DeleteFunc(p.Routes, there)
	dst := netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	if g.v4 {
		dst = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	inSubnet := slices.ContainsFunc(g.ours, func(a addressed) bool { return a.prefix.Contains(g.gateway) })
	local := g.gateway.Is6() && g.gateway.IsLinkLocalUnicast()
	p.Routes = append(p.Routes, Route{Dst: dst, Gateway: g.gateway, Table: g.table, OnLink: !inSubnet && !local})
}
