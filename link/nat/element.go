package nat

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/cnikit/cnikit/link"
)

// element is an element of a set or map.
type element struct {
	set        string
	key, value []byte
	owner      string // the comment; only those of singlesMap have none
}

// A key, or a value, is its fields in registers: each begins at a multiple of four bytes.

func addrKey(a netip.Addr) []byte { return a.AsSlice() }

func portKey(port uint16) []byte { return append(binary.BigEndian.AppendUint16(nil, port), 0, 0) }

func protoKey(protocol byte) []byte { return []byte{protocol, 0, 0, 0} }

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// source is the address at the beginning of a key or value.
func source(b []byte, v6 bool) (a netip.Addr, rest []byte) {
	n := 4
	if v6 {
		n = 16
	}
	if len(b) < n {
		return a, nil
	}
	a, _ = netip.AddrFromSlice(b[:n]) // of the length of an address
	return a, b[n:]
}

// endpoint reads the value of a map.
func endpoint(b []byte, v6 bool) netip.AddrPort {
	a, rest := source(b, v6)
	if len(rest) < 2 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(rest))
}

// within is the element for an address and a subnet, and the set that it is in.
func within(name string, a netip.Addr, subnet netip.Prefix) (element, subnets) {
	s := subnets{name, a.Is6(), subnet.Bits()}
	return element{set: s.String(), key: join(addrKey(a), addrKey(subnet.Masked().Addr()))}, s
}

// attrs is the element in a message. To be found or deleted it needs no value and no comment.
func (e element) attrs(whole bool) *attrs {
	value := func(b []byte) *attrs { return new(attrs).put(valueAttr, b) }
	a := new(attrs).nest(1, value(e.key))
	if whole && e.value != nil {
		a.nest(2, value(e.value))
	}
	if whole && e.owner != "" {
		a.put(6, comment(e.owner))
	}
	return a
}

// list is a message's body with elements of one set.
func list(set string, all []element, whole bool) *attrs {
	var elements attrs
	for _, e := range all {
		elements.nest(1, e.attrs(whole))
	}
	return new(attrs).text(1, Table).text(2, set).nest(3, &elements)
}

// read takes the elements out of an answer.
func read(body []byte) (all []element) {
	set := str(inside(body, 2))
	for kind, b := range walk(inside(body, 3)) {
		if kind != 1 {
			continue
		}
		e := element{set: set}
		for kind, v := range walk(b) {
			switch kind {
			case 1:
				e.key = inside(v, valueAttr)
			case 2:
				e.value = inside(v, valueAttr)
			case 6:
				e.owner = commentOf(v)
			}
		}
		all = append(all, e)
	}
	return all
}

// find returns the element with a key; nil if there is none, as in a set that is not as ours are: a key of ours
// does not fit there.
func (c *conn) find(set string, key []byte) (*element, error) {
	body, err := c.get(message{kind: getElement, family: familyInet, body: *list(set, []element{{key: key}}, false)})
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		if is, lookErr := c.isForeign(set); is || lookErr != nil {
			return nil, lookErr
		}
		return nil, &link.Error{Op: "nft get element", Name: set, Err: err}
	}
	all := read(bytes.Clone(body)) // the buffer is the next answer's
	if len(all) == 0 {
		return nil, nil
	}
	return &all[0], nil
}

// elements lists those of a set that are wanted.
func (c *conn) elements(name string, wanted func(e element) bool) (out []element, err error) {
	bodies, err := c.dump(message{kind: getElement, family: familyInet, body: *new(attrs).text(1, Table).text(2, name)})
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, &link.Error{Op: "nft list set", Name: name, Err: err}
	}
	for _, b := range bodies {
		for _, e := range read(b) {
			if wanted(e) {
				out = append(out, e)
			}
		}
	}
	return out, nil
}

// maxElements is how many go into one message: a list of attributes has 64 KiB at most.
const maxElements = 200

// many makes the messages that add or delete elements.
func many(kind, flags uint16, all []element, what string) (ops []op) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b element) int { return bytes.Compare([]byte(a.set), []byte(b.set)) })
	for len(all) > 0 {
		n := 1
		for n < len(all) && n < maxElements && all[n].set == all[0].set {
			n++
		}
		ops = append(ops, op{change(kind, flags, list(all[0].set, all[:n], kind == newElement)), what + " " + all[0].set})
		all = all[n:]
	}
	return ops
}

func adding(all []element) []op { return many(newElement, flagCreate|flagExclusive, all, "add to") }

func deleting(all []element) []op { return many(delElement, 0, all, "delete from") }

func (e element) equal(o element) bool {
	return e.set == o.set && e.owner == o.owner && bytes.Equal(e.key, o.key) && bytes.Equal(e.value, o.value)
}
