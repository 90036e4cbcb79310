package link

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// Device is a link of the host's that is moved into the container, and on DEL back under its name, without addresses
// and with the attributes that it had. It is named in one of five ways; where several are given, the first one of
// ID, Link, MAC, KernelPath and PCI counts.
//
// While it is in the container it has the name of the interface, the owner's group, and an alias that says whose it is
// and what it was called. Who is in the container can change all of these. What DEL goes by is what was kept before the
// move ([DeviceWas]); the alias is for a record that was lost, and for who finds the device on the host when the
// kernel has given it back from a namespace that ended.
type Device struct {
	Link       string // its name, or one of its alternative names
	MAC        string // hardware address, as net.ParseMAC reads it (InfiniBand's has 20 bytes)
	KernelPath string // the device's folder below /sys/devices
	PCI        string // PCI address, "0000:03:00.1"
	ID         string // what a device plugin has given the pod: a PCI address, or a name on the auxiliary bus ("mlx5_core.sf.2")

	Warn func(msg string, args ...any) // what could not be given back; as Request.Warn, which the steps set. nil: dropped
}

const deviceKind = "device"

// Name is "device".
func (Device) Name() string { return deviceKind }

// errGivenAway is a device that is in a container.
var errGivenAway = netconf.Errorf(netconf.CodeTryAgainLater, "the device is in use")

// DeviceWas is how a device was on the host, and where it is now: what is to be kept while it is in a container.
type DeviceWas struct {
	Name     string // on the host
	Kind     string // the kernel's; "device" is hardware
	Alias    string
	Group    uint32
	MAC      []byte
	Perm     []byte // hardware address that it was made with, where the driver tells
	MTU      int
	TxQLen   int
	Up       bool
	Promisc  bool
	AllMulti bool
	Sysctls  map[string]string // those of the link that it gets anew, from the host's defaults, with IFNAME for its name

	Index int    // in the container; 0 until it is there
	Netns uint64 // the kernel's number of the container's namespace; 0: not known (before Linux 5.14)
	Path  string // of that namespace
}

// ifNamePart stands for the name of the link in a sysctl that is kept.
const ifNamePart = "IFNAME"

// deviceSysctls are those of a link that decide what it takes and says by itself, and which the kernel forgets when it moves:
// a card without IPv6 would be back with it.
var deviceSysctls = [...]string{
	"net/ipv4/conf/IFNAME/arp_announce", "net/ipv4/conf/IFNAME/arp_ignore", "net/ipv4/conf/IFNAME/forwarding", "net/ipv4/conf/IFNAME/proxy_arp",
	"net/ipv4/conf/IFNAME/rp_filter", "net/ipv6/conf/IFNAME/accept_dad", "net/ipv6/conf/IFNAME/accept_ra", "net/ipv6/conf/IFNAME/addr_gen_mode",
	"net/ipv6/conf/IFNAME/autoconf", "net/ipv6/conf/IFNAME/disable_ipv6", "net/ipv6/conf/IFNAME/forwarding", "net/ipv6/conf/IFNAME/use_tempaddr",
}

// wasOf reads how a device is on the host. A sysctl that is not there (a kernel without IPv6) is not kept.
func wasOf(host, container *NS, l netlink.Link) (*DeviceWas, error) {
	a := l.Attrs()
	sysctls := map[string]string{}
	for _, key := range deviceSysctls {
		value, err := host.ReadSysctl(strings.Replace(key, ifNamePart, a.Name, 1))
		switch {
		case err == nil:
			sysctls[key] = value
		case !Gone(err):
			return nil, err
		}
	}
	return &DeviceWas{
		Name: a.Name, Kind: l.Type(), Alias: a.Alias, Group: a.Group, MAC: a.HardwareAddr, Perm: a.PermHWAddr, MTU: a.MTU, TxQLen: a.TxQLen,
		Up: a.Flags&net.FlagUp != 0, Promisc: a.RawFlags&flagPromisc != 0, AllMulti: a.RawFlags&flagAllMulti != 0,
		Sysctls: sysctls, Netns: cookie(container), Path: container.Path(),
	}, nil
}

// fromPrefix begins the role of a device in its alias; the name that it had on the host follows, which has no ':'.
const fromPrefix = "from="

// from is the name that the label's device had on the host; ok is false for the label of another kind of link.
func (l label) from() (name string, ok bool) { return strings.CutPrefix(l.Role, fromPrefix) }

// Create moves the device into the container as o.IfName, down. It is an error with code 7 if it is not there, the
// loopback, a port of a bridge or of a bond, or the link of one of the host's default routes, and with code 11 if
// another attachment has it. The name taken in the container is an error that Is netconf.ErrExists. keep, which may be
// nil, writes down what Delete needs, first before any change, then when the device is in the container; if it fails,
// so does Create. After an error that is not netconf.Unchanged Delete brings back what was moved.
func (d Device) Create(ctx context.Context, host, container *NS, o Owner, keep func(*DeviceWas) error) (netlink.Link, error) {
	if err := checkName(o.IfName); err != nil {
		return nil, netconf.Unchanged(err)
	}
	l, err := d.Find(host)
	if err != nil {
		return nil, netconf.Unchanged(err)
	}
	there, err := find(container, o.IfName)
	switch {
	case err != nil:
		return nil, netconf.Unchanged(err)
	case there != nil:
		return nil, taken(o.IfName, there)
	}
	if keep == nil {
		keep = func(*DeviceWas) error { return nil }
	}
	was, err := wasOf(host, container, l)
	if err == nil {
		err = keep(was)
	}
	if err != nil {
		return nil, netconf.Unchanged(err)
	}
	if err := d.enter(ctx, host, container, o, l); err != nil {
		return nil, err
	}
	l, err = find(container, o.IfName)
	if l, err = mustBe(l, err, o.IfName); err != nil {
		return nil, err
	}
	was.Index = l.Attrs().Index
	return l, keep(was)
}

// enter marks the device and moves it, with its new name in the same message: nobody in the container sees it under another,
// and no daemon of the host sees it renamed. The kernel sets it down, and takes its addresses, routes and queueing disciplines.
func (d Device) enter(ctx context.Context, host, container *NS, o Owner, l netlink.Link) error {
	a := l.Attrs()
	name := a.Name
	if err := introduce(ctx, host, container); err != nil {
		return err
	}
	mark := change{alias: o.Alias(fromPrefix + name), group: o.Group(), marked: true}
	if err := alter(ctx, "link mark", name, func() error { return setLink(host, a.Index, mark) }); err != nil {
		return err
	}
	if host.Is(container) && a.Flags&net.FlagUp != 0 { // before Linux 6.2 one that is up cannot be renamed
		if err := alter(ctx, "link down", name, func() error { return host.Handle().LinkSetDown(l) }); err != nil {
			return err
		}
	}
	move := change{to: container, name: o.IfName}
	err := alter(ctx, "link move", name, func() error { return setLink(host, a.Index, move) })
	switch {
	case errors.Is(err, syscall.EINVAL):
		return badLink(name, "the kernel does not let a link of kind %s leave its namespace: %w", l.Type(), err)
	case errors.Is(err, syscall.EEXIST):
		return badLink(name, "%q, or one of its alternative names %q, has been taken in the container: %w", o.IfName, a.AltNames, err)
	}
	return err
}

// Ensure is Create where the container has no such link. A device of the owner's is brought back to its mark, and up. A link
// of somebody else's is an error that Is netconf.ErrExists.
func (d Device) Ensure(ctx context.Context, host, container *NS, o Owner, keep func(*DeviceWas) error) (netlink.Link, error) {
	l, err := find(container, o.IfName)
	switch {
	case err != nil:
		return nil, err
	case l == nil:
		return d.Create(ctx, host, container, o, keep)
	case !o.Owns(l):
		return nil, taken(o.IfName, l)
	}
	alias := l.Attrs().Alias
	if _, labelled := parseAlias(alias); !labelled {
		alias = o.Alias(fromPrefix) // what it was called is known to who has kept it
	}
	if err := converge(ctx, container, l, alias, 0, nil); err != nil {
		return nil, err
	}
	return find(container, o.IfName)
}

// Verify compares the link with what an attachment is held to: it is there, nobody else's, up, and has the MTU and
// hardware address of want, where that is not nil. A difference Is netconf.ErrDifferent.
func (d Device) Verify(_ context.Context, _, container *NS, o Owner, want *types100.Interface) error {
	_, err := d.verify(container, o, want)
	return err
}

func (d Device) verify(container *NS, o Owner, want *types100.Interface) (netlink.Link, error) {
	l, err := find(container, o.IfName)
	if err != nil {
		return nil, err
	}
	kind := deviceKind
	if l != nil {
		kind = l.Type() // any
	}
	return l, verify(l, o.IfName, kind, o, want)
}

// Find looks the device up on the host. The errors are those of Create.
func (d Device) Find(host *NS) (netlink.Link, error) {
	l, err := d.look(host)
	if err == nil && l == nil {
		err = d.missing(host)
	}
	if err != nil {
		return nil, err
	}
	return l, d.fits(host, l)
}

// look looks the device up; nil if it is not on the host.
func (d Device) look(host *NS) (netlink.Link, error) {
	switch {
	case d.ID != "":
		return d.behind(host, d.folderOfID())
	case d.Link != "":
		return find(host, d.Link)
	case d.MAC != "":
		return d.byMAC(host)
	case d.KernelPath != "":
		return d.behind(host, d.KernelPath)
	case d.PCI != "":
		return d.behind(host, pciFolder+d.PCI)
	}
	return nil, badLink("", "no device is named: by its name, hardware address, kernel path or PCI address")
}

// byMAC finds the device with the hardware address. A VLAN or a bond has that of the hardware below it, which then is meant.
func (d Device) byMAC(host *NS) (netlink.Link, error) {
	mac, err := net.ParseMAC(d.MAC)
	if err != nil {
		return nil, badLink(d.MAC, "it is no hardware address: %w", err)
	}
	all, err := whole(host.Handle().LinkList)
	if err != nil {
		return nil, &Error{Op: "link list", Err: err}
	}
	all = slices.DeleteFunc(all, func(l netlink.Link) bool { return !bytes.Equal(l.Attrs().HardwareAddr, mac) })
	if len(all) > 1 {
		hardware := slices.DeleteFunc(slices.Clone(all), func(l netlink.Link) bool { return l.Type() != deviceKind })
		if len(hardware) != 1 {
			return nil, badLink(d.MAC, "several links have this hardware address (%s): name one", strings.Join(names(all), ", "))
		}
		all = hardware
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all[0], nil
}

func names(links []netlink.Link) (out []string) {
	for _, l := range links {
		out = append(out, l.Attrs().Name)
	}
	return out
}

// missing is the error of a device that is not on the host: whose it is, if that can be seen.
func (d Device) missing(host *NS) error {
	by, err := d.holder(host)
	if err != nil {
		return err
	}
	if by != nil {
		return &Error{Op: "link", Name: d.text(), Err: netconf.Errorf(netconf.CodeTryAgainLater, "%w by the container %q, there %q, of the network %q", errGivenAway, by.ContainerID, by.IfName, by.Network)}
	}
	return badLink(d.text(), "there is no such device on the host; it may be in a container")
}

// is tells whether a link in a container, with its label, is the device.
func (d Device) is(l netlink.Link, lab label) bool {
	name, moved := lab.from()
	a := l.Attrs()
	switch {
	case !moved:
		return false
	case d.ID != "":
		return a.ParentDev == d.ID
	case d.Link != "":
		return name == d.Link || slices.Contains(a.AltNames, d.Link)
	case d.MAC != "":
		return sameMAC(d.MAC, a.HardwareAddr)
	}
	return d.PCI != "" && a.ParentDev == d.PCI
}

// text is what the device was asked for by.
func (d Device) text() string {
	for _, s := range []string{d.ID, d.Link, d.MAC, d.KernelPath, d.PCI} {
		if s != "" {
			return s
		}
	}
	return ""
}

// fits refuses what must stay where it is. To move it would go through in silence, and what the host, a bridge or another
// pod has of it would be lost.
func (d Device) fits(host *NS, l netlink.Link) error {
	a := l.Attrs()
	if a.Flags&net.FlagLoopback != 0 {
		return badLink(a.Name, "the loopback stays in its namespace")
	}
	if a.MasterIndex != 0 {
		by := "another link"
		if master, err := findIndex(host, a.MasterIndex); err == nil && master != nil {
			by = "the " + master.Type() + " " + master.Attrs().Name
		}
		return badLink(a.Name, "the device is a port of %s, which would lose it: take it out first", by)
	}
	if lab, ok := parseAlias(a.Alias); ok {
		return &Error{Op: "link", Name: a.Name, Err: netconf.Errorf(netconf.CodeTryAgainLater, "%w by the container %q, there %q, of the network %q", errGivenAway, lab.ContainerID, lab.IfName, lab.Network)}
	}
	if a.Flags&net.FlagUp == 0 {
		return nil // it has no routes
	}
	for _, family := range []int{familyV4, familyV6} {
		routes, err := whole(func() ([]netlink.Route, error) {
			return host.Handle().RouteListFiltered(family, &netlink.Route{}, netlink.RT_FILTER_DST)
		})
		if err != nil {
			return &Error{Op: "route list", Name: "default", Err: err}
		}
		if bestLink(routes) == a.Index {
			return badLink(a.Name, "the device is the link of the host's default route: without it the host is cut off")
		}
		if index, found := bestRoute(routes); !found || index != 0 {
			continue
		}
		if used, err := hasNexthop(host, a.Index); err != nil {
			return err
		} else if used {
			return badLink(a.Name, "a nexthop object leads out of the device, and the host's default route is by such an object, of which the kernel does not say the link: without it the host may be cut off")
		}
	}
	return nil
}
