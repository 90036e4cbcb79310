package nat

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// What there is of the table, compared with what base makes. A comment alone does not show that a rule is ours: "nft
// replace rule" keeps it, and a table that sleeps has all its rules and does nothing.

// view is what was found.
type view struct {
	lengths     []subnets // the sets of subnets that are there or needed
	there, anew []string  // the chains of ours that there are, and of those the ones that cannot be changed into ours
	foreign     error     // the first set under one of our names that is not as ours are
	diffs       []error   // each Is netconf.ErrDifferent
	noTable     bool      // and so nothing of what is in it, all of which is in diffs after the table
}

func (v *view) differ(name string, want, have any) {
	v.diffs = append(v.diffs, different(name, want, have))
}

// different makes an error for Verify that Is netconf.ErrDifferent.
func different(name string, want, have any) error {
	return &link.Error{Op: "check", Name: name, Err: fmt.Errorf("%w: it is %v, expected %v", netconf.ErrDifferent, have, want)}
}

// missingBase is base if anything of the table is missing or another's, or a set for a length is needed. A set of another
// kind under one of our names is an error: it may be somebody's, and what is in it would go with it.
func (c *conn) missingBase(needed []subnets) ([]op, error) {
	v, err := c.look(needed)
	if err != nil || v.foreign != nil {
		return nil, netconf.Join(err, v.foreign)
	}
	if len(v.diffs) == 0 {
		return nil, nil
	}
	return base(v.lengths, v.there, v.anew), nil
}

// verifyBase says what of the table is not as base makes it.
func (c *conn) verifyBase(needed []subnets) error {
	v, err := c.look(needed)
	if v.noTable { // after "nft flush ruleset" that were 28 lines
		v.diffs = v.diffs[:1]
	}
	return netconf.Join(append(v.diffs, err)...)
}

func (c *conn) look(needed []subnets) (v view, err error) {
	for _, step := range []func() error{
		func() error { return c.lookAtTable(&v) },
		func() error { return c.lookAtSets(&v, needed) },
		func() error { return c.lookAtChains(&v) },
		func() error { return c.lookAtRules(&v) },
	} {
		if err := step(); err != nil {
			return v, err
		}
	}
	return v, nil
}

const dormant = 1 // a flag of a table

func (c *conn) lookAtTable(v *view) error {
	b, err := c.get(message{kind: getTable, family: familyInet, body: *new(attrs).text(1, Table)})
	switch {
	case gone(err):
		v.noTable = true
		v.differ("table "+Table, "there", "missing")
	case err != nil:
		return &link.Error{Op: "nft get table", Name: Table, Err: err}
	case word(inside(b, 2))&dormant != 0:
		v.differ("table "+Table, "at work", "dormant")
	}
	return nil
}

// kept is a set as the kernel has it.
type kept struct{ key, keySize, value, valueSize, flags uint32 }

func (s set) kept() (k kept) {
	k.key, k.keySize = layout(s.key)
	if len(s.value) > 0 {
		k.value, k.valueSize = layout(s.value)
		k.flags = setMap
	}
	return k
}

// sets lists the table's sets and maps.
func (c *conn) sets() (map[string]kept, error) {
	list, err := c.dump(message{kind: getSet, family: familyInet, body: *new(attrs).text(1, Table)})
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, &link.Error{Op: "nft list sets", Name: Table, Err: err}
	}
	all := map[string]kept{}
	for _, b := range list {
		if str(inside(b, 1)) == Table {
			all[str(inside(b, 2))] = kept{word(inside(b, 4)), word(inside(b, 5)), word(inside(b, 6)), word(inside(b, 7)), word(inside(b, 3))}
		}
	}
	return all, nil
}

// lengths are the sets of subnets among those of the table.
func lengths(have map[string]kept) (all []set) {
	for name := range have {
		if s, ok := parseSubnets(name); ok {
			all = append(all, s.set())
		}
	}
	return all
}

func (c *conn) lookAtSets(v *view, needed []subnets) error {
	have, err := c.sets()
	if err != nil {
		return err
	}
	v.lengths = slices.Clone(needed)
	for name := range have {
		if s, ok := parseSubnets(name); ok {
			v.lengths = append(v.lengths, s)
		}
	}
	v.lengths = merged(v.lengths)
	want := fixed()
	for _, s := range v.lengths {
		want = append(want, s.set())
	}
	for _, s := range want {
		k, ok := have[s.name]
		switch {
		case !ok:
			v.differ("set "+s.name+" of table "+Table, "there", "missing")
		case k != s.kept():
			v.differ("set "+s.name+" of table "+Table, "as it was made", "of another kind, somebody else's")
			if v.foreign == nil {
				v.foreign = foreign(s.name)
			}
		}
	}
	return nil
}

// foreign is the error for a set that is in the way. It is found before anything is changed.
func foreign(name string) error {
	return netconf.Unchanged(&link.Error{Op: "nft set", Name: name, Err: netconf.Errorf(netconf.CodeBadStore,
		"in table inet %s there is another of this name, with keys, values or flags that are not this one's: delete it (nft delete set, or map), or the table", Table)})
}

// isForeign tells whether there is a set of a name that is not as ours are.
func (c *conn) isForeign(name string) (bool, error) {
	have, err := c.sets()
	k, there := have[name]
	for _, s := range append(fixed(), lengths(have)...) {
		if s.name == name {
			return there && k != s.kept(), err
		}
	}
	return false, err
}

// merged sorts a list of sets and drops what is in it twice.
func merged(all []subnets) []subnets {
	slices.SortFunc(all, func(a, b subnets) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}

func (c *conn) lookAtChains(v *view) error {
	for _, want := range chains(nil) {
		name := "chain " + want.name + " of table " + Table
		b, err := c.get(message{kind: getChain, family: familyInet, body: *new(attrs).text(1, Table).text(3, want.name)})
		if gone(err) {
			v.differ(name, "there", "missing")
			continue
		}
		if err != nil {
			return &link.Error{Op: "nft get chain", Name: want.name, Err: err}
		}
		v.there = append(v.there, want.name)
		have := chain{name: want.name, kind: str(inside(b, 7)), hook: int32(word(inside(b, 4, 1))), priority: int32(word(inside(b, 4, 2)))}
		if have.hooked() != want.hooked() {
			v.differ(name, want.hooked(), have.hooked())
			v.anew = append(v.anew, want.name)
		} else if want.kind != "" && word(inside(b, 5)) != 1 {
			v.differ(name, "one that accepts what no rule is about", "one that drops it")
		}
	}
	return nil
}

// hooked says where the kernel calls a chain.
func (c chain) hooked() string {
	if c.kind == "" {
		return "one that rules jump to"
	}
	return fmt.Sprintf("of type %s at hook %d with priority %d", c.kind, c.hook, c.priority)
}

// lookAtRules compares the rules of our chains, one after the other. Other chains, which nobody but their maker
// calls, are his.
func (c *conn) lookAtRules(v *view) error {
	list, err := c.dump(message{kind: getRule, family: familyInet, body: *new(attrs).text(1, Table)})
	if err != nil && !gone(err) {
		return &link.Error{Op: "nft list", Name: Table, Err: err}
	}
	have := map[string][][]byte{}
	for _, b := range list {
		if str(inside(b, 1)) == Table { // a kernel that does not know the filter lists all tables
			have[str(inside(b, 2))] = append(have[str(inside(b, 2))], b)
		}
	}
	for _, c := range chains(v.lengths) {
		if want, found, same := sameRules(c.rules, have[c.name]); !same {
			v.differ("the rules of chain "+c.name+" of table "+Table, want, found)
		}
	}
	return nil
}

// sameRules says of the first rule that is not as it should be what it is instead.
func sameRules(want []rule, have [][]byte) (wanted, found string, same bool) {
	for i := range max(len(want), len(have)) {
		wanted, found = "no more of them", "none"
		if i < len(want) {
			wanted = strconv.Quote(want[i].comment)
		}
		if i < len(have) {
			found = strconv.Quote(strings.TrimPrefix(commentOf(inside(have[i], 7)), version))
		}
		if i < len(want) && i < len(have) && found == wanted {
			if commentOf(inside(have[i], 7)) == version+want[i].comment && sameExprs(want[i].list, inside(have[i], 4)) {
				continue
			}
			found = "another rule under this comment"
		}
		return wanted, found, false
	}
	return "", "", true
}

// sameExprs compares the expressions of a rule with those that the kernel has.
func sameExprs(want, have []byte) bool {
	var wanted, found [][]byte
	for _, b := range walk(want) {
		wanted = append(wanted, b)
	}
	for _, b := range walk(have) {
		found = append(found, b)
	}
	return slices.EqualFunc(wanted, found, func(w, h []byte) bool {
		return bytes.Equal(inside(w, 1), inside(h, 1)) && covers(inside(w, 2), inside(h, 2), str(inside(w, 1)))
	})
}

// covers tells whether attributes of the kernel are ours. What it adds of its own accord is 0, a default, but for the flags of
// nat, which say what is in the registers.
func covers(want, have []byte, name string) bool {
	for b := want; len(b) >= 4; b = b[min((int(binary.NativeEndian.Uint16(b))+3)&^3, len(b)):] {
		kind := binary.NativeEndian.Uint16(b[2:])
		value, there := b[4:binary.NativeEndian.Uint16(b)], inside(have, kind&typeMask)
		if kind&nested != 0 && !covers(value, there, "") || kind&nested == 0 && !bytes.Equal(value, there) {
			return false
		}
	}
	const natFlags, addressAndPort = 7, 3
	for kind, value := range walk(have) {
		added := bytes.ContainsFunc(value, func(r rune) bool { return r != 0 }) && inside(want, kind) == nil
		if added && !(name == "nat" && kind == natFlags && word(value) == addressAndPort) {
			return false
		}
	}
	return true
}
