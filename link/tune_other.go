//go:build !linux

package link

import "github.com/vishvananda/netlink"

func setAllMulti(*netlink.Handle, netlink.Link, bool) error { return ErrNotSupported }

func cookie(*NS) uint64 { return 0 }
