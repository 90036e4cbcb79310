package nat

import (
	"fmt"
	"strconv"
	"strings"
)

// Table is the one nftables table of this package, of the family inet: nft list table inet cnikit. All attachments
// share it; it is made by the first and stays.
const Table = "cnikit"

// MarkBit is the bit of a packet's mark that is set between the translation of its destination and that of its
// source: 13, which the reference portmap has by default. Kubernetes has 14 and 15, Calico 20 to 31. The first packet of a
// flow to an address of the host that leads to no port has it off after the look for one.
const MarkBit = 13

const (
	markMask = 1 << MarkBit

	// Rules of others at the usual priorities come first: what they translate stays theirs, whoever was
	// there earlier.
	beforeRouting = -100 + 1 // dstnat + 1
	afterRouting  = 100 + 1  // srcnat + 1
	rawPriority   = -300
)

// The sets and maps. Each is there for both families, with a 4 or a 6 behind its name; hairpin and near also for each
// length of a subnet's prefix that was needed so far, which is behind that: near4_24. A set whose key holds a
// range would do without, and makes each change copy all of it, 1 ms with 5,000 elements.
const (
	portsMap     = "ports"     // protocol . port : container's address . port, for all addresses of the host
	addrPortsMap = "addrports" // host's address . protocol . port : the same, for one
	singlesMap   = "singles"   // protocol . port : how many there are of it in addrports
	sourcesSet   = "sources"   // container's address, which is masqueraded
	hairpinSet   = "hairpin"   // container's address . subnet of a source that must not be what the container answers to
	nearSet      = "near"      // container's address . subnet to which it is not masqueraded
	furtherSet   = "further"   // who else wants an element of the last three: see share.go
)

// field is a part of a key or value, with its type as the program nft numbers them.
type field struct{ kind, size uint32 }

var (
	ipv4Field  = field{7, 4}
	ipv6Field  = field{8, 16}
	protoField = field{12, 1}
	portField  = field{13, 2}
)

func address(v6 bool) field {
	if v6 {
		return ipv6Field
	}
	return ipv4Field
}

// set is a set or, with a value, a map.
type set struct {
	name       string
	key, value []field
}

// setName is a set's name in a family.
func setName(name string, v6 bool) string {
	if v6 {
		return name + "6"
	}
	return name + "4"
}

// fixed are the sets that are always there.
func fixed() (sets []set) {
	for _, v6 := range []bool{false, true} {
		a, port := address(v6), []field{protoField, portField}
		sets = append(sets,
			set{setName(portsMap, v6), port, []field{a, portField}},
			set{setName(addrPortsMap, v6), append([]field{a}, port...), []field{a, portField}},
			set{setName(singlesMap, v6), port, []field{portField}},
			set{setName(sourcesSet, v6), []field{a}, nil},
			set{setName(furtherSet, v6), []field{a, a, portField, portField}, nil})
	}
	return sets
}

// subnets is a set for subnets of one length.
type subnets struct {
	name string // hairpinSet, nearSet
	v6   bool
	bits int
}

func (s subnets) String() string { return fmt.Sprintf("%s_%d", setName(s.name, s.v6), s.bits) }

func (s subnets) set() set { return set{s.String(), []field{address(s.v6), address(s.v6)}, nil} }

// parseSubnets reads the name of a set; ok is false for another's.
func parseSubnets(name string) (s subnets, ok bool) {
	for _, s.name = range []string{hairpinSet, nearSet} {
		for _, s.v6 = range []bool{false, true} {
			bits, ours := strings.CutPrefix(name, setName(s.name, s.v6)+"_")
			n, err := strconv.Atoi(bits)
			if s.bits = n; ours && err == nil && n >= 0 && uint32(n) <= 8*address(s.v6).size && s.String() == name {
				return s, true
			}
		}
	}
	return s, false
}

// rule ends, by what do appends, for a packet whose address at one offset of the header, and the subnet of
// the one at the other, are in the set.
func (s subnets) rule(do func(e *exprs) *exprs) rule {
	size, register, family := uint32(4), uint32(register32+1), byte(familyIPv4)
	from, to := uint32(12), uint32(16)
	if s.v6 {
		size, register, family, from, to = 16, register2, familyIPv6, 8, 24
	}
	if s.name == hairpinSet { // the container is the destination
		from, to = to, from
	}
	mask := make([]byte, size)
	for bit := range s.bits {
		mask[bit/8] |= 0x80 >> (bit % 8)
	}
	e := new(exprs).family(family).payload(networkHeader, from, size, register1).payload(networkHeader, to, size, register)
	return rule{s.String(), do(e.bits(register, mask, make([]byte, size)).in(s.String()))}
}

// layout of the fields: the number that nft knows the type by, and the bytes. Of several each fills its registers.
func layout(fields []field) (kind, size uint32) {
	if len(fields) == 1 {
		return fields[0].kind, fields[0].size
	}
	for _, f := range fields {
		kind = kind<<6 | f.kind
		size += (f.size + 3) &^ 3
	}
	return kind, size
}

const setMap = 0x8

// create makes the set if it is not there.
func (s set) create(id uint32) op {
	kind, size := layout(s.key)
	a := new(attrs).text(1, Table).text(2, s.name).u32(4, kind).u32(5, size).u32(10, id)
	if len(s.value) > 0 {
		kind, size := layout(s.value)
		a.u32(6, kind).u32(7, size).u32(3, setMap)
	}
	return op{change(newSet, flagCreate, a), "add set " + s.name}
}

// chain is a chain of the table.
type chain struct {
	name, kind     string // kind: "nat" or "filter" where a hook calls it; else empty
	hook, priority int32
	rules          []rule
}

// rule has a comment, which says what it is for and by which it is known.
type rule struct {
	comment string
	*exprs
}

// version is at the beginning of the comments: a rule of an older version is replaced.
const version = "v1: "

const (
	hookPrerouting  = 0
	hookOutput      = 3
	hookPostrouting = 4
)

// chains is what the table holds besides the sets, with rules for the given sets of subnets.
func chains(lengths []subnets) []chain {
	local := func() []rule {
		return []rule{{"to an address of the host", new(exprs).local().verdict(jump, "hostports")}}
	}
	marked := new(exprs).meta(metaMark, register1).bits(register1, native(markMask), native(0)).cmp(equal, native(markMask)...)
	hairpin := []rule{{"the mark has done its work", new(exprs).setMark(^uint32(markMask), 0)}}
	var outgoing []rule
	for _, s := range lengths {
		if s.name == hairpinSet { // the answer must come by the host
			hairpin = append(hairpin, s.rule((*exprs).masquerade))
		} else {
			outgoing = append(outgoing, s.rule(func(e *exprs) *exprs { return e.verdict(back, "") }))
		}
	}
	outgoing = append(outgoing, rule{"what leaves the container's subnet", new(exprs).masquerade()})
	return []chain{
		{name: "hostports", rules: hostports()},
		{name: "hairpin", rules: hairpin},
		{name: "outgoing", rules: outgoing},
		{name: "prerouting", kind: "nat", hook: hookPrerouting, priority: beforeRouting, rules: local()},
		{name: "output", kind: "nat", hook: hookOutput, priority: beforeRouting, rules: local()},
		{name: "postrouting", kind: "nat", hook: hookPostrouting, priority: afterRouting, rules: []rule{
			{"to a mapped port", marked.verdict(jump, "hairpin")},
			{"multicast", new(exprs).family(familyIPv4).payload(networkHeader, 16, 4, register1).
				bits(register1, []byte{0xf0, 0, 0, 0}, make([]byte, 4)).cmp(equal, 224, 0, 0, 0).verdict(back, "")},
			{"multicast, IPv6", new(exprs).family(familyIPv6).payload(networkHeader, 24, 1, register1).cmp(equal, 0xff).verdict(back, "")},
			{"from a container", new(exprs).family(familyIPv4).payload(networkHeader, 12, 4, register1).
				in(sourcesSet+"4").verdict(jump, "outgoing")},
			{"from a container, IPv6", new(exprs).family(familyIPv6).payload(networkHeader, 8, 16, register1).
				in(sourcesSet+"6").verdict(jump, "outgoing")},
		}},
		// With route_localnet, which a packet from 127.0.0.1 to a container needs, the kernel takes packets to
		// 127.0.0.0/8 from the outside too: CVE-2020-8558.
		{name: "loopback", kind: "filter", hook: hookPrerouting, priority: rawPriority, rules: []rule{
			{"nobody reaches the host's loopback from outside", new(exprs).meta(metaIIF, register1).cmp(unequal, native(1)...).
				family(familyIPv4).payload(networkHeader, 16, 1, register1).cmp(equal, 127).verdict(drop, "")},
		}},
	}
}

// hostports are the rules that lead to a container. One for a single address goes before. Who finds a port leaves the chain
// by its translation, so the mark is set before and taken off after: set between the look into the map and the
// translation it would be before both in a ruleset that nft has listed and loaded, which puts the two together.
func hostports() []rule {
	port := func(e *exprs, at uint32) *exprs { // protocol and port, behind an address in the registers
		return e.meta(metaL4Proto, at).payload(transportHeader, 2, 2, following(at))
	}
	one := func(family byte) *exprs { return new(exprs).family(family) }
	to := func(e *exprs, set string, family byte, port uint32) *exprs {
		return e.from(set).dnat(uint32(family), port)
	}
	ip, ip6 := one(familyIPv4).payload(networkHeader, 16, 4, register1), one(familyIPv6).payload(networkHeader, 24, 16, register1)
	loop := [16]byte{15: 1}
	return []rule{
		{"no packet leaves the host with the source ::1", one(familyIPv6).payload(networkHeader, 24, 16, register1).
			cmp(equal, loop[:]...).verdict(back, "")},
		{"the mark, for what finds a port", new(exprs).setMark(^uint32(markMask), markMask)},
		{"one address", to(port(ip, register32+1), addrPortsMap+"4", familyIPv4, register32+1)},
		{"all addresses", to(port(one(familyIPv4), register1), portsMap+"4", familyIPv4, register32+1)},
		{"one address, IPv6", to(port(ip6, register2), addrPortsMap+"6", familyIPv6, register2)},
		{"all addresses, IPv6", to(port(one(familyIPv6), register1), portsMap+"6", familyIPv6, register2)},
		{"no mark for what found none", new(exprs).setMark(^uint32(markMask), 0)},
	}
}

// following is the register of four bytes behind one.
func following(register uint32) uint32 {
	if register < register32 {
		return register32 + (register-1)*4 + 1
	}
	return register + 1
}

func change(kind, flags uint16, body *attrs) message {
	return message{kind: kind, flags: flags, family: familyInet, body: *body}
}

// create makes the chain if it is not there, and takes the rules off it.
func (c chain) create() []op {
	a := new(attrs).text(1, Table).text(3, c.name)
	if c.kind != "" {
		hook := new(attrs).u32(1, uint32(c.hook)).u32(2, uint32(c.priority))
		a.nest(4, hook).u32(5, 1).text(7, c.kind) // the policy is accept
	}
	return []op{{change(newChain, flagCreate, a), "add chain " + c.name}, flush(c.name)}
}

func flush(chain string) op {
	return op{change(delRule, 0, new(attrs).text(1, Table).text(2, chain)), "flush chain " + chain}
}

func (c chain) fill() (ops []op) {
	for _, r := range c.rules {
		a := new(attrs).text(1, Table).text(2, c.name).nest(4, &r.list).put(7, comment(version+r.comment))
		ops = append(ops, op{change(newRule, flagCreate|flagAppend, a), fmt.Sprintf("add rule to %s: %s", c.name, r.comment)})
	}
	return ops
}

// addTable makes the table if it is not there, and wakes it if somebody has put it to sleep.
func addTable() op {
	return op{change(newTable, flagCreate, new(attrs).text(1, Table).u32(2, 0)), "add table " + Table}
}

// base is what makes the table, whatever there is of it; elements are kept. Of the chains that are there those that
// cannot be changed into ours are made anew.
func base(lengths []subnets, there, anew []string) []op {
	ops := []op{addTable()}
	for _, name := range there { // no chain goes that a rule leads to
		ops = append(ops, flush(name))
	}
	for _, name := range anew {
		ops = append(ops, op{change(delChain, 0, new(attrs).text(1, Table).text(3, name)), "delete chain " + name})
	}
	sets := fixed()
	for _, s := range lengths {
		sets = append(sets, s.set())
	}
	for i, s := range sets {
		ops = append(ops, s.create(uint32(i+1)))
	}
	all := chains(lengths)
	for _, c := range all {
		ops = append(ops, c.create()...)
	}
	for _, c := range all {
		ops = append(ops, c.fill()...)
	}
	return ops
}
