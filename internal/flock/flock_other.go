//go:build !unix

package flock

import (
	"errors"
	"os"
)

// Idle has no lock to ask about, see Try.
func Idle(*os.File) (bool, error) { return false, errors.ErrUnsupported }

// Try has no lock to take here: plugins run on Linux.
func Try(*os.File) (taken bool, err error) { return false, errors.ErrUnsupported }
