package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// VLAN is a link in the container for the frames of one VLAN of a parent link: what it sends leaves the parent with the
// tag, what comes there with the tag is its own. A parent has one link for each VLAN, wherever that is: a network of this
// kind has room for one container on a host. It lives in the container's namespace alone and goes with it: there is
// nothing on the host for GC.
//
// Its hardware address is the parent's, also when that changes, as a bond's does when it fails over; the parent's MTU is
// its upper limit, always. When the parent is set down the kernel sets the link down, and with the parent up again:
// the addresses stay, IPv4's routes through a gateway do not. CHECK finds that.
type VLAN struct {
	Parent Parent // the link whose frames carry the tag
	ID     int    // of the VLAN, 0 to 4094; 0 (default) tags with a priority alone, and is no VLAN
	MTU    int    // bytes, 68 to the parent's; 0 is the parent's
}

const vlanKind = "vlan"

// maxVLAN is the last VLAN there is: 4095 is reserved (IEEE 802.1Q), and the kernel refuses it.
const maxVLAN = 4094

// Name is "vlan".
func (VLAN) Name() string { return vlanKind }

// Valid is an error with code 7 for an ID that no VLAN has, or an MTU that no link has. It looks at nothing else.
func (v VLAN) Valid() error {
	if v.ID < 0 || v.ID > maxVLAN {
		return badLink(v.Parent.Name, "vlan %d is out of range: expected 0 to %d", v.ID, maxVLAN)
	}
	return checkMTU(v.Parent.Name, v.MTU)
}

// Create makes the link o.IfName in the container, down. What has the name already is an error that Is
// netconf.ErrExists, and so is another link for this VLAN of the parent, in whichever namespace. A parent that is
// missing, or takes no VLANs, an ID that no VLAN has, and an MTU below 68 or above the parent's, have code 7; a kernel
// without vlan gives ErrNotSupported. After another error there may be a part, which Delete takes away.
func (v VLAN) Create(ctx context.Context, host, container *NS, o Owner) (netlink.Link, error) {
	via, parent, err := v.parent(host, container, o.IfName)
	if err != nil {
		return nil, err
	}
	return v.create(ctx, via, container, parent, o)
}

// parent looks for the parent and tells whether it fits.
func (v VLAN) parent(host, container *NS, name string) (via *NS, parent netlink.Link, err error) {
	if err = v.Valid(); err != nil {
		return nil, nil, err
	}
	via = v.Parent.ns(host, container)
	if parent, err = v.Parent.find(via); err == nil {
		err = fitsParent(name, v.MTU, parent.Attrs())
	}
	return via, parent, err
}

func (v VLAN) create(ctx context.Context, via, container *NS, parent netlink.Link, o Owner) (netlink.Link, error) {
	l := &netlink.Vlan{LinkAttrs: attrs(o, o.IfName, v.MTU, nil), VlanId: v.ID}
	l.ParentIndex = parent.Attrs().Index
	made, err := create(ctx, o, via, container, l)
	if err != nil {
		return nil, v.explain(ctx, err, via, container, parent.Attrs(), o.IfName)
	}
	return made, nil
}

// explain says what the kernel means: it answers EEXIST also for a VLAN that has its link, and EOPNOTSUPP also for a
// parent that takes none, such as the loopback.
func (v VLAN) explain(ctx context.Context, err error, via, container *NS, parent *netlink.LinkAttrs, name string) error {
	switch {
	case errors.Is(err, ErrNotSupported) && v.known(ctx, via):
		return badLink(name, "the parent link %q takes no VLANs: %s", parent.Name, syscall.EOPNOTSUPP)
	case errors.Is(err, netconf.ErrExists):
		if there, lookErr := find(container, name); lookErr != nil || there != nil {
			return netconf.Join(err, lookErr)
		}
		where := "in another network namespace: another container has it"
		if other, lookErr := v.other(via, parent); lookErr != nil {
			return netconf.Join(err, lookErr)
		} else if other != nil {
			where = fmt.Sprintf("it is %q%s", other.Attrs().Name, labelText(other))
		}
		return &Error{Op: "link add", Name: name, Err: fmt.Errorf("%w: vlan %d of the parent link %q has its link, and can have only one; %s",
			netconf.ErrExists, v.ID, parent.Name, where)}
	}
	return err
}

// known tells whether the kernel knows the kind: it refuses a VLAN without an ID, whatever the parent, with another word than
// a kind that it does not know. Nothing is changed.
func (v VLAN) known(ctx context.Context, via *NS) bool {
	a := netlink.NewLinkAttrs()
	a.Name, a.ParentIndex = vlanKind, 1
	err := alter(ctx, "link try", vlanKind, func() error {
		return via.Handle().LinkAdd(&netlink.GenericLink{LinkAttrs: a, LinkType: vlanKind})
	})
	return errors.Is(err, syscall.EINVAL)
}

// other is the link that the VLAN has in the parent's own namespace, nil if there is none.
func (v VLAN) other(via *NS, parent *netlink.LinkAttrs) (netlink.Link, error) {
	links, err := whole(via.Handle().LinkList)
	if err != nil {
		return nil, &Error{Op: "link list", Err: err}
	}
	for _, l := range links {
		if have, ok := l.(*netlink.Vlan); ok && have.VlanId == v.ID && have.ParentIndex == parent.Index && have.NetNsID < 0 {
			return l, nil
		}
	}
	return nil, nil
}

// Ensure is Create where the link is not there. One of the owner's is brought back to its MTU, as far as v has it, and
// up; a parent or VLAN that differs is an error that Is netconf.ErrDifferent: that cannot be changed under a live link.
// One of somebody else's is an error that Is netconf.ErrExists.
func (v VLAN) Ensure(ctx context.Context, host, container *NS, o Owner) (netlink.Link, error) {
	l, err := find(container, o.IfName)
	switch {
	case err != nil:
		return nil, err
	case l == nil:
		return v.Create(ctx, host, container, o)
	case !o.Owns(l):
		return nil, taken(o.IfName, l)
	}
	if err := v.verify(l, host, container, o.IfName); err != nil {
		return nil, err
	}
	_, parent, err := v.parent(host, container, o.IfName)
	if err != nil {
		return nil, err
	}
	if err := v.ready(parent); err != nil {
		return nil, err
	}
	if err := converge(ctx, container, l, o.Alias(""), v.MTU, nil); err != nil {
		return nil, err
	}
	return find(container, o.IfName)
}

// Verify compares the link with v, and its MTU and hardware address with want where that is not nil. A difference Is
// netconf.ErrDifferent. The hardware address may also be what the parent has now.
func (v VLAN) Verify(_ context.Context, host, container *NS, o Owner, want *types100.Interface) error {
	l, err := find(container, o.IfName)
	if err != nil {
		return err
	}
	if l != nil && l.Type() == vlanKind && want != nil {
		parent, err := findIndex(v.Parent.ns(host, container), l.Attrs().ParentIndex)
		if err != nil {
			return err
		}
		if parent != nil && sameMAC(parent.Attrs().HardwareAddr.String(), l.Attrs().HardwareAddr) {
			without := *want
			without.Mac = ""
			want = &without
		}
	}
	err = verify(l, o.IfName, vlanKind, o, want)
	if l == nil || l.Type() != vlanKind {
		return err
	}
	return netconf.Join(err, v.verify(l, host, container, o.IfName))
}

// verify compares what only a VLAN's link has.
func (v VLAN) verify(l netlink.Link, host, container *NS, name string) error {
	have, ok := l.(*netlink.Vlan)
	if !ok {
		return different(name, "the kind", vlanKind, l.Type())
	}
	var errs []error
	if have.VlanId != v.ID {
		errs = append(errs, different(name, "the VLAN", v.ID, have.VlanId))
	}
	if have.VlanProtocol != netlink.VLAN_PROTOCOL_8021Q {
		errs = append(errs, different(name, "the protocol of the tag", netlink.VLAN_PROTOCOL_8021Q, have.VlanProtocol))
	}
	return netconf.Join(append(errs, v.Parent.verify(l, v.Parent.ns(host, container)))...)
}

// Delete takes the link away, if it is the owner's; container may be nil, or have gone.
func (v VLAN) Delete(ctx context.Context, _, container *NS, o Owner) error {
	return claim{Owner: o}.removeInside(ctx, container)
}

// ready is an error with code 11 for a parent that is down: the kernel sets no VLAN's link up then.
func (VLAN) ready(parent netlink.Link) error {
	if a := parent.Attrs(); a.Flags&net.FlagUp == 0 {
		return &Error{Op: "link", Name: a.Name, Err: netconf.Errorf(netconf.CodeTryAgainLater,
			"the parent link is down: no VLAN's link can be set up before it is")}
	}
	return nil
}

// Add is Create, with the link noted in the result. A parent that is down is an error with code 11.
func (v VLAN) Add(ctx context.Context, req *netconf.Request) error {
	p, err := entering(req, vlanKind)
	if err != nil {
		return err
	}
	via, parent, err := v.parent(p.host, p.container, p.IfName)
	if err == nil {
		err = v.ready(parent)
	}
	if err != nil {
		return err
	}
	l, err := v.create(ctx, via, p.container, parent, p.Owner)
	if err != nil {
		return err
	}
	req.AddInterface(describe(l, req.Netns))
	return nil
}

// Check is Verify against the prevResult.
func (v VLAN) Check(ctx context.Context, req *netconf.Request) error {
	p, want, err := checking(req)
	if err != nil {
		return err
	}
	return v.Verify(ctx, p.host, p.container, p.Owner, want)
}

// Del is Delete.
func (v VLAN) Del(ctx context.Context, req *netconf.Request) error {
	p, err := leaving(req, vlanKind)
	if p == nil {
		return err
	}
	return p.removeInside(ctx, p.container)
}

// Status is an error with code 50 when the parent is not there, or down. One inside a container cannot be asked for.
// That the VLAN has its link is none: so it is while the container lives.
func (v VLAN) Status(_ context.Context, req *netconf.Request) error {
	return v.Parent.status(req, func(_ *NS, parent netlink.Link) error {
		if err := v.ready(parent); err != nil {
			return netconf.Errorf(netconf.CodePluginNotAvailable, "%w", err)
		}
		return nil
	})
}
