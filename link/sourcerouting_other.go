//go:build !linux

package link

import (
	"context"

	"github.com/vishvananda/netlink"
)

// MainRoutes answers ErrNotSupported.
func MainRoutes(_ *NS, name string) ([]MovedRoute, error) { return nil, noAddresses(name) }

func mainRoutes(_ *NS, l netlink.Link, _ func(int) bool) ([]MovedRoute, bool, error) {
	return nil, false, noAddresses(l.Attrs().Name)
}

// Ensure answers ErrNotSupported.
func (p *SourcePlan) Ensure(_ context.Context, _ *NS, name string) error { return noAddresses(name) }

// Verify answers ErrNotSupported.
func (p *SourcePlan) Verify(_ context.Context, _ *NS, name string) error { return noAddresses(name) }

// Delete answers ErrNotSupported.
func (p *SourcePlan) Delete(_ context.Context, _ *NS, name string) error { return noAddresses(name) }

func (p *SourcePlan) delete(_ context.Context, _ *NS, name string, _ func(string, ...any)) error {
	return noAddresses(name)
}

func (s SourceRouting) leftover(_ context.Context, _ *NS, o Owner, _ []addressed) error {
	return noAddresses(o.IfName)
}
