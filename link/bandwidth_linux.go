package link

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// HostEnd finds the host's end of the pair whose other end is a link of the container. An error has code 7: there is no
// such link, or it is no end of a veth pair, or the other end is elsewhere.
func HostEnd(host, container *NS, name string) (netlink.Link, error) {
	inner, err := find(container, name)
	switch {
	case err != nil:
		return nil, err
	case inner == nil:
		return nil, badLink(name, "there is no such link in the container: the plugin that makes it comes first in the chain")
	case inner.Type() != vethKind:
		return nil, badLink(name, "is a link of kind %s, expected an end of a veth pair: the other end is what is limited", inner.Type())
	}
	outer, err := hostEnd(host, container, name)
	if err == nil && outer == nil {
		err = badLink(name, "the other end of the pair is not on the host")
	}
	return outer, err
}

// hostEnd is HostEnd; nil if there is none. Indexes count per namespace: a link of the host may have the number by
// accident, and one whose other end has the number of this one, in a third namespace.
func hostEnd(host, container *NS, name string) (netlink.Link, error) {
	inner, err := find(container, name)
	if err != nil || inner == nil || inner.Type() != vethKind {
		return nil, err
	}
	outer, err := findIndex(host, inner.Attrs().ParentIndex)
	if err != nil || outer == nil || outer.Type() != vethKind || outer.Attrs().ParentIndex != inner.Attrs().Index {
		return nil, err
	}
	if container.Is(host) {
		return outer, nil
	}
	id, err := host.Handle().GetNetNsIdByFd(container.Fd())
	if err != nil {
		return nil, &Error{Op: "namespace id of", Name: container.Path(), Err: err}
	}
	if id != outer.Attrs().NetNsID {
		return nil, nil
	}
	return outer, nil
}

// Create limits the host's end of a pair, and returns the ifb, nil if there is none. What is limited already, be it by
// somebody else, is an error that Is netconf.ErrExists. After another error there may be a part, which Delete takes away.
func (b Bandwidth) Create(ctx context.Context, host *NS, outer netlink.Link, o Owner) (ifb netlink.Link, err error) {
	return b.create(ctx, host, outer, o, func() {})
}

// create tells by changed that there is something to take away.
func (b Bandwidth) create(ctx context.Context, host *NS, outer netlink.Link, o Owner, changed func()) (ifb netlink.Link, err error) {
	if err := b.Valid(); err != nil {
		return nil, netconf.Unchanged(err)
	}
	there, err := find(host, o.IfbName())
	switch {
	case err != nil:
		return nil, netconf.Unchanged(err)
	case there != nil && b.Egress.Rate > 0:
		return nil, taken(o.IfbName(), there)
	}
	if b.Ingress.Rate > 0 {
		if err := b.root(ctx, host, outer, b.Ingress, changed); err != nil {
			return nil, err
		}
	}
	if b.Egress.Rate == 0 {
		return nil, nil
	}
	if ifb, err = b.ifb(ctx, host, outer, o, changed); err != nil {
		return nil, err
	}
	return ifb, b.redirect(ctx, host, outer, ifb)
}

var shapeRoot = netlink.MakeHandle(ShapeHandle, 0)

// disciplines are what is at the root of the host's end for what goes into the container: a tbf, or an htb with its class.
func (b Bandwidth) disciplines(index int, k bucket) (netlink.Qdisc, *netlink.HtbClass) {
	at := netlink.QdiscAttrs{LinkIndex: index, Handle: shapeRoot, Parent: netlink.HANDLE_ROOT}
	if len(b.Unshaped)+len(b.Shaped) == 0 {
		return &netlink.Tbf{QdiscAttrs: at, Rate: k.rate, Buffer: k.buffer, Limit: k.limit}, nil
	}
	root := netlink.NewHtb(at)
	if len(b.Unshaped) > 0 {
		root.Defcls = 1 // else 0, which is past all classes
	}
	class := &netlink.HtbClass{
		ClassAttrs: netlink.ClassAttrs{LinkIndex: index, Handle: netlink.MakeHandle(ShapeHandle, 1), Parent: shapeRoot},
		Rate:       k.rate, Ceil: k.rate, Buffer: k.buffer, Cbuffer: k.buffer, Quantum: 1 << 14,
	}
	return root, class
}

// root puts the discipline there. Nothing has changed if that fails: it is the first request, and made exclusively.
func (b Bandwidth) root(ctx context.Context, host *NS, outer netlink.Link, r Rate, changed func()) error {
	k := r.bucket(outer.Attrs().MTU)
	qdisc, class := b.disciplines(outer.Attrs().Index, k)
	name := outer.Attrs().Name
	err := alter(ctx, "qdisc add", qdisc.Type()+" dev "+name, func() error { return unknown(qdisc.Type(), host.Handle().QdiscAdd(qdisc)) })
	if errors.Is(err, unix.EEXIST) {
		err = &Error{Op: "qdisc add", Name: name, Err: fmt.Errorf("%w: the link is limited, or has another queueing discipline at its root", netconf.ErrExists)}
	}
	if err != nil {
		return netconf.Unchanged(err)
	}
	changed()
	if class == nil {
		return nil
	}
	if err := alter(ctx, "class add", "htb dev "+name, func() error { return host.Handle().ClassAdd(class) }); err != nil {
		return err
	}
	if err := alter(ctx, "qdisc add", "bfifo dev "+name, func() error { return unknown("bfifo", queue(host, class, k.limit)) }); err != nil {
		return err
	}
	for _, f := range b.classify(outer.Attrs().Index) {
		if err := addFilter(ctx, host, name, f); err != nil {
			return err
		}
	}
	return nil
}

// queue gives a class a queue of as many bytes as a tbf would have: by default it has 1000 packets, which at 8 Mbit/s are
// more than a second. netlink has no type for it.
func queue(host *NS, class *netlink.HtbClass, limit uint32) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(class.LinkIndex), Parent: class.Handle})
	req.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("bfifo")))
	req.AddData(nl.NewRtAttr(nl.TCA_OPTIONS, nl.Uint32Attr(limit))) // struct tc_fifo_qopt
	return host.Do(func() error {
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
}

// bucketQdisc is the tbf of an ifb.
func bucketQdisc(index int, k bucket) *netlink.Tbf {
	return &netlink.Tbf{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: shapeRoot, Parent: netlink.HANDLE_ROOT}, Rate: k.rate, Buffer: k.buffer, Limit: k.limit}
}

// ifb makes the link through which what comes out of the container goes.
func (b Bandwidth) ifb(ctx context.Context, host *NS, outer netlink.Link, o Owner, changed func()) (netlink.Link, error) {
	name := o.IfbName()
	l := &netlink.Ifb{LinkAttrs: attrs(o, name, outer.Attrs().MTU, nil)}
	err := alter(ctx, "link add", name, func() error { return lacking(l, host.Handle().LinkAdd(l)) })
	if err != nil && b.Ingress.Rate == 0 {
		err = netconf.Unchanged(err)
	}
	if err != nil {
		return nil, err
	}
	changed()
	made, err := christen(ctx, host, name, o, ifbRole)
	if err != nil {
		return nil, err
	}
	tbf := bucketQdisc(made.Attrs().Index, b.Egress.bucket(outer.Attrs().MTU))
	if err := alter(ctx, "qdisc add", "tbf dev "+name, func() error { return unknown("tbf", host.Handle().QdiscAdd(tbf)) }); err != nil {
		return nil, err
	}
	return made, up(ctx, host, made)
}

// unknown says of the kernel's ENOENT what it lacks: it is its answer to a kind of discipline or filter that it does not know.
func unknown(kind string, err error) error {
	if errors.Is(err, unix.ENOENT) { // not wrapped, for it would say that the link is gone
		return fmt.Errorf("the kernel lacks the queueing discipline or filter %s (their module may be missing): %w", kind, ErrNotSupported)
	}
	return err
}

// match is what a filter looks for: nothing is every packet.
type match struct {
	v4   bool
	keys []netlink.TcU32Key
}

// matches makes the filters' keys for subnets: of the source for what goes into the container, else of the destination.
func matches(subnets []netip.Prefix, source bool) (out []match) {
	for _, p := range subnets {
		addr, offset := p.Masked().Addr(), int32(16) // of the destination in an IPv4 header
		if addr.Is6() {
			offset = 24
		}
		if source {
			offset -= int32(addr.BitLen() / 8)
		}
		m := match{v4: addr.Is4()}
		bytes := addr.AsSlice()
		for i := 0; i < len(bytes); i += 4 {
			bits := min(max(p.Bits()-8*i, 0), 32)
			if bits == 0 && i > 0 {
				break
			}
			mask := uint32(uint64(math.MaxUint32) << (32 - bits))
			value := uint32(bytes[i])<<24 | uint32(bytes[i+1])<<16 | uint32(bytes[i+2])<<8 | uint32(bytes[i+3])
			m.keys = append(m.keys, netlink.TcU32Key{Mask: mask, Val: value, Off: offset + int32(i)})
		}
		out = append(out, m)
	}
	return out
}

// The filters' priorities, one for each protocol: those of the subnets, and what takes all the rest.
const (
	prioV4 = ShapeHandle + iota
	prioV6
	prioAll
)

// filters makes one for each match; to says what becomes of what matches.
func filters(index int, parent uint32, all []match, to func(*netlink.U32)) (list []*netlink.U32) {
	for _, m := range all {
		f := &netlink.U32{FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: parent, Priority: prioV6, Protocol: unix.ETH_P_IPV6}}
		if m.v4 {
			f.Priority, f.Protocol = prioV4, unix.ETH_P_IP
		}
		f.Sel = &netlink.TcU32Sel{Flags: tcU32Terminal, Nkeys: uint8(len(m.keys)), Keys: m.keys}
		to(f)
		list = append(list, f)
	}
	return list
}

const tcU32Terminal = 1 // TC_U32_TERMINAL of linux/pkt_cls.h

// classify are the filters of the htb: those that are not limited go past its class, which is the root itself as class, or
// the others go into it.
func (b Bandwidth) classify(index int) []*netlink.U32 {
	class := shapeRoot
	if len(b.Shaped) > 0 {
		class = netlink.MakeHandle(ShapeHandle, 1)
	}
	return filters(index, shapeRoot, matches(slices.Concat(b.Unshaped, b.Shaped), true), func(f *netlink.U32) { f.ClassId = class })
}

// madeIngress is the class of the filters that lead to the ifb where the clsact is ours. There is no such class: for these
// filters it has no effect.
var madeIngress = netlink.MakeHandle(ShapeHandle, 1)

// redirects are the filters for what comes out of the container: those that are not limited end the search without doing
// anything, and the rest, or those alone that are limited, go to the ifb. made tells that the clsact is ours.
func (b Bandwidth) redirects(index, ifb int, made bool) []*netlink.U32 {
	redirect := func(f *netlink.U32) {
		if made {
			f.ClassId = madeIngress
		}
		f.Actions = []netlink.Action{&netlink.MirredAction{
			ActionAttrs: netlink.ActionAttrs{Action: netlink.TC_ACT_STOLEN}, MirredAction: netlink.TCA_EGRESS_REDIR, Ifindex: ifb,
		}}
	}
	if len(b.Shaped) > 0 {
		return filters(index, netlink.HANDLE_MIN_INGRESS, matches(b.Shaped, false), redirect)
	}
	list := filters(index, netlink.HANDLE_MIN_INGRESS, matches(b.Unshaped, false), func(f *netlink.U32) { f.ClassId = shapeRoot })
	rest := &netlink.U32{FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Priority: prioAll, Protocol: unix.ETH_P_ALL}}
	rest.Sel = &netlink.TcU32Sel{Flags: tcU32Terminal, Nkeys: 1, Keys: []netlink.TcU32Key{{}}}
	redirect(rest)
	return append(list, rest)
}

func addFilter(ctx context.Context, host *NS, name string, f *netlink.U32) error {
	return alter(ctx, "filter add", fmt.Sprintf("u32 %v dev %s", f.Sel.Keys, name), func() error { return unknown("u32", host.Handle().FilterAdd(f)) })
}

// redirect sends what comes out of the container to the ifb. There may be a clsact, or an ingress, of somebody else's with
// filters: ours come behind them.
func (b Bandwidth) redirect(ctx context.Context, host *NS, outer, ifb netlink.Link) error {
	index, name := outer.Attrs().Index, outer.Attrs().Name
	err := alter(ctx, "qdisc add", "clsact dev "+name, func() error { return unknown("clsact", host.Handle().QdiscAdd(clsact(index))) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	for _, f := range b.redirects(index, ifb.Attrs().Index, err == nil) {
		if err := addFilter(ctx, host, name, f); err != nil {
			return err
		}
	}
	return nil
}

func clsact(index int) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
}

// hasIngress tells whether a link has an ingress or a clsact. It asks for that one alone: a list is of the disciplines of all
// links of the host. netlink has no call for it.
func hasIngress(host *NS, l netlink.Link) (bool, error) {
	at := clsact(l.Attrs().Index)
	req := nl.NewNetlinkRequest(unix.RTM_GETQDISC, unix.NLM_F_ECHO|unix.NLM_F_ACK) // without the first some kernels answer to nobody
	req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(at.LinkIndex), Handle: at.Handle, Parent: at.Parent})
	err := host.Do(func() error {
		_, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC)
		return err
	})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL): // it has had one, or never
		return false, nil
	}
	return false, &Error{Op: "qdisc get", Name: l.Attrs().Name, Err: err}
}

// Ensure is Create where nothing is limited. What differs is taken away and made anew: for that moment nothing is limited.
func (b Bandwidth) Ensure(ctx context.Context, host *NS, outer netlink.Link, o Owner) (ifb netlink.Link, err error) {
	err = b.Verify(ctx, host, outer, o)
	if err == nil {
		if b.Egress.Rate == 0 {
			return nil, nil
		}
		return find(host, o.IfbName())
	}
	if !errors.Is(err, netconf.ErrDifferent) {
		return nil, err
	}
	if err := b.Delete(ctx, host, outer, o); err != nil {
		return nil, err
	}
	return b.Create(ctx, host, outer, o)
}
