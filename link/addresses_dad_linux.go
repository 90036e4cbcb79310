package link

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// dadTimeout is how long our addresses may stay tentative. By default the kernel takes one second: one
	// probe (dad_transmits), one second for an answer (retrans_time). With 50 attachments at once on two
	// processors it took up to three.
	dadTimeout = 10 * time.Second
	// carrierTimeout is how long a carrier is waited for, without which the kernel does not begin. A
	// network card takes one to two seconds to negotiate.
	carrierTimeout = 2 * time.Second
	// joinTimeout is how long the kernel is waited for to listen for who asks for an address. It takes less
	// than a millisecond, and some more where many attachments are made at once.
	joinTimeout = time.Second
	// checkTimeout is how long Verify waits for what is only transient.
	checkTimeout = 2 * time.Second
)

// errPending is what poll is told while there is something to wait for.
var errPending = errors.New("not settled")

// poll calls f until it returns anything but errPending: at once, then after 0.1 ms, doubled each time
// up to 5 ms. It returns errPending when the time is over, and the context's error when that ends.
func poll(ctx context.Context, timeout time.Duration, f func(waited time.Duration) error) error {
	pause := 50 * time.Microsecond
	return until(ctx, timeout, f, func() error {
		pause = min(2*pause, 5*time.Millisecond)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		return nil
	})
}

// until is poll with another way to pause.
func until(ctx context.Context, timeout time.Duration, f func(waited time.Duration) error, pause func() error) error {
	for begin := time.Now(); ; {
		waited := time.Since(begin)
		if err := f(waited); err != errPending || waited >= timeout {
			return err
		}
		err := pause()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// settle waits until the plan's IPv6 addresses are usable. Other addresses of the link, its
// link-local one among them, are not waited for.
func (p *AddressPlan) settle(ctx context.Context, n *NS, l netlink.Link) error {
	switch {
	case !p.has(false):
		return nil
	case p.noDAD(l.Type()):
		return joined(ctx, n, l, p.Addresses)
	}
	return p.detected(ctx, n, l)
}

// detected waits until none of the addresses is tentative, so that no neighbour has them.
func (p *AddressPlan) detected(ctx context.Context, n *NS, l netlink.Link) error {
	changes, err := watch(n)
	if err != nil {
		return &Error{Op: "watch the addresses of", Name: l.Attrs().Name, Err: err}
	}
	defer changes.Close()
	var pending netip.Prefix
	carrier := false
	err = until(ctx, dadTimeout, func(waited time.Duration) (err error) {
		if pending, err = p.tentative(n, l); err != errPending || carrier {
			return err
		}
		if carrier, err = hasCarrier(n, l); err != nil {
			return err
		}
		if !carrier && waited >= carrierTimeout {
			return errNoCarrier
		}
		return errPending
	}, func() error {
		switch _, _, err := changes.Receive(); err {
		case nil, unix.EAGAIN, unix.EINTR, unix.ENOBUFS: // a change, 50 ms without one, more than were read
			return nil
		default:
			return &Error{Op: "watch the addresses of", Name: l.Attrs().Name, Err: err}
		}
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoCarrier):
		p.warn("the address is not usable yet: the link has no carrier, without which the kernel does not look for duplicates",
			"address", pending.String(), "link", l.Attrs().Name)
		return nil
	case errors.Is(err, errPending):
		err = netconf.Errorf(netconf.CodeTryAgainLater, "duplicate address detection has not ended after %s", dadTimeout)
	}
	return &Error{Op: "address add", Name: pending.String(), Err: err}
}

// watch listens to changes of IPv6 addresses. Looking every 5 ms instead starved the kernel's detection where
// 50 attachments on two processors did so at once: in three runs of five it took more than 20 s.
func watch(n *NS) (changes *nl.NetlinkSocket, err error) {
	err = n.Do(func() error {
		changes, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_IPV6_IFADDR)
		return err
	})
	if err != nil {
		return nil, err
	}
	pause := unix.NsecToTimeval((50 * time.Millisecond).Nanoseconds())
	return changes, changes.SetReceiveTimeout(&pause)
}

var errNoCarrier = errors.New("no carrier")

func hasCarrier(n *NS, l netlink.Link) (bool, error) {
	now, err := byIndex(n, l)
	if err != nil {
		return false, err
	}
	return now.Attrs().RawFlags&unix.IFF_LOWER_UP != 0, nil
}

// tentative finds an IPv6 address of the plan that is not usable: errPending if it may become so.
func (p *AddressPlan) tentative(n *NS, l netlink.Link) (netip.Prefix, error) {
	have, err := p.list(n, l)
	if err != nil {
		return netip.Prefix{}, err
	}
	var pending netip.Prefix
	for _, want := range p.Addresses {
		if !want.Addr().Is6() {
			continue
		}
		a, ok := have.exact(want)
		switch {
		case !ok:
			return want, fmt.Errorf("it vanished from link %q", l.Attrs().Name)
		case a.raw.Flags&unix.IFA_F_DADFAILED != 0:
			return want, netconf.Errorf(netconf.CodeExists, "duplicate address: a neighbour on link %q has it", l.Attrs().Name)
		case a.raw.Flags&unix.IFA_F_TENTATIVE != 0:
			pending, err = want, errPending
		}
	}
	return pending, err
}

// joined waits until the link is a member of the IPv6 addresses' solicited-node groups (RFC 4291, section
// 2.7.1). The kernel joins them in a queue of its own, also without duplicate address detection; a neighbour
// who asks for an address before that asks again after a second. It is no error if it takes longer.
func joined(ctx context.Context, n *NS, l netlink.Link, addresses []netip.Prefix) error {
	six := slices.ContainsFunc(addresses, func(a netip.Prefix) bool { return a.Addr().Is6() })
	if !six || l.Attrs().RawFlags&(unix.IFF_NOARP|unix.IFF_LOOPBACK) != 0 {
		return nil
	}
	err := poll(ctx, joinTimeout, func(time.Duration) error {
		var groups []byte
		err := n.Do(func() (err error) {
			groups, err = os.ReadFile("/proc/thread-self/net/igmp6")
			return err
		})
		if err != nil {
			return &Error{Op: "multicast groups of", Name: l.Attrs().Name, Err: err}
		}
		for _, a := range addresses {
			if a.Addr().Is6() && !member(groups, l.Attrs().Index, solicitedNode(a.Addr())) {
				return errPending
			}
		}
		return nil
	})
	if err == errPending {
		return nil
	}
	return err
}

// solicitedNode is the multicast group in which neighbours ask for an address.
func solicitedNode(a netip.Addr) netip.Addr {
	group := netip.MustParseAddr("ff02::1:ff00:0").As16()
	addr := a.As16()
	copy(group[13:], addr[13:])
	return netip.AddrFrom16(group)
}

// member looks for a group in /proc/net/igmp6: lines of ifindex, name, group in hex, and more.
func member(groups []byte, index int, group netip.Addr) bool {
	for line := range bytes.Lines(groups) {
		f := strings.Fields(string(line))
		if len(f) > 2 && f[0] == strconv.Itoa(index) && f[2] == hex.EncodeToString(group.AsSlice()) {
			return true
		}
	}
	return false
}
