package skel

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The own namespace is not looked up below /proc/PID/task, which makes who waits for a plugin spin when it ends.
func TestOwnNamespaceLeavesNothingForTheWaitingProcess(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: hides /proc from a thread")
	}
	path := filepath.Join(t.TempDir(), "own")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(ownPath, path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	err := withoutProc(func() error {
		if own, err := ownNetns(path); err != nil || !own {
			return errors.Join(errors.New("the own namespace is not known"), err)
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
