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
	if err := syscall.Stat("/proc/thread-self/ns/net", &own); err != nil {
		return false, os.NewSyscallError("stat /proc/thread-self/ns/net", err)
	}
	return there.Dev == own.Dev && there.Ino == own.Ino, nil
}
