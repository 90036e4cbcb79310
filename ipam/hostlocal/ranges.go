package hostlocal

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// span is a range that is known to be right: every address from first to last can be given to a host, but for
// the gateways.
type span struct {
	path        string // where the configuration has it
	subnet      netip.Prefix
	first, last netip.Addr
	gateway     netip.Addr
}

func (s span) contains(a netip.Addr) bool {
	return s.first.Compare(a) <= 0 && a.Compare(s.last) <= 0
}

func (s span) String() string { return s.first.String() + "-" + s.last.String() }

// set is the ranges from which one address is taken.
type set []span

func (s set) contains(a netip.Addr) bool { return s.index(a) >= 0 }

// index is the place of the range that an address lies in; -1 if it lies in none.
func (s set) index(a netip.Addr) int {
	for i, r := range s {
		if r.contains(a) {
			return i
		}
	}
	return -1
}

func (s set) String() string {
	texts := make([]string, len(s))
	for i, r := range s {
		texts[i] = fmt.Sprintf("%s of %s", r, r.subnet)
	}
	return strings.Join(texts, ", ")
}

// sets are the ranges of a configuration, one address from each set. No gateway is ever given, of whichever range it
// is: a range may lie around another's.
type sets struct {
	all      []set
	gateways map[netip.Addr]bool
}

func (s sets) contains(a netip.Addr) bool {
	for _, one := range s.all {
		if one.contains(a) {
			return true
		}
	}
	return false
}

func (s sets) String() string {
	texts := make([]string, len(s.all))
	for i, one := range s.all {
		texts[i] = one.String()
	}
	return strings.Join(texts, "; ")
}

// sets are the ranges that count, in the reference plugin's order: those of the runtime, the one of the old
// form, those of "ranges". All that is wrong with them is told together, each with its place.
func (c Config) sets(req *netconf.Request) (sets, error) {
	own := req.For(req.Network, "") // what it notes is returned, and not noted for the caller
	own.Config = req.Config
	runtime := own.Runtime().IPRanges
	if len(req.Network.RuntimeConfig["ipRanges"]) > 0 && runtime == nil {
		if err := own.Rejected(); err != nil {
			return sets{}, err
		}
	}
	b := &builder{req: req, sets: sets{gateways: map[netip.Addr]bool{}}}
	for i, list := range runtime {
		ranges := make([]Range, len(list))
		for j, r := range list {
			ranges[j] = Range{Subnet: r.Subnet, RangeStart: r.RangeStart, RangeEnd: r.RangeEnd, Gateway: r.Gateway}
		}
		b.add(fmt.Sprintf("runtimeConfig.ipRanges[%d]", i), true, ranges)
	}
	if old := (Range{Subnet: c.Subnet, RangeStart: c.RangeStart, RangeEnd: c.RangeEnd, Gateway: c.Gateway}); old.Subnet.IsValid() {
		b.add("ipam", false, []Range{old})
	} else if old != (Range{}) {
		b.bad("ipam.subnet", "missing: rangeStart, rangeEnd and gateway are those of a subnet")
	}
	for i, list := range c.Ranges {
		b.add(fmt.Sprintf("ipam.ranges[%d]", i), true, list)
	}
	if len(b.all) == 0 && len(b.errs) == 0 {
		b.bad("ipam.ranges", "no range to take an address from: expected at least one set of ranges")
	}
	b.versions()
	if len(b.errs) == 0 {
		b.overlaps()
		b.empty()
	}
	return b.sets, netconf.Join(b.errs...)
}

// builder collects sets and what is wrong with them.
type builder struct {
	sets
	req  *netconf.Request
	errs []error
}

func (b *builder) bad(path, format string, args ...any) {
	b.errs = append(b.errs, b.req.Invalid(path, format, args...))
}

// add checks the ranges of a set; list tells whether they stand in an array.
func (b *builder) add(path string, list bool, ranges []Range) {
	if len(ranges) == 0 {
		b.bad(path, "empty: expected at least one range")
		return
	}
	var one set
	for i, r := range ranges {
		at := path
		if list {
			at = fmt.Sprintf("%s[%d]", path, i)
		}
		s, ok := b.span(at, r)
		switch {
		case !ok:
		case len(one) > 0 && one[0].first.Is4() != s.first.Is4():
			b.bad(at+".subnet", "%s is of another family than %s: one address comes from the set", s.subnet, one[0].subnet)
		default:
			one = append(one, s)
		}
	}
	b.all = append(b.all, one)
}

// span fills in what the configuration leaves out, as the reference plugin does: the gateway is the first address
// of the subnet, and the range is all of it. The network's own address and the broadcast address are never given,
// whatever the range says.
func (b *builder) span(path string, r Range) (span, bool) {
	n := len(b.errs)
	subnet := r.Subnet.Prefix
	if err := usable(subnet); err != nil {
		b.bad(path+".subnet", "%w", err)
		return span{}, false
	}
	network, end := subnet.Addr(), lastOf(subnet)
	s := span{path: path, subnet: subnet, first: network, last: end, gateway: network.Next()}
	inside := func(key string, a netconf.Addr, into *netip.Addr) {
		if !a.IsValid() {
			return
		}
		if !subnet.Contains(a.Addr) {
			b.bad(path+"."+key, "%s is not in %s", a, subnet)
		}
		*into = a.Addr
	}
	inside("rangeStart", r.RangeStart, &s.first)
	inside("rangeEnd", r.RangeEnd, &s.last)
	inside("gateway", r.Gateway, &s.gateway)
	if s.last.Less(s.first) && len(b.errs) == n {
		b.bad(path+".rangeEnd", "%s is before the start, %s", s.last, s.first)
	}
	if len(b.errs) > n {
		return span{}, false
	}
	b.gateways[s.gateway] = true
	if s.first == network {
		s.first = network.Next()
	}
	if s.last == end && end.Is4() {
		s.last = end.Prev()
	}
	return s, true
}

// usable says why no address can be given from a subnet.
func usable(p netip.Prefix) error {
	a := p.Addr()
	switch {
	case !p.IsValid():
		return fmt.Errorf("missing: expected %s", netconf.Prefix{}.Expects())
	case p != p.Masked():
		return fmt.Errorf("%s has a host part: expected %s", p, p.Masked())
	case p.Bits() > a.BitLen()-2:
		return fmt.Errorf("%s is too small: it has no address beside the network's, the gateway's and the broadcast address", p)
	case p.Bits() == 0, a.IsMulticast(), a.IsLoopback():
		return fmt.Errorf("%s is no network of hosts", p)
	}
	return nil
}

// lastOf is the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < 8*len(bytes); bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes) // of the length of an address
	return last
}

// versions refuses more addresses than a result of an old version can hold.
func (b *builder) versions() {
	have := map[bool]string{}
	for _, one := range b.all {
		if len(one) == 0 {
			continue
		}
		v4 := one[0].first.Is4()
		if first := have[v4]; first != "" && !b.req.Network.Is("0.3.0") {
			b.bad(one[0].path, "a second address of a family, after that of %s: a result of version %s has room for one: use cniVersion 0.3.0 or later", first, b.req.Network.CNIVersion)
		}
		have[v4] = one[0].path
	}
}

// overlaps finds ranges that have an address in common with one that begins before them, in one set or in two.
func (b *builder) overlaps() {
	var all []span
	for _, one := range b.all {
		all = append(all, one...)
	}
	slices.SortStableFunc(all, func(x, y span) int { return x.first.Compare(y.first) }) // IPv4 comes before IPv6
	for i, far := 1, 0; i < len(all); i++ {                                             // far is the one before i that ends last
		if x := all[far]; all[i].first.Compare(x.last) <= 0 {
			b.bad(all[i].path, "%s overlaps with %s, %s", all[i], x.path, x)
		}
		if all[far].last.Less(all[i].last) {
			far = i
		}
	}
}

// empty finds sets whose every address is a network's, a broadcast address or a gateway.
func (b *builder) empty() {
	for i, one := range b.all {
		if _, ok := b.choose(none{}, i, netip.Addr{}); !ok {
			b.bad(one[0].path, "the range in %s has no address to give: all are the network's, the broadcast address or a gateway", one[0].subnet)
		}
	}
}

// finder tells which addresses are taken; free is the first that is not, from a to b.
type finder interface {
	free(a, b netip.Addr) (netip.Addr, bool)
}

// none is a finder without leases.
type none struct{}

func (none) free(a, b netip.Addr) (netip.Addr, bool) { return a, a.IsValid() && a.Compare(b) <= 0 }

// next is the first address from a to b that is neither taken nor a gateway.
func (s sets) next(in finder, a, b netip.Addr) (netip.Addr, bool) {
	for {
		found, ok := in.free(a, b)
		if !ok || !s.gateways[found] {
			return found, ok
		}
		a = found.Next()
	}
}

// choose takes the address of a set that follows the last one that was given, and goes around: an address is not
// given again until all others were. Without a last one that is in the set it is the first that is free.
func (s sets) choose(in finder, n int, last netip.Addr) (netip.Addr, bool) {
	one := s.all[n]
	at := max(one.index(last), 0)
	around := one.contains(last)
	if around {
		if a, ok := s.next(in, last.Next(), one[at].last); ok {
			return a, true
		}
		at++
	}
	for i := range one {
		r := one[(at+i)%len(one)]
		if around && r.contains(last) {
			break // the last of all; of it, what is before the last address, and that itself
		}
		if a, ok := s.next(in, r.first, r.last); ok {
			return a, true
		}
	}
	if !around {
		return netip.Addr{}, false
	}
	return s.next(in, one[at-1].first, last)
}

// ErrExhausted is in the error of an ADD that finds no free address, and of such a STATUS. Code 101 on ADD, 50 on
// STATUS.
var ErrExhausted = errors.New("no address is free")
