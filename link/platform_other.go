//go:build !linux

package link

import (
	"context"

	"github.com/vishvananda/netlink"
)

const (
	familyV4 = 2
	familyV6 = 10
)

func setIsolated(*NS, netlink.Link, bool) error { return ErrNotSupported }

func portFlags(*NS, netlink.Link) (hairpin, isolated bool, err error) {
	return false, false, ErrNotSupported
}

func sharing(*NS, netlink.Link) (*netlink.IPVlan, error) { return nil, ErrNotSupported }

func introduce(context.Context, *NS, *NS) error { return ErrNotSupported }
