package skel

import (
	"os"
	"syscall"
)

// The magic numbers of nsfs, and of procfs, where a /proc/PID/ns file was before Linux 3.19.
const (
	nsfsMagic = 0x6e736673
	procMagic = 0x9fa0
)

// ownPath leads to the namespace of the thread that follows it.
const ownPath = "/proc/thread-self/ns/net"

// socketNetns is SIOCGSKNS, which opens the namespace of a socket; since Linux 4.10, and for who may change the network.
const socketNetns = 0x894c

// nsType is NS_GET_NSTYPE, which tells what kind of namespace a file is; since Linux 4.11. newNet is the kind.
const (
	nsType = 0xb703
	newNet = 0x40000000
)

// ownNetns tells whether path names the network namespace that the process is in. A path that is
// missing, and a stale one (an empty plain file, as a bind mount leaves it), is an error; what
// is something else altogether is errNotNetns.
func ownNetns(path string) (bool, error) {
	var there, own syscall.Stat_t
	if err := syscall.Stat(path, &there); err != nil {
		return false, err
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return false, err
	}
	if fs.Type != nsfsMagic && fs.Type != procMagic {
		if there.Mode&syscall.S_IFMT == syscall.S_IFREG && there.Size == 0 {
			return false, errStale
		}
		return false, errNotNetns
	}
	if fs.Type == nsfsMagic && otherKind(path) {
		return false, errNotNetns
	}
	if err := statNetns(&own); err != nil {
		return false, os.NewSyscallError("stat "+ownPath, err)
	}
	return there.Dev == own.Dev && there.Ino == own.Ino, nil
}

// otherKind tells whether a file is a namespace of another kind, as /proc/PID/ns/mnt is. What an old kernel does not tell,
// or a file that cannot be opened, is for the steps to find out.
func otherKind(path string) bool {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	kind, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), nsType, 0)
	return errno == 0 && kind != newNet
}

// statNetns describes the namespace of the calling thread: by a socket where that is allowed, since a path below
// /proc/PID/task costs who waits for the process (see link.Current).
func statNetns(st *syscall.Stat_t) error {
	s, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return syscall.Stat(ownPath, st)
	}
	defer syscall.Close(s)
	fd, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), socketNetns, 0)
	if errno != 0 {
		return syscall.Stat(ownPath, st)
	}
	defer syscall.Close(int(fd))
	return syscall.Fstat(int(fd), st)
}
