//go:build !linux

package link

import (
	"context"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Create answers ErrNotSupported.
func (p *AddressPlan) Create(_ context.Context, _ *NS, name string) error { return noAddresses(name) }

// Ensure answers ErrNotSupported.
func (p *AddressPlan) Ensure(_ context.Context, _ *NS, name string) error { return noAddresses(name) }

// Verify answers ErrNotSupported.
func (p *AddressPlan) Verify(_ context.Context, _ *NS, name string) error { return noAddresses(name) }

// Delete answers ErrNotSupported.
func (p *AddressPlan) Delete(_ context.Context, _ *NS, name string) error { return noAddresses(name) }

func (p *AddressPlan) absent(_ *NS, name string) error { return noAddresses(name) }

func aliasOf(_ *NS, name string) (string, error) { return "", noAddresses(name) }

func joined(_ context.Context, _ *NS, l netlink.Link, _ []netip.Prefix) error {
	return noAddresses(l.Attrs().Name)
}

func (p *AddressPlan) layRoutes(_ context.Context, _ *NS, l netlink.Link) error {
	return noAddresses(l.Attrs().Name)
}

func (p *AddressPlan) missing(_ *NS, l netlink.Link) ([]Route, error) {
	return nil, noAddresses(l.Attrs().Name)
}

func (p *AddressPlan) unshared(*NS) error { return noAddresses("") }

func noAddresses(name string) error {
	return &Error{Op: "addresses of", Name: name, Err: ErrNotSupported}
}

func (p *AddressPlan) deleteRoutes(context.Context, *NS, netlink.Link) error { return noAddresses("") }
