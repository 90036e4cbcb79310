//go:build !linux

package link

import (
	"context"

	"github.com/vishvananda/netlink"
)

type change struct {
	to     *NS
	name   string
	marked bool
	alias  string
	group  uint32
}

func setLink(*NS, int, change) error { return ErrNotSupported }

func (Device) holder(*NS) (*label, error) { return nil, ErrNotSupported }

func hasNexthop(*NS, int) (bool, error) { return false, ErrNotSupported }

func dropAltName(*NS, netlink.Link, string) error { return ErrNotSupported }

func awaited(context.Context, func() (netlink.Link, error)) (netlink.Link, error) {
	return nil, ErrNotSupported
}
