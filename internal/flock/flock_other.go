//go:build !unix

package flock

import (
	"errors"
	"os"
)

// Try has no lock to take here: plugins run on Linux.
func Try(*os.File) (taken bool, err error) { return false, errors.ErrUnsupported }
