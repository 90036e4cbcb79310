//go:build !linux

package link

import "context"

// Defaults answers ErrNotSupported.
func Defaults(*NS, bool) ([]LinkRoute, error) { return nil, noAddresses("") }

// Ensure answers ErrNotSupported.
func (d DefaultRoutes) Ensure(context.Context, *NS) (Replaced, error) {
	return Replaced{}, noAddresses(d.Link)
}
