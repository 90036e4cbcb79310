package nat

import (
	"fmt"
	"slices"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// Table is the one nftables table of this package, of the family inet: nft list table inet cnikit. All attachments
// share it; it is made by the first and stays.
const Table = "cnikit"

// MarkBit is the bit of a packet's mark that is set between the translation of its destination and that of its
// source: 13, which the reference portmap has by default. Kubernetes has 14 and 15, Calico 20 to 31.
const MarkBit = 13

const (
	markMask = 1 << MarkBit

	// Rules of others at the usual priorities come first: what they translate stays theirs, whoever was
	// there earlier.
	beforeRouting = -100 + 1 // dstnat + 1
	afterRouting  = 100 + 1  // srcnat + 1
	rawPriority   = -300
)

// The sets and maps. Those for the family are written with a 4 or a 6 behind.
const (
	portsMap     = "ports"     // protocol . port : container's address . port, for all addresses of the host
	addrPortsMap = "addrports" // host's address . protocol . port : the same, for one
	hairpinSet   = "hairpin"   // container's address . source, which must not be what the container answers to
	sourcesSet   = "sources"   // container's address, which is masqueraded
	nearSet      = "near"      // container's address . destination, to which it is not
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
	ranges     bool // the last field of a key is a range
}

func setOf(name string, v6 bool) set {
	a := address(v6)
	s := set{name: name + "4"}
	if v6 {
		s.name = name + "6"
	}
	switch name {
	case portsMap:
		s.key, s.value = []field{protoField, portField}, []field{a, portField}
	case addrPortsMap:
		s.key, s.value = []field{a, protoField, portField}, []field{a, portField}
	case hairpinSet, nearSet:
		s.key, s.ranges = []field{a, a}, true
	case sourcesSet:
		s.key = []field{a}
	}
	return s
}

func both(names ...string) (sets []set) {
	for _, name := range names {
		sets = append(sets, setOf(name, false), setOf(name, true))
	}
	return sets
}

// layout of the fields: the number that nft knows the type by, and the bytes in registers.
func layout(fields []field) (kind, size uint32) {
	for _, f := range fields {
		kind = kind<<6 | f.kind
		size += (f.size + 3) &^ 3
	}
	return kind, size
}

const (
	setRanges = 0x4
	setMap    = 0x8
	setConcat = 0x80
)

// create makes the set if it is not there.
func (s set) create(id uint32) op {
	kind, size := layout(s.key)
	flags := uint32(0)
	a := new(attrs).text(1, Table).text(2, s.name).u32(4, kind).u32(5, size).u32(10, id)
	if len(s.value) > 0 {
		flags |= setMap
		kind, size := layout(s.value)
		a.u32(6, kind).u32(7, size)
	}
	if s.ranges {
		flags |= setRanges | setConcat
		var list attrs
		for _, f := range s.key {
			list.nest(1, new(attrs).u32(1, f.size))
		}
		a.nest(9, new(attrs).nest(2, &list))
	}
	a.u32(3, flags)
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

// chains is what the table holds besides the sets.
func chains() []chain {
	local := func() []rule {
		return []rule{{"to an address of the host", new(exprs).local().verdict(jump, "hostports")}}
	}
	marked := new(exprs).meta(metaMark, register1).bits(register1, native(markMask), native(0)).cmp(equal, native(markMask)...)
	return []chain{
		{name: "hostports", rules: hostports()},
		{name: "hairpin", rules: []rule{
			{"the mark has done its work", new(exprs).setMark(^uint32(markMask), 0)},
			{"the answer must come by the host", pair(familyIPv4, 16, 12, hairpinSet).masquerade()},
			{"the answer must come by the host, IPv6", pair(familyIPv6, 24, 8, hairpinSet).masquerade()},
		}},
		{name: "prerouting", kind: "nat", hook: hookPrerouting, priority: beforeRouting, rules: local()},
		{name: "output", kind: "nat", hook: hookOutput, priority: beforeRouting, rules: local()},
		{name: "postrouting", kind: "nat", hook: hookPostrouting, priority: afterRouting, rules: append([]rule{
			{"to a mapped port", marked.verdict(jump, "hairpin")},
		}, masquerading()...)},
		// With route_localnet, which a packet from 127.0.0.1 to a container needs, the kernel takes packets to
		// 127.0.0.0/8 from the outside too: CVE-2020-8558.
		{name: "loopback", kind: "filter", hook: hookPrerouting, priority: rawPriority, rules: []rule{
			{"nobody reaches the host's loopback from outside", new(exprs).meta(metaIIF, register1).cmp(unequal, native(1)...).
				family(familyIPv4).payload(networkHeader, 16, 1, register1).cmp(equal, 127).verdict(drop, "")},
		}},
	}
}

// hostports are the rules that lead to a container. One for a single address goes before.
func hostports() []rule {
	port := func(e *exprs, at uint32) *exprs { // protocol and port, behind an address in the registers
		return e.meta(metaL4Proto, at).payload(transportHeader, 2, 2, following(at))
	}
	one := func(family byte) *exprs { return new(exprs).family(family) }
	to := func(e *exprs, set string, family byte, port uint32) *exprs {
		return e.from(set).setMark(^uint32(markMask), markMask).dnat(uint32(family), port)
	}
	ip, ip6 := one(familyIPv4).payload(networkHeader, 16, 4, register1), one(familyIPv6).payload(networkHeader, 24, 16, register1)
	loop := [16]byte{15: 1}
	return []rule{
		{"no packet leaves the host with the source ::1", one(familyIPv6).payload(networkHeader, 24, 16, register1).
			cmp(equal, loop[:]...).verdict(back, "")},
		{"one address", to(port(ip, register32+1), addrPortsMap+"4", familyIPv4, register32+1)},
		{"all addresses", to(port(one(familyIPv4), register1), portsMap+"4", familyIPv4, register32+1)},
		{"one address, IPv6", to(port(ip6, register2), addrPortsMap+"6", familyIPv6, register2)},
		{"all addresses, IPv6", to(port(one(familyIPv6), register1), portsMap+"6", familyIPv6, register2)},
	}
}

// following is the register of four bytes behind one.
func following(register uint32) uint32 {
	if register < register32 {
		return register32 + (register-1)*4 + 1
	}
	return register + 1
}

// pair looks two addresses of the header up in a set; the offsets are 12 and 16 for IPv4, 8 and 24 for IPv6.
func pair(family byte, first, second uint32, name string) *exprs {
	e := new(exprs).family(family)
	if family == familyIPv4 {
		return e.payload(networkHeader, first, 4, register1).payload(networkHeader, second, 4, register32+1).in(name + "4")
	}
	return e.payload(networkHeader, first, 16, register1).payload(networkHeader, second, 16, register2).in(name + "6")
}

// masquerading are the rules for what containers send.
func masquerading() []rule {
	source := func(family byte, offset, size uint32, name string) *exprs {
		return new(exprs).family(family).payload(networkHeader, offset, size, register1).in(name)
	}
	return []rule{
		{"multicast", new(exprs).family(familyIPv4).payload(networkHeader, 16, 4, register1).
			bits(register1, []byte{0xf0, 0, 0, 0}, make([]byte, 4)).cmp(equal, 224, 0, 0, 0).verdict(back, "")},
		{"multicast, IPv6", new(exprs).family(familyIPv6).payload(networkHeader, 24, 1, register1).cmp(equal, 0xff).verdict(back, "")},
		{"the container's own subnet", pair(familyIPv4, 12, 16, nearSet).verdict(back, "")},
		{"the container's own subnet, IPv6", pair(familyIPv6, 8, 24, nearSet).verdict(back, "")},
		{"what leaves it", source(familyIPv4, 12, 4, sourcesSet+"4").masquerade()},
		{"what leaves it, IPv6", source(familyIPv6, 8, 16, sourcesSet+"6").masquerade()},
	}
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
	flush := new(attrs).text(1, Table).text(2, c.name)
	return []op{{change(newChain, flagCreate, a), "add chain " + c.name}, {change(delRule, 0, flush), "flush chain " + c.name}}
}

func (c chain) fill() (ops []op) {
	for _, r := range c.rules {
		a := new(attrs).text(1, Table).text(2, c.name).nest(4, &r.list).put(7, comment(version+r.comment))
		ops = append(ops, op{change(newRule, flagCreate|flagAppend, a), fmt.Sprintf("add rule to %s: %s", c.name, r.comment)})
	}
	return ops
}

// addTable makes the table if it is not there.
func addTable() op {
	return op{change(newTable, flagCreate, new(attrs).text(1, Table)), "add table " + Table}
}

// base is what makes the table, whatever there is of it; elements are kept.
func base() []op {
	ops := []op{addTable()}
	for i, s := range both(portsMap, addrPortsMap, hairpinSet, sourcesSet, nearSet) {
		ops = append(ops, s.create(uint32(i+1)))
	}
	all := chains()
	for _, c := range all {
		ops = append(ops, c.create()...)
	}
	for _, c := range all {
		ops = append(ops, c.fill()...)
	}
	return ops
}

// missingBase is base if a rule of the table is missing or another's. Without a set or a chain its rules could
// not be there.
func (c *conn) missingBase() ([]op, error) {
	have, err := c.rules()
	if err != nil {
		return nil, err
	}
	if slices.Equal(have, wantedRules()) {
		return nil, nil
	}
	return base(), nil
}

// rules lists the table's rules as "CHAIN COMMENT", by chain.
func (c *conn) rules() ([]string, error) {
	list, err := c.dump(message{kind: getRule, family: familyInet, body: *new(attrs).text(1, Table)})
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, &link.Error{Op: "nft list", Name: Table, Err: err}
	}
	var have []string
	for _, b := range list {
		if str(inside(b, 1)) == Table { // a kernel that does not know the filter lists all tables
			have = append(have, str(inside(b, 2))+" "+commentOf(inside(b, 7)))
		}
	}
	slices.SortStableFunc(have, byChain)
	return have, nil
}

func wantedRules() (want []string) {
	for _, c := range chains() {
		for _, r := range c.rules {
			want = append(want, c.name+" "+version+r.comment)
		}
	}
	slices.SortStableFunc(want, byChain)
	return want
}

// verifyBase compares the table's rules and the hooks of its chains.
func (c *conn) verifyBase() error {
	have, err := c.rules()
	if err != nil {
		return err
	}
	if !slices.Equal(have, wantedRules()) {
		return different("the rules of table "+Table, "as they were made", "others")
	}
	for _, want := range chains() {
		b, err := c.get(message{kind: getChain, family: familyInet, body: *new(attrs).text(1, Table).text(3, want.name)})
		if err != nil {
			return &link.Error{Op: "nft get chain", Name: want.name, Err: err}
		}
		hook, priority := int32(word(inside(b, 4, 1))), int32(word(inside(b, 4, 2)))
		policy := want.kind == "" || word(inside(b, 5)) == 1
		if str(inside(b, 7)) != want.kind || hook != want.hook || priority != want.priority || !policy {
			return different("chain "+want.name, fmt.Sprintf("%s hook %d priority %d", want.kind, want.hook, want.priority),
				fmt.Sprintf("%s hook %d priority %d", str(inside(b, 7)), hook, priority))
		}
	}
	return nil
}

// different makes an error for Verify that Is netconf.ErrDifferent.
func different(name string, want, have any) error {
	return &link.Error{Op: "check", Name: name, Err: fmt.Errorf("%w: it is %v, expected %v", netconf.ErrDifferent, have, want)}
}
