package nat

import (
	"errors"
	"os"

	"github.com/cnikit/cnikit/link"
	"golang.org/x/sys/unix"
)

// socket is a netlink socket of the netfilter kind. The kernel answers within send, so that receive, but for
// a dump that goes on, finds what it reads.
type socket struct {
	fd  int
	buf []byte
}

const (
	sendSpace = 64 << 10 // what a socket's default buffer takes with room to spare
	waitFor   = 10       // seconds; more than the kernel ever needs, so that nobody hangs for ever
)

// openSocket opens a socket in a namespace.
func openSocket(n *link.NS) (*socket, error) {
	s := &socket{buf: make([]byte, 64<<10)} // the kernel's dumps come in parts of up to 32 KiB
	err := n.Do(func() (err error) {
		s.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		return err
	})
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		err = link.ErrNotSupported
	}
	if err != nil {
		return nil, &link.Error{Op: "netfilter socket", Err: err}
	}
	if err = s.prepare(); err != nil {
		_ = unix.Close(s.fd) // nothing was sent
		return nil, &link.Error{Op: "netfilter socket", Err: err}
	}
	return s, nil
}

func (s *socket) prepare() error {
	if err := unix.Bind(s.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	// Without the request in it an error is short: a batch of a thousand would not fit twice.
	if err := unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	return unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: waitFor})
}

func (s *socket) send(b []byte) error {
	if len(b) > sendSpace {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 2*len(b)); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	for {
		err := unix.Sendto(s.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if err != unix.EINTR {
			return err
		}
	}
}

// receive returns what the kernel sent, which is valid until the next one.
func (s *socket) receive() ([]byte, error) {
	for {
		n, _, flags, from, err := unix.Recvmsg(s.fd, s.buf, nil, 0)
		switch kernel, ok := from.(*unix.SockaddrNetlink); {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		case !ok || kernel.Pid != 0: // any process may send to our port
			continue
		case flags&unix.MSG_TRUNC != 0:
			return nil, unix.ENOBUFS
		}
		return s.buf[:n], nil
	}
}

func (s *socket) close() error { return unix.Close(s.fd) }
