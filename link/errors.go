package link

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/vishvananda/netlink"
)

// ErrNotSupported is what every function returns (wrapped) that the running system cannot serve: a
// kind of link that the kernel lacks, or any of them on a system that is not Linux. Code 103. It Is
// errors.ErrUnsupported.
var ErrNotSupported = netconf.Errorf(netconf.CodeNotSupported, "the kernel lacks it: %w", errors.ErrUnsupported)

// errNoNamespace is a path that does not lead to a network namespace.
var errNoNamespace = errors.New("not a network namespace")

// Error is the error of this package: what was done to which thing, and why it went wrong.
type Error struct {
	Op   string // "link add", "sysctl", "open namespace"
	Name string // the link, path or address; may be empty
	Err  error  // never nil
}

// Error names what was done, to which thing, and what went wrong.
func (e *Error) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("%s %q: %v", e.Op, e.Name, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is tells whether target is [ErrNotSupported] and the kernel said so in its own words.
func (e *Error) Is(target error) bool { return target == ErrNotSupported && unsupported(e.Err) }

// unsupported: EOPNOTSUPP for a kind of link, EAFNOSUPPORT for a family. Both are errors.ErrUnsupported too.
func unsupported(err error) bool {
	return errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, netlink.ErrNotImplemented)
}

// As gives the error as a [*types.Error], which is how skel and upstream's skel find the code: the one
// that Err carries, else the one that stands for the kernel's answer. Without either it is false.
func (e *Error) As(target any) bool {
	t, ok := target.(**types.Error)
	if !ok {
		return false
	}
	code := codeOf(e.Err)
	if code == 0 {
		return false
	}
	*t = types.NewError(code, e.Error(), "")
	return true
}

// codeOf is the CNI code of an error, 0 for none. EEXIST has code 100 without being netconf.ErrExists:
// only who knows that nothing was changed before may say that.
func codeOf(err error) uint {
	var coded *types.Error
	is := func(errnos ...error) bool {
		for _, errno := range errnos {
			if errors.Is(err, errno) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.As(err, &coded):
		return coded.Code
	case is(context.Canceled, context.DeadlineExceeded), interrupted(err):
		return netconf.CodeTryAgainLater
	case is(syscall.EBUSY, syscall.EAGAIN, syscall.ENOBUFS, syscall.ENOMEM):
		return netconf.CodeTryAgainLater
	case is(syscall.EEXIST):
		return netconf.CodeExists
	case unsupported(err):
		return netconf.CodeNotSupported
	case is(syscall.EINVAL, syscall.ERANGE):
		return netconf.CodeInvalidNetworkConfig
	case is(syscall.EACCES, syscall.EPERM, syscall.EROFS):
		return netconf.CodeIOFailure // no right to it, or /proc/sys is mounted read-only
	case Gone(err):
		return netconf.CodeTryAgainLater // it went away while it was worked on
	}
	return 0
}

// goneErrnos are the kernel's words for something that is not there, or not any more.
var goneErrnos = [...]error{syscall.ENOENT, syscall.ENODEV, syscall.ENXIO, syscall.ESRCH, syscall.EADDRNOTAVAIL}

// Gone tells whether err says that the thing is not there (any more): a link, an address, a route, a
// rule, a sysctl; or a namespace whose path is empty, missing, a stale plain file, or no network
// namespace. On DEL that is what was wanted.
func Gone(err error) bool {
	var notFound netlink.LinkNotFoundError
	if errors.Is(err, errNoNamespace) || errors.As(err, &notFound) {
		return true
	}
	for _, errno := range goneErrnos {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// different makes an error for Verify that Is netconf.ErrDifferent and names both values.
func different(name, what string, want, have any) error {
	return &Error{Op: "check", Name: name, Err: fmt.Errorf("%w: %s is %v, expected %v", netconf.ErrDifferent, what, have, want)}
}
