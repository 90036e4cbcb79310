package link

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// Bridge is a bridge of the host that the attachments of a network share: made by the first, never rolled
// back, deleted or collected for one of them. One that was there before is used as it is: it is the
// administrator's.
type Bridge struct {
	Name    string // at most 15 bytes, as netconf.CheckIfName wants it; default: cni0
	MTU     int    // bytes, 68 to 65535, of a bridge that is ours; 0: the kernel follows the ports
	Promisc bool   // take every packet, also what is for others; false leaves the bridge as it is

	// VLANFiltering keeps the VLANs of the ports apart (Veth.VLANs), on a bridge that is ours. On another that does not it
	// is an error with code 7: there it might change what reaches ports of others. false leaves the bridge as it is.
	VLANFiltering bool
}

const (
	bridgeKind    = "bridge"
	defaultBridge = "cni0"
	rawPromisc    = 0x100 // IFF_PROMISC of linux/if.h; netlink's Promisc counts what the kernel wants for itself too
)

func (b Bridge) name() string {
	if b.Name == "" {
		return defaultBridge
	}
	return b.Name
}

// check is an error with code 7 for what the kernel would take for something else.
func (b Bridge) check() error {
	if err := checkBridge(b.name()); err != nil {
		return err
	}
	return checkMTU(b.name(), b.MTU)
}

// checkBridge refuses what is no name: of "br%d" the kernel makes another bridge each time.
func checkBridge(name string) error {
	if err := netconf.CheckIfName(name); err != nil {
		return badLink(name, "not the name of a bridge: %w", err)
	}
	return nil
}

// Create is Ensure, except that a link of the name that is there already is an error that Is
// netconf.ErrExists.
func (b Bridge) Create(ctx context.Context, host *NS, o Owner) (netlink.Link, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	l, err := find(host, b.name())
	if err != nil {
		return nil, err
	}
	if l != nil {
		return nil, taken(b.name(), l)
	}
	return b.Ensure(ctx, host, o)
}

// Ensure makes the bridge, or finishes and brings back one that is the network's own, and sets it up. Of
// the owner only the network counts. Any number of callers may do it at the same time. A link of the name
// that is no bridge is an error with code 7, as is a name that the kernel does not take literally, or an MTU out of
// range, before any change. A kernel whose bridges do not filter VLANs gives ErrNotSupported if they are to.
func (b Bridge) Ensure(ctx context.Context, host *NS, o Owner) (netlink.Link, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	l, err := find(host, b.name())
	if err != nil {
		return nil, err
	}
	if l == nil {
		if l, err = b.birth(ctx, host, o); err != nil {
			return nil, err
		}
	}
	if l.Type() != bridgeKind {
		return nil, badLink(b.name(), "is a link of kind %s, expected a bridge", l.Type())
	}
	alias, mtu := sharedAlias(o.Network), b.MTU
	if !b.ours(l, o) {
		alias, mtu = l.Attrs().Alias, 0
	} else if l.Attrs().Flags&net.FlagUp == 0 {
		if err := quiet(ctx, host, b.name()); err != nil {
			return nil, err
		}
	}
	if b.VLANFiltering {
		if l, err = b.filter(ctx, host, l, o); err != nil {
			return nil, err
		}
	}
	if b.Promisc && l.Attrs().RawFlags&rawPromisc == 0 {
		err := alter(ctx, "link promisc", b.name(), func() error { return host.Handle().SetPromiscOn(l) })
		if err != nil {
			return nil, err
		}
	}
	if err := converge(ctx, host, l, alias, mtu, nil); err != nil {
		return nil, err
	}
	l.Attrs().Flags |= net.FlagUp
	if mtu != 0 {
		l.Attrs().MTU = mtu
	}
	return l, nil
}

// birth makes the bridge and reads it back; that another caller was faster is no error. The hardware address
// is set at birth: a bridge without one takes that of a port, and its neighbours lose it whenever that port
// goes. The MTU is set later, since what stands in the create message does not keep the kernel from following the ports.
func (b Bridge) birth(ctx context.Context, host *NS, o Owner) (netlink.Link, error) {
	made := &netlink.Bridge{LinkAttrs: attrs(Owner{Network: o.Network}, b.name(), 0, b.mac())}
	if b.VLANFiltering {
		made.VlanFiltering = &b.VLANFiltering
	}
	err := alter(ctx, "link add", b.name(), func() error { return host.Handle().LinkAdd(made) })
	if b.VLANFiltering && errors.Is(err, syscall.EOPNOTSUPP) {
		return nil, noFiltering(b.name(), err)
	}
	if err != nil && !errors.Is(err, syscall.EEXIST) {
		return nil, err
	}
	l, err := find(host, b.name())
	if err == nil && l == nil {
		err = &Error{Op: "link add", Name: b.name(), Err: fmt.Errorf("it is gone again: %w", syscall.ENODEV)}
	}
	return l, err
}

// filter turns VLAN filtering on, on a bridge that is the network's own.
func (b Bridge) filter(ctx context.Context, host *NS, l netlink.Link, o Owner) (netlink.Link, error) {
	err := filtering(l)
	if err == nil || errors.Is(err, ErrNotSupported) || !b.ours(l, o) {
		return l, err
	}
	if err := alter(ctx, "bridge filtering", b.name(), func() error { return setFiltering(host, l) }); err != nil {
		return nil, err
	}
	again, err := find(host, b.name())
	if err == nil && again == nil {
		err = &Error{Op: "bridge filtering", Name: b.name(), Err: fmt.Errorf("it is gone again: %w", syscall.ENODEV)}
	}
	return again, err
}

// mac is a locally administered address made of the names of the host and the bridge: the same after a
// restart, and another one on the next host, which may be on the same segment.
func (b Bridge) mac() netconf.MAC {
	hostname, _ := os.Hostname() // without one the bridge's name has to do
	h := fnv.New64a()
	_, _ = io.WriteString(h, hostname+"\x00"+b.name()) // a hash takes all
	sum := h.Sum64()
	sum ^= sum >> 33
	sum *= 0xff51afd7ed558ccd // as in Owner.sum: names that differ in their end alone
	mac := netconf.MAC{byte(sum >> 56), byte(sum >> 48), byte(sum >> 40), byte(sum >> 32), byte(sum >> 24), byte(sum >> 16)}
	mac[0] = mac[0]&^1 | 2
	return mac
}

// ours tells whether the bridge was made for the network: by its alias, or, if its maker was killed or is
// still at it, its group.
func (b Bridge) ours(l netlink.Link, o Owner) bool {
	a := l.Attrs()
	if a.Alias == "" {
		return a.Group == Owner{Network: o.Network}.Group()
	}
	return a.Alias == sharedAlias(o.Network)
}

// quiet writes the sysctls of a link of the host that containers talk to, before it is up. Without
// accept_dad=0 it has no usable link-local address for a second or two, and forwarded IPv6 is lost for as
// long. accept_ra=0: a container must not be able to announce itself as the host's router.
func quiet(ctx context.Context, host *NS, name string) error {
	for _, key := range []string{"accept_dad", "accept_ra"} {
		err := host.Sysctl(ctx, "net/ipv6/conf/"+name+"/"+key, "0")
		if err != nil && !errors.Is(err, syscall.ENOENT) { // a kernel without IPv6
			return err
		}
	}
	return nil
}

// Verify compares the bridge by its identity, and with what b asks for by true: it is shared, and others may have set
// the rest otherwise. A difference Is netconf.ErrDifferent.
func (b Bridge) Verify(_ context.Context, host *NS, _ Owner) error {
	l, err := find(host, b.name())
	switch {
	case err != nil:
		return err
	case l == nil:
		return different(b.name(), "the bridge", "there", "gone")
	case l.Type() != bridgeKind:
		return different(b.name(), "the kind", bridgeKind, l.Type())
	case l.Attrs().Flags&net.FlagUp == 0:
		return different(b.name(), "the state", "up", "down")
	}
	if err := filtering(l); b.VLANFiltering && err != nil {
		return different(b.name(), "VLAN filtering", "on", err)
	}
	if b.Promisc && l.Attrs().RawFlags&rawPromisc == 0 {
		return different(b.name(), "the promiscuous mode", "on", "off")
	}
	return nil
}

// Delete takes the bridge away if it was made for the owner's network: for a daemon that takes the whole network
// down. Ports that are left keep their links and lose their bridge.
func (b Bridge) Delete(ctx context.Context, host *NS, o Owner) error {
	l, err := find(host, b.name())
	if err != nil || l == nil || l.Type() != bridgeKind || !b.ours(l, o) {
		return err
	}
	return remove(ctx, host, l)
}

// Add is Ensure, with the bridge noted in the result.
func (b Bridge) Add(ctx context.Context, req *netconf.Request) error {
	host, err := Host(req)
	if err != nil {
		return err
	}
	l, err := b.Ensure(ctx, host, OwnerOf(req))
	if err != nil {
		return err
	}
	req.AddInterface(describe(l, ""))
	return nil
}

// Check is Verify, and that the prevResult names the bridge.
func (b Bridge) Check(ctx context.Context, req *netconf.Request) error {
	host, err := Host(req)
	if err != nil {
		return err
	}
	return netconf.Join(b.inResult(req.Prev), b.Verify(ctx, host, OwnerOf(req)))
}

func (b Bridge) inResult(prev *types100.Result) error {
	if named(prev, b.name(), false) == nil {
		return different(b.name(), "the prevResult", "one with this bridge", "without it")
	}
	return nil
}

// Del does nothing: the bridge stays for the others.
func (b Bridge) Del(context.Context, *netconf.Request) error { return nil }
