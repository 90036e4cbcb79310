package ownns_test

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/internal/deptest"
	"github.com/cnikit/cnikit/internal/ownns"
)

func TestImports(t *testing.T) { deptest.Room(t, ".") }

// TestStat: with and without the right to open it, the answer is what the path says.
func TestStat(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	same(t)
}

// TestStatInAnother: the answer is the thread's, not the process's.
func TestStatInAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it makes a network namespace: this needs root")
	}
	_, before, err := ownns.Stat()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		if _, ino, _ := ownns.Stat(); ino == before {
			t.Error("the namespace is that of the process")
		}
		same(t)
		fd, err := ownns.Open()
		if err != nil {
			t.Error(err)
			return
		}
		defer syscall.Close(fd)
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != nil || st.Ino == before {
			t.Errorf("opened: inode %d, %v", st.Ino, err)
		}
		if is, err := ownns.IsNet(fd); err != nil || !is {
			t.Errorf("IsNet: %v, %v", is, err)
		}
	}()
	<-done
}

func same(t *testing.T) {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Stat(ownns.Path, &st); err != nil {
		t.Error(err)
	}
	if dev, ino, err := ownns.Stat(); err != nil || dev != uint64(st.Dev) || ino != st.Ino {
		t.Errorf("%d:%d, %v; the path says %d:%d", dev, ino, err, st.Dev, st.Ino)
	}
}

// TestIsNet: other namespaces, and files, are none.
func TestIsNet(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/proc/self/ns/net": true, "/proc/self/ns/mnt": false, "/dev/null": false} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		is, err := ownns.IsNet(int(f.Fd()))
		if is != want || (err != nil) != (path == "/dev/null") || err != nil && !errors.Is(err, syscall.ENOTTY) {
			t.Errorf("%s: %v, %v", path, is, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
