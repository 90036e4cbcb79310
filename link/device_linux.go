package link

import (
	"context"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// change is what one message changes of a link. The kernel does it in this order: namespace, group, name, alias; what it did
// before one that it refuses stays done.
type change struct {
	to     *NS    // nil: it stays
	name   string // may be a pattern, as dev%d; empty: it stays
	marked bool   // alias and group count
	alias  string
	group  uint32
}

// setLink changes a link of a namespace by its index. netlink's handles have a message for each attribute: between two of them a
// device would be in the container under the host's name, or lost.
func setLink(n *NS, index int, c change) error {
	req := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	if c.to != nil && !c.to.Is(n) {
		req.AddData(nl.NewRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(c.to.Fd()))))
	}
	if c.name != "" {
		req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(c.name)))
	}
	if c.marked {
		req.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(c.group)))
		req.AddData(nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(c.alias)))
	}
	return n.Do(func() error {
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
}

// holder looks for the device in the containers, as far as they have a number on the host, which Create gives them; nil if it
// is in none.
func (d Device) holder(host *NS) (*label, error) {
	ids, err := nsids(host)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		msgs, err := ask(host, unix.RTM_GETLINK, unix.RTM_NEWLINK, func(req *nl.NetlinkRequest) {
			req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
			req.AddData(nl.NewRtAttr(unix.IFLA_TARGET_NETNSID, nl.Uint32Attr(uint32(id))))
		})
		if Gone(err) || err == unix.EINVAL { // it has ended since
			continue
		}
		if err != nil {
			return nil, &Error{Op: "link list", Err: err}
		}
		for _, m := range msgs {
			l, err := netlink.LinkDeserialize(nil, m)
			if err != nil {
				return nil, &Error{Op: "link list", Err: err}
			}
			if lab, ok := parseAlias(l.Attrs().Alias); ok && d.is(l, lab) {
				return &lab, nil
			}
		}
	}
	return nil, nil
}

// nexthopLink is NHA_OIF of linux/nexthop.h, nexthopHeader the size of its struct nhmsg.
const (
	nexthopLink   = 5
	nexthopHeader = 8
)

// hasNexthop tells whether a nexthop object (ip nexthop) leads out of the link, alone or as one of a group. Before Linux 5.3 there
// are none.
func hasNexthop(n *NS, index int) (bool, error) {
	msgs, err := ask(n, unix.RTM_GETNEXTHOP, unix.RTM_NEWNEXTHOP, func(req *nl.NetlinkRequest) {
		req.AddRawData(make([]byte, nexthopHeader))
		req.AddRawData(nl.NewRtAttr(nexthopLink, nl.Uint32Attr(uint32(index))).Serialize())
	})
	if err != nil {
		return false, &Error{Op: "nexthop list", Err: err}
	}
	return len(msgs) > 0, nil
}

func dropAltName(n *NS, l netlink.Link, name string) error { return n.Handle().LinkDelAltName(l, name) }

// returnTimeout is how long hardware is waited for whose namespace has ended: the kernel gives it back when it has taken
// the namespace down, in a queue of its own, which takes some milliseconds, and longer when a hundred end at once.
const returnTimeout = 5 * time.Second

// awaited looks for what comes back by itself, 20 times a second since it looks through all links; nil if it does not come.
func awaited(ctx context.Context, look func() (netlink.Link, error)) (l netlink.Link, err error) {
	err = until(ctx, returnTimeout, func(time.Duration) (err error) {
		if l, err = look(); err == nil && l == nil {
			return errPending
		}
		return err
	}, func() error {
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
		return nil
	})
	if err == errPending {
		return nil, nil
	}
	return l, err
}
