package link

import (
	"context"
	"math"
	"net/netip"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

// VRF puts a link that another plugin made into a routing domain of its own (VRF): its routes are in a table that only
// what belongs to the VRF is routed by, so that two networks of a container may have the same addresses. The VRF is a link
// too, made with the first that is put into it, and goes with the last; one that somebody else has made stays.
//
// The kernel takes the routes and the IPv6 addresses of a link away when it is put into a VRF or out of it. All that are
// not the kernel's own, and have one next hop, are made again, those of the main table in the VRF's.
type VRF struct {
	VRF       string // the name of the VRF's link; required
	Table     int    // its routing table, 1 to 4294967295 without 255; 0: that of the VRF, if it is there, or the lowest without routes and VRF
	Interface string // the link in the container; default: CNI_IFNAME
}

const vrfKind = "vrf"

// tableLocal is the kernel's table of its own addresses.
const tableLocal = 255

// vrfGroup is the link group of a VRF that this package has made: it says so from birth.
func vrfGroup() uint32 { return Owner{IfName: vrfKind}.Group() }

// Name is "vrf".
func (VRF) Name() string { return vrfKind }

// Valid is an error with code 7 for a name that no link has, or a table that no VRF has. It looks at nothing else.
func (v VRF) Valid() error {
	if err := netconf.CheckIfName(v.VRF); err != nil {
		return badLink(v.VRF, "it is no name of a VRF: %v", err)
	}
	if v.Table < 0 || int64(v.Table) > math.MaxUint32 || v.Table == tableLocal {
		return badLink(v.VRF, "table %d: expected 1 to %d, without %d, which is the kernel's", v.Table, uint32(math.MaxUint32), tableLocal)
	}
	return nil
}

// belongings are what a link loses when it changes its VRF.
type belongings struct {
	Addresses []keptAddress
	Routes    []MovedRoute // those of the main table, or the VRF's, are in the main table here
}

// keptAddress is an IPv6 address as it was.
type keptAddress struct {
	Prefix netip.Prefix
	Flags  int // of those in linux/if_addr.h
}

// enslaved is what is kept for DEL.
type enslaved struct {
	linkID // another one of the same name is left alone
	VRF    string
	belongings
}

func (v VRF) key(req *netconf.Request) string { return "link.vrf." + ifName(req, v.Interface) }

// Add is Ensure for a link that is in no VRF or bridge: one that is, is an error with code 7. A second Add is an error that
// Is netconf.ErrExists. The result stays as it is.
func (v VRF) Add(ctx context.Context, req *netconf.Request) error {
	n, l, had, err := v.prepare(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	return v.enslave(ctx, n, l, had)
}

// prepare looks, and writes down what the link has.
func (v VRF) prepare(req *netconf.Request) (n *NS, l netlink.Link, had belongings, err error) {
	name := ifName(req, v.Interface)
	if n, l, err = begin(req, v.key(req), vrfKind, name); err != nil {
		return nil, nil, had, err
	}
	if _, err = v.fits(n, l); err == nil && l.Attrs().MasterIndex != 0 {
		err = badLink(name, "it is in the VRF %q already, and this attachment has not put it there", v.VRF)
	}
	if err == nil {
		had, err = belongingsOf(n, l, TableMain)
	}
	if err != nil {
		return nil, nil, had, err
	}
	return n, l, had, keep(req, v.key(req), enslaved{idOf(n, l), v.VRF, had})
}

// fits finds the VRF, nil if there is none yet. A link that is part of something else, and a VRF of another kind or
// table, have code 7.
func (v VRF) fits(n *NS, l netlink.Link) (*netlink.Vrf, error) {
	if err := v.Valid(); err != nil {
		return nil, err
	}
	there, err := find(n, v.VRF)
	if err != nil {
		return nil, err
	}
	vrf, ok := there.(*netlink.Vrf)
	switch {
	case there != nil && !ok:
		return nil, badLink(v.VRF, "it is no VRF, but a link of kind %s%s", there.Type(), labelText(there))
	case vrf != nil && v.Table != 0 && vrf.Table != uint32(v.Table):
		return nil, badLink(v.VRF, "the VRF is there with the table %d, expected %d", vrf.Table, v.Table)
	}
	if index := l.Attrs().MasterIndex; index != 0 && (vrf == nil || index != vrf.Index) {
		in := "something that is gone"
		if master, err := findIndex(n, index); err != nil {
			return nil, err
		} else if master != nil {
			in = master.Type() + " \"" + master.Attrs().Name + "\""
		}
		return nil, badLink(l.Attrs().Name, "it is a part of the %s: it cannot be put into the VRF %q", in, v.VRF)
	}
	return vrf, nil
}

// Check is Verify.
func (v VRF) Check(ctx context.Context, req *netconf.Request) error {
	n, err := Container(req)
	if err != nil {
		return err
	}
	return v.Verify(ctx, n, ifName(req, v.Interface))
}

// Del puts the link that Add has put into the VRF out of it, with what it had, and takes the VRF away if it was the last one
// and Add has made the VRF. A link that is gone is no error. What the kernel does not take any more is a warning.
func (v VRF) Del(ctx context.Context, req *netconf.Request) error {
	var old enslaved
	name := ifName(req, v.Interface)
	there, known, err := left(req, v.key(req), &old)
	if err != nil || !there {
		return err
	}
	if known && req.Netns != "" {
		n, err := Container(req)
		if err == nil {
			err = old.undo(ctx, n, name, req.Warn)
		}
		if err != nil && !Gone(err) {
			return err
		}
	}
	return forget(req, v.key(req))
}

func (old enslaved) undo(ctx context.Context, n *NS, name string, warn func(string, ...any)) error {
	if now := cookie(n); now != 0 && old.Netns != 0 && now != old.Netns {
		return nil // the namespace is another one by now, and what Add made has gone with its own
	}
	l, err := find(n, name)
	if err == nil && l != nil && old.is(n, l) {
		err = release(ctx, n, l, old.VRF, old.belongings, warn)
	}
	if err != nil && !Gone(err) {
		return err
	}
	return sweep(ctx, n, old.VRF)
}
