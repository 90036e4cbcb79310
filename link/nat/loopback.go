package nat

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"syscall"

	"github.com/cnikit/cnikit/link"
)

// A packet from 127.0.0.1 leaves the host by a link that has route_localnet alone.

// routeLoopback lets packets from 127.0.0.1 out by the link that leads to a container.
func (p PortMap) routeLoopback(ctx context.Context, host *link.NS, a netip.Addr) error {
	key, err := p.loopbackKey(host, a)
	if err != nil || key == "" {
		return err
	}
	return host.Sysctl(ctx, key, "1")
}

func (p PortMap) verifyLoopback(host *link.NS, a netip.Addr) error {
	key, err := p.loopbackKey(host, a)
	if err != nil || key == "" {
		return err
	}
	have, err := host.ReadSysctl(key)
	if err == nil && have != "1" {
		err = different(key, 1, have)
	}
	return err
}

func (p PortMap) loopbackKey(host *link.NS, a netip.Addr) (string, error) {
	if p.NoSNAT || !a.Is4() {
		return "", nil
	}
	key, _, err := loopbackKey(host, a)
	return key, err
}

// loopbackKey is the sysctl of the link by which the host reaches a container, and alone tells whether that leads to this
// container only. It is empty where the flag is not to be touched. There are two kinds of links that are surely made for
// containers: a bridge, and one end of a pair with a route for the one address. Any other, be it the way to a gateway
// or one to the subnet of the host's own neighbours, is or may be the host's way out: the parent of a macvlan whose
// container has an address of that subnet, or the pair by which a node that is a container itself has its network.
func loopbackKey(host *link.NS, a netip.Addr) (key string, alone bool, err error) {
	routes, err := routesTo(host, a)
	if unreachable(err) || err == nil && len(routes) == 0 {
		return "", false, nil // the host itself does not reach it, by no address
	}
	if err != nil {
		return "", false, &link.Error{Op: "route get", Name: a.String(), Err: err}
	}
	r := routes[0]
	if r.Type != routeUnicast || r.Gw != nil || r.Via != nil || len(r.MultiPath) > 0 || r.LinkIndex == 0 || r.Dst == nil {
		return "", false, nil
	}
	l, err := host.Handle().LinkByIndex(r.LinkIndex)
	if err != nil {
		return "", false, &link.Error{Op: "link get", Name: fmt.Sprint(r.LinkIndex), Err: err}
	}
	ones, bits := r.Dst.Mask.Size()
	alone = ones == bits && l.Type() == "veth"
	if !alone && (l.Type() != "bridge" || ones == 0) {
		return "", false, nil
	}
	return "net/ipv4/conf/" + l.Attrs().Name + "/route_localnet", alone, nil
}

// giveBack gives the links of the containers that elements are about the flag that a new link has. It is called
// before the elements go: so it is done again when a DEL that failed in between comes again. A bridge, or a
// link with a route for more than the container, keeps the flag, which others behind it may need; and so does one
// whose container's address another attachment has, for whom it is not in the list.
func giveBack(ctx context.Context, c *conn, host *link.NS, leaving []element) error {
	var done []netip.Addr
	for _, e := range leaving {
		first, _, shared := e.place()
		s, ok := parseSubnets(first.set)
		if !shared || !ok || s.name != hairpinSet || s.v6 {
			continue
		}
		a, _ := source(first.key, false)
		if slices.Contains(done, a) {
			continue
		}
		done = append(done, a)
		if others, err := hairpinsOfOthers(c, a, leaving); err != nil || others {
			if err != nil {
				return err
			}
			continue
		}
		if err := closeLoopback(ctx, host, a); err != nil {
			return err
		}
	}
	return nil
}

// hairpinsOfOthers tells whether somebody who is not leaving needs the flag for an address.
func hairpinsOfOthers(c *conn, a netip.Addr, leaving []element) (bool, error) {
	for _, subnet := range []netip.Prefix{loopback, netip.PrefixFrom(a, 0)} {
		e, _ := within(hairpinSet, a, subnet)
		owners, err := c.owners(e)
		if err != nil {
			return false, err
		}
		for _, have := range owners {
			if !slices.ContainsFunc(leaving, have.equal) {
				return true, nil
			}
		}
	}
	return false, nil
}

func closeLoopback(ctx context.Context, host *link.NS, a netip.Addr) error {
	key, alone, err := loopbackKey(host, a)
	if err != nil || !alone {
		return ignoring(err)
	}
	usual, err := host.ReadSysctl("net/ipv4/conf/default/route_localnet")
	if err != nil {
		return ignoring(err)
	}
	return ignoring(host.Sysctl(ctx, key, usual))
}

// ignoring drops what must not make a DEL fail for ever: the link has gone meanwhile, or nobody may write sysctls here
// any more.
func ignoring(err error) error {
	if link.Gone(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil
	}
	return err
}
