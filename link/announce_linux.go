package link

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// announceTimeout is how long the operational state is waited for before an announcement. The kernel
// sets it, and opens the bridge port at the other end of a veth, a moment after both ends are up, in a
// queue of its own (linkwatch): a frame sent before that is lost.
const announceTimeout = 50 * time.Millisecond

// announce tells the neighbours at which MAC the addresses are: a gratuitous ARP request (RFC 5227,
// section 3) or an unsolicited neighbour advertisement (RFC 4861, section 7.2.6) each. A failure is
// a warning: what was lost is learned when a neighbour's entry has gone stale, after a minute or so.
func (p *AddressPlan) announce(ctx context.Context, n *NS, l netlink.Link, addresses []netip.Prefix) {
	attrs := l.Attrs()
	if len(addresses) == 0 || len(attrs.HardwareAddr) != 6 || attrs.RawFlags&(unix.IFF_NOARP|unix.IFF_LOOPBACK) != 0 {
		return
	}
	err := p.ready(ctx, n, l)
	if err == nil {
		err = netconf.Before(ctx, "announce dev "+attrs.Name)
	}
	if err == nil {
		err = n.Do(func() error { return send(attrs.Index, attrs.HardwareAddr, addresses) })
	}
	if err != nil {
		p.warn("the addresses are not announced to the neighbours", "link", attrs.Name, "error", err.Error())
	}
}

// ready waits until frames get through; a link without carrier is not waited for.
func (p *AddressPlan) ready(ctx context.Context, n *NS, l netlink.Link) error {
	err := poll(ctx, announceTimeout, func(time.Duration) error {
		now, err := byIndex(n, l)
		if err != nil {
			return err
		}
		carrier := now.Attrs().RawFlags&unix.IFF_LOWER_UP != 0
		if state := now.Attrs().OperState; carrier && state != netlink.OperUp && state != netlink.OperUnknown {
			return errPending
		}
		return nil
	})
	if err == errPending {
		return nil // it is sent all the same
	}
	return err
}

// send sends one frame for each address, on a packet socket: it asks neither for a route nor for an
// address that the kernel thinks usable.
func send(index int, mac net.HardwareAddr, addresses []netip.Prefix) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // protocol 0 receives nothing
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range addresses {
		to := &unix.SockaddrLinklayer{Ifindex: index, Halen: 6}
		payload := []byte(nil)
		if addr := a.Addr(); addr.Is4() {
			to.Protocol = bigEndian(unix.ETH_P_ARP)
			copy(to.Addr[:], "\xff\xff\xff\xff\xff\xff")
			payload = gratuitousARP(mac, addr)
		} else {
			to.Protocol = bigEndian(unix.ETH_P_IPV6)
			copy(to.Addr[:], "\x33\x33\x00\x00\x00\x01") // the MAC of ff02::1
			payload = advertisement(mac, addr)
		}
		errs = append(errs, ignoringEINTR(func() error { return unix.Sendto(fd, payload, 0, to) }))
	}
	return netconf.Join(append(errs, unix.Close(fd))...)
}

// bigEndian is htons.
func bigEndian(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}
