package link

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"sort"
	"strings"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// Bandwidth limits what goes through a veth pair that another plugin made, on the host, where the container cannot undo it.
//
// What goes into the container is held back in a token bucket (tbf) at the root of the host's end. What comes out of it
// has to be received to be held back: it is sent on to a link of the kind ifb, with such a bucket, from where it goes on as
// if nothing had been. The ifb carries the owner's mark, so that GC finds it; its name is [Owner.IfbName]. Where subnets are
// given the root is an htb with one class, for a tbf has no filters.
//
// The discipline at the root and the filters have the number [ShapeHandle], by which DEL knows them. The clsact that the filters
// are in has no number of its own: that we made it is written on the filters, as the class of those that lead to the ifb.
type Bandwidth struct {
	Ingress Rate // into the container
	Egress  Rate // out of it

	Unshaped []netip.Prefix // what comes from, or goes to, these is not limited
	Shaped   []netip.Prefix // what comes from, or goes to, these alone is limited; not together with Unshaped
}

// Rate is a limit for one direction.
type Rate struct {
	Rate netconf.Quantity // bits per second, from 8; 0: no limit

	// Burst is how much may go at once, in bits; fewer than 2^32-1 bytes. 0: what goes in 10 ms, and not less than two packets
	// of 1500 bytes. One below a packet, with which none would ever go, is raised to one; one above what goes in 274 s is that,
	// since the kernel counts it in time.
	Burst netconf.Quantity
}

// ShapeHandle is the major number of our queueing disciplines, and the priority of our first filter: one that
// nobody types.
const ShapeHandle = 0x4300 | Protocol

// ifbRole is the role of the ifb in its alias.
const ifbRole = "ifb"

const ifbKind = "ifb"

// IfbName is the name of the owner's ifb on the host: "ifb-" and 11 hex digits.
func (o Owner) IfbName() string { return "ifb-" + strings.TrimPrefix(o.HostName(ifbRole), "veth") }

// Name is "bandwidth".
func (Bandwidth) Name() string { return "bandwidth" }

// nothing tells whether no direction is limited.
func (b Bandwidth) nothing() bool { return b.Ingress.Rate == 0 && b.Egress.Rate == 0 }

// Valid is an error with code 7 for limits that cannot be, all together. It looks at nothing else.
func (b Bandwidth) Valid() error {
	const maxBurst = 8*math.MaxUint32 - 1
	var errs []error
	bad := func(what, format string, args ...any) {
		errs = append(errs, &Error{Op: "bandwidth", Name: what, Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, format, args...)})
	}
	for _, d := range []struct {
		name string
		Rate
	}{{"ingress", b.Ingress}, {"egress", b.Egress}} {
		switch {
		case d.Rate.Rate == 0 && d.Burst > 0:
			bad(d.name, "a burst without a rate")
		case d.Rate.Rate > 0 && d.Rate.Rate < 8:
			bad(d.name, "%d bits per second are less than a byte: expected 0 for no limit, or at least 8", d.Rate.Rate)
		case d.Burst > maxBurst:
			bad(d.name, "a burst of %d bits: expected at most %d", d.Burst, uint64(maxBurst))
		}
	}
	if len(b.Unshaped) > 0 && len(b.Shaped) > 0 {
		bad("subnets", "those that are limited and those that are not exclude each other")
	}
	for _, p := range append(b.Unshaped, b.Shaped...) {
		if !p.IsValid() {
			bad("subnets", "one is none")
		}
	}
	return netconf.Join(errs...)
}

// bucket is a rate in the kernel's terms.
type bucket struct {
	rate   uint64 // bytes per second
	burst  uint64 // bytes
	buffer uint32 // the burst in ticks of 64 ns, the time in which it would go (PSCHED_SHIFT)
	limit  uint32 // bytes that may wait: the burst, and what goes in 25 ms
	raised bool   // the burst that was asked for is below one packet
}

// bucket computes it for a link with an MTU.
func (r Rate) bucket(mtu int) bucket {
	const header = 18 // Ethernet and VLAN
	packet := uint64(mtu + header)
	k := bucket{rate: uint64(r.Rate) / 8, burst: uint64(r.Burst) / 8}
	switch {
	case r.Burst == 0:
		k.burst = max(k.rate/100, packet+1500)
	case k.burst < packet:
		k.burst, k.raised = packet, true
	}
	ticks := min(k.burst, math.MaxUint32) * 1e9 / k.rate / 64
	k.buffer = uint32(min(ticks+1, math.MaxUint32)) // rounded down it would be less than a packet
	k.limit = uint32(min(k.burst+k.rate/40, math.MaxUint32))
	return k
}

// made is the bucket as it was computed for have, at the MTU that the link had then: a later plugin, or the administrator, may
// have given it another one. It is that for mtu, which the link has now, where no MTU leads to have. Where limit is 0 only
// the buffer is compared.
func (r Rate) made(have bucket, mtu int) bucket {
	same := func(k bucket) bool { return k.buffer == have.buffer && (have.limit == 0 || k.limit == have.limit) }
	now := r.bucket(mtu)
	if same(now) {
		return now
	}
	i := sort.Search(maxMTU-minMTU, func(i int) bool { // both grow with the MTU
		k := r.bucket(minMTU + i)
		return k.buffer >= have.buffer && k.limit >= have.limit
	})
	if k := r.bucket(minMTU + i); same(k) {
		return k
	}
	return now
}

// String is for messages.
func (k bucket) String() string {
	return fmt.Sprintf("%d bit/s, burst %d ticks, limit %d bytes", 8*k.rate, k.buffer, k.limit)
}

// Add is Create, with the ifb noted in the result. A burst that was raised is a warning. What is limited already is
// an error that Is netconf.ErrExists; a link that is no end of a veth pair whose other end is on the host has code 7.
func (b Bandwidth) Add(ctx context.Context, req *netconf.Request) error {
	if b.nothing() && b.Valid() == nil {
		return nil
	}
	try, err := netconf.Local(req, attemptKey{b.Name(), OwnerOf(req)}, func() (*attempt, error) { return &attempt{}, nil })
	if err != nil {
		return err
	}
	p, err := inside(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	outer, err := HostEnd(p.host, p.container, req.IfName)
	if err != nil {
		return netconf.Unchanged(err)
	}
	for name, r := range map[string]Rate{"ingress": b.Ingress, "egress": b.Egress} {
		if r.Rate >= 8 && r.bucket(outer.Attrs().MTU).raised {
			warn(req, "a burst below one packet would let none through: it is raised to one", "direction", name, "burst", uint64(r.Burst))
		}
	}
	if err := b.note(req, p.host, outer); err != nil {
		return netconf.Unchanged(err)
	}
	ifb, err := b.create(ctx, p.host, outer, p.Owner, func() { try.made.Store(true) })
	if err != nil {
		return err
	}
	if ifb != nil {
		req.AddInterface(describe(ifb, ""))
	}
	return nil
}

// entered is what is kept for DEL.
type entered struct {
	linkID      // the host's end
	Made   bool // it had no ingress and no clsact before
}

func (b Bandwidth) key() string { return "link.bandwidth" }

// note writes down whether the clsact will be ours: the kernel gives all of them the same handle, and the mark that our filters
// carry comes after it. What an ADD before, of an attachment that lives, has written stays.
func (b Bandwidth) note(req *netconf.Request, host *NS, outer netlink.Link) error {
	if b.Egress.Rate == 0 || req.State == nil {
		return nil
	}
	var before entered
	if noted, err := kept(req, b.key(), &before); err != nil || noted && before.is(host, outer) {
		return err
	}
	there, err := hasIngress(host, outer)
	if err != nil {
		return err
	}
	return keep(req, b.key(), entered{idOf(host, outer), !there})
}

// Check is Verify.
func (b Bandwidth) Check(ctx context.Context, req *netconf.Request) error {
	if b.nothing() {
		return nil
	}
	p, err := inside(req)
	if err != nil {
		return err
	}
	outer, err := HostEnd(p.host, p.container, req.IfName)
	if err != nil {
		return err
	}
	return b.Verify(ctx, p.host, outer, p.Owner)
}

// Del is Delete, whatever the configuration says by now. Where there is no namespace any more the pair has gone with it,
// and its filters.
func (b Bandwidth) Del(ctx context.Context, req *netconf.Request) error {
	p, err := leaving(req, b.Name())
	if p == nil {
		return err
	}
	var outer netlink.Link
	if p.container != nil {
		if outer, err = hostEnd(p.host, p.container, req.IfName); err != nil {
			return err
		}
	}
	if outer == nil { // its other end has another name by now
		if outer, err = (Veth{}).outer(p.host, p.Owner); err != nil {
			return err
		}
	}
	if outer == nil {
		if outer, err = reported(p.host, req.Prev); err != nil {
			return err
		}
	}
	var before entered
	there, known, err := left(req, b.key(), &before)
	if err != nil {
		return err
	}
	made := known && outer != nil && before.Made && before.is(p.host, outer)
	err = netconf.Join(b.remove(ctx, p.host, outer, p.Owner, made), deleteUnmarked(ctx, p.host, req.Prev))
	if err != nil || !there {
		return err
	}
	return forget(req, b.key())
}

// deleteUnmarked takes away an ifb that the reference plugin has made, before an upgrade: it is named in the prevResult, with its
// hardware address, as that plugin names them. On the host nothing else goes on the word of a prevResult; an ifb is nobody's
// uplink.
func deleteUnmarked(ctx context.Context, host *NS, prev *types100.Result) error {
	if prev == nil {
		return nil
	}
	for _, i := range prev.Interfaces {
		if i == nil || i.Sandbox != "" || !strings.HasPrefix(i.Name, "bwp") {
			continue
		}
		l, err := find(host, i.Name)
		if err != nil {
			return err
		}
		if l != nil && l.Type() == ifbKind && l.Attrs().Alias == "" && sameMAC(i.Mac, l.Attrs().HardwareAddr) {
			if err := remove(ctx, host, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// GC takes away the ifbs of the network's attachments that are no more.
func (b Bandwidth) GC(ctx context.Context, req *netconf.Request) error { return collect(ctx, req) }
