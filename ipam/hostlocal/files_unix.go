//go:build unix

package hostlocal

import (
	"errors"
	"os"
	"syscall"
)

// wait takes the lock on an open file, however long that takes. It is the kernel's queue that it waits in, as the
// reference plugin does: who only tried now and then would come last for as long as others wait.
func wait(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// writable says why nothing can be written into a folder.
func writable(dir string) error {
	const w, x = 2, 1
	return syscall.Access(dir, w|x)
}

// readSmall reads a file. os.ReadFile takes twice as long for it, and of these there may be 50,000.
func readSmall(path string) ([]byte, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0) // opening a FIFO ends, too
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = syscall.Close(fd) }() // nothing was written
	buf := make([]byte, 0, 512)
	for {
		n, err := syscall.Read(fd, buf[len(buf):cap(buf)])
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		case n == 0 || len(buf)+n > maxLease:
			return buf[:len(buf)+n], nil
		default:
			if buf = buf[:len(buf)+n]; len(buf) < cap(buf) {
				return buf, nil // a regular file has no more
			}
			buf = append(buf, 0)[:len(buf)]
		}
	}
}
