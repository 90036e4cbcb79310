//go:build unix

package flock

import (
	"errors"
	"os"
	"syscall"
)

// Idle tells whether nobody has the lock, and takes none that would keep another from asking the same. Until the file is
// closed it keeps a Try, or Wait, from getting the lock.
func Idle(f *os.File) (bool, error) { return lock(f, syscall.LOCK_SH) }

// Try takes an exclusive lock on an open file unless somebody has it.
func Try(f *os.File) (taken bool, err error) { return lock(f, syscall.LOCK_EX) }

func lock(f *os.File, how int) (taken bool, err error) {
	err = syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}
