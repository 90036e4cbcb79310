package flock

import (
	"context"
	"errors"
	"os"
	"time"
)

// ErrReplaced is the error of a Wait whose file is no longer the one of its name: open it anew.
var ErrReplaced = errors.New("the file was replaced")

// StillAt tells whether the open file is the one at path.
func StillAt(f *os.File, path string) bool {
	open, err1 := f.Stat()
	there, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(open, there)
}

// Wait takes an exclusive lock on the file that was opened at path, when its holder lets go of it or, with the error
// context.Cause(ctx), gives up when ctx ends. It polls: at first every millisecond, then ever less often up to 25 ms.
// The other errors are ErrReplaced, errors.ErrUnsupported where there are no locks, and the system's.
func Wait(ctx context.Context, f *os.File, path string) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 25*time.Millisecond) {
		taken, err := Try(f)
		switch {
		case err != nil:
			return err
		case taken && StillAt(f, path):
			return nil
		case taken && ctx.Err() == nil:
			return ErrReplaced
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}
