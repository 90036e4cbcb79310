package link

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/cnikit/cnikit/netconf"
	"golang.org/x/sys/unix"
)

// Sysctl sets a parameter below /proc/sys/net in the namespace; nothing is written if it has the value
// already. The parts of the key are separated by '/', since the name of a link may hold a '.':
// "net/ipv6/conf/eth0.7/accept_dad". Where the parameter does not exist (no IPv6 in this kernel, no such
// link) the error is one for which [Gone] is true.
func (n *NS) Sysctl(ctx context.Context, key, value string) error {
	have, err := n.ReadSysctl(key)
	if err == nil && have == value || err != nil && !errors.Is(err, fs.ErrPermission) { // some can be written alone: route/flush
		return err
	}
	if err = netconf.Before(ctx, "sysctl "+key+"="+value); err != nil {
		return &Error{Op: "sysctl", Name: key, Err: err}
	}
	err = n.Do(func() error {
		f, err := os.OpenFile("/proc/sys/"+key, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(value)
		return netconf.Join(err, f.Close())
	})
	if err != nil {
		return &Error{Op: "set sysctl", Name: key, Err: err}
	}
	return nil
}

// ReadSysctl reads a parameter below /proc/sys/net in the namespace, without the line's end. Keys are
// as for Sysctl.
func (n *NS) ReadSysctl(key string) (string, error) {
	if err := checkSysctl(key); err != nil {
		return "", &Error{Op: "sysctl", Name: key, Err: err}
	}
	var data []byte
	err := n.Do(func() (err error) {
		data, err = os.ReadFile("/proc/sys/" + key)
		return err
	})
	if err != nil {
		return "", &Error{Op: "read sysctl", Name: key, Err: err}
	}
	return strings.TrimRight(string(data), "\n"), nil
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
