//go:build unix

package flock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
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

// Who only asks is no holder to others who ask.
func TestIdle(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	for _, f := range []*os.File{open(t, path), open(t, path)} {
		if idle, err := flock.Idle(f); err != nil || !idle {
			t.Errorf("%v, %v", idle, err)
		}
	}
	other := filepath.Join(t.TempDir(), "lock")
	holder := open(t, other)
	if taken, err := flock.Try(holder); err != nil || !taken {
		t.Fatal(taken, err)
	}
	if idle, err := flock.Idle(open(t, other)); err != nil || idle {
		t.Errorf("held: %v, %v", idle, err)
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

// Who waits gets the lock when its holder ends, unless the file is another one by then, or the context has ended.
func TestWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(path string, holder *os.File, end func()) error
		want      error
	}{
		"the holder ends": {func(_ string, holder *os.File, _ func()) error { return holder.Close() }, nil},
		"the holder removes": {func(path string, holder *os.File, _ func()) error {
			return errors.Join(os.Remove(path), holder.Close())
		}, flock.ErrReplaced},
		"the time is over": {func(_ string, _ *os.File, end func()) error { end(); return nil }, errOver},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "lock")
			holder, waiter := open(t, path), open(t, path)
			if err := flock.Wait(t.Context(), holder, path); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			waits := &watched{Context: ctx, waits: make(chan struct{})}
			done := make(chan error, 1)
			go func() { done <- flock.Wait(waits, waiter, path) }()
			select {
			case err := <-done:
				t.Fatalf("%v: it did not wait", err)
			case <-waits.waits:
			}
			if err := c.meanwhile(path, holder, func() { cancel(errOver) }); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, c.want) {
				t.Errorf("%v: expected %v", err, c.want)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "lock")
	closed := open(t, path)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := flock.Wait(t.Context(), closed, path); err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v: a file that cannot be locked is not one of a system without locks", err)
	}
}

var errOver = errors.New("the time is over")

// watched is a context that tells when somebody begins to wait for its end.
type watched struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waits) })
	return w.Context.Done()
}
