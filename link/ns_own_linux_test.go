package link_test

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// The own namespace is not looked up below /proc/PID/task, which makes who waits for a plugin spin when it ends.
func TestOwnNamespaceLeavesNothingForTheWaitingProcess(t *testing.T) {
	skeltest.NeedRoot(t)
	space := skeltest.NewNS(t)
	other, err := link.Open(space.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	err = withoutProc(func() error {
		n, err := link.Current()
		if err != nil {
			return err
		}
		defer n.Close()
		if !n.Here() || other.Here() {
			return errors.New("the thread's namespace is not told from another")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// withoutProc runs f on a thread of its own that sees no /proc.
func withoutProc(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // not given back: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			done <- withoutProc(f) // the main thread is held meanwhile, so that the next one is another
			runtime.UnlockOSThread()
			return
		}
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", "/proc", "tmpfs", 0, "")
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}
