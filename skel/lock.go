package skel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cnikit/cnikit/internal/flock"
	"github.com/cnikit/cnikit/netconf"
)

type heldKey struct{ name string }

// locked runs f while no other call of the same attachment runs, in any process. It waits for the
// lock until the context ends (code 11). A dead holder holds nothing: the kernel drops a lock with its
// process. A call that is made inside another of the same attachment does not lock again. Where the run
// directory cannot be used (full, read-only) the call goes on without a lock, with a warning: a
// container that cannot be removed is worse than two calls at once, which runtimes avoid by themselves.
func (c *core) locked(ctx context.Context, req *netconf.Request, f func(context.Context) error) error {
	if req.State == nil {
		req.State = c.recorder(ctx, req)
	}
	if req.Command == netconf.GC || req.Command == netconf.Status { // no attachment's
		return f(ctx)
	}
	key := heldKey{filepath.Join(c.runDir, c.attachment(req).Key()+".lock")}
	if ctx.Value(key) != nil {
		return f(ctx)
	}
	unlock, err := lock(ctx, key.name)
	if ctx.Err() != nil && err != nil {
		return netconf.Errorf(netconf.CodeTryAgainLater, "another call of this attachment is running: %w", err)
	}
	if err != nil {
		req.Warn("goes on without a lock", "error", err.Error())
		return f(ctx)
	}
	defer unlock()
	return f(context.WithValue(ctx, key, true))
}

// lock takes the lock file at path, making it and its folder; unlock removes the file.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	for {
		if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%q is not a regular file", path) // a link is another file than the one that is locked, for ever
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		err = flock.Wait(ctx, f, path)
		if err == nil {
			return func() {
				_ = os.Remove(path) // before the lock goes: who waits sees that the file is another one. What stays is an empty file
				_ = f.Close()       // nothing was written
			}, nil
		}
		_ = f.Close()                           // nothing was written
		if !errors.Is(err, flock.ErrReplaced) { // else its holder has just removed it: at once again
			return nil, err
		}
	}
}
