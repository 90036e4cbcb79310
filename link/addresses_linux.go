package link

import (
	"context"
	"errors"
	"fmt"
	"net"
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
		if have.has(a.Addr()) {
			return &Error{Op: "address add", Name: a.String(), Err: fmt.Errorf("%w on link %q", netconf.ErrExists, name)}
		}
	}
	return nil
}

// Ensure brings the link to what the plan says: sysctls, addresses, up, routes, in this order, and
// then announces the addresses that are new. What is so already is not touched, what is there besides
// stays. An IPv6 address with another prefix length or found to be a duplicate, and a route of ours
// ([Protocol]) to the same destination with other attributes, are replaced.
//
// Errors are the kernel's; code 7 for a default route that another link has already, for a route that is
// in the way of one of the plan's, and, before any change, for an IPv6 address on a link whose MTU is below 1280;
// ErrNotSupported for IPv6 on a kernel without it; an IPv6 address that a neighbour has is an error that
// names it.
func (p *AddressPlan) Ensure(ctx context.Context, n *NS, name string) error {
	l, have, err := p.look(n, name)
	if err != nil {
		return err
	}
	return p.ensure(ctx, n, l, have)
}

func (p *AddressPlan) ensure(ctx context.Context, n *NS, l netlink.Link, have addresses) error {
	if err := fitsIPv6(l, p.Addresses); err != nil {
		return err
	}
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
	if err := p.ensureRoutes(ctx, n, l); err != nil {
		return err
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

func aliasOf(n *NS, name string) (string, error) {
	l, err := byName(n, name)
	if err != nil {
		return "", err
	}
	return l.Attrs().Alias, nil
}

// addresses are those of a link. For IPv4 there may be several with one address, whose prefix lengths differ.
type addresses []address

type address struct {
	netip.Prefix
	raw netlink.Addr
}

// exact returns the one that is the same, to its prefix length.
func (as addresses) exact(p netip.Prefix) (address, bool) {
	i := slices.IndexFunc(as, func(a address) bool { return a.Prefix == p })
	if i < 0 {
		return address{}, false
	}
	return as[i], true
}

func (as addresses) has(addr netip.Addr) bool {
	return slices.ContainsFunc(as, func(a address) bool { return a.Addr() == addr })
}

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
	var have addresses
	for _, raw := range list {
		mask := raw.Mask
		if raw.Peer != nil {
			mask = raw.Peer.Mask // it is the peer that has the length of the subnet
		}
		if prefix, ok := prefixOf(net.IPNet{IP: raw.IP, Mask: mask}); ok {
			have = append(have, address{prefix, raw})
		}
	}
	return have, nil
}

// addresses adds what is missing and tells whether anything was.
func (p *AddressPlan) addresses(ctx context.Context, n *NS, l netlink.Link, have addresses) (fresh bool, err error) {
	for _, a := range p.Addresses {
		old, ok := have.exact(a)
		if ok && old.raw.Flags&unix.IFA_F_DADFAILED == 0 {
			continue
		}
		for _, old := range have {
			if a.Addr().Is6() && old.Addr() == a.Addr() { // the kernel has room for one
				if err := old.remove(ctx, n, l); err != nil {
					return fresh, err
				}
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
		if err := alter(ctx, "address add", a.String()+" dev "+l.Attrs().Name, func() error { return inUse(n.Handle().AddrAdd(l, addr)) }); err != nil {
			return fresh, err
		}
		fresh = true
	}
	return fresh, nil
}

// inUse says of the kernel's EADDRINUSE who has the address: ipvlan alone gives it, which knows the addresses of all
// that share a parent and cannot tell two with the same one apart.
func inUse(err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return netconf.Errorf(netconf.CodeExists, "duplicate address: another ipvlan on the same parent link has it: %w", err)
	}
	return err
}

// remove takes the address off its link.
func (a address) remove(ctx context.Context, n *NS, l netlink.Link) error {
	err := alter(ctx, "address del", a.String()+" dev "+l.Attrs().Name, func() error {
		return n.Handle().AddrDel(l, &netlink.Addr{IPNet: a.raw.IPNet, Peer: a.raw.Peer})
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
		if old, ok := have.exact(a); ok {
			errs = append(errs, old.remove(ctx, n, l))
		}
	}
	return netconf.Join(errs...)
}

// keepOthers has the kernel keep the addresses that are not the plan's: by default, with the first IPv4
// address of a subnet it deletes all others of the same subnet.
func (p *AddressPlan) keepOthers(ctx context.Context, n *NS, l netlink.Link, have addresses) error {
	for _, a := range have {
		if a.Addr().Is4() && a.raw.Flags&unix.IFA_F_SECONDARY != 0 && !slices.Contains(p.Addresses, a.Prefix) {
			return n.Sysctl(ctx, "net/ipv4/conf/"+l.Attrs().Name+"/promote_secondaries", "1")
		}
	}
	return nil
}
