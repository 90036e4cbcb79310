package ownns

import (
	"os"
	"syscall"
)

// Path leads to the network namespace of the thread that follows it.
const Path = "/proc/thread-self/ns/net"

const (
	socketNetns = 0x894c     // SIOCGSKNS of linux/sockios.h
	nsType      = 0xb703     // NS_GET_NSTYPE of linux/nsfs.h, since 4.11
	newNet      = 0x40000000 // CLONE_NEWNET of linux/sched.h
)

// Open opens the network namespace of the calling thread. It needs CAP_NET_ADMIN there. The file is closed on exec.
func Open() (fd int, err error) {
	s, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	defer syscall.Close(s)
	opened, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), socketNetns, 0)
	if errno != 0 {
		return -1, os.NewSyscallError("ioctl", errno)
	}
	return int(opened), nil
}

// Stat is the device and the inode by which the network namespace of the calling thread is known. Without the right to open
// it that of [Path] is asked.
func Stat() (dev, ino uint64, err error) {
	var st syscall.Stat_t
	fd, err := Open()
	if err != nil {
		err = again(func() error { return syscall.Stat(Path, &st) })
		return uint64(st.Dev), st.Ino, os.NewSyscallError("stat "+Path, err)
	}
	defer syscall.Close(fd)
	err = again(func() error { return syscall.Fstat(fd, &st) })
	return uint64(st.Dev), st.Ino, os.NewSyscallError("fstat", err)
}

// IsNet tells whether an open file is a network namespace. An error says that it is no namespace, or that the kernel, before
// 4.11, does not tell.
func IsNet(fd int) (bool, error) {
	kind, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), nsType, 0)
	if errno != 0 {
		return false, os.NewSyscallError("ioctl", errno)
	}
	return kind == newNet, nil
}

func again(f func() error) error {
	for {
		if err := f(); err != syscall.EINTR {
			return err
		}
	}
}
