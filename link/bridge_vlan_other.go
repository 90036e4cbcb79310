//go:build !linux

package link

import "github.com/vishvananda/netlink"

func addVLANs(*NS, netlink.Link, run, bool) error { return ErrNotSupported }

func delVLANs(*NS, netlink.Link, run) error { return ErrNotSupported }

func vlansOf(*NS, netlink.Link) (map[uint16]uint16, error) { return nil, ErrNotSupported }
