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
