package skel

import (
	"io"
	"os"
	"syscall"
)

// setAside moves stdout to a descriptor that no child inherits and points descriptor 1 at stderr.
func setAside() io.Writer {
	if closedAtStart(1) {
		return unwritable{}
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, 1, syscall.F_DUPFD_CLOEXEC, 3)
	if errno != 0 {
		return os.Stdout // the protocol still works, only without the protection
	}
	if err := syscall.Dup3(2, 1, 0); err != nil {
		return os.Stdout
	}
	return os.NewFile(fd, "stdout")
}

// closedAtStart tells whether a descriptor was closed when the process began. Go's runtime opens those
// as /dev/null for reading and writing (runtime/fds_unix.go); a shell's > /dev/null is for writing only.
//
// It takes for closed a /dev/null that the caller itself has opened for reading and writing, as Python's
// subprocess.DEVNULL is: flags, offset, mount and inode are the same, and nothing of ours runs before Go's runtime
// has looked. Of the two mistakes this is the small one: a caller that throws the result of an ADD away is told so, and
// has no attachment; taken for open, a closed stdout would keep one that nobody knows of. The other verbs
// print nothing when they succeed.
func closedAtStart(fd int) bool {
	var st, null syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil {
		return true
	}
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0)
	return syscall.Stat(os.DevNull, &null) == nil && st.Rdev == null.Rdev && st.Mode&syscall.S_IFMT == syscall.S_IFCHR &&
		errno == 0 && flags&syscall.O_ACCMODE == syscall.O_RDWR
}
