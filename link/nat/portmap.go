package nat

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/containernetworking/cni/pkg/types"
)

// PortMap leads ports of the host into a container: what comes to an address of the host, from outside, from the
// host itself (127.0.0.1 included), and from containers, also the mapped one. A port of the host has one owner:
// another is refused before anything is changed. As a step it follows those that give the
// container its addresses, or is a chained plugin of its own; it takes the first address of each family of the
// interface CNI_IFNAME.
type PortMap struct {
	Mappings []netconf.PortMapping // what to map; none: nothing is done. As Request.Runtime checks them
	// NoSNAT keeps the source of every packet. The host then does not reach the port by 127.0.0.1, nor do the container
	// and its neighbours, to which it would answer directly.
	NoSNAT bool
	// MasqueradeAll gives every packet to the ports the host's address as its source. Of no meaning with NoSNAT.
	MasqueradeAll bool
}

// Name is "portmap".
func (PortMap) Name() string { return "portmap" }

func (PortMap) sets() []string { return []string{portsMap, addrPortsMap, hairpinSet} }

// protocols are the numbers of those that have ports.
var protocols = [...]struct {
	name   string
	number byte
}{{"tcp", 6}, {"udp", 17}, {"sctp", 132}}

// mapping is one port of the host in one family, and where it leads.
type mapping struct {
	host     netip.Addr // not valid: all addresses
	port     uint16
	protocol byte
	v6       bool
	to       netip.AddrPort // not valid: not known, on DEL
}

func (m mapping) element() element {
	key := join(protoKey(m.protocol), portKey(m.port))
	e := element{set: setName(portsMap, m.v6), key: key}
	if m.host.IsValid() {
		e = element{set: setName(addrPortsMap, m.v6), key: join(addrKey(m.host), key)}
	}
	if m.to.IsValid() {
		e.value = join(addrKey(m.to.Addr()), portKey(m.to.Port()))
	}
	return e
}

// CheckHostIP says why no port can be mapped on an address, with code 7; not valid and unspecified ones, which are all
// addresses, are fine. An IPv4 address written as IPv6 is taken for what it is.
func (p PortMap) CheckHostIP(a netip.Addr) error {
	a = a.Unmap()
	refuse := func(why string) error {
		return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "%s", a.String()+" "+why)
	}
	switch {
	case !a.IsValid() || a.IsUnspecified():
		return nil
	case a.Is6() && a.IsLoopback():
		return refuse("leads nowhere: the kernel sends no packet with this source out of the host; expected another address of the host")
	case a.IsLoopback() && p.NoSNAT:
		return refuse("leads nowhere without source translation (snat): the kernel sends no packet with a source of 127.0.0.0/8 out of the host")
	case a.IsMulticast():
		return refuse("is a multicast address: expected one of the host")
	case a == broadcast:
		return refuse("is the broadcast address: expected one of the host")
	case a.Is6() && a.IsLinkLocalUnicast():
		return refuse("is of one link alone, and a mapping is of all: expected an address of the host that is not link-local")
	}
	return nil
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// listening writes protocol and port of a key.
func listening(key []byte) string {
	if len(key) < 6 {
		return "?"
	}
	return fmt.Sprintf("%s port %d", protocolName(key[0]), binary.BigEndian.Uint16(key[4:]))
}

func protocolName(n byte) string {
	for _, p := range protocols {
		if p.number == n {
			return p.name
		}
	}
	return fmt.Sprint("protocol ", n)
}

// expand makes a mapping of a port for each family that it is for. Without targets, on DEL, that is each that it may
// be for.
func (p PortMap) expand(targets map[bool]netip.Prefix) ([][]mapping, error) {
	var out [][]mapping
	for _, m := range p.Mappings {
		number := byte(0)
		for _, known := range protocols {
			if strings.EqualFold(m.Protocol, known.name) || m.Protocol == "" && known.name == "tcp" {
				number = known.number
			}
		}
		if number == 0 || m.HostPort < 1 || m.HostPort > 65535 || m.ContainerPort < 1 || m.ContainerPort > 65535 {
			return nil, &link.Error{Op: "map port", Name: fmt.Sprintf("%s %d to %d", m.Protocol, m.HostPort, m.ContainerPort),
				Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, "expected tcp, udp or sctp and ports from 1 to 65535")}
		}
		if err := p.CheckHostIP(m.HostIP.Addr); err != nil {
			return nil, &link.Error{Op: "map port", Name: m.HostIP.String(), Err: err}
		}
		host, one := m.HostIP.Unmap().WithZone(""), []mapping{}
		for _, v6 := range []bool{false, true} {
			target, there := targets[v6]
			if host.IsValid() && host.Is6() != v6 || len(targets) > 0 && !there {
				continue
			}
			e := mapping{port: uint16(m.HostPort), protocol: number, v6: v6}
			if host.IsValid() && !host.IsUnspecified() {
				e.host = host
			}
			if there {
				e.to = netip.AddrPortFrom(target.Addr(), uint16(m.ContainerPort))
			}
			one = append(one, e)
		}
		out = append(out, one)
	}
	return out, nil
}

// targets are the first address of each family.
func targets(addrs []netip.Prefix) map[bool]netip.Prefix {
	out := map[bool]netip.Prefix{}
	for _, p := range addrs {
		if _, there := out[p.Addr().Is6()]; !there {
			out[p.Addr().Is6()] = p
		}
	}
	return out
}

// claim is what the mappings need for a container with these addresses.
func (p PortMap) claim(o link.Owner, addrs []netip.Prefix) (w claim, all []mapping, err error) {
	to := targets(addrs)
	ports, err := p.expand(to)
	if err != nil {
		return w, nil, err
	}
	if len(to) == 0 && len(ports) > 0 {
		return w, nil, &link.Error{Op: "map ports", Name: o.IfName, Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, "the container has no address that a port could lead to")}
	}
	w = claim{owner: o, sets: p.sets(), conflict: taken}
	used := map[bool]bool{}
	seen := map[string]string{}
	for _, families := range ports {
		for _, m := range families {
			e := m.element()
			if before, twice := seen[e.set+string(e.key)]; twice && before != string(e.value) {
				return w, nil, &link.Error{Op: "map port", Name: describe(e), Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, "it leads to another port already")}
			} else if twice {
				continue
			}
			seen[e.set+string(e.key)] = string(e.value)
			w.elements, all, used[m.v6] = append(w.elements, e), append(all, m), true
		}
	}
	for _, v6 := range []bool{false, true} {
		if used[v6] && !p.NoSNAT {
			for _, subnet := range p.hairpin(to[v6]) {
				e, s := within(hairpinSet, to[v6].Addr(), subnet)
				w.elements, w.needed = append(w.elements, e), append(w.needed, s)
			}
		}
	}
	for i := range w.elements {
		w.elements[i].owner = mark(o)
	}
	w.overlap = func(c *conn) error { return overlapping(c, o, all) }
	return w, all, nil
}

// hairpin are the sources that must look like the host to a container: those to which it would answer past the
// host, by its own subnet, and the host's loopback.
func (p PortMap) hairpin(target netip.Prefix) []netip.Prefix {
	switch {
	case p.MasqueradeAll:
		return []netip.Prefix{netip.PrefixFrom(target.Addr(), 0)}
	case target.Addr().Is4():
		return []netip.Prefix{target, loopback}
	}
	return []netip.Prefix{target}
}

var loopback = netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8)

// taken is the error for a port that another attachment has.
func taken(want, have element) error {
	return netconf.Unchanged(&link.Error{Op: "map", Name: describe(want), Err: netconf.Errorf(netconf.CodeExists,
		"the attachment %q has %s already", have.owner, describe(have))})
}

// overlapping looks for ports that overlap with another owner's and have another key: one address against all.
func overlapping(c *conn, o link.Owner, all []mapping) error {
	listed := map[bool][]element{} // of single addresses, by family
	for _, m := range all {
		if m.host.IsValid() {
			wide := m
			wide.host = netip.Addr{}
			have, err := c.find(wide.element().set, wide.element().key)
			if err != nil || have != nil && !marks(have.owner, o) {
				return netconf.Join(err, conflicting(m, have))
			}
			continue
		}
		counted, _ := singleOf(element{set: setName(addrPortsMap, m.v6), key: join(addrKey(m.to.Addr()), m.element().key)})
		if some, err := c.find(counted.set, counted.key); err != nil || some == nil {
			if err != nil {
				return err
			}
			continue
		}
		if _, done := listed[m.v6]; !done {
			single, err := c.elements(setName(addrPortsMap, m.v6), func(e element) bool { return !marks(e.owner, o) })
			if err != nil {
				return err
			}
			listed[m.v6] = single
		}
		for _, have := range listed[m.v6] {
			if _, rest := source(have.key, m.v6); string(rest) == string(m.element().key) {
				return conflicting(m, &have)
			}
		}
	}
	return nil
}

func conflicting(m mapping, have *element) error {
	if have == nil {
		return nil
	}
	return taken(m.element(), *have)
}

// Create maps the ports to a container with these addresses, each given with the length of its subnet's
// prefix. A port that another owner has, be it of one address or of all, is an error with code 100
// that names him; one that is this owner's already Is netconf.ErrExists. Either way nothing is changed.
func (p PortMap) Create(ctx context.Context, host *link.NS, o link.Owner, addrs []netip.Prefix) error {
	return p.put(ctx, host, o, addrs, true)
}

// Ensure is Create for what is not there, brings back what somebody has changed, the rules included, and takes away
// other mappings of the owner's.
func (p PortMap) Ensure(ctx context.Context, host *link.NS, o link.Owner, addrs []netip.Prefix) error {
	return p.put(ctx, host, o, addrs, false)
}

func (p PortMap) put(ctx context.Context, host *link.NS, o link.Owner, addrs []netip.Prefix, create bool) error {
	addrs, err := valid(addrs)
	if err != nil || len(p.Mappings) == 0 {
		return err
	}
	w, all, err := p.claim(o, addrs)
	if err != nil {
		return netconf.Unchanged(err)
	}
	removed, err := w.put(ctx, host, create)
	if err != nil {
		return err
	}
	// After the rules: none of the host's loopback is open without them, and a flow that is forgotten earlier
	// would begin again without the mapping.
	if err := settle(ctx, host, hairpinned(append(removed, w.elements...))); err != nil {
		return err
	}
	return forget(ctx, host, all, arriving(func(a netip.Addr) (bool, error) { return local(host, a) }))
}

// Verify compares the table with what Ensure made. A difference Is netconf.ErrDifferent.
func (p PortMap) Verify(_ context.Context, host *link.NS, o link.Owner, addrs []netip.Prefix) error {
	addrs, err := valid(addrs)
	if err != nil || len(p.Mappings) == 0 {
		return err
	}
	w, _, err := p.claim(o, addrs)
	if err != nil {
		return err
	}
	errs := []error{w.verify(host)}
	for _, a := range once(hairpinned(w.elements)) {
		errs = append(errs, verifyLoopback(host, a))
	}
	return netconf.Join(errs...)
}

// Delete takes the mappings away. The Mappings and the addresses save looking through all that are on the host, 20 ms
// with 5,000: that is done where one of both is missing, or a mapping is not the owner's. The table stays.
func (p PortMap) Delete(ctx context.Context, host *link.NS, o link.Owner, addrs []netip.Prefix) error {
	addrs, err := valid(addrs)
	if err != nil {
		addrs = nil // a DEL must not fail for what ADD refused
	}
	to := targets(addrs)
	w, mapped, err := p.claim(o, addrs)
	if err != nil {
		w, mapped = claim{}, nil
	}
	freed, err := take(ctx, host, func(c *conn) ([]element, error) {
		found, all, err := known(c, w, to)
		if err == nil && !all {
			found, err = c.ownedBy(p.sets(), func(e element) bool { return marks(e.owner, o) })
		}
		return found, err
	})
	flags := hairpinned(freed)
	if len(w.elements) > 0 && !p.NoSNAT { // also when a DEL that ended before this comes again
		flags = append(flags, to[false].Addr())
	}
	closed, lookErr := unserved(host, mapped)
	return netconf.Join(err, giveBack(ctx, host, flags), lookErr, forget(ctx, host, append(mappingsOf(freed), closed...), leaving))
}

// known finds the owner's elements by what he should have, and by what other options would have made of it; all tells
// whether there can be no others. Where one that he should have is not there, or not where it is looked for, there can.
func known(c *conn, w claim, to map[bool]netip.Prefix) (found []element, all bool, err error) {
	keys := slices.Clone(w.elements)
	for _, target := range to {
		for _, subnet := range []netip.Prefix{target, loopback, netip.PrefixFrom(target.Addr(), 0)} {
			e, _ := within(hairpinSet, target.Addr(), subnet)
			there := slices.ContainsFunc(keys, func(k element) bool { return k.set == e.set && bytes.Equal(k.key, e.key) })
			if !there && subnet.Addr().Is4() == target.Addr().Is4() {
				keys = append(keys, e)
			}
		}
	}
	for i, key := range keys {
		have, err := c.mine(key, w.marks)
		if err != nil {
			return nil, false, err
		}
		ours := have != nil && w.marks(have.owner)
		if i < len(w.elements) && (!ours || !bytes.Equal(key.value, have.value)) {
			return nil, false, nil
		}
		if ours {
			found = append(found, *have)
		}
	}
	return found, len(w.elements) > 0, nil
}

// mappingsOf are the mappings that elements stand for.
func mappingsOf(elements []element) (all []mapping) {
	for _, e := range elements {
		for _, v6 := range []bool{false, true} {
			m, key := mapping{v6: v6}, e.key
			switch e.set {
			case setName(portsMap, v6):
			case setName(addrPortsMap, v6):
				m.host, key = source(key, v6)
			default:
				continue
			}
			if m.to = endpoint(e.value, v6); m.to.IsValid() && len(key) >= 6 {
				m.protocol, m.port = key[0], binary.BigEndian.Uint16(key[4:])
				all = append(all, m)
			}
		}
	}
	return all
}

// Collect takes away the mappings of attachments of the network that are not in the list of those that live.
func (p PortMap) Collect(ctx context.Context, host *link.NS, network string, alive []types.GCAttachment) error {
	freed, err := collect(ctx, host, network, alive, p.sets())
	return netconf.Join(err, giveBack(ctx, host, hairpinned(freed)), forget(ctx, host, mappingsOf(freed), leaving))
}
