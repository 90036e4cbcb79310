package delegate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cnikit/cnikit/internal/flock"
	"github.com/cnikit/cnikit/netconf"
)

// errAttached is why an ADD is refused.
var errAttached = fmt.Errorf("%w: the container is attached, a DEL is due first", netconf.ErrExists)

// create makes the record of an ADD, on the disk when it returns, and held. The file is written as a draft and linked to
// its name when it is whole: an ADD that is killed on the way leaves a draft, which the next ADD, DEL or GC takes away.
// The error says by netconf.Unchanged that there is nothing of this call.
func (r Records) create(ctx context.Context, req *netconf.Request, head header) (*journal, error) {
	j, made := r.journal(head.owner), false
	defer func() {
		if !made { // after a panic too: held by a process that lives on, a draft could not be taken away by anybody
			j.release()
			r.sweepOwn(ctx, req) // no DEL follows an error that has changed nothing
		}
	}()
	data, err := line(head)
	if err == nil && len(head.Attachments) > maxAttachments {
		err = fmt.Errorf("%d attachments: a record has at most %d", len(head.Attachments), maxAttachments)
	}
	if err == nil && len(data) > maxRecord {
		err = fmt.Errorf("%d bytes: a record has at most %d", len(data), maxRecord)
	}
	if err == nil {
		err = r.makeFolder(ctx)
	}
	if err == nil {
		err = r.openDraft(ctx, req, j)
	}
	if err == nil {
		err = r.publish(ctx, req, j, data)
	}
	switch {
	case err == nil:
		made = true
		return j, nil
	case errors.Is(err, netconf.ErrExists):
		err = fmt.Errorf("record %q: container %q: %w", j.path, head.ContainerID, err)
	case ctx.Err() != nil:
		err = netconf.Errorf(netconf.CodeTryAgainLater, "record %q: %w", j.path, err)
	default:
		err = j.failed(err)
	}
	return nil, netconf.Unchanged(err)
}

// makeFolder makes the folder of the records, which only root may read: configurations may hold secrets.
func (r Records) makeFolder(ctx context.Context) error {
	if _, err := os.Stat(r.Dir); err == nil {
		return nil
	}
	if err := netconf.Before(ctx, "record folder "+r.Dir); err != nil {
		return err
	}
	there := filepath.Dir(r.Dir)
	for there != filepath.Dir(there) {
		if _, err := os.Stat(there); err == nil {
			break
		}
		there = filepath.Dir(there)
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return err
	}
	for dir := filepath.Dir(r.Dir); ; dir = filepath.Dir(dir) { // each that got a name
		if err := syncFolder(dir); err != nil || dir == there {
			return err
		}
	}
}

// openDraft opens the draft, empty, and holds it, unless there is the record already.
func (r Records) openDraft(ctx context.Context, req *netconf.Request, j *journal) error {
	flags := os.O_RDWR | os.O_CREATE | os.O_APPEND
	for {
		if _, err := os.Lstat(j.path); err == nil {
			return errAttached
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if info, err := os.Lstat(j.draft()); err == nil && !info.Mode().IsRegular() { // a FIFO would be waited for
			if err := removeAll(ctx, j.key()+draftEnding, j.draft()); err != nil {
				return err
			}
		}
		if err := netconf.Before(ctx, "record create "+j.key()); err != nil {
			return err
		}
		f, err := os.OpenFile(j.draft(), flags, 0o600)
		if err != nil {
			return err
		}
		j.f = f
		locked, err := r.lock(ctx, req, j, j.draft())
		if errors.Is(err, flock.ErrReplaced) {
			j.release()
			continue
		}
		if err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		// Without locks two ADDs could write into one file; the one that makes it anew has its own.
		if info.Size() == 0 && (locked || flags&os.O_EXCL != 0) {
			return nil
		}
		if !locked {
			flags |= os.O_EXCL
		}
		if err := remove(ctx, j.key()+draftEnding, j.draft()); err != nil { // what a killed ADD has left
			return err
		}
		j.release()
	}
}

// publish writes the first line and gives the file its name. The draft's goes, also with an error.
func (r Records) publish(ctx context.Context, req *netconf.Request, j *journal, data []byte) error {
	err := j.first(ctx, data)
	if failed := j.dropDraft(ctx); failed != nil {
		warn(req, "the draft of a record stays", "error", failed.Error())
	}
	if err != nil {
		return err
	}
	if err = netconf.Before(ctx, "record sync folder "+r.Dir); err == nil {
		err = syncFolder(r.Dir)
	}
	if err == nil {
		return nil
	}
	if removed := remove(context.WithoutCancel(ctx), j.key(), j.path); removed != nil {
		err = fmt.Errorf("%w; it could not be removed: %w", err, removed)
	}
	return err
}

// first writes the first line and links the file to its name.
func (j *journal) first(ctx context.Context, data []byte) error {
	if err := netconf.Before(ctx, "record write "+j.key()); err != nil {
		return err
	}
	if err := j.append(data); err != nil {
		return err
	}
	if err := netconf.Before(ctx, "record sync "+j.key()); err != nil {
		return err
	}
	if err := j.f.Sync(); err != nil {
		return err
	}
	if err := netconf.Before(ctx, "record link "+j.key()); err != nil {
		return err
	}
	err := os.Link(j.draft(), j.path)
	switch {
	case flock.StillAt(j.f, j.path): // also where a network file system repeated what had been done
		return nil
	case err == nil, errors.Is(err, fs.ErrExist): // without locks, another one's draft may have been linked
		return errAttached
	}
	return err
}

// dropDraft removes the draft's name, if the file under it is this one.
func (j *journal) dropDraft(ctx context.Context) error {
	if !flock.StillAt(j.f, j.draft()) {
		return nil
	}
	return remove(context.WithoutCancel(ctx), j.key()+draftEnding, j.draft())
}

// sweep takes the draft of a killed ADD, or SetResult, away. One that an ADD is at work on is held, and stays.
func (r Records) sweep(ctx context.Context, key string) error {
	path := filepath.Join(r.Dir, key+draftEnding)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return removeAll(ctx, key+draftEnding, path)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() // nothing was written
	taken, err := flock.Try(f)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("lock %q: %w", path, err)
	}
	if !taken || !flock.StillAt(f, path) { // without locks nobody can know, and the next ADD takes it away
		return nil
	}
	return remove(ctx, key+draftEnding, path)
}

// sweepOwn is sweep for a DEL, which no draft keeps from its end.
func (r Records) sweepOwn(ctx context.Context, req *netconf.Request) {
	o := ownerOf(req)
	if o.check() != nil {
		return
	}
	if err := r.sweep(context.WithoutCancel(ctx), o.key()); err != nil {
		warn(req, "what a killed call has left of a record stays", "error", err.Error())
	}
}

// sweepAll takes away what killed ADDs of a network have left.
func (r Records) sweepAll(ctx context.Context, network string) error {
	files, err := os.ReadDir(r.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return netconf.Errorf(netconf.CodeBadStore, "records: %w", err)
	}
	var errs []error
	for _, file := range files {
		key, is := strings.CutSuffix(file.Name(), draftEnding)
		if !is || !strings.HasPrefix(key, network+":") {
			continue
		}
		if err := r.sweep(ctx, key); err != nil {
			errs = append(errs, netconf.Errorf(netconf.CodeBadStore, "records: what a killed ADD has left: %w", err))
		}
	}
	return netconf.Join(errs...)
}
