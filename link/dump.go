package link

import (
	"errors"
	"syscall"
)

// maxDumps is how often an interrupted dump is begun again. A dump of 5,000 links takes about 20 ms;
// what changes them is ADD and DEL of others, of which two cores do a few hundred per second, so that a
// second try is rare and a tenth has not been seen.
const maxDumps = 20

// whole repeats a dump that was interrupted by a change, whose answer may lack what was there all the
// time, and never returns half of one. It is for single requests too: they are not interrupted.
func whole[T any](dump func() (T, error)) (T, error) {
	var zero T
	for range maxDumps - 1 {
		v, err := dump()
		switch {
		case err == nil:
			return v, nil
		case !interrupted(err):
			return zero, err
		}
	}
	v, err := dump()
	if err != nil {
		return zero, err
	}
	return v, nil
}

// interrupted: netlink.ErrDumpInterrupted Is EINTR.
func interrupted(err error) bool { return errors.Is(err, syscall.EINTR) }
