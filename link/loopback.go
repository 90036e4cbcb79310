package link

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// Loopback is the link "lo" of a container, which every namespace has from birth, down: it is set up, and the kernel gives
// it 127.0.0.1/8 and ::1/128. CNI_IFNAME does not matter: in a list it is that of another plugin's link.
//
// Who sets it up labels it, with the role [LoopbackRole], and only he sets it down again. A DEL that sets it down whoever
// asks takes localhost away from a container that goes on to live, with its other networks. One that was up already, or
// has an alias that is no label, is not labelled, and stays up.
type Loopback struct{}

// LoopbackRole is the role of a container's "lo" in its alias. With a role it is not taken for the link CNI_IFNAME.
const LoopbackRole = "lo"

const (
	loopbackKind = "loopback"
	loopbackName = "lo"
	noMAC        = "00:00:00:00:00:00" // what the kernel, and the reference plugin, say of lo
)

// Name is "loopback".
func (Loopback) Name() string { return loopbackKind }

// Create is Ensure, except that a link that is up already is an error that Is netconf.ErrExists.
func (b Loopback) Create(ctx context.Context, container *NS, o Owner) (netlink.Link, error) {
	l, err := b.look(container)
	if err != nil {
		return nil, err
	}
	if isUp(l) {
		return nil, taken(loopbackName, l)
	}
	return l, b.raise(ctx, container, l, o)
}

// Ensure sets the link up and labels it, if it is down. One with an address that is not a loopback address is an error with
// code 7, before any change: its owner has plans for it that a plugin does not know.
func (b Loopback) Ensure(ctx context.Context, container *NS, o Owner) (netlink.Link, error) {
	l, err := b.look(container)
	if err != nil || isUp(l) {
		return l, err
	}
	return l, b.raise(ctx, container, l, o)
}

func isUp(l netlink.Link) bool { return l.Attrs().Flags&net.FlagUp != 0 }

// look finds the link, and looks at its addresses.
func (b Loopback) look(container *NS) (netlink.Link, error) {
	l, err := find(container, loopbackName)
	if err != nil {
		return nil, err
	}
	if l == nil || l.Attrs().Flags&net.FlagLoopback == 0 {
		return nil, badLink(loopbackName, "the container has no loopback of this name")
	}
	all, err := b.addresses(container, l)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if !p.Addr().IsLoopback() {
			return nil, badLink(loopbackName, "has the address %s, which is not a loopback address", p)
		}
	}
	return l, nil
}

// raise labels the link and sets it up, in this order: killed between the two, a DEL finds it.
func (b Loopback) raise(ctx context.Context, container *NS, l netlink.Link, o Owner) error {
	if _, labelled := parseAlias(l.Attrs().Alias); labelled || l.Attrs().Alias == "" {
		err := alter(ctx, "link alias", loopbackName, func() error { return container.Handle().LinkSetAlias(l, o.Alias(LoopbackRole)) })
		if err != nil {
			return err
		}
	}
	return up(ctx, container, l)
}

// addresses lists those of the link, IPv4 first. A kernel without IPv6 has none of it.
func (b Loopback) addresses(container *NS, l netlink.Link) ([]netip.Prefix, error) {
	v4, err := prefixes(container, l, familyV4)
	if err != nil {
		return nil, err
	}
	v6, err := prefixes(container, l, familyV6)
	if err != nil && !unsupported(err) {
		return nil, err
	}
	return append(v4, v6...), nil
}

// Verify is an error that Is netconf.ErrDifferent if the link is not up, or lacks an address that the result want has for
// it; want may be nil.
func (b Loopback) Verify(_ context.Context, container *NS, want *types100.Result) error {
	l, err := find(container, loopbackName)
	switch {
	case err != nil:
		return err
	case l == nil:
		return different(loopbackName, "the link", "there", "gone")
	case !isUp(l):
		return different(loopbackName, "the state", "up", "down")
	}
	own := netconf.Attached(want, loopbackName)
	if own < 0 {
		return nil
	}
	have, err := b.addresses(container, l)
	if err != nil {
		return err
	}
	var errs []error
	for _, ip := range want.IPs {
		if ip == nil || ip.Interface == nil || *ip.Interface != own {
			continue
		}
		if p, ok := prefixOf(ip.Address); !ok || !slices.Contains(have, p) {
			errs = append(errs, different(loopbackName, "the address "+ip.Address.String(), "there", "gone"))
		}
	}
	return netconf.Join(errs...)
}

// Delete sets the link down and takes its label off, if the owner has set it up; container may be nil, or have gone. The
// kernel leaves 127.0.0.1/8 on it, which does nothing there.
func (b Loopback) Delete(ctx context.Context, container *NS, o Owner) error {
	if container == nil {
		return nil
	}
	l, err := find(container, loopbackName)
	if err != nil || l == nil {
		return err
	}
	lab, ok := parseAlias(l.Attrs().Alias)
	if !ok || !lab.of(o) {
		return nil
	}
	return b.lower(ctx, container, l)
}

// lower takes the label off last: killed before, the next DEL finds it.
func (b Loopback) lower(ctx context.Context, container *NS, l netlink.Link) error {
	err := alter(ctx, "link down", loopbackName, func() error { return container.Handle().LinkSetDown(l) })
	if err == nil {
		err = alter(ctx, "link alias", loopbackName, func() error { return container.Handle().LinkSetAlias(l, "") })
	}
	if Gone(err) {
		return nil
	}
	return err
}

// Add is Ensure, with the link and its addresses noted in the result, unless there is a prevResult, which is passed on as it
// came. A link that is up is no error: a runtime, or another network of the container, has set it up.
func (b Loopback) Add(ctx context.Context, req *netconf.Request) error {
	try, err := netconf.Local(req, attemptKey{loopbackKind, OwnerOf(req)}, func() (*attempt, error) { return &attempt{}, nil })
	if err != nil {
		return err
	}
	container, err := Container(req)
	if err != nil {
		return err
	}
	l, err := b.look(container)
	if err != nil {
		return err
	}
	if !isUp(l) {
		try.made.Store(true)
		if err := b.raise(ctx, container, l, OwnerOf(req)); err != nil {
			return err
		}
	}
	if req.Prev != nil {
		return nil
	}
	return b.report(req, container, l)
}

// report notes the link in the result, with the first address of each family: a result of before 0.3.0 has room for no more.
func (b Loopback) report(req *netconf.Request, container *NS, l netlink.Link) error {
	all, err := b.addresses(container, l)
	if err != nil {
		return err
	}
	index := req.AddInterface(&types100.Interface{Name: loopbackName, Mac: noMAC, Sandbox: req.Netns})
	for i, p := range all {
		if i == 0 || p.Addr().Is4() != all[i-1].Addr().Is4() {
			req.AddIP(index, ipNet(p), nil)
		}
	}
	return nil
}

// Check is Verify against the prevResult.
func (b Loopback) Check(ctx context.Context, req *netconf.Request) error {
	container, err := Container(req)
	if err != nil {
		return err
	}
	return b.Verify(ctx, container, req.Prev)
}

// Del is Delete. The rollback of an ADD that found the link up leaves it up, whoever has set it up.
func (b Loopback) Del(ctx context.Context, req *netconf.Request) error {
	p, err := leaving(req, loopbackKind)
	if p == nil {
		return err
	}
	return b.Delete(ctx, p.container, p.Owner)
}
