package link

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Create is Ensure for a link that has none of the plan's addresses yet: one that is there is an error
// that Is netconf.ErrExists, and nothing was changed.
func (p *AddressPlan) Create(ctx context.Context, n *NS, name string) error {
	l, have, err := p.look(n, name)
	if err == nil {
		err = p.noneOf(have, name)
	}
	if err != nil {
		return err
	}
	return p.ensure(ctx, n, l, have)
}

// absent tells whether none of the plan's addresses is on the link.
func (p *AddressPlan) absent(n *NS, name string) error {
	_, have, err := p.look(n, name)
	if err != nil {
		return err
	}
	return p.noneOf(have, name)
}

func (p *AddressPlan) noneOf(have addresses, name string) error {
	for _, a := range p.Addresses {
		if _, ok := have[a.Addr()]; ok {
			return &Error{Op: "address add", Name: a.String(), Err: fmt.Errorf("%w on link %q", netconf.ErrExists, name)}
		}
	}
	return nil
}

// Ensure brings the link to what the plan says: sysctls, addresses, up, routes, in this order, and
// then announces the addresses that are new. What is so already is not touched, what is there besides
// stays. An address with another prefix length, and a route of ours ([Protocol]) to the same destination
// with other attributes, are replaced. Errors are the kernel's; code 7 for a default route that another link
// has already, and for a route that is in the way of one of the plan's; ErrNotSupported for IPv6 on
// a kernel without it; an IPv6 address that a neighbour has is an error that names it.
func (p *AddressPlan) Ensure(ctx context.Context, n *NS, name string) error {
	l, have, err := p.look(n, name)
	if err != nil {
		return err
	}
	return p.ensure(ctx, n, l, have)
}

func (p *AddressPlan) ensure(ctx context.Context, n *NS, l netlink.Link, have addresses) error {
	if err := p.defaults(n, l); err != nil {
		return err
	}
	if err := p.sysctls(ctx, n, l); err != nil {
		return err
	}
	fresh, err := p.addresses(ctx, n, l, have)
	if err != nil {
		return err
	}
	wasUp := l.Attrs().RawFlags&unix.IFF_UP != 0
	if !wasUp {
		if err := alter(ctx, "link up", l.Attrs().Name, func() error { return n.Handle().LinkSetUp(l) }); err != nil {
			return err
		}
	}
	if err := p.settle(ctx, n, l); err != nil {
		return err
	}
	for _, r := range p.Routes {
		if err := r.ensure(ctx, n, l); err != nil {
			return err
		}
	}
	if fresh || !wasUp {
		p.announce(ctx, n, l, wasUp)
	}
	return nil
}

// byName looks up a link that must be there.
func byName(n *NS, name string) (netlink.Link, error) {
	l, err := find(n, name)
	return mustBe(l, err, name)
}

// byIndex looks at a link again.
func byIndex(n *NS, l netlink.Link) (netlink.Link, error) {
	now, err := findIndex(n, l.Attrs().Index)
	return mustBe(now, err, l.Attrs().Name)
}

func mustBe(l netlink.Link, err error, name string) (netlink.Link, error) {
	if err == nil && l == nil {
		err = &Error{Op: "link get", Name: name, Err: unix.ENODEV}
	}
	return l, err
}

func aliasOf(n *NS, name string) (string, error) {
	l, err := byName(n, name)
	if err != nil {
		return "", err
	}
	return l.Attrs().Alias, nil
}

// addresses are those of a link.
type addresses map[netip.Addr]netlink.Addr

// look reads a link, and its addresses of the families that the plan has.
func (p *AddressPlan) look(n *NS, name string) (netlink.Link, addresses, error) {
	l, err := byName(n, name)
	if err != nil {
		return nil, nil, err
	}
	have, err := p.list(n, l)
	return l, have, err
}

func (p *AddressPlan) list(n *NS, l netlink.Link) (addresses, error) {
	family := netlink.FAMILY_ALL
	switch v4, v6 := p.has(true), p.has(false); {
	case !v4 && !v6:
		return nil, nil
	case !v6:
		family = netlink.FAMILY_V4
	case !v4:
		family = netlink.FAMILY_V6
	}
	list, err := whole(func() ([]netlink.Addr, error) { return n.Handle().AddrList(l, family) })
	if err != nil {
		return nil, &Error{Op: "address show dev", Name: l.Attrs().Name, Err: err}
	}
	have := make(addresses, len(list))
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			have[addr.Unmap()] = a
		}
	}
	return have, nil
}

// prefixLength is of the link's subnet; with a peer it is the peer that has it.
func prefixLength(a netlink.Addr) int {
	mask := a.Mask
	if a.Peer != nil {
		mask = a.Peer.Mask
	}
	ones, _ := mask.Size()
	return ones
}

// addresses adds what is missing and tells whether anything was.
func (p *AddressPlan) addresses(ctx context.Context, n *NS, l netlink.Link, have addresses) (fresh bool, err error) {
	for _, a := range p.Addresses {
		old, ok := have[a.Addr()]
		if ok && prefixLength(old) == a.Bits() && old.Flags&unix.IFA_F_DADFAILED == 0 {
			continue
		}
		if ok {
			if err := deleteAddress(ctx, n, l, old); err != nil {
				return fresh, err
			}
		}
		ipnet := ipNet(a)
		addr := &netlink.Addr{IPNet: &ipnet}
		if p.NoPrefixRoute {
			addr.Flags |= unix.IFA_F_NOPREFIXROUTE
		}
		if a.Addr().Is6() && p.noDAD(l.Type()) {
			addr.Flags |= unix.IFA_F_NODAD
		}
		if err := alter(ctx, "address add", a.String()+" dev "+l.Attrs().Name, func() error { return n.Handle().AddrAdd(l, addr) }); err != nil {
			return fresh, err
		}
		fresh = true
	}
	return fresh, nil
}

func deleteAddress(ctx context.Context, n *NS, l netlink.Link, a netlink.Addr) error {
	err := alter(ctx, "address del", fmt.Sprintf("%s dev %s", a.IPNet, l.Attrs().Name), func() error {
		return n.Handle().AddrDel(l, &netlink.Addr{IPNet: a.IPNet, Peer: a.Peer})
	})
	if Gone(err) {
		return nil
	}
	return err
}

// sysctls prepares the link for the families that the plan has addresses of.
func (p *AddressPlan) sysctls(ctx context.Context, n *NS, l netlink.Link) error {
	if len(p.Addresses) == 0 {
		return nil
	}
	name := l.Attrs().Name
	var wanted [][2]string
	if p.has(true) {
		wanted = append(wanted, [2]string{"net/ipv4/conf/" + name + "/arp_notify", "1"})
	}
	if p.has(false) {
		wanted = append(wanted, p.sysctls6(l)...)
	}
	return n.Do(func() error { // one visit for all
		for _, s := range wanted {
			err := n.Sysctl(ctx, s[0], s[1])
			switch {
			case err == nil:
			case !Gone(err):
				return err
			case strings.HasSuffix(s[0], "/disable_ipv6"):
				return &Error{Op: "enable IPv6 on", Name: name, Err: fmt.Errorf("IPv6 is not available: %w", ErrNotSupported)}
			}
		}
		return nil
	})
}

// sysctls6 lists those of IPv6; only the first is in every kernel that has IPv6.
func (p *AddressPlan) sysctls6(l netlink.Link) [][2]string {
	wanted := [][2]string{{"disable_ipv6", "0"}, {"keep_addr_on_down", "1"}, {"ndisc_notify", "1"}}
	if p.noDAD(l.Type()) {
		wanted = append(wanted, [2]string{"accept_dad", "0"})
	} else {
		wanted = append(wanted, [2]string{"router_solicitation_delay", "0"})
	}
	if slices.ContainsFunc(p.Routes, func(r Route) bool { return r.isDefault() && r.Dst.Addr().Is6() && r.table() == TableMain }) {
		wanted = append(wanted, [2]string{"accept_ra_defrtr", "0"})
	}
	for i := range wanted {
		wanted[i][0] = "net/ipv6/conf/" + l.Attrs().Name + "/" + wanted[i][0]
	}
	return wanted
}

// Delete takes the plan's routes, as far as they are ours, and its addresses off the link, which stays as
// it is. What is gone already is no error, nor that the link is.
func (p *AddressPlan) Delete(ctx context.Context, n *NS, name string) error {
	l, have, err := p.look(n, name)
	if Gone(err) {
		return nil
	} else if err != nil {
		return err
	}
	errs := []error{p.deleteRoutes(ctx, n, l)}
	if err := p.keepOthers(ctx, n, l, have); err != nil {
		return netconf.Join(append(errs, err)...)
	}
	for _, a := range p.Addresses {
		if old, ok := have[a.Addr()]; ok && prefixLength(old) == a.Bits() {
			errs = append(errs, deleteAddress(ctx, n, l, old))
		}
	}
	return netconf.Join(errs...)
}

// keepOthers has the kernel keep the addresses that are not the plan's: by default, with the first IPv4
// address of a subnet it deletes all others of the same subnet.
func (p *AddressPlan) keepOthers(ctx context.Context, n *NS, l netlink.Link, have addresses) error {
	for addr, a := range have {
		ours := slices.ContainsFunc(p.Addresses, func(a netip.Prefix) bool { return a.Addr() == addr })
		if addr.Is4() && a.Flags&unix.IFA_F_SECONDARY != 0 && !ours {
			return n.Sysctl(ctx, "net/ipv4/conf/"+l.Attrs().Name+"/promote_secondaries", "1")
		}
	}
	return nil
}
