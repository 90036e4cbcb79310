package nat

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// A flow is translated as its first packet was. Of UDP, where nothing ends a flow, a sender that
// never pauses would for ever go to where the port led before: to the host, or to a container that is gone.

const (
	udp = 17

	errNoRoute   = syscall.EHOSTUNREACH
	errNoNetwork = syscall.ENETUNREACH
)

// flow is an entry of the connection tracking.
type flow struct {
	from, to           netip.AddrPort // of its first packet
	replyFrom, replyTo netip.AddrPort // of the answers
	original           []byte         // the first packet's tuple, as the kernel gave it
	zone, id           []byte
}

// judge tells whether a flow to a mapped port is to be forgotten.
type judge func(m mapping, f flow) (bool, error)

// arriving forgets what does not go where the port leads now, if it is to the host. What only passes through the
// host on its way to the same port elsewhere is left. Whether an address is the host's is asked once for each: a resolver's
// host may have 30,000 flows to one address, and 30,000 looks at the routes took 0.4 s.
func arriving(isLocal func(netip.Addr) (bool, error)) judge {
	known := map[netip.Addr]bool{}
	return func(m mapping, f flow) (bool, error) {
		a := f.to.Addr()
		switch is, asked := known[a]; {
		case f.replyFrom == m.to:
			return false, nil
		case m.host.IsValid():
			return a == m.host, nil
		case asked:
			return is, nil
		}
		is, err := isLocal(a)
		known[a] = is
		return is, err
	}
}

// leaving forgets what goes where the port led.
func leaving(m mapping, f flow) (bool, error) { return f.replyFrom == m.to, nil }

// unserved are the mappings of UDP that nobody has, or that lead elsewhere by now: a DEL that ended before it forgot
// their flows has freed them, and the one that comes again finds nothing else to go by.
func unserved(host *link.NS, all []mapping) (out []mapping, err error) {
	all = slices.DeleteFunc(all, func(m mapping) bool { return m.protocol != udp })
	if len(all) == 0 {
		return nil, nil
	}
	err = dial(host, func(c *conn) error {
		if _, err := c.generation(); err != nil {
			return err
		}
		for _, m := range all {
			e := m.element()
			have, err := c.find(e.set, e.key)
			if err != nil {
				return err
			}
			if have == nil || !bytes.Equal(have.value, e.value) {
				out = append(out, m)
			}
		}
		return nil
	})
	if absent(err) {
		return nil, nil
	}
	return out, err
}

// forget takes flows of UDP out of the connection tracking. A kernel without a way to do so keeps them.
func forget(ctx context.Context, host *link.NS, all []mapping, stale judge) error {
	byFamily := map[bool][]mapping{}
	for _, m := range all {
		if m.protocol == udp {
			byFamily[m.v6] = append(byFamily[m.v6], m)
		}
	}
	if len(byFamily) == 0 {
		return nil
	}
	return dial(host, func(c *conn) error {
		for v6, mapped := range byFamily {
			if err := c.forget(ctx, v6, mapped, stale); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *conn) forget(ctx context.Context, v6 bool, mapped []mapping, stale judge) error {
	byPort := map[uint16][]mapping{}
	for _, m := range mapped {
		byPort[m.port] = append(byPort[m.port], m)
	}
	flows, err := c.flows(v6, byPort)
	if err != nil {
		return err
	}
	for _, f := range flows {
		for _, m := range byPort[f.to.Port()] {
			is, err := stale(m, f)
			if err == nil && is {
				err = c.forgetFlow(ctx, v6, f)
			}
			if err != nil {
				return err
			}
			if is {
				break // the same mapping may be there twice
			}
		}
	}
	return nil
}

// forgetFlow deletes a flow; it may have ended.
func (c *conn) forgetFlow(ctx context.Context, v6 bool, f flow) error {
	fail := func(err error) error { return &link.Error{Op: "conntrack delete", Name: f.to.String(), Err: err} }
	if err := netconf.Before(ctx, "conntrack delete"); err != nil {
		return fail(err)
	}
	body := new(attrs).put(ctaOriginal|nested, f.original)
	if f.zone != nil {
		body.put(ctaZone, f.zone)
	}
	if f.id != nil {
		body.put(ctaID, f.id)
	}
	one := []message{{kind: ctDelete, flags: flagAck, family: familyOf(v6), body: *body}}
	if err := c.send(one); err != nil {
		return fail(err)
	}
	if _, err := c.next(one[0].seq); err != nil && !gone(err) {
		return fail(err)
	}
	return nil
}

func familyOf(v6 bool) byte {
	if v6 {
		return familyIPv6
	}
	return familyIPv4
}

const (
	ctaOriginal = 1
	ctaReply    = 2
	ctaID       = 12
	ctaZone     = 18
	ctaFilter   = 25
)

// flows lists those of UDP whose first packet was to one of the ports. They are listed once for all: to walk through
// the kernel's table, of 262,144 buckets here, takes 10 ms. Since 5.8 the kernel picks out what is asked for.
func (c *conn) flows(v6 bool, ports map[uint16][]mapping) (all []flow, err error) {
	const protocol, port = 1 << 3, 1 << 5 // of the filter
	proto, filter := new(attrs).put(1, []byte{udp}), uint32(protocol)
	if len(ports) == 1 {
		for n := range ports {
			proto.put(3, binary.BigEndian.AppendUint16(nil, n))
		}
		filter |= port
	}
	body := new(attrs).nest(ctaOriginal, new(attrs).nest(2, proto))
	body.nest(ctaFilter, new(attrs).put(1, native(filter)).put(2, native(0)))
	list, err := c.dump(message{kind: ctGet, family: familyOf(v6), body: *body})
	switch {
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EOPNOTSUPP): // no ctnetlink
		return nil, nil
	case err != nil:
		return nil, &link.Error{Op: "conntrack list", Err: err}
	}
	for _, b := range list {
		original := inside(b, ctaOriginal)
		f := flow{original: original, zone: inside(b, ctaZone), id: inside(b, ctaID)}
		var number byte
		f.from, f.to, number = tupleOf(original)
		f.replyFrom, f.replyTo, _ = tupleOf(inside(b, ctaReply))
		if number == udp && ports[f.to.Port()] != nil {
			all = append(all, f)
		}
	}
	return all, nil
}

// tupleOf reads one direction of a flow.
func tupleOf(b []byte) (from, to netip.AddrPort, protocol byte) {
	var addrs [2]netip.Addr
	for kind, v := range walk(inside(b, 1)) {
		if a, ok := netip.AddrFromSlice(v); ok && kind >= 1 && kind <= 4 {
			addrs[(kind-1)%2] = a // source, destination; of IPv4, then of IPv6
		}
	}
	var ports [2]uint16
	for kind, v := range walk(inside(b, 2)) {
		switch {
		case kind == 1 && len(v) == 1:
			protocol = v[0]
		case (kind == 2 || kind == 3) && len(v) == 2:
			ports[kind-2] = binary.BigEndian.Uint16(v)
		}
	}
	return netip.AddrPortFrom(addrs[0], ports[0]), netip.AddrPortFrom(addrs[1], ports[1]), protocol
}
