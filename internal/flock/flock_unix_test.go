//go:build unix

package flock_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cnikit/cnikit/internal/flock"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // nothing was written
	return f
}

// One holder at a time, also among the goroutines of one process; the end of the file is the end of the lock.
func TestTry(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	one, two := open(t, path), open(t, path)
	for _, want := range []bool{true, false} {
		f := map[bool]*os.File{true: one, false: two}[want]
		if taken, err := flock.Try(f); err != nil || taken != want {
			t.Errorf("taken %v, %v: expected %v", taken, err, want)
		}
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if taken, err := flock.Try(two); err != nil || !taken {
		t.Errorf("after the holder's end: taken %v, %v", taken, err)
	}
	if taken, err := flock.Try(one); err == nil {
		t.Errorf("a closed file: taken %v", taken)
	}
}

// A lock on a file that was removed, or replaced since, is nobody's.
func TestStillAt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	f := open(t, path)
	if !flock.StillAt(f, path) {
		t.Error("the file that is there does not count")
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if flock.StillAt(f, path) {
		t.Error("a file that was moved away counts")
	}
	open(t, path)
	if flock.StillAt(f, path) {
		t.Error("a replaced file counts")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+".old", path); err != nil {
		t.Fatal(err)
	}
	if flock.StillAt(f, path) {
		t.Error("a link to it counts")
	}
}
