package link

import (
	"context"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// announceTimeout is how long the operational state is waited for before an announcement.
const announceTimeout = 50 * time.Millisecond

// announce has the kernel tell the neighbours at which MAC the addresses are: a gratuitous ARP request (RFC
// 5227, section 3) and an unsolicited neighbour advertisement (RFC 4861, section 7.2.6) each. It does that where
// arp_notify and ndisc_notify are set: by itself when the link goes up, which is all that most kinds need,
// and when the MAC is set, be it to what it is. That is done here for addresses that have come to a link
// that was up, and for a veth whose other end is the port of a bridge, which was not open yet.
//
// To send the frames ourselves would take a packet socket, and to close one the kernel waits until all
// processors have passed a quiet state: 5 to 15 ms, where a whole ADD takes 2.5.
//
// A failure is a warning: what was lost is learned when a neighbour's entry has gone stale, after a minute or so.
func (p *AddressPlan) announce(ctx context.Context, n *NS, l netlink.Link, wasUp bool) {
	attrs := l.Attrs()
	if len(p.Addresses) == 0 || len(attrs.HardwareAddr) != 6 || attrs.RawFlags&(unix.IFF_NOARP|unix.IFF_LOOPBACK) != 0 {
		return
	}
	again := wasUp
	if l.Type() == "veth" {
		again = p.ready(ctx, n, l) || wasUp
	}
	if !again {
		return
	}
	err := alter(ctx, "announce addresses of", attrs.Name, func() error {
		return n.Handle().LinkSetHardwareAddr(l, attrs.HardwareAddr)
	})
	if err != nil {
		p.warn("the addresses are not announced to the neighbours", "link", attrs.Name, "error", err.Error())
	}
}

// ready waits until a veth's frames get through, which is a moment after it is up: the kernel sets the
// operational state, and opens the bridge port at the other end, in a queue of its own (linkwatch). One in
// seven announcements was lost on a bridge when only this end was looked at. To look is what makes the
// kernel do it (since 6.8): it brings the state of a link up to date for who reads it. A link without
// carrier is not waited for, and none for long. It tells whether frames may have been lost before: if
// the other end is a port, or cannot be looked at.
func (p *AddressPlan) ready(ctx context.Context, n *NS, l netlink.Link) (port bool) {
	port = true
	err := poll(ctx, announceTimeout, func(time.Duration) error {
		peer := peerOf(n, l)
		if peer == nil {
			return nil
		}
		port = peer.Attrs().MasterIndex != 0
		if peer.Attrs().RawFlags&unix.IFF_LOWER_UP != 0 && !operating(peer) {
			return errPending
		}
		return nil
	})
	return port && (err == nil || err == errPending)
}

// operating tells whether a link may be sent through.
func operating(l netlink.Link) bool {
	return l.Attrs().OperState == netlink.OperUp || l.Attrs().OperState == netlink.OperUnknown
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
