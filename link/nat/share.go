package nat

import (
	"encoding/binary"
	"slices"
)

// Two networks may give the same address, and an address may be given again before its former owner's DEL has come. What
// is made for an address alone is then wanted by several, and must last as long as one of them: the first has it in
// its set, where packets find it, the others each an element of the set "further", which no rule asks. When the
// first goes, another takes its place in the same batch.
//
// The key of a further one is the container's address, the subnet (0.0.0.0 where there is none), a number that tells the
// set, and which of the others it is, from 1. So all owners of an element are found by asking for one after
// the other until there is none, and nobody looks through the whole set.

// ofSources, and what is added to the length of a prefix, stand for a set in a key of "further".
const (
	ofSources = 1
	ofNear    = 1000
	ofHairpin = 2000
)

// shared tells whether several attachments may want one element of a set, and the number that stands for the set.
func shared(name string) (number int, v6, ok bool) {
	if s, ok := parseSubnets(name); ok {
		return map[string]int{nearSet: ofNear, hairpinSet: ofHairpin}[s.name] + s.bits, s.v6, true
	}
	v6 = name == setName(sourcesSet, true)
	return ofSources, v6, v6 || name == setName(sourcesSet, false)
}

// at is where the n-th owner of a shared element, from 0, has his own.
func (e element) at(n int) element {
	number, v6, _ := shared(e.set)
	if n == 0 {
		return e
	}
	key := slices.Clone(e.key)
	if number == ofSources {
		key = append(key, make([]byte, len(key))...)
	}
	e.set, e.key = setName(furtherSet, v6), join(key, portKey(uint16(number)), portKey(uint16(n)))
	return e
}

// place is the inverse of at; ok is false for an element that is not shared.
func (e element) place() (first element, n int, ok bool) {
	if _, _, ok := shared(e.set); ok {
		return e, 0, true
	}
	for _, v6 := range []bool{false, true} {
		size := int(address(v6).size)
		if e.set != setName(furtherSet, v6) || len(e.key) < 2*size+6 {
			continue
		}
		number, rest := int(binary.BigEndian.Uint16(e.key[2*size:])), e.key[2*size+4:]
		first, n := element{owner: e.owner, key: e.key[:2*size]}, int(binary.BigEndian.Uint16(rest))
		switch {
		case number == ofSources:
			first.set, first.key = setName(sourcesSet, v6), e.key[:size]
		case number >= ofHairpin:
			first.set = subnets{hairpinSet, v6, number - ofHairpin}.String()
		case number >= ofNear:
			first.set = subnets{nearSet, v6, number - ofNear}.String()
		}
		_, _, known := shared(first.set)
		return first, n, known && n > 0
	}
	return e, 0, false
}

// maxOwners is how many may share an element: more than a host has networks, and the number has 16 bits.
const maxOwners = 1 << 16

// owners lists those of an element, each where he has it: up to the first place where there is none, and on to
// the last of the places that are known to be taken. Where somebody took one away in between it is nil.
func (c *conn) owners(e element, taken ...int) (all []*element, err error) {
	last := slices.Max(append(taken, -1))
	for n := 0; n < maxOwners; n++ {
		where := e.at(n)
		have, err := c.find(where.set, where.key)
		if err != nil {
			return nil, err
		}
		if have == nil && n > last {
			return all, nil
		}
		all = append(all, have)
	}
	return all, nil
}

// group is a shared element whose owners change.
type group struct {
	element
	leave []int    // the places of those who go
	join  []string // who comes
}

// regroup puts the changes of shared elements so that each has its owners one after the other. What is not
// shared stays as it is. An element that is nobody's, which somebody made by hand, goes.
func (c *conn) regroup(del, add []element) (outDel, outAdd []element, err error) {
	var groups []*group
	known := map[string]*group{}
	of := func(first element) *group {
		key := first.set + string(first.key)
		if known[key] == nil {
			known[key] = &group{element: first}
			groups = append(groups, known[key])
		}
		return known[key]
	}
	for _, e := range del {
		if first, n, ok := e.place(); ok {
			g := of(first)
			g.leave = append(g.leave, n)
		} else {
			outDel = append(outDel, e)
		}
	}
	for _, e := range add {
		if first, _, ok := e.place(); ok {
			g := of(first)
			g.join = append(g.join, e.owner)
		} else {
			outAdd = append(outAdd, e)
		}
	}
	for _, g := range groups {
		have, err := c.owners(g.element, g.leave...)
		if err != nil {
			return nil, nil, err
		}
		less, more := g.changes(have)
		outDel, outAdd = append(outDel, less...), append(outAdd, more...)
	}
	return outDel, outAdd, nil
}

// changes are those from the owners that a group has to those that it shall have. Where somebody took the first away, with
// its set perhaps, those who stay are left where they are: their Ensure brings it back.
func (g *group) changes(have []*element) (del, add []element) {
	if len(g.join) == 0 && (len(have) == 0 || have[0] == nil) {
		for _, n := range g.leave {
			if n < len(have) && have[n] != nil {
				del = append(del, *have[n])
			}
		}
		return del, nil
	}
	var want []string
	for n, e := range have {
		if e == nil || slices.Contains(g.leave, n) {
			continue
		}
		if _, ok := parseMark(e.owner); ok {
			want = append(want, e.owner)
		}
	}
	want = append(want, g.join...)
	for n := range max(len(have), len(want)) {
		there := n < len(have) && have[n] != nil
		if there && n < len(want) && have[n].owner == want[n] {
			continue
		}
		if there {
			del = append(del, *have[n])
		}
		if n < len(want) {
			e := g.at(n)
			e.owner = want[n]
			add = append(add, e)
		}
	}
	return del, add
}

// mine returns the element with a key, where the owner has it; nil if he has not. Of an element that is not shared
// it is who has it, whoever that is.
func (c *conn) mine(e element, isOwner func(comment string) bool) (*element, error) {
	if _, _, ok := e.place(); !ok {
		return c.find(e.set, e.key)
	}
	all, err := c.owners(e)
	for _, have := range all {
		if have != nil && isOwner(have.owner) {
			return have, nil
		}
	}
	return nil, err
}
