//go:build !linux

package link

import "github.com/vishvananda/netlink"

func setAllMulti(*netlink.Handle, netlink.Link, bool) error { return ErrNotSupported }
