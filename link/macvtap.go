package link

import (
	"context"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// Macvtap is a [Macvlan] whose other end is a program, as the monitor of a virtual machine: it reads and writes
// frames at a character device, tapN, where N is the link's index. It lives in the container's namespace alone and
// goes with it, also while a program has the device open: there is nothing on the host for GC.
//
// The kernel says major and minor number in the container's /sys/class/net/IFNAME/macvtap/tapN/dev (a sysfs that was mounted
// in its namespace). The node /dev/tapN that it makes on the host is no help: indexes count per
// namespace, and of two links with one index in two containers only the first has its node there. Who starts
// the machine makes the node, by those numbers, and gives it to the machine's user; this package does not.
//
// It has a carrier whether or not the device is open. A program that opens it gets virtio headers until it says
// otherwise (TUNSETIFF without IFF_VNET_HDR).
type Macvtap struct {
	Parent     Parent      // the link that it shares
	Mode       MacvlanMode // how those on the same parent, macvlans too, reach each other; default: bridge
	MTU        int         // bytes, 68 to the parent's; 0 is the parent's
	MAC        netconf.MAC // hardware address, which is to be the machine's too; nil: the kernel chooses one
	BcQueueLen uint32      // length of the parent's queue for broadcasts; the longest of those on it counts. 0 is the kernel's 1000
	Chained    bool        // take parent and addresses that are not given from the prevResult, as Macvlan.Chained says
}

const macvtapKind = "macvtap"

// Name is "macvtap".
func (m Macvtap) Name() string { return macvtapKind }

// Create makes the link o.IfName in the container, down. What has the name already is an error that Is
// netconf.ErrExists; a parent that is missing or taken, and an MTU below 68 or above the parent's, have code 7; a
// kernel without macvtap gives ErrNotSupported. After another error there may be a part, which Delete takes away.
func (m Macvtap) Create(ctx context.Context, host, container *NS, o Owner) (netlink.Link, error) {
	l, _, err := Macvlan(m).create(ctx, host, container, o, macvtapKind)
	return l, err
}

// Ensure is Create where the link is not there. One of the owner's is brought back to its MTU, hardware address and
// broadcast queue, as far as m has them, and up; a parent or mode that differs is an error that Is
// netconf.ErrDifferent. One of somebody else's is an error that Is netconf.ErrExists.
func (m Macvtap) Ensure(ctx context.Context, host, container *NS, o Owner) (netlink.Link, error) {
	return Macvlan(m).ensure(ctx, host, container, o, macvtapKind)
}

// Verify compares the link with m, and its MTU and hardware address with want where that is not nil. A
// difference Is netconf.ErrDifferent.
func (m Macvtap) Verify(_ context.Context, host, container *NS, o Owner, want *types100.Interface) error {
	return Macvlan(m).compare(host, container, o, macvtapKind, want)
}

// Delete takes the link away, if it is the owner's; container may be nil, or have gone.
func (m Macvtap) Delete(ctx context.Context, _, container *NS, o Owner) error {
	return claim{Owner: o}.removeInside(ctx, container)
}

// Add is Create, with the link noted in the result.
func (m Macvtap) Add(ctx context.Context, req *netconf.Request) error {
	return Macvlan(m).add(ctx, req, macvtapKind)
}

// Check is Verify against the prevResult.
func (m Macvtap) Check(ctx context.Context, req *netconf.Request) error {
	p, want, err := checking(req)
	if err != nil {
		return err
	}
	return m.Verify(ctx, p.host, p.container, p.Owner, want)
}

// Del is Delete.
func (m Macvtap) Del(ctx context.Context, req *netconf.Request) error {
	return Macvlan(m).del(ctx, req, macvtapKind)
}

// Status is an error with code 50 when the parent is not there. One inside a container, or of a
// prevResult, cannot be asked for.
func (m Macvtap) Status(ctx context.Context, req *netconf.Request) error {
	return Macvlan(m).Status(ctx, req)
}
