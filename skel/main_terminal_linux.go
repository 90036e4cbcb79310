package skel

import (
	"syscall"
	"unsafe"
)

// isTerminal tells whether a file descriptor is a terminal. /dev/null is a character device and no terminal.
func isTerminal(fd uintptr) bool {
	var settings syscall.Termios
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TCGETS, uintptr(unsafe.Pointer(&settings)))
	return errno == 0
}
