package link

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// Tune changes attributes of a link that another plugin made. As a step it keeps in req.State how they were, and DEL
// gives them back: a device of the host's outlives the container. Fields that are not set are left alone.
type Tune struct {
	Interface string      // the link in the container; default: CNI_IFNAME
	MAC       netconf.MAC // hardware address
	MTU       int         // bytes, 68 to 65535; 0 leaves it
	Promisc   *bool       // takes frames that are for others; what a packet socket or a bridge asks for does not count
	AllMulti  *bool       // takes all multicast frames
	TxQLen    *int        // packets in the queue for sending, from 0
}

// The flags of linux/if.h.
const (
	flagPromisc  = 0x100
	flagAllMulti = 0x200
)

// Name is "tune".
func (Tune) Name() string { return "tune" }

// nothing tells whether no field asks for anything.
func (t Tune) nothing() bool {
	return t.MAC == nil && t.MTU == 0 && t.Promisc == nil && t.AllMulti == nil && t.TxQLen == nil
}

// attribute is one that Tune can change.
type attribute struct {
	name       string
	have, want any
	differs    bool
	set        func(h *netlink.Handle, l netlink.Link) error
}

// attributes lists those that t has, as l has them, in the order in which they are set: the queue's length last, since a
// new MTU makes new queues on some drivers.
func (t Tune) attributes(l netlink.Link) (list []attribute) {
	a := l.Attrs()
	if t.MAC != nil {
		list = append(list, attribute{"address", a.HardwareAddr, t.MAC, !bytes.Equal(a.HardwareAddr, t.MAC),
			func(h *netlink.Handle, l netlink.Link) error {
				return h.LinkSetHardwareAddr(l, net.HardwareAddr(t.MAC))
			}})
	}
	flag := func(name string, bit uint32, want *bool, set func(*netlink.Handle, netlink.Link, bool) error) {
		if want == nil {
			return
		}
		on := a.RawFlags&bit != 0
		list = append(list, attribute{name, on, *want, on != *want,
			func(h *netlink.Handle, l netlink.Link) error { return set(h, l, *want) }})
	}
	flag("promisc", flagPromisc, t.Promisc, setPromisc)
	flag("allmulticast", flagAllMulti, t.AllMulti, setAllMulti)
	if t.MTU != 0 {
		list = append(list, attribute{"mtu", a.MTU, t.MTU, a.MTU != t.MTU,
			func(h *netlink.Handle, l netlink.Link) error { return h.LinkSetMTU(l, t.MTU) }})
	}
	if t.TxQLen != nil {
		list = append(list, attribute{"txqueuelen", a.TxQLen, *t.TxQLen, a.TxQLen != *t.TxQLen,
			func(h *netlink.Handle, l netlink.Link) error { return h.LinkSetTxQLen(l, *t.TxQLen) }})
	}
	return list
}

func setPromisc(h *netlink.Handle, l netlink.Link, on bool) error {
	if on {
		return h.SetPromiscOn(l)
	}
	return h.SetPromiscOff(l)
}

// Was is a Tune with the fields of t, and the values that the link has: its Ensure undoes that of t.
func (t Tune) Was(n *NS, name string) (Tune, error) {
	l, err := find(n, name)
	if l, err = mustBe(l, err, name); err != nil {
		return Tune{}, err
	}
	return t.was(l), nil
}

func (t Tune) was(l netlink.Link) Tune {
	a := l.Attrs()
	old := Tune{Interface: t.Interface}
	if t.MAC != nil {
		old.MAC = netconf.MAC(a.HardwareAddr)
	}
	if t.MTU != 0 {
		old.MTU = a.MTU
	}
	if t.Promisc != nil {
		on := a.RawFlags&flagPromisc != 0
		old.Promisc = &on
	}
	if t.AllMulti != nil {
		on := a.RawFlags&flagAllMulti != 0
		old.AllMulti = &on
	}
	if t.TxQLen != nil {
		n := a.TxQLen
		old.TxQLen = &n
	}
	return old
}

// Ensure gives the link its attributes; what is so already is not touched. A value out of its range, and an MTU below
// 1280 where the link has an IPv6 address, which the kernel would take away, have code 7 and come before any change. So
// has an attribute that the link's driver cannot change.
func (t Tune) Ensure(ctx context.Context, n *NS, name string) error {
	l, err := find(n, name)
	if l, err = mustBe(l, err, name); err == nil {
		err = t.check(n, l)
	}
	if err != nil {
		return err
	}
	return t.ensure(ctx, n, l)
}

func (t Tune) ensure(ctx context.Context, n *NS, l netlink.Link) error {
	for _, a := range t.attributes(l) {
		if err := a.apply(ctx, n, l); err != nil {
			return err
		}
	}
	return nil
}

func (a attribute) apply(ctx context.Context, n *NS, l netlink.Link) error {
	if !a.differs {
		return nil
	}
	err := alter(ctx, "link "+a.name, l.Attrs().Name, func() error { return a.set(n.Handle(), l) })
	switch {
	case errors.Is(err, syscall.EBUSY):
		return badLink(l.Attrs().Name, "the driver changes its %s only while the link is down: %w", a.name, err)
	case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.EINVAL):
		return badLink(l.Attrs().Name, "a link of kind %s does not take the %s %v: %w", l.Type(), a.name, a.want, err)
	}
	return err
}

// Valid is an error with code 7 for values that no link takes. It looks at nothing else.
func (t Tune) Valid() error { return t.valid(t.Interface) }

func (t Tune) valid(name string) error {
	if err := checkMTU(name, t.MTU); err != nil {
		return err
	}
	if t.TxQLen != nil && (*t.TxQLen < 0 || *t.TxQLen > math.MaxInt32) {
		return badLink(name, "txqueuelen %d is out of range: expected 0 to %d", *t.TxQLen, math.MaxInt32)
	}
	return nil
}

// check refuses values that no link takes, or this one does not.
func (t Tune) check(n *NS, l netlink.Link) error {
	if err := t.valid(l.Attrs().Name); err != nil {
		return err
	}
	if t.MTU == 0 || t.MTU >= minMTU6 || l.Attrs().MTU < minMTU6 {
		return nil
	}
	have, err := prefixes(n, l, familyV6)
	for _, p := range have {
		if err == nil && !p.Addr().IsLinkLocalUnicast() {
			err = badLink(l.Attrs().Name, "mtu %d is too small for its IPv6 address %s: expected at least %d", t.MTU, p, minMTU6)
		}
	}
	return err
}

// Verify compares the link with t; all differences are reported together, and each Is netconf.ErrDifferent.
func (t Tune) Verify(_ context.Context, n *NS, name string) error {
	l, err := find(n, name)
	if err != nil {
		return err
	}
	if l == nil {
		return different(name, "the link", "there", "gone")
	}
	var errs []error
	for _, a := range t.attributes(l) {
		if a.differs {
			errs = append(errs, different(name, "the "+a.name, a.want, a.have))
		}
	}
	return netconf.Join(errs...)
}

// tuned is what is kept for DEL.
type tuned struct {
	linkID // another one of the same name is left alone
	Was    Tune
}

func (t Tune) key(req *netconf.Request) string { return "link.tune." + ifName(req, t.Interface) }

// Add is Ensure, with the hardware address and MTU noted where the prevResult, or the result, has the link. A second one is an error that
// Is netconf.ErrExists.
func (t Tune) Add(ctx context.Context, req *netconf.Request) error {
	if t.nothing() {
		return nil
	}
	n, l, err := t.prepare(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	if err := t.ensure(ctx, n, l); err != nil {
		return err
	}
	for _, result := range []*types100.Result{req.Prev, req.Result} { // the link may have been made by a step before this one
		i := named(result, l.Attrs().Name, true)
		if i != nil && t.MAC != nil {
			i.Mac = t.MAC.String()
		}
		if i != nil && t.MTU != 0 {
			i.Mtu = t.MTU
		}
	}
	return nil
}

// prepare looks, and writes down how the link is.
func (t Tune) prepare(req *netconf.Request) (*NS, netlink.Link, error) {
	n, l, err := begin(req, t.key(req), "link tune", ifName(req, t.Interface))
	if err == nil {
		err = t.check(n, l)
	}
	if err != nil {
		return nil, nil, err
	}
	return n, l, keep(req, t.key(req), tuned{idOf(n, l), t.was(l)})
}

// Check is Verify. A hardware address and an MTU may also be what the prevResult says: then a later plugin has changed
// them. The configuration's are right all the same, since another plugin, before an upgrade, may not have noted them.
func (t Tune) Check(ctx context.Context, req *netconf.Request) error {
	if t.nothing() {
		return nil
	}
	name := ifName(req, t.Interface)
	n, err := Container(req)
	if err != nil {
		return err
	}
	l, err := find(n, name)
	if err != nil {
		return err
	}
	if i := named(req.Prev, name, true); i != nil && l != nil {
		if t.MAC != nil && sameMAC(i.Mac, l.Attrs().HardwareAddr) {
			t.MAC = nil
		}
		if t.MTU != 0 && i.Mtu == l.Attrs().MTU {
			t.MTU = 0
		}
	}
	return t.Verify(ctx, n, name)
}

// Del gives the link back what Add changed, as far as it is still there. What its driver refuses is a warning.
func (t Tune) Del(ctx context.Context, req *netconf.Request) error {
	var old tuned
	return undo(req, t.key(req), ifName(req, t.Interface), &old, &old.linkID, func(n *NS, l netlink.Link) error {
		return old.Was.giveBack(ctx, req, n, l)
	})
}

// Kept tells whether an Add of the attachment has written down what Del gives back, be it that Del cannot read it any more.
func (t Tune) Kept(req *netconf.Request) (bool, error) {
	data, err := load(req, t.key(req))
	return data != nil, err
}

// GiveBack gives the link of a call what t says, as Del does with what Add has written down: for what another plugin has
// written down before an upgrade. What the driver refuses is a warning, and a link that is gone no error.
func (t Tune) GiveBack(ctx context.Context, req *netconf.Request) error {
	err := onLink(req, ifName(req, t.Interface), func(n *NS, l netlink.Link) error { return t.giveBack(ctx, req, n, l) })
	if Gone(err) {
		return nil
	}
	return err
}

func (t Tune) giveBack(ctx context.Context, req *netconf.Request, n *NS, l netlink.Link) error {
	var errs []error
	for _, a := range t.attributes(l) {
		switch err := a.apply(ctx, n, l); {
		case hopeless(err), errors.Is(err, syscall.EBUSY):
			warn(req, "the link cannot be given back what it had", "link", l.Attrs().Name, "error", err.Error())
		case !Gone(err):
			errs = append(errs, err)
		}
	}
	return netconf.Join(errs...)
}
