package link

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// dadTimeout is how long our addresses may stay tentative. By default the kernel takes one second: one
	// probe (dad_transmits), one second for an answer (retrans_time).
	dadTimeout = 5 * time.Second
	// carrierTimeout is how long a carrier is waited for, without which the kernel does not begin. A
	// network card takes one to two seconds to negotiate.
	carrierTimeout = 2 * time.Second
	// checkTimeout is how long Verify waits for what is only transient.
	checkTimeout = 2 * time.Second
)

// errPending is what poll is told while there is something to wait for.
var errPending = errors.New("not settled")

// poll calls f until it returns anything but errPending: at once, then after 0.1 ms, doubled each time
// up to 5 ms. It returns errPending when the time is over, and the context's error when that ends.
func poll(ctx context.Context, timeout time.Duration, f func(waited time.Duration) error) error {
	begin := time.Now()
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		waited := time.Since(begin)
		err := f(waited)
		if err != errPending || waited >= timeout {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// settle waits until none of the plan's IPv6 addresses is tentative: they are usable, and no
// neighbour has them. Other addresses of the link, its link-local one among them, are not waited for.
func (p *AddressPlan) settle(ctx context.Context, n *NS, l netlink.Link) error {
	if !p.has(false) || p.noDAD(l.Type()) {
		return nil
	}
	var pending netip.Prefix
	carrier := false
	err := poll(ctx, dadTimeout, func(waited time.Duration) (err error) {
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
		a, ok := have[want.Addr()]
		switch {
		case !ok:
			return want, fmt.Errorf("it vanished from link %q", l.Attrs().Name)
		case a.Flags&unix.IFA_F_DADFAILED != 0:
			return want, netconf.Errorf(netconf.CodeExists, "duplicate address: a neighbour on link %q has it", l.Attrs().Name)
		case a.Flags&unix.IFA_F_TENTATIVE != 0:
			pending, err = want, errPending
		}
	}
	return pending, err
}
