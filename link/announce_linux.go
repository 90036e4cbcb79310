package link

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// announceTimeout is how long the operational state is waited for before an announcement.
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

// ready waits until frames get through, which is a moment after the link is up: the kernel sets the operational
// state, and opens the bridge port at the other end of a veth, in a queue of its own (linkwatch). One in
// seven announcements was lost on a bridge when only this end was looked at. To look is what makes the
// kernel do it (since 6.8): it brings the state of a link up to date for who reads it. A link without
// carrier is not waited for.
func (p *AddressPlan) ready(ctx context.Context, n *NS, l netlink.Link) error {
	err := poll(ctx, announceTimeout, func(time.Duration) error {
		now, err := byIndex(n, l)
		if err != nil {
			return err
		}
		if now.Attrs().RawFlags&unix.IFF_LOWER_UP == 0 {
			return nil
		}
		if !operating(now) || now.Type() == "veth" && !operating(peerOf(n, now)) {
			return errPending
		}
		return nil
	})
	if err == errPending {
		return nil // it is sent all the same
	}
	return err
}

// operating tells whether a link may be sent through; what cannot be looked at is taken to be.
func operating(l netlink.Link) bool {
	return l == nil || l.Attrs().OperState == netlink.OperUp || l.Attrs().OperState == netlink.OperUnknown
}

// peerOf looks at the other end of a veth, in whichever namespace; nil if that cannot be done (before
// Linux 4.20, or without the capability there).
func peerOf(n *NS, l netlink.Link) netlink.Link {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(l.Attrs().ParentIndex)
	req.AddData(msg)
	if id := l.Attrs().NetNsID; id >= 0 {
		req.AddData(nl.NewRtAttr(unix.IFLA_TARGET_NETNSID, nl.Uint32Attr(uint32(id))))
	}
	var peer netlink.Link
	err := n.Do(func() error { // netlink's handles have no such request
		msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
		if err == nil && len(msgs) == 1 {
			peer, err = netlink.LinkDeserialize(nil, msgs[0])
		}
		return err
	})
	if err != nil {
		return nil
	}
	return peer
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
