package nat

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/containernetworking/cni/pkg/types"
)

// Masquerade gives what a container sends out of its own subnet, but for multicast, the address of the link by which it
// leaves the host. As a step it follows the one that sets the addresses; it takes those of the interface
// CNI_IFNAME.
type Masquerade struct {
	// Off masquerades nothing. Del and GC take away what there is all the same: a network that is not masqueraded
	// any more had attachments that were.
	Off bool
}

// Name is "masquerade".
func (Masquerade) Name() string { return "masquerade" }

func (Masquerade) sets() []string { return []string{sourcesSet, nearSet} }

// claim is what the addresses, each with the length of its subnet's prefix, need.
func (m Masquerade) claim(o link.Owner, addrs []netip.Prefix) claim {
	w := claim{owner: o, sets: m.sets()}
	for _, p := range addrs {
		w.elements = append(w.elements, m.keys(p)...)
		_, s := within(nearSet, p.Addr(), p)
		w.needed = append(w.needed, s)
	}
	for i := range w.elements {
		w.elements[i].owner = mark(o)
	}
	return w
}

// keys are the elements for an address.
func (Masquerade) keys(p netip.Prefix) []element {
	near, _ := within(nearSet, p.Addr(), p)
	return []element{{set: setName(sourcesSet, p.Addr().Is6()), key: addrKey(p.Addr())}, near}
}

// Create begins to masquerade the addresses, each given with the length of its subnet's prefix. If one is masqueraded
// for this owner already, nothing is changed and the error Is netconf.ErrExists.
func (m Masquerade) Create(ctx context.Context, host *link.NS, o link.Owner, addrs []netip.Prefix) error {
	return m.put(ctx, host, o, addrs, true)
}

// Ensure is Create for what is not there, brings back what somebody has changed, the rules included, and takes
// away other addresses of the owner's.
func (m Masquerade) Ensure(ctx context.Context, host *link.NS, o link.Owner, addrs []netip.Prefix) error {
	return m.put(ctx, host, o, addrs, false)
}

func (m Masquerade) put(ctx context.Context, host *link.NS, o link.Owner, addrs []netip.Prefix, create bool) error {
	addrs, err := valid(addrs)
	if err != nil || m.Off || len(addrs) == 0 {
		return err
	}
	_, err = m.claim(o, addrs).put(ctx, host, create)
	return err
}

// Verify compares the table with what Ensure made. A difference Is netconf.ErrDifferent.
func (m Masquerade) Verify(_ context.Context, host *link.NS, o link.Owner, addrs []netip.Prefix) error {
	addrs, err := valid(addrs)
	if err != nil || m.Off || len(addrs) == 0 {
		return err
	}
	return m.claim(o, addrs).verify(host)
}

// Delete ends it. The addresses save looking through all that is masqueraded on the host: that is done where none
// are given, or one is not the owner's. The table stays.
func (m Masquerade) Delete(ctx context.Context, host *link.NS, o link.Owner, addrs []netip.Prefix) error {
	addrs, err := valid(addrs)
	if err != nil {
		addrs = nil // a DEL must not fail for what ADD refused
	}
	_, err = take(ctx, host, func(c *conn) ([]element, error) {
		var found []element
		for _, p := range addrs {
			for _, key := range m.keys(p) {
				have, err := c.mine(key, func(comment string) bool { return marks(comment, o) })
				if err != nil {
					return nil, err
				}
				if have != nil {
					found = append(found, *have)
				}
			}
		}
		if known := len(addrs) > 0 && (m.Off || len(found) == 2*len(addrs)); known {
			return found, nil
		}
		return c.ownedBy(m.sets(), func(e element) bool { return marks(e.owner, o) })
	})
	return err
}

// Collect takes away what is masqueraded for attachments of the network that are not in the list of those that live.
func (m Masquerade) Collect(ctx context.Context, host *link.NS, network string, alive []types.GCAttachment) error {
	_, err := collect(ctx, host, network, alive, m.sets())
	return err
}

// valid checks addresses of a container.
func valid(addrs []netip.Prefix) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, p := range addrs {
		if !p.IsValid() || p.Addr().IsUnspecified() || p.Addr().IsMulticast() {
			return nil, &link.Error{Op: "nat", Name: p.String(), Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, "not an address of a container")}
		}
		if p.Addr().Is4In6() {
			p = netip.PrefixFrom(p.Addr().Unmap(), max(p.Bits()-96, 0))
		}
		out = append(out, netip.PrefixFrom(p.Addr().WithZone(""), p.Bits()))
	}
	return out, nil
}

// Add is Create for the addresses of the result.
func (m Masquerade) Add(ctx context.Context, req *netconf.Request) error {
	if m.Off {
		return nil
	}
	host, err := link.Host(req)
	if err != nil {
		return err
	}
	return m.Create(ctx, host, link.OwnerOf(req), addressesOf(req))
}

// Check is Verify for the addresses of the prevResult.
func (m Masquerade) Check(ctx context.Context, req *netconf.Request) error {
	if m.Off {
		return nil
	}
	host, err := link.Host(req)
	if err != nil {
		return err
	}
	return m.Verify(ctx, host, link.OwnerOf(req), addressesOf(req))
}

// Del is Delete for the addresses of the prevResult or, in a rollback, of the result.
func (m Masquerade) Del(ctx context.Context, req *netconf.Request) error {
	host, err := link.Host(req)
	if err != nil {
		return err
	}
	return m.Delete(ctx, host, link.OwnerOf(req), addressesOf(req))
}

// GC is Collect for the network and the list of the call.
func (m Masquerade) GC(ctx context.Context, req *netconf.Request) error {
	host, err := link.Host(req)
	if err != nil {
		return err
	}
	return m.Collect(ctx, host, req.Network.Name, req.Network.ValidAttachments)
}

// Status is Probe.
func (m Masquerade) Status(ctx context.Context, req *netconf.Request) error {
	if m.Off {
		return nil
	}
	return probe(ctx, req)
}

func probe(ctx context.Context, req *netconf.Request) error {
	host, err := link.Host(req)
	if err != nil {
		return err
	}
	if err = Probe(ctx, host); err != nil {
		return netconf.Errorf(netconf.CodePluginNotAvailable, "%w", err)
	}
	return nil
}

// describe is an element in a message.
func describe(e element) string {
	for _, v6 := range []bool{false, true} {
		switch e.set {
		case setName(portsMap, v6):
			return fmt.Sprintf("%s to %s", listening(e.key), endpoint(e.value, v6))
		case setName(addrPortsMap, v6):
			a, rest := source(e.key, v6)
			return fmt.Sprintf("%s of %s to %s", listening(rest), a, endpoint(e.value, v6))
		case setName(sourcesSet, v6):
			a, _ := source(e.key, v6)
			return a.String()
		}
	}
	if first, n, ok := e.place(); ok && n > 0 {
		return describe(first)
	}
	s, _ := parseSubnets(e.set)
	a, rest := source(e.key, s.v6)
	b, _ := source(rest, s.v6)
	return fmt.Sprintf("%s with %s/%d", a, b, s.bits)
}
