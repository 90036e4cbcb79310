//go:build !linux

package link

import (
	"context"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

// NS is an open network namespace; only Linux has them.
type NS struct{}

// Open answers ErrNotSupported.
func Open(path string) (*NS, error) {
	return nil, &Error{Op: "open namespace", Name: path, Err: ErrNotSupported}
}

// Current answers ErrNotSupported.
func Current() (*NS, error) { return nil, &Error{Op: "open namespace", Err: ErrNotSupported} }

// Handle is nil: there is no NS that it could be called on.
func (n *NS) Handle() *netlink.Handle { return nil }

// Path is empty.
func (n *NS) Path() string { return "" }

// Fd is -1.
func (n *NS) Fd() int { return -1 }

// Is tells whether both are the same.
func (n *NS) Is(other *NS) bool { return n == other }

// Close does nothing.
func (n *NS) Close() error { return nil }

// Do answers ErrNotSupported.
func (n *NS) Do(func() error) error { return &Error{Op: "enter namespace", Err: ErrNotSupported} }

// Sysctl answers ErrNotSupported.
func (n *NS) Sysctl(_ context.Context, key, _ string) error {
	return &Error{Op: "set sysctl", Name: key, Err: ErrNotSupported}
}

// ReadSysctl answers ErrNotSupported.
func (n *NS) ReadSysctl(key string) (string, error) {
	return "", &Error{Op: "read sysctl", Name: key, Err: ErrNotSupported}
}

// Container answers ErrNotSupported.
func Container(req *netconf.Request) (*NS, error) { return Open(req.Netns) }

// Host answers ErrNotSupported.
func Host(*netconf.Request) (*NS, error) { return Current() }
