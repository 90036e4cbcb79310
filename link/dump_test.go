//go:build linux

package link

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// A dump that was interrupted is begun again, is never used half, and does not go on for ever.
func TestWhole(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, test := range []struct {
		name     string
		failures int
		err, out error
		calls    int
	}{
		{"at once", 0, nil, nil, 1},
		{"interrupted", 3, netlink.ErrDumpInterrupted, nil, 4},
		{"EINTR, wrapped", 1, fmt.Errorf("dump: %w", syscall.EINTR), nil, 2},
		{"always", 1000, netlink.ErrDumpInterrupted, netlink.ErrDumpInterrupted, maxDumps},
		{"another error", 1, broken, broken, 1},
	} {
		calls := 0
		got, err := whole(func() ([]int, error) {
			calls++
			if calls <= test.failures {
				return []int{1}, test.err // half of it
			}
			return []int{1, 2}, nil
		})
		if !errors.Is(err, test.out) || calls != test.calls {
			t.Errorf("%s: %v after %d calls, expected %v after %d", test.name, err, calls, test.out, test.calls)
		}
		if want := map[bool]int{true: 2, false: 0}[test.out == nil]; len(got) != want {
			t.Errorf("%s: got %v", test.name, got)
		}
	}
}
