//go:build !linux

package link

import (
	"context"

	"github.com/vishvananda/netlink"
)

// Ensure answers ErrNotSupported.
func (v VRF) Ensure(_ context.Context, _ *NS, name string) error { return noAddresses(name) }

// Verify answers ErrNotSupported.
func (v VRF) Verify(_ context.Context, _ *NS, name string) error { return noAddresses(name) }

// Delete answers ErrNotSupported.
func (v VRF) Delete(_ context.Context, _ *NS, name string) error { return noAddresses(name) }

func (v VRF) enslave(_ context.Context, _ *NS, l netlink.Link, _ belongings) error {
	return noAddresses(l.Attrs().Name)
}

func belongingsOf(_ *NS, l netlink.Link, _ int) (belongings, error) {
	return belongings{}, noAddresses(l.Attrs().Name)
}

func release(_ context.Context, _ *NS, l netlink.Link, _ string, _ belongings, _ func(string, ...any)) error {
	return noAddresses(l.Attrs().Name)
}

func sweep(_ context.Context, _ *NS, name string) error { return noAddresses(name) }
