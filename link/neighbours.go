package link

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

// Neighbour is the hardware address that a neighbour on a link has, said once and for all: the kernel does not ask for it.
type Neighbour struct {
	IP  netip.Addr
	MAC netconf.MAC
}

// String writes it as iproute2 does.
func (n Neighbour) String() string { return fmt.Sprintf("%s lladdr %s", n.IP, n.MAC) }

// Neighbours are permanent entries of a link of the container: for a gateway that answers to no question (clouds), or
// one whose answers are not to be believed. What the kernel has learned for an address gives way; a permanent entry with
// another hardware address is somebody else's, and an error. DEL takes away those that Add made.
type Neighbours struct {
	Interface  string // the link in the container; default: CNI_IFNAME
	Neighbours []Neighbour
}

// nudPermanent is NUD_PERMANENT of linux/neighbour.h.
const nudPermanent = 0x80

// Name is "neighbours".
func (Neighbours) Name() string { return "neighbours" }

// check refuses what cannot be an entry.
func (s Neighbours) check() error {
	var errs []error
	seen := map[netip.Addr]bool{}
	for _, one := range s.Neighbours {
		bad := func(format string, args ...any) {
			errs = append(errs, &Error{Op: "neighbour", Name: one.String(), Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, format, args...)})
		}
		switch {
		case !one.IP.IsValid() || one.IP.IsUnspecified() || one.IP.IsMulticast() || one.IP.IsLoopback():
			bad("not the address of a neighbour")
		case len(one.MAC) != 6:
			bad("no hardware address")
		case seen[one.IP]:
			bad("the address is given twice")
		}
		seen[one.IP] = true
	}
	return netconf.Join(errs...)
}

func (one Neighbour) request(index int) *netlink.Neigh {
	family := familyV6
	if one.IP.Unmap().Is4() {
		family = familyV4
	}
	return &netlink.Neigh{LinkIndex: index, Family: family, State: nudPermanent, IP: one.IP.Unmap().AsSlice(), HardwareAddr: net.HardwareAddr(one.MAC)}
}

// permanent lists the permanent entries of a link by address.
func permanent(n *NS, l netlink.Link) (map[netip.Addr]netconf.MAC, error) {
	have := map[netip.Addr]netconf.MAC{}
	for _, family := range []int{familyV4, familyV6} {
		list, err := whole(func() ([]netlink.Neigh, error) { return n.Handle().NeighList(l.Attrs().Index, family) })
		if err != nil && !unsupported(err) {
			return nil, &Error{Op: "neighbour list", Name: l.Attrs().Name, Err: err}
		}
		for _, k := range list {
			if ip, ok := addrOf(k.IP); ok && k.State&nudPermanent != 0 {
				have[ip] = netconf.MAC(k.HardwareAddr)
			}
		}
	}
	return have, nil
}

// missing lists those that the link does not have. A permanent one with another hardware address is an error with code 100.
func (s Neighbours) missing(n *NS, l netlink.Link) (list []Neighbour, err error) {
	have, err := permanent(n, l)
	if err != nil {
		return nil, err
	}
	for _, one := range s.Neighbours {
		mac, there := have[one.IP.Unmap()]
		switch {
		case !there:
			list = append(list, one)
		case !bytes.Equal(mac, one.MAC):
			return nil, &Error{Op: "neighbour add", Name: one.String(), Err: fmt.Errorf("%w: with the hardware address %s", netconf.ErrExists, mac)}
		}
	}
	return list, nil
}

func (s Neighbours) set(ctx context.Context, n *NS, l netlink.Link) error {
	for _, one := range s.Neighbours {
		err := alter(ctx, "neighbour add", fmt.Sprintf("%s dev %s", one, l.Attrs().Name), func() error { return n.Handle().NeighSet(one.request(l.Attrs().Index)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// Ensure makes the entries that are not there.
func (s Neighbours) Ensure(ctx context.Context, n *NS, name string) error {
	l, err := find(n, name)
	if l, err = mustBe(l, err, name); err == nil {
		err = s.check()
	}
	if err == nil {
		s.Neighbours, err = s.missing(n, l)
	}
	if err != nil {
		return err
	}
	return s.set(ctx, n, l)
}

// Verify looks for the entries; each that is missing or has another hardware address is a difference, which Is
// netconf.ErrDifferent.
func (s Neighbours) Verify(_ context.Context, n *NS, name string) error {
	l, err := find(n, name)
	if err != nil {
		return err
	}
	if l == nil {
		return different(name, "the link", "there", "gone")
	}
	have, err := permanent(n, l)
	if err != nil {
		return err
	}
	var errs []error
	for _, one := range s.Neighbours {
		mac, there := have[one.IP.Unmap()]
		switch {
		case !there:
			errs = append(errs, different(name, "the neighbour "+one.IP.String(), one.MAC, "not there"))
		case !bytes.Equal(mac, one.MAC):
			errs = append(errs, different(name, "the neighbour "+one.IP.String(), one.MAC, mac))
		}
	}
	return netconf.Join(errs...)
}

// Delete takes the entries away that are permanent and have the hardware address. What is gone, be it the link, is no error.
func (s Neighbours) Delete(ctx context.Context, n *NS, name string) error {
	l, err := find(n, name)
	if err != nil || l == nil {
		return err
	}
	have, err := permanent(n, l)
	if err != nil {
		return err
	}
	var errs []error
	for _, one := range s.Neighbours {
		if mac, there := have[one.IP.Unmap()]; !there || !bytes.Equal(mac, one.MAC) {
			continue
		}
		err := alter(ctx, "neighbour del", fmt.Sprintf("%s dev %s", one, name), func() error { return n.Handle().NeighDel(one.request(l.Attrs().Index)) })
		if !Gone(err) {
			errs = append(errs, err)
		}
	}
	return netconf.Join(errs...)
}

// neighboured is what is kept for DEL: the entries that were not there before.
type neighboured struct {
	linkID // another one of the same name is left alone
	Made   []Neighbour
}

func (s Neighbours) key(req *netconf.Request) string {
	return "link.neighbours." + ifName(req, s.Interface)
}

// Add is Ensure. A second one is an error that Is netconf.ErrExists.
func (s Neighbours) Add(ctx context.Context, req *netconf.Request) error {
	if len(s.Neighbours) == 0 {
		return nil
	}
	n, l, made, err := s.prepare(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	return Neighbours{Neighbours: made}.set(ctx, n, l)
}

// prepare looks, and writes down what is going to be made.
func (s Neighbours) prepare(req *netconf.Request) (n *NS, l netlink.Link, made []Neighbour, err error) {
	if err = s.check(); err != nil {
		return nil, nil, nil, err
	}
	if n, l, err = begin(req, s.key(req), "neighbour add", ifName(req, s.Interface)); err != nil {
		return nil, nil, nil, err
	}
	if made, err = s.missing(n, l); err != nil {
		return nil, nil, nil, err
	}
	return n, l, made, keep(req, s.key(req), neighboured{idOf(n, l), made})
}

// Check is Verify.
func (s Neighbours) Check(ctx context.Context, req *netconf.Request) error {
	if len(s.Neighbours) == 0 {
		return nil
	}
	n, err := Container(req)
	if err != nil {
		return err
	}
	return s.Verify(ctx, n, ifName(req, s.Interface))
}

// Del takes away what Add made, as far as the link is still there.
func (s Neighbours) Del(ctx context.Context, req *netconf.Request) error {
	var old neighboured
	name := ifName(req, s.Interface)
	return undo(req, s.key(req), name, &old, &old.linkID, func(n *NS, _ netlink.Link) error {
		return Neighbours{Neighbours: old.Made}.Delete(ctx, n, name)
	})
}
