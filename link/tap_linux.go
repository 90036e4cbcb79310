package link

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const tunDevice = "/dev/net/tun"

// birth makes the link. The device is opened in the container's namespace, so the link is born there under its name. It is
// the descriptor's until it is made to stay, at last: an error, or a kill, before that takes it away.
func (t Tap) birth(ctx context.Context, container *NS, o Owner, bridge netlink.Link) error {
	fd := -1
	err := alter(ctx, "link add", o.IfName, func() error {
		return container.Do(func() (err error) {
			fd, err = t.open(o.IfName)
			return err
		})
	})
	if errors.Is(err, unix.EBUSY) { // another call was faster
		there, lookErr := find(container, o.IfName)
		if lookErr == nil && there != nil {
			return taken(o.IfName, there)
		}
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd) // nothing was written to it
	for _, id := range []struct {
		op      string
		request uint
		value   *uint32
	}{{"tap owner", unix.TUNSETOWNER, t.UID}, {"tap group", unix.TUNSETGROUP, t.GID}} {
		if id.value == nil {
			continue
		}
		if err := alter(ctx, id.op, o.IfName, func() error { return unix.IoctlSetInt(fd, id.request, int(*id.value)) }); err != nil {
			return err
		}
	}
	if err := t.dress(ctx, container, o, bridge); err != nil {
		return err
	}
	return alter(ctx, "tap persist", o.IfName, func() error { return unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1) })
}

// open makes the link in the namespace of the thread, and returns the descriptor that holds it.
func (t Tap) open(name string) (fd int, err error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return -1, err
	}
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_TUN_EXCL)
	if t.MultiQueue {
		flags |= unix.IFF_MULTI_QUEUE
	}
	request.SetUint16(flags)
	err = ignoringEINTR(func() (err error) {
		fd, err = unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
		return err
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return -1, fmt.Errorf("%w: open %s: %v (the module tun may be missing)", ErrNotSupported, tunDevice, err)
	case err != nil:
		return -1, fmt.Errorf("open %s: %w", tunDevice, err)
	}
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		_ = unix.Close(fd) // nothing was written to it
		return -1, err
	}
	return fd, nil
}
