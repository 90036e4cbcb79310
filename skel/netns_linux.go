package skel

import (
	"syscall"

	"github.com/cnikit/cnikit/internal/ownns"
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
	var there syscall.Stat_t
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
	dev, ino, err := ownns.Stat()
	if err != nil {
		return false, err
	}
	return uint64(there.Dev) == dev && there.Ino == ino, nil
}

// otherKind tells whether a file is a namespace of another kind, as /proc/PID/ns/mnt is. What an old kernel does not tell,
// or a file that cannot be opened, is for the steps to find out.
func otherKind(path string) bool {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	is, err := ownns.IsNet(fd)
	return err == nil && !is
}
