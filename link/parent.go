package link

import (
	"fmt"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

// Parent names the link that others are made on.
type Parent struct {
	Name        string // also one of its alternative names; empty: that of the default route, IPv4 before IPv6, lowest metric first
	InContainer bool   // look in the container's namespace, not on the host (the default)
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
		return defaultLink(n)
	}
	l, err := find(n, p.Name)
	if err == nil && l == nil {
		err = badLink(p.Name, "there is no such parent link")
	}
	return l, err
}

// verify compares the parent of a link. Where no name was given it may be any that is there: the default
// route may have moved since.
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
		if have == nil {
			return different(a.Name, "the parent", "a link that is there", name)
		}
		return nil
	}
	want, err := find(n, p.Name)
	if err != nil {
		return err
	}
	if want == nil || want.Attrs().Index != a.ParentIndex {
		return different(a.Name, "the parent", p.Name, name)
	}
	return nil
}

// status is the error, with code 50, of a parent on the host that is not there.
func (p Parent) status(req *netconf.Request) error {
	if p.InContainer {
		return nil
	}
	host, err := Host(req)
	if err != nil {
		return err
	}
	_, err = p.find(host)
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

// defaultLink is the link of the default route.
func defaultLink(n *NS) (netlink.Link, error) {
	for _, family := range []int{familyV4, familyV6} {
		routes, err := whole(func() ([]netlink.Route, error) {
			return n.Handle().RouteListFiltered(family, &netlink.Route{}, netlink.RT_FILTER_DST)
		})
		if err != nil {
			return nil, &Error{Op: "route list", Name: "default", Err: err}
		}
		if index := bestLink(routes); index != 0 {
			l, err := findIndex(n, index)
			if err == nil && l == nil {
				err = badLink("", "the link of the default route is gone; name a parent link")
			}
			return l, err
		}
	}
	return nil, badLink("", "there is no default route to take the parent link from; name a parent link")
}

// bestLink is the index of the link of the default route with the lowest metric, 0 for none; of one with several next
// hops it is the first's.
func bestLink(routes []netlink.Route) (index int) {
	metric := 0
	for _, r := range routes {
		at := r.LinkIndex
		if len(r.MultiPath) > 0 {
			at = r.MultiPath[0].LinkIndex
		}
		if r.Dst != nil {
			if ones, _ := r.Dst.Mask.Size(); ones != 0 {
				continue
			}
		}
		if r.Type > unicastRoute {
			continue // a default route to nowhere: unreachable, blackhole
		}
		if at != 0 && (index == 0 || r.Priority < metric) {
			index, metric = at, r.Priority
		}
	}
	return index
}
