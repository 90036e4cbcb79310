package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// What all kinds of links have in common: to be born in a namespace, labelled, compared, taken away.
// A kind's own file says what is special about it.

// minMTU and maxMTU are what the kernel takes for links like Ethernet: ETH_MIN_MTU, ETH_MAX_MTU of linux/if_ether.h.
const (
	minMTU = 68
	maxMTU = 65535
)

// alter makes one change in the kernel: the fault hook is asked first, and an error says what was
// changed.
func alter(ctx context.Context, op, name string, do func() error) error {
	err := netconf.Before(ctx, op+" "+name)
	if err == nil {
		err = do()
	}
	if err != nil {
		return &Error{Op: op, Name: name, Err: err}
	}
	return nil
}

// checkMTU is an error with code 7 for an MTU that no such link can have; 0 is the default. The kernel takes the lower
// 32 bits of a larger one.
func checkMTU(name string, mtu int) error {
	if mtu != 0 && (mtu < minMTU || mtu > maxMTU) {
		return badLink(name, "mtu %d is out of range: expected %d to %d", mtu, minMTU, maxMTU)
	}
	return nil
}

// checkName is an error with code 4 for what is no name of a link: of a pattern (eth%d) the kernel would make another name, and nobody
// would know the link again. skel checks CNI_IFNAME; a daemon that calls the core has no skel.
func checkName(name string) error {
	if err := netconf.CheckIfName(name); err != nil {
		return &Error{Op: "link add", Name: name, Err: netconf.Errorf(netconf.CodeInvalidEnvironment, "%w", err)}
	}
	return nil
}

// find looks a link up by its name; nil if there is none. No link has a NUL in its name, but the kernel would
// answer with the one whose name stands before it.
func find(n *NS, name string) (netlink.Link, error) {
	if strings.Contains(name, "\x00") {
		return nil, nil
	}
	l, err := whole(func() (netlink.Link, error) { return n.Handle().LinkByName(name) })
	return found(l, err, name)
}

// findIndex looks a link up by its index; nil if there is none.
func findIndex(n *NS, index int) (netlink.Link, error) {
	l, err := whole(func() (netlink.Link, error) { return n.Handle().LinkByIndex(index) })
	return found(l, err, fmt.Sprintf("index %d", index))
}

func found(l netlink.Link, err error, name string) (netlink.Link, error) {
	switch {
	case err == nil:
		return l, nil
	case Gone(err):
		return nil, nil
	}
	return nil, &Error{Op: "link get", Name: name, Err: err}
}

// attrs is where the attributes of a new link begin: the kernel's queue length, the owner's group.
func attrs(o Owner, name string, mtu int, mac netconf.MAC) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name, a.MTU, a.HardwareAddr, a.Group = name, mtu, net.HardwareAddr(mac), o.Group()
	return a
}

// create makes the link l, which attrs began, in the namespace in, by a message to the namespace via: that
// of the parent. It is born there under its final name, down; then it is read back and labelled. If the
// name is taken, or the kernel has a link that excludes it, nothing has changed and the error Is
// netconf.ErrExists.
func create(ctx context.Context, o Owner, via, in *NS, l netlink.Link) (netlink.Link, error) {
	a := l.Attrs()
	name := a.Name
	if err := checkName(name); err != nil {
		return nil, err
	}
	if !via.Is(in) {
		a.Namespace = netlink.NsFd(in.Fd())
	}
	err := alter(ctx, "link add", name, func() error { return lacking(l, via.Handle().LinkAdd(l)) })
	if errors.Is(err, syscall.EEXIST) {
		err = createAside(ctx, o, via, in, l)
	}
	if err != nil {
		return nil, err
	}
	return christen(ctx, in, name, o, "")
}

// lacking says of the kernel's EOPNOTSUPP what it lacks: it is its answer to a kind that it does not know.
func lacking(l netlink.Link, err error) error {
	if errors.Is(err, syscall.EOPNOTSUPP) {
		return fmt.Errorf("the kernel lacks links of the kind %s (their module may be missing): %w", l.Type(), err)
	}
	return err
}

// createAside is the way out when the name is taken: kernels before 6.15 look it up in the namespace of
// the message too, where it is another link's (a host has an eth0 as a container has). The link is born
// under a name of ours and renamed in its place.
func createAside(ctx context.Context, o Owner, via, in *NS, l netlink.Link) error {
	name := l.Attrs().Name
	there, err := find(in, name)
	switch {
	case err != nil:
		return err
	case there != nil:
		return taken(name, there)
	case via.Is(in):
		return alike(name, l)
	}
	aside := o.HostName(asideRole)
	l.Attrs().Name, l.Attrs().Index = aside, 0
	err = alter(ctx, "link add", aside, func() error { return via.Handle().LinkAdd(l) })
	if errors.Is(err, syscall.EEXIST) {
		if there, lookErr := find(in, aside); lookErr == nil && there == nil {
			return alike(name, l)
		}
	}
	if err != nil {
		return err
	}
	born, err := find(in, aside)
	if err == nil && born == nil {
		err = &Error{Op: "link add", Name: aside, Err: syscall.ENODEV}
	}
	if err != nil {
		return err
	}
	return alter(ctx, "link rename", aside, func() error { return in.Handle().LinkSetName(born, name) })
}

// asideRole is the role of the name of a link that does not have its own yet.
const asideRole = "aside"

// taken is the error for a name that a link has already.
func taken(name string, by netlink.Link) error {
	err := netconf.ErrExists
	if by != nil {
		err = fmt.Errorf("%w: a link of kind %s%s", err, by.Type(), labelText(by))
	}
	return &Error{Op: "link add", Name: name, Err: err}
}

// alike is the error for a name that is free, of a kind that knows another rule: the kernel has one vxlan with
// a VNI and port. Nothing has changed.
func alike(name string, l netlink.Link) error {
	err := fmt.Errorf("%w: the name is free, but there is another link of kind %s with the same attributes", netconf.ErrExists, l.Type())
	return &Error{Op: "link add", Name: name, Err: err}
}

func labelText(l netlink.Link) string {
	if l.Attrs().Alias == "" {
		return ""
	}
	return fmt.Sprintf(", alias %q", l.Attrs().Alias)
}

// christen reads a new link back where it is, for netlink itself looks it up where the message was sent, and
// gives it its alias, which the kernel ignores in the create message.
func christen(ctx context.Context, n *NS, name string, o Owner, role string) (netlink.Link, error) {
	l, err := find(n, name)
	if err == nil && l == nil {
		err = &Error{Op: "link add", Name: name, Err: fmt.Errorf("it is gone again: %w", syscall.ENODEV)}
	}
	if err != nil {
		return nil, err
	}
	err = alter(ctx, "link alias", name, func() error { return n.Handle().LinkSetAlias(l, o.Alias(role)) })
	return l, err
}

// up sets a link up.
func up(ctx context.Context, n *NS, l netlink.Link) error {
	return alter(ctx, "link up", l.Attrs().Name, func() error { return n.Handle().LinkSetUp(l) })
}

// converge brings a link that is there back to its label, MTU and hardware address, as far as they are
// asked for, and up.
func converge(ctx context.Context, n *NS, l netlink.Link, alias string, mtu int, mac netconf.MAC) error {
	a, h, name := l.Attrs(), n.Handle(), l.Attrs().Name
	if err := checkMTU(name, mtu); err != nil {
		return err
	}
	steps := []struct {
		needed bool
		op     string
		do     func() error
	}{
		{a.Alias != alias, "link alias", func() error { return h.LinkSetAlias(l, alias) }},
		{mac != nil && !bytes.Equal(a.HardwareAddr, mac), "link address", func() error { return h.LinkSetHardwareAddr(l, net.HardwareAddr(mac)) }},
		{mtu != 0 && a.MTU != mtu, "link mtu", func() error { return h.LinkSetMTU(l, mtu) }},
		{a.Flags&net.FlagUp == 0, "link up", func() error { return h.LinkSetUp(l) }},
	}
	for _, s := range steps {
		if s.needed {
			if err := alter(ctx, s.op, name, s.do); err != nil {
				return err
			}
		}
	}
	return nil
}

// claim is what a DEL can say to prove that a link is its own.
type claim struct {
	Owner
	prev   *types100.Result // the prevResult, if there is one
	marked bool             // only what carries the owner's mark: the rollback of an ADD, whose links all do, and all on the host
}

// mark says whether a link carries the owner's mark: its alias, or where it has none (killed between two
// messages) its group. known is false for a link without a mark of any attachment.
func (c claim) mark(l netlink.Link) (ours, known bool) {
	a := l.Attrs()
	if lab, ok := parseAlias(a.Alias); ok {
		return lab.of(c.Owner), true
	}
	if a.Alias == "" && a.Group == c.Group() {
		return true, true
	}
	return false, false
}

// owns tells whether a link in a container is the attachment's: by its mark; or, where it has none of any
// attachment, because the prevResult names it with the same hardware address (it was made by another
// plugin, before an upgrade). Its name and kind alone prove nothing: the DEL that follows an ADD which
// found the name taken would take away what took it. On the host the mark alone counts ([Owner.Owns]): a
// prevResult that names the uplink, as one that came from elsewhere or was damaged does, would cut the host off.
func (c claim) owns(l netlink.Link) bool {
	if ours, known := c.mark(l); known || c.marked {
		return ours
	}
	i := named(c.prev, l.Attrs().Name, true)
	return i != nil && i.Mac != "" && sameMAC(i.Mac, l.Attrs().HardwareAddr)
}

// removeInside takes the attachment's link out of a container, whose namespace may be nil: then the
// link has gone with it.
func (c claim) removeInside(ctx context.Context, container *NS) error {
	if container == nil {
		return nil
	}
	l, err := find(container, c.IfName)
	if err != nil {
		return err
	}
	if l == nil || !c.owns(l) {
		if l, err = c.elsewhere(container); err != nil || l == nil {
			return err
		}
	}
	return remove(ctx, container, l)
}

// elsewhere finds the attachment's link under another name, by its mark: the container's owner has renamed
// it, or it was to be renamed (createAside). nil if there is none. A link of another role is left to who made it.
func (c claim) elsewhere(container *NS) (netlink.Link, error) {
	links, err := whole(container.Handle().LinkList)
	if err != nil {
		return nil, &Error{Op: "link list", Err: err}
	}
	for _, l := range links {
		if lab, _ := parseAlias(l.Attrs().Alias); lab.Role == "" && c.Owns(l) {
			return l, nil
		}
	}
	return nil, nil
}

// remove takes a link away; if somebody else just did, it is gone all the same.
func remove(ctx context.Context, n *NS, l netlink.Link) error {
	err := alter(ctx, "link del", l.Attrs().Name, func() error { return n.Handle().LinkDel(l) })
	if Gone(err) {
		return nil
	}
	return err
}

// verify compares what all kinds have in common: that the link is there, of the kind, nobody else's, up, and
// has the hardware address and MTU of want, as far as want has them: later plugins may have changed
// both, and then the prevResult says so. want may be nil.
func verify(l netlink.Link, name, kind string, o Owner, want *types100.Interface) error {
	if l == nil {
		return different(name, "the link", "there", "gone")
	}
	a := l.Attrs()
	if l.Type() != kind {
		return different(name, "the kind", kind, l.Type())
	}
	var errs []error
	if lab, ok := parseAlias(a.Alias); ok && !lab.of(o) {
		errs = append(errs, different(name, "the owner", o.Alias(lab.Role), a.Alias))
	}
	if a.Flags&net.FlagUp == 0 {
		errs = append(errs, different(name, "the state", "up", "down"))
	}
	if want != nil && want.Mac != "" && !sameMAC(want.Mac, a.HardwareAddr) {
		errs = append(errs, different(name, "the hardware address", want.Mac, a.HardwareAddr))
	}
	if want != nil && want.Mtu != 0 && want.Mtu != a.MTU {
		errs = append(errs, different(name, "the MTU", want.Mtu, a.MTU))
	}
	return netconf.Join(errs...)
}

func sameMAC(text string, have net.HardwareAddr) bool {
	want, err := net.ParseMAC(text)
	return err == nil && bytes.Equal(want, have)
}

// named finds an interface in a result by its name, with a sandbox or without one; nil if it is not there.
func named(result *types100.Result, name string, inside bool) *types100.Interface {
	if result == nil {
		return nil
	}
	for _, i := range result.Interfaces {
		if i != nil && i.Name == name && (i.Sandbox != "") == inside {
			return i
		}
	}
	return nil
}

// describe is what a result says about a link.
func describe(l netlink.Link, sandbox string) *types100.Interface {
	a := l.Attrs()
	return &types100.Interface{Name: a.Name, Mac: a.HardwareAddr.String(), Mtu: a.MTU, Sandbox: sandbox}
}
