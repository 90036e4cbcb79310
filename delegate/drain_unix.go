//go:build unix

package delegate

import (
	"os"
	"syscall"
	"time"
)

// drain reads what stands in a pipe and does not wait for more. After a deadline the file's own Read
// would give its error without looking into the pipe.
func drain(r *os.File, buf []byte, sink func([]byte)) {
	conn, err := r.SyscallConn()
	if err != nil || r.SetReadDeadline(time.Time{}) != nil {
		return // cannot be: the file is open and had a deadline
	}
	for total := 0; total < maxPipe; {
		n, failed := 0, error(nil)
		err := conn.Read(func(fd uintptr) bool {
			n, failed = syscall.Read(int(fd), buf)
			return true // whatever it was: no waiting
		})
		switch {
		case failed == syscall.EINTR:
		case err != nil || failed != nil || n <= 0: // EAGAIN or the end
			return
		default:
			sink(buf[:n])
			total += n
		}
	}
}
