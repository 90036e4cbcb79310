//go:build !linux

package link

import (
	"context"

	"github.com/vishvananda/netlink"
)

func (t Tap) birth(_ context.Context, _ *NS, o Owner, _ netlink.Link) error {
	return &Error{Op: "link add", Name: o.IfName, Err: ErrNotSupported}
}
