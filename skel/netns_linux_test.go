package skel

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnikit/cnikit/internal/ownns"
	"github.com/cnikit/cnikit/netconf"
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
	if err := unix.Mount(ownns.Path, path, "", unix.MS_BIND, ""); err != nil {
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

// A namespace of another kind is refused before any work, not by the kernel in the middle of it.
func TestNamespaceOfAnotherKindIsNone(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"mnt", "uts", "ipc", "pid", "user"} {
		if _, err := ownNetns("/proc/self/ns/" + kind); !errors.Is(err, errNotNetns) {
			t.Errorf("%s: %v", kind, err)
		}
		req := &netconf.Request{Command: netconf.Add, Netns: "/proc/self/ns/" + kind}
		if err := checkNetns(req, Interface); netconf.Code(err) != netconf.CodeInvalidEnvironment {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if own, err := ownNetns("/proc/thread-self/ns/net"); err != nil || !own {
		t.Errorf("the own: %v, %v", own, err)
	}
}
