package link

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Verify compares the disciplines, classes and filters of the host's end, and the ifb, with b. Each difference Is
// netconf.ErrDifferent. That the MTU has changed since is none: a burst of at least one packet was one of the packets of then.
func (b Bandwidth) Verify(_ context.Context, host *NS, outer netlink.Link, o Owner) error {
	if err := b.Valid(); err != nil {
		return err
	}
	errs := []error{b.verifyRoot(host, outer)}
	ifb, err := find(host, o.IfbName())
	if err != nil {
		return err
	}
	index := 0
	if ifb != nil {
		index = ifb.Attrs().Index
	}
	if b.Egress.Rate > 0 {
		errs = append(errs, b.verifyIfb(host, ifb, o, outer.Attrs().MTU))
	}
	var want []*netlink.U32
	if b.Egress.Rate > 0 {
		want = b.redirects(outer.Attrs().Index, index, false)
	}
	errs = append(errs, sameFilters(host, outer, netlink.HANDLE_MIN_INGRESS, "the filters of what comes out", want))
	return netconf.Join(errs...)
}

// rootOf is the discipline at the root of a link; nil if it is the kernel's own.
func rootOf(host *NS, l netlink.Link) (netlink.Qdisc, error) {
	list, err := whole(func() ([]netlink.Qdisc, error) { return host.Handle().QdiscList(l) })
	if err != nil {
		return nil, &Error{Op: "qdisc list", Name: l.Attrs().Name, Err: err}
	}
	for _, q := range list {
		if q.Attrs().Parent == netlink.HANDLE_ROOT && q.Attrs().Handle != 0 {
			return q, nil
		}
	}
	return nil, nil
}

func (b Bandwidth) verifyRoot(host *NS, outer netlink.Link) error {
	name := outer.Attrs().Name
	have, err := rootOf(host, outer)
	if err != nil {
		return err
	}
	ours := have != nil && have.Attrs().Handle == shapeRoot
	if b.Ingress.Rate == 0 {
		if ours {
			return different(name, "what goes into the container", "not limited", "limited")
		}
		return nil
	}
	k := b.Ingress.bucket(outer.Attrs().MTU)
	want, class := b.disciplines(outer.Attrs().Index, k)
	switch {
	case !ours || have.Type() != want.Type():
		return different(name, "the queueing discipline", want.Type(), kindOf(have))
	case class == nil:
		return sameBucket(name, have, b.Ingress, outer.Attrs().MTU)
	}
	classes, err := whole(func() ([]netlink.Class, error) { return host.Handle().ClassList(outer, shapeRoot) })
	if err != nil {
		return &Error{Op: "class list", Name: name, Err: err}
	}
	i := slices.IndexFunc(classes, func(c netlink.Class) bool { return c.Attrs().Handle == class.Handle })
	if i < 0 {
		return different(name, "the class of the htb", k, "not there")
	}
	errs := []error{sameFilters(host, outer, shapeRoot, "the filters of what goes in", b.classify(outer.Attrs().Index))}
	htb, ok := classes[i].(*netlink.HtbClass)
	if ok {
		k = b.Ingress.made(bucket{buffer: htb.Buffer}, outer.Attrs().MTU)
	}
	if !ok || htb.Rate != k.rate || htb.Ceil != k.rate || htb.Buffer != k.buffer {
		errs = append(errs, different(name, "the class of the htb", k, fmt.Sprintf("%+v", classes[i])))
	}
	if htb, ok := have.(*netlink.Htb); ok && htb.Defcls != want.(*netlink.Htb).Defcls {
		errs = append(errs, different(name, "the class of what no filter matches", want.(*netlink.Htb).Defcls, htb.Defcls))
	}
	return netconf.Join(errs...)
}

func kindOf(q netlink.Qdisc) string {
	if q == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s", q.Type(), netlink.HandleStr(q.Attrs().Handle))
}

func sameBucket(name string, q netlink.Qdisc, r Rate, mtu int) error {
	tbf, ok := q.(*netlink.Tbf)
	if !ok {
		return different(name, "the queueing discipline", "tbf", kindOf(q))
	}
	have := bucket{rate: tbf.Rate, buffer: tbf.Buffer, limit: tbf.Limit}
	want := r.made(have, mtu)
	if have.rate != want.rate || have.buffer != want.buffer || have.limit != want.limit {
		return different(name, "the limit", want, have)
	}
	return nil
}

func (b Bandwidth) verifyIfb(host *NS, ifb netlink.Link, o Owner, mtu int) error {
	name := o.IfbName()
	if err := verify(ifb, name, ifbKind, o, nil); err != nil {
		return err
	}
	have, err := rootOf(host, ifb)
	if err != nil {
		return err
	}
	return sameBucket(name, have, b.Egress, mtu)
}

// filtersOf lists our filters below a parent.
func filtersOf(host *NS, l netlink.Link, parent uint32) (ours []*netlink.U32, others bool, err error) {
	list, err := whole(func() ([]netlink.Filter, error) { return host.Handle().FilterList(l, parent) })
	if err != nil {
		return nil, false, &Error{Op: "filter list", Name: l.Attrs().Name, Err: err}
	}
	for _, f := range list {
		u32, ok := f.(*netlink.U32)
		prio := f.Attrs().Priority
		if ok && prio >= prioV4 && prio <= prioAll {
			ours = append(ours, u32)
		} else {
			others = true
		}
	}
	return ours, others, nil
}

func sameFilters(host *NS, outer netlink.Link, parent uint32, what string, want []*netlink.U32) error {
	have, _, err := filtersOf(host, outer, parent)
	if err != nil {
		return err
	}
	if !slices.Equal(texts(have), texts(want)) {
		return different(outer.Attrs().Name, what, texts(want), texts(have))
	}
	return nil
}

// texts writes what a filter does, in any order of the kernel's.
func texts(list []*netlink.U32) []string {
	var out []string
	for _, f := range list {
		keys := []netlink.TcU32Key(nil)
		if f.Sel != nil {
			keys = f.Sel.Keys
		}
		to := "class " + netlink.HandleStr(f.ClassId)
		for _, a := range f.Actions {
			if m, ok := a.(*netlink.MirredAction); ok {
				to = fmt.Sprintf("%v to link %d", m.MirredAction, m.Ifindex)
			}
		}
		out = append(out, fmt.Sprintf("%d %v %s", f.Priority, keys, to))
	}
	slices.Sort(out)
	return out
}

// Delete takes the limits away, as far as they are ours: the filters, and the clsact if Create has made it and it then has
// none; the discipline at the root; the ifb, if it is the owner's. outer may be nil: it has gone, and all but the ifb with it.
// What is gone is no error. Where Create ended between the clsact and its first filter an empty clsact stays; the step
// takes that too.
func (b Bandwidth) Delete(ctx context.Context, host *NS, outer netlink.Link, o Owner) error {
	return b.remove(ctx, host, outer, o, false)
}

// remove is Delete; made tells that the clsact is ours, if its filters do not.
func (b Bandwidth) remove(ctx context.Context, host *NS, outer netlink.Link, o Owner, made bool) error {
	ifb, err := find(host, o.IfbName())
	if o.Network == "" { // the name cannot be derived
		ifb, err = labelledIfb(host, o)
	}
	if err != nil {
		return err
	}
	var errs []error
	if outer != nil {
		errs = append(errs, removeRedirects(ctx, host, outer, made), removeRoot(ctx, host, outer))
	}
	if err := netconf.Join(errs...); err != nil || ifb == nil || ifb.Type() != ifbKind || !o.Owns(ifb) {
		return err
	}
	return remove(ctx, host, ifb) // last: it says that there may be the rest
}

// labelledIfb finds the owner's ifb by its label.
func labelledIfb(host *NS, o Owner) (netlink.Link, error) {
	links, err := whole(host.Handle().LinkList)
	if err != nil {
		return nil, &Error{Op: "link list", Err: err}
	}
	i := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Type() == ifbKind && o.Owns(l) })
	if i < 0 {
		return nil, nil
	}
	return links[i], nil
}

// removeRedirects comes before the ifb goes: a filter that sends packets to what is gone drops them. Where the clsact is ours
// and has no filter of others it goes with ours, in one request: what ends between two would leave it empty, and nobody's.
func removeRedirects(ctx context.Context, host *NS, outer netlink.Link, made bool) error {
	ours, others, err := filtersOf(host, outer, netlink.HANDLE_MIN_INGRESS)
	if err != nil {
		return err
	}
	made = made || slices.ContainsFunc(ours, func(f *netlink.U32) bool { return f.ClassId == madeIngress && len(f.Actions) > 0 })
	if made && !others {
		_, others, err = filtersOf(host, outer, netlink.HANDLE_MIN_EGRESS)
	}
	if err != nil {
		return err
	}
	name := outer.Attrs().Name
	if made && !others {
		err := alter(ctx, "qdisc del", "clsact dev "+name, func() error { return host.Handle().QdiscDel(clsact(outer.Attrs().Index)) })
		return unlessGone(err)
	}
	for _, f := range ours { // all of a priority go with the first
		all := &netlink.U32{FilterAttrs: netlink.FilterAttrs{LinkIndex: f.LinkIndex, Parent: f.Parent, Priority: f.Priority, Protocol: f.Protocol}}
		err := alter(ctx, "filter del", fmt.Sprintf("priority %d dev %s", f.Priority, name), func() error { return host.Handle().FilterDel(all) })
		if err := unlessGone(err); err != nil {
			return err
		}
	}
	return nil
}

// unlessGone is nil for the answers to the deletion of a discipline or filter that is not there, or is another by now.
func unlessGone(err error) error {
	if Gone(err) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// removeRoot asks for our number to be deleted, and the kernel refuses if another has it: no list of the disciplines of all
// links of the host is needed.
func removeRoot(ctx context.Context, host *NS, outer netlink.Link) error {
	root := &netlink.GenericQdisc{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: outer.Attrs().Index, Handle: shapeRoot, Parent: netlink.HANDLE_ROOT}}
	return unlessGone(alter(ctx, "qdisc del", "root dev "+outer.Attrs().Name, func() error { return host.Handle().QdiscDel(root) }))
}
