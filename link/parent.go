package link

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

// Parent names the link that others are made on.
type Parent struct {
	Name        string // also one of its alternative names; empty: that of the default route, IPv4 before IPv6, lowest metric first; an error for one by a nexthop object that names no link
	InContainer bool   // look in the container's namespace, not on the host (the default)
	Key         string // for the texts of errors: the key of the configuration that gives Name, as a JSON path ("master"); may be empty
}

// missing is the error of a parent that was not found, with the key that is to be changed.
func (p Parent) missing(format string, args ...any) error {
	if p.Key != "" {
		format += fmt.Sprintf(" (key %q)", p.Key)
	}
	return badLink(p.Name, format, args...)
}

func (p Parent) ns(host, container *NS) *NS {
	if p.InContainer {
		return container
	}
	return host
}

// find looks the parent up. That there is none is an error with code 7.
func (p Parent) find(n *NS) (netlink.Link, error) {
	if p.Name == "" {
		return p.standard(n)
	}
	l, err := find(n, p.Name)
	if err == nil && l == nil {
		where := "on the host"
		if p.InContainer {
			where = "in the container"
		}
		err = p.missing("there is no such parent link %s", where)
	}
	return l, err
}

// chained is the parent of a chained plugin: without a name it is the one interface of the prevResult. Several, or none,
// are an error with code 7.
func (p Parent) chained(req *netconf.Request) (Parent, error) {
	if p.Name != "" || req.Prev == nil {
		return p, nil
	}
	if all := req.Prev.Interfaces; len(all) == 1 && all[0] != nil && all[0].Name != "" {
		p.Name = all[0].Name
		return p, nil
	}
	return p, p.missing("the prevResult has %d interfaces, and only a single one is taken as the parent link; name a parent link", len(req.Prev.Interfaces))
}

// verify compares the parent of a link. Where no name was given it may be any that is there: the default
// route may have moved since. An ipvlan stands for its own parent, which may be in another namespace.
func (p Parent) verify(l netlink.Link, n *NS) error {
	a := l.Attrs()
	have, err := findIndex(n, a.ParentIndex)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("index %d", a.ParentIndex)
	if have != nil {
		name = have.Attrs().Name
	}
	if p.Name == "" {
		if have == nil && !(p.InContainer && a.NetNsID >= 0) {
			return different(a.Name, "the parent", "a link that is there", name)
		}
		return nil
	}
	want, err := find(n, p.Name)
	if err != nil {
		return err
	}
	if want != nil {
		index := want.Attrs().Index
		if _, ok := want.(*netlink.IPVlan); ok && l.Type() == ipvlanKind {
			index = want.Attrs().ParentIndex
		}
		if index == a.ParentIndex {
			return nil
		}
	}
	return different(a.Name, "the parent", p.Name, name)
}

// fitsParent is an error with code 7 for an MTU below the kernel's minimum or above the parent's; 0 is the parent's. For
// an ipvlan the kernel takes a larger one, and what is larger than the parent's is dropped there.
func fitsParent(name string, mtu int, parent *netlink.LinkAttrs) error {
	if mtu != 0 && (mtu < minMTU || mtu > parent.MTU) {
		return badLink(name, "mtu %d is out of range: expected %d to %d, which is that of the parent link %q", mtu, minMTU, parent.MTU, parent.Name)
	}
	return nil
}

// refused says what the kernel means when it refuses a parent, whose links are all of one kind, and which then is no port
// of anything; other is a kind that excludes the one that was wanted. It is nil for an error that says something else.
func refused(err error, via *NS, parent *netlink.LinkAttrs, name, other string) error {
	switch {
	case errors.Is(err, syscall.EBUSY):
		by := "it has links of another kind, such as " + other
		if parent.MasterIndex != 0 {
			by = "it is a port"
			if master, lookErr := findIndex(via, parent.MasterIndex); lookErr == nil && master != nil {
				by = fmt.Sprintf("it is a port of the %s %q", master.Type(), master.Attrs().Name)
			}
		}
		return badLink(name, "the parent link %q is busy: %s: %w", parent.Name, by, err)
	case errors.Is(err, syscall.EINVAL) && parent.EncapType != "ether": // netlink's word; the loopback has another
		return badLink(name, "the parent link %q is no Ethernet link, but %s: %w", parent.Name, parent.EncapType, err)
	}
	return nil
}

// warnDown says that a parent is down, which is no reason to fail: it may come up later.
func warnDown(req *netconf.Request, parent netlink.Link) {
	if parent.Attrs().Flags&net.FlagUp == 0 && req.Warn != nil {
		req.Warn("the parent link is down: nothing passes until it is set up", "parent", parent.Attrs().Name)
	}
}

// status is the error, with code 50, of a parent on the host that is not there, or that fits refuses; it may be nil.
func (p Parent) status(req *netconf.Request, fits func(host *NS, parent netlink.Link) error) error {
	if p.InContainer {
		return nil
	}
	host, err := Host(req)
	if err != nil {
		return err
	}
	parent, err := p.find(host)
	if err == nil && fits != nil {
		err = fits(host, parent)
	}
	if netconf.Code(err) == netconf.CodeInvalidNetworkConfig {
		return netconf.Errorf(netconf.CodePluginNotAvailable, "%w", err)
	}
	return err
}

// unicastRoute is RTN_UNICAST of linux/rtnetlink.h.
const unicastRoute = 1

// badLink is an error about what was asked for, with code 7.
func badLink(name, format string, args ...any) error {
	return &Error{Op: "link", Name: name, Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, format, args...)}
}

// standard is the link of the default route.
func (p Parent) standard(n *NS) (netlink.Link, error) {
	for _, family := range []int{familyV4, familyV6} {
		routes, err := whole(func() ([]netlink.Route, error) {
			return n.Handle().RouteListFiltered(family, &netlink.Route{}, netlink.RT_FILTER_DST)
		})
		if err != nil {
			return nil, &Error{Op: "route list", Name: "default", Err: err}
		}
		switch index, found := bestRoute(routes); {
		case found && index == 0:
			return nil, p.missing("the default route is by a nexthop object, of which the kernel does not say the link; name a parent link")
		case found:
			l, err := findIndex(n, index)
			if err == nil && l == nil {
				err = p.missing("the link of the default route is gone; name a parent link")
			}
			return l, err
		}
	}
	return nil, p.missing("there is no default route to take the parent link from; name a parent link")
}

// bestLink is the link of the best default route that names one, 0 for none.
func bestLink(routes []netlink.Route) int {
	index, _ := bestRoute(slices.DeleteFunc(slices.Clone(routes), func(r netlink.Route) bool { return firstLink(r) == 0 }))
	return index
}

// bestRoute is the index of the link of the default route with the lowest metric. It is 0 for one by a nexthop object where
// net.ipv4.nexthop_compat_mode is 0: to pass it over for the link of a route that is not in use once put an attachment on another
// network.
func bestRoute(routes []netlink.Route) (index int, found bool) {
	metric := 0
	for _, r := range routes {
		if r.Dst != nil {
			if ones, _ := r.Dst.Mask.Size(); ones != 0 {
				continue
			}
		}
		if r.Type > unicastRoute {
			continue // a default route to nowhere: unreachable, blackhole
		}
		if !found || r.Priority < metric {
			index, metric, found = firstLink(r), r.Priority, true
		}
	}
	return index, found
}

// firstLink is what a route leads out of; with several next hops it is the first's link.
func firstLink(r netlink.Route) int {
	if len(r.MultiPath) > 0 {
		return r.MultiPath[0].LinkIndex
	}
	return r.LinkIndex
}
