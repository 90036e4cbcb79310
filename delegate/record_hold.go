package delegate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cnikit/cnikit/internal/flock"
	"github.com/cnikit/cnikit/netconf"
)

// hold opens the record of the request's attachment when nobody else has it, and waits for that until ctx ends (code
// 11). A holder that was killed holds nothing. The error Is fs.ErrNotExist where there is no record.
func (r Records) hold(ctx context.Context, req *netconf.Request) (*journal, error) {
	return r.holdFile(ctx, req, r.journal(ownerOf(req)))
}

func (r Records) holdFile(ctx context.Context, req *netconf.Request, j *journal) (*journal, error) {
	for {
		info, err := os.Lstat(j.path) // a FIFO would be waited for
		if err != nil {
			return nil, j.failed(err)
		}
		if !info.Mode().IsRegular() {
			return j, damage{errors.New("not a regular file")}
		}
		j.f, err = os.OpenFile(j.path, os.O_RDWR|os.O_APPEND, 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			j.f, err = os.Open(j.path) // on a disk that cannot be written to; the lock is the same
		}
		if err != nil {
			return nil, j.failed(err)
		}
		if _, err = r.lock(ctx, req, j, j.path); err == nil {
			info, err = j.f.Stat()
		}
		if err == nil {
			j.size = int(min(info.Size(), maxRecord))
			return j, nil
		}
		j.release()
		switch {
		case errors.Is(err, flock.ErrReplaced): // its holder has just removed it
		case ctx.Err() != nil:
			return nil, netconf.Errorf(netconf.CodeTryAgainLater, "record %q: %w", j.path, err)
		default:
			return nil, j.failed(err)
		}
	}
}

// lock locks the file of a journal, which was just opened. A file system without locks is told of, and the file is
// taken as it is: runtimes make one call of a container at a time.
func (r Records) lock(ctx context.Context, req *netconf.Request, j *journal, path string) (locked bool, err error) {
	err = netconf.Before(context.WithoutCancel(ctx), "record lock "+j.key())
	if err == nil {
		err = flock.Wait(ctx, j.f, path)
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errors.ErrUnsupported):
		warn(req, "the records' file system has no locks, goes on without", "file", path, "error", err.Error())
		return false, nil
	case errors.Is(err, flock.ErrReplaced):
		return false, err
	case ctx.Err() != nil:
		return false, fmt.Errorf("another call of this attachment is running: %w", ended(ctx))
	}
	return false, fmt.Errorf("lock: %w", err)
}

// setAside moves a file that is no record out of the way, for a person to look at.
func (r Records) setAside(ctx context.Context, j *journal) error {
	ctx = context.WithoutCancel(ctx)
	name := strings.TrimSuffix(j.path, recordEnding)
	err := netconf.Before(ctx, "record rename "+filepath.Base(name))
	if err == nil {
		err = os.Rename(j.path, name+badEnding)
	}
	if err != nil {
		return j.failed(err)
	}
	return r.prune(ctx)
}

// prune removes the oldest of what was set aside.
func (r Records) prune(ctx context.Context) error {
	files, err := os.ReadDir(r.Dir)
	if err != nil {
		return err
	}
	type old struct {
		path string
		at   time.Time
	}
	var all []old
	for _, file := range files {
		if info, err := file.Info(); err == nil && strings.HasSuffix(file.Name(), badEnding) { // what is gone is gone
			all = append(all, old{filepath.Join(r.Dir, file.Name()), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b old) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.path, b.path)) })
	var errs []error
	for _, o := range all[:max(0, len(all)-maxBad)] {
		errs = append(errs, removeAll(ctx, filepath.Base(o.path), o.path))
	}
	return netconf.Join(errs...)
}

// removeAll takes away whatever stands under a name of ours: somebody may have made a folder of it.
func removeAll(ctx context.Context, name, path string) error {
	if err := netconf.Before(ctx, "record remove "+name); err != nil {
		return err
	}
	return os.RemoveAll(path)
}
