//go:build unix

package flock

import (
	"errors"
	"os"
	"syscall"
)

// Try takes an exclusive lock on an open file unless somebody has it.
func Try(f *os.File) (taken bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}
