package nat

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/containernetworking/cni/pkg/types"
)

// What masquerading and port mapping have in common: elements that carry their owner.

// claim is what an attachment wants of the table.
type claim struct {
	owner    link.Owner
	sets     []string  // the names of all that it may have elements in
	needed   []subnets // those of them that are for one length and may not be there
	elements []element // with their owner
	// conflict says why an element of another's is in the way of one of ours that is not shared.
	conflict func(want, have element) error
	// overlap looks for what is in the way and does not have the same key.
	overlap func(c *conn) error
}

// put brings the claim's elements into the table, and makes that if need be. With create what is the
// owner's already is an error that Is netconf.ErrExists; else what is too much is taken away, and returned.
func (w claim) put(ctx context.Context, host *link.NS, create bool) (removed []element, err error) {
	err = dial(host, func(c *conn) error {
		return c.transact(ctx, "nft claim", func() ([]op, error) {
			ops, err := c.missingBase(w.needed)
			if err != nil {
				return nil, err
			}
			var add []element
			if removed, add, err = w.changes(c, create); err != nil {
				return nil, err
			}
			changes, err := c.swap(removed, add)
			return append(ops, changes...), err
		})
	})
	return removed, err
}

// changes are the elements that go and those that come.
func (w claim) changes(c *conn, create bool) (del, add []element, err error) {
	if w.overlap != nil {
		if err := w.overlap(c); err != nil {
			return nil, nil, err
		}
	}
	var kept []element
	for _, want := range w.elements {
		have, err := c.mine(want, w.marks)
		switch {
		case err != nil:
			return nil, nil, err
		case have == nil:
			add = append(add, want)
			continue
		case !w.marks(have.owner):
			return nil, nil, w.conflict(want, *have)
		case create:
			return nil, nil, &link.Error{Op: "nft add", Name: want.set, Err: fmt.Errorf("%w: it is this attachment's", netconf.ErrExists)}
		}
		kept = append(kept, *have)
		if _, _, shared := want.place(); !shared && !have.equal(want) {
			add, del = append(add, want), append(del, *have)
		}
	}
	if !create {
		more, err := w.surplus(c, kept)
		if err != nil {
			return nil, nil, err
		}
		del = append(del, more...)
	}
	return del, add, nil
}

func (w claim) marks(comment string) bool { return marks(comment, w.owner) }

// swap makes the changes for elements that go and others that come, keeps the owners of shared ones together, and counts
// those for single addresses.
func (c *conn) swap(del, add []element) ([]op, error) {
	del, add, err := c.regroup(del, add)
	if err != nil {
		return nil, err
	}
	var counts []element
	deltas := map[int]int{} // by the index in counts
	for i, e := range slices.Concat(del, add) {
		key, ok := singleOf(e)
		if !ok {
			continue
		}
		at := slices.IndexFunc(counts, func(have element) bool { return have.set == key.set && bytes.Equal(have.key, key.key) })
		if at < 0 {
			at, counts = len(counts), append(counts, key)
		}
		if i < len(del) {
			deltas[at]--
		} else {
			deltas[at]++
		}
	}
	del, add = slices.Clip(del), slices.Clip(add)
	for i, e := range counts {
		if deltas[i] == 0 {
			continue
		}
		have, err := c.find(e.set, e.key)
		if err != nil {
			return nil, err
		}
		n := deltas[i]
		if have != nil && len(have.value) >= 2 {
			n += int(binary.BigEndian.Uint16(have.value))
			del = append(del, *have)
		}
		if n > 0 {
			e.value = binary.BigEndian.AppendUint16(nil, uint16(min(n, math.MaxUint16))) // written as a port is
			add = append(add, e)
		}
	}
	return append(deleting(del), adding(add)...), nil
}

// singleOf is the element of singlesMap that counts one of addrPortsMap.
func singleOf(e element) (key element, ok bool) {
	for _, v6 := range []bool{false, true} {
		if e.set == setName(addrPortsMap, v6) {
			_, rest := source(e.key, v6)
			return element{set: setName(singlesMap, v6), key: rest}, true
		}
	}
	return key, false
}

// surplus are the owner's elements other than those that are kept.
func (w claim) surplus(c *conn, kept []element) ([]element, error) {
	return c.ownedBy(w.sets, func(have element) bool {
		return w.marks(have.owner) && !slices.ContainsFunc(kept, func(e element) bool {
			return string(e.key) == string(have.key) && e.set == have.set
		})
	})
}

// ownedBy lists elements of sets, which are given by their names without family and length, and of "further" what is
// of one of them. In a set that is not as ours are, there are none of ours.
func (c *conn) ownedBy(names []string, wanted func(e element) bool) (all []element, err error) {
	have, err := c.sets()
	if err != nil {
		return nil, err
	}
	of := func(set string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(set, name+"4") || strings.HasPrefix(set, name+"6")
		})
	}
	for _, s := range append(fixed(), lengths(have)...) {
		further := strings.HasPrefix(s.name, furtherSet)
		if have[s.name] != s.kept() || !further && !of(s.name) {
			continue
		}
		found, err := c.elements(s.name, func(e element) bool {
			first, _, known := e.place()
			return wanted(e) && (!further || known && of(first.set))
		})
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// verify compares the claim's elements and what the table has besides.
func (w claim) verify(host *link.NS) error {
	return dial(host, func(c *conn) error {
		errs := []error{c.verifyBase(w.needed)}
		for _, want := range w.elements {
			have, err := c.mine(want, w.marks)
			switch {
			case err != nil:
				errs = append(errs, err)
			case have == nil:
				errs = append(errs, different(describe(want), "in "+want.set, "missing"))
			case !w.marks(have.owner) || string(have.value) != string(want.value):
				errs = append(errs, different(describe(want), "in "+want.set+" of "+want.owner, "another: "+describe(*have)+" of "+have.owner))
			}
		}
		return netconf.Join(errs...)
	})
}

// take removes the elements that look finds, while they are what it saw, and returns them.
func take(ctx context.Context, host *link.NS, look func(c *conn) ([]element, error)) (all []element, err error) {
	err = dial(host, func(c *conn) error {
		for {
			more, left := []element(nil), false
			err := c.transact(ctx, "nft release", func() ([]op, error) {
				found, err := look(c)
				if err != nil {
					return nil, err
				}
				left = len(found) > maxTaken
				more = found[:min(len(found), maxTaken)]
				return c.swap(more, nil)
			})
			if err != nil {
				return err
			}
			if all = append(all, more...); !left {
				return nil
			}
		}
	})
	if absent(err) {
		return nil, nil
	}
	return all, err
}

// maxTaken is how many elements go with one batch.
const maxTaken = 2000

// collect takes away what the network's attachments have in sets and who are not in the list.
func collect(ctx context.Context, host *link.NS, network string, valid []types.GCAttachment, sets []string) ([]element, error) {
	if network == "" || valid == nil {
		return nil, &link.Error{Op: "collect", Name: network, Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, "the network's name and its list of valid attachments are needed")}
	}
	return take(ctx, host, func(c *conn) ([]element, error) {
		return c.ownedBy(sets, func(e element) bool { return stale(e.owner, network, valid) })
	})
}

// everyKind is a set of subnets of each kind, for Probe.
var everyKind = []subnets{{hairpinSet, false, 24}, {hairpinSet, true, 64}, {nearSet, false, 24}, {nearSet, true, 64}}

// Probe tells whether the kernel can do what this package needs, without a change: it is asked to check the table
// and not told to make it. A kernel that cannot is link.ErrNotSupported; a set of somebody's in the way is named.
func Probe(_ context.Context, host *link.NS) error {
	return dial(host, func(c *conn) error {
		if _, err := c.generation(); err != nil {
			return err
		}
		if v, err := c.look(nil); err != nil || v.foreign != nil {
			return netconf.Join(err, v.foreign)
		}
		return c.commit(base(everyKind, nil, nil), 0, true)
	})
}
