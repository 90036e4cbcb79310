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

func verifyLoopback(host *link.NS, a netip.Addr) error {
	key, _, err := loopbackKey(host, a)
	if err != nil || key == "" {
		return err
	}
	have, err := host.ReadSysctl(key)
	if err == nil && have != "1" {
		err = different(key, 1, have)
	}
	return err
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

// settle makes the flags what the elements need that there are now: 1 for an address that packets from 127.0.0.1 are led
// to; for another what a new link has, if the link leads to that container alone. It is called after
// every change, outside of it: what is slow must not be between a look at the ruleset and the change, which others who change
// it would then never let through. Others are at work here too: so it looks again after it has written, until what it
// wrote is what is needed. Whoever changes the elements later does the same after that.
func settle(ctx context.Context, host *link.NS, addrs []netip.Addr) error {
	if addrs = once(addrs); len(addrs) == 0 {
		return nil
	}
	return dial(host, func(c *conn) error {
		if _, err := c.generation(); err != nil {
			return err // no nftables, and so no flag of ours
		}
		for _, a := range addrs {
			if err := c.settle(ctx, host, a); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *conn) settle(ctx context.Context, host *link.NS, a netip.Addr) error {
	key, alone, err := loopbackKey(host, a)
	if err != nil || key == "" {
		return ignoring(err)
	}
	for {
		needed, err := c.needsLoopback(a)
		if err != nil || !needed && !alone {
			return err
		}
		if err := setLoopback(ctx, host, key, needed); err != nil {
			return err
		}
		if now, err := c.needsLoopback(a); err != nil || now == needed {
			return err
		}
	}
}

// setLoopback writes a flag that is not as it should be. To give one back must not make a DEL fail for ever.
func setLoopback(ctx context.Context, host *link.NS, key string, needed bool) (err error) {
	want := "1"
	if !needed {
		if want, err = host.ReadSysctl("net/ipv4/conf/default/route_localnet"); err != nil {
			return ignoring(err)
		}
	}
	have, err := host.ReadSysctl(key)
	if err == nil && have != want {
		err = host.Sysctl(ctx, key, want)
	}
	if !needed {
		err = ignoring(err)
	}
	return err
}

// needsLoopback tells whether there is an element by which packets from 127.0.0.1 are led to an address, whosever.
func (c *conn) needsLoopback(a netip.Addr) (bool, error) {
	for _, subnet := range []netip.Prefix{loopback, netip.PrefixFrom(a, 0)} {
		e, _ := within(hairpinSet, a, subnet)
		if have, err := c.find(e.set, e.key); err != nil || have != nil {
			return have != nil, err
		}
	}
	return false, nil
}

// giveBack is settle for a DEL, which must not fail for ever where it can do nothing.
func giveBack(ctx context.Context, host *link.NS, addrs []netip.Addr) error {
	err := ignoring(settle(ctx, host, addrs))
	if absent(err) {
		return nil
	}
	return err
}

// hairpinned are the IPv4 addresses that elements of the sets for hairpins are about.
func hairpinned(elements []element) (all []netip.Addr) {
	for _, e := range elements {
		first, _, shared := e.place()
		if s, ok := parseSubnets(first.set); shared && ok && s.name == hairpinSet && !s.v6 {
			a, _ := source(first.key, false)
			all = append(all, a)
		}
	}
	return all
}

// once sorts addresses, and leaves out what is there twice and what is not IPv4.
func once(all []netip.Addr) []netip.Addr {
	all = slices.DeleteFunc(all, func(a netip.Addr) bool { return !a.Is4() })
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// ignoring drops what no DEL can change: the link has gone meanwhile, or nobody may write sysctls here any more.
func ignoring(err error) error {
	if link.Gone(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil
	}
	return err
}
