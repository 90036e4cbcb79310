package link

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/cnikit/cnikit/netconf"
	"golang.org/x/sys/unix"
)

// Sysctl sets a parameter below /proc/sys/net in the namespace; nothing is written if it has the value
// already. The parts of the key are separated by '/', since the name of a link may hold a '.':
// "net/ipv6/conf/eth0.7/accept_dad". Where the parameter does not exist (no IPv6 in this kernel, no such
// link) the error is one for which [Gone] is true.
func (n *NS) Sysctl(ctx context.Context, key, value string) error {
	return n.Do(func() error { // one visit for both
		have, err := readSysctl(key)
		if err == nil && have == value || err != nil && !errors.Is(err, fs.ErrPermission) { // some can be written alone: route/flush
			return err
		}
		if err = netconf.Before(ctx, "sysctl "+key+"="+value); err != nil {
			return &Error{Op: "sysctl", Name: key, Err: err}
		}
		if err = sysctlFile(key, unix.O_WRONLY, func(fd int) error {
			_, err := unix.Write(fd, []byte(value))
			return err
		}); err != nil {
			return &Error{Op: "set sysctl", Name: key, Err: err}
		}
		return nil
	})
}

// ReadSysctl reads a parameter below /proc/sys/net in the namespace, without the line's end. Keys are
// as for Sysctl.
func (n *NS) ReadSysctl(key string) (value string, err error) {
	err = n.Do(func() error {
		value, err = readSysctl(key)
		return err
	})
	return value, err
}

// readSysctl is ReadSysctl in the namespace of the thread.
func readSysctl(key string) (string, error) {
	if err := checkSysctl(key); err != nil {
		return "", &Error{Op: "sysctl", Name: key, Err: err}
	}
	var data []byte
	err := sysctlFile(key, unix.O_RDONLY, func(fd int) error {
		for part := make([]byte, 16<<10); ; { // of a list of ports the kernel gives what fits into the first read, and no more
			n, err := unix.Read(fd, part)
			if n <= 0 || err != nil {
				return err
			}
			data = append(data, part[:n]...)
		}
	})
	if err != nil {
		return "", &Error{Op: "read sysctl", Name: key, Err: err}
	}
	return strings.TrimRight(string(data), "\n"), nil
}

// sysctlFile opens a parameter's file for do. As an os.File it would be registered for polling, which such a file can be:
// nine system calls to read it in the place of four, and a thread that is woken by each.
func sysctlFile(key string, flags int, do func(fd int) error) error {
	path := "/proc/sys/" + key
	fail := func(op string, err error) error { return &fs.PathError{Op: op, Path: path, Err: err} }
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return fail("open", err)
	}
	defer unix.Close(fd)
	if err := ignoringEINTR(func() error { return do(fd) }); err != nil {
		return fail("access", err)
	}
	return nil
}

// cookie is the kernel's number of a namespace, which it gives once; 0 before Linux 5.14, and where it cannot be asked.
func cookie(n *NS) (number uint64) {
	_ = n.Do(func() error { // without it the link's index and label must do
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		number, _ = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE) // 0 with an error
		return unix.Close(fd)
	})
	return number
}
