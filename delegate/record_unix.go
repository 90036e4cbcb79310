//go:build unix

package delegate

import (
	"errors"
	"os"
	"syscall"
)

// syncFolder puts the names of a folder on the disk.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close() // it was only read
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil // also where the file system does not have it
}
