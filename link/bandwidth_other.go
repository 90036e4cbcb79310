//go:build !linux

package link

import (
	"context"

	"github.com/vishvananda/netlink"
)

// HostEnd answers ErrNotSupported.
func HostEnd(_, _ *NS, name string) (netlink.Link, error) { return nil, noAddresses(name) }

func hostEnd(_, _ *NS, name string) (netlink.Link, error) { return nil, noAddresses(name) }

func hasIngress(_ *NS, l netlink.Link) (bool, error) { return false, noAddresses(l.Attrs().Name) }

// Create answers ErrNotSupported.
func (b Bandwidth) Create(_ context.Context, _ *NS, _ netlink.Link, o Owner) (ifb netlink.Link, err error) {
	return nil, noAddresses(o.IfName)
}

func (b Bandwidth) create(_ context.Context, _ *NS, _ netlink.Link, o Owner, _ func()) (ifb netlink.Link, err error) {
	return nil, noAddresses(o.IfName)
}

// Ensure answers ErrNotSupported.
func (b Bandwidth) Ensure(_ context.Context, _ *NS, _ netlink.Link, o Owner) (ifb netlink.Link, err error) {
	return nil, noAddresses(o.IfName)
}

// Verify answers ErrNotSupported.
func (b Bandwidth) Verify(_ context.Context, _ *NS, _ netlink.Link, o Owner) error {
	return noAddresses(o.IfName)
}

// Delete answers ErrNotSupported.
func (b Bandwidth) Delete(_ context.Context, _ *NS, _ netlink.Link, o Owner) error {
	return noAddresses(o.IfName)
}

func (b Bandwidth) remove(_ context.Context, _ *NS, _ netlink.Link, o Owner, _ bool) error {
	return noAddresses(o.IfName)
}
