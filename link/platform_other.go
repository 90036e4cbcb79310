//go:build !linux

package link

import (
	"context"
	"net"

	"github.com/vishvananda/netlink"
)

const (
	familyV4 = 2
	familyV6 = 10
)

func setFiltering(*NS, netlink.Link) error { return ErrNotSupported }

func setQueue(*NS, netlink.Link, uint32) error { return ErrNotSupported }

func setIsolated(*NS, netlink.Link, bool) error { return ErrNotSupported }

func setLearning(*NS, netlink.Link, bool) error { return ErrNotSupported }

func portFlags(*NS, netlink.Link) (portMode, error) { return portMode{}, ErrNotSupported }

func fix(*NS, netlink.Link, net.HardwareAddr) error { return ErrNotSupported }

func isFixed(*NS, netlink.Link, net.HardwareAddr) (bool, error) { return false, ErrNotSupported }

func sharing(*NS, netlink.Link) (*netlink.IPVlan, error) { return nil, ErrNotSupported }

func introduce(context.Context, *NS, *NS) error { return ErrNotSupported }
