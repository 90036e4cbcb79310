package delegate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cnikit/cnikit/internal/flock"
	"github.com/cnikit/cnikit/netconf"
)

// The file of a record. Its first line says what is attached; it is written, and synced to the disk with its
// folder, before any plugin runs. Each further line is what became of one attachment, in one write that is
// not synced: what a crash of the machine takes of them costs a prevResult, or a DEL that runs twice. A line that
// was cut off is no JSON and counts as not written; the first line is the file's own proof that it is whole.
//
// (A file that is written anew at each step and moved into place has to be synced each time, or a crash leaves an
// empty one and all is lost: a sync is 1 to 5 ms on a disk, of which a pod with four networks would wait for five.)

const (
	recordVersion = 1                 // of the layout
	maxRecord     = netconf.MaxConfig // bytes; what is larger is no record
	recordEnding  = ".record"
	badEnding     = recordEnding + ".bad" // could not be read
	maxBad        = 16                    // of those in a folder; the oldest go
	maxRecordKey  = 200                   // bytes of a file's name, which may have 255, with what stands behind it
)

// owner says whose a record is: the call's own network, container and interface.
type owner struct {
	Network     string `json:"network"`
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifname"`
}

func ownerOf(req *netconf.Request) owner {
	return owner{req.Network.Name, req.ContainerID, req.IfName}
}

// check says whether there can be a record of this owner. A DEL may bring any text.
func (o owner) check() error {
	if err := netconf.CheckName(o.Network); err != nil {
		return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "network name: %w", err)
	}
	if err := netconf.CheckName(o.ContainerID); err != nil {
		return netconf.Errorf(netconf.CodeInvalidEnvironment, "container ID: %w", err)
	}
	if err := netconf.CheckIfName(o.IfName); err != nil {
		return netconf.Errorf(netconf.CodeInvalidEnvironment, "interface name: %w", err)
	}
	return nil
}

// key names a record's file. None of the parts can have a ':', so two owners cannot share one, unless the name
// would be too long, and ends in a hash.
func (o owner) key() string {
	name := o.Network + ":" + o.ContainerID + ":" + o.IfName
	if len(name) <= maxRecordKey {
		return name
	}
	h := fnv.New64a()
	h.Write([]byte(name)) // a hash's never fails
	return fmt.Sprintf("%s:%016x", name[:maxRecordKey-17], h.Sum64())
}

// ownerOfKey reads an owner from its key; not ok if that has a hash, which is longer than the
// name of an interface can be.
func ownerOfKey(key string) (o owner, ok bool) {
	parts := strings.Split(key, ":")
	if len(parts) != 3 || len(parts[2]) > 15 {
		return owner{}, false
	}
	return owner{parts[0], parts[1], parts[2]}, true
}

// header is the first line.
type header struct {
	Version int `json:"version"`
	owner
	Netns       string       `json:"netns,omitempty"`
	Args        netconf.Args `json:"args,omitempty"`
	Attachments []entry      `json:"attachments"`
}

type entry struct {
	IfName        string                     `json:"ifname"`
	Network       json.RawMessage            `json:"network"` // Network.Bytes
	Args          netconf.Args               `json:"args,omitempty"`
	RuntimeConfig map[string]json.RawMessage `json:"runtimeConfig,omitempty"`
}

// event is a further line.
type event struct {
	IfName string          `json:"ifname"`
	Result json.RawMessage `json:"result,omitempty"`
	Gone   bool            `json:"gone,omitempty"`
}

// line encodes a line. It takes white space out of the configurations in it, and changes no other byte.
func line(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// damage is a file that is no record, and will not become one.
type damage struct{ error }

// journal is the open file of a record, which nobody else has while this process has it.
type journal struct {
	owner
	path string
	f    *os.File
	mu   sync.Mutex // several ADDs may end at once
	size int
}

func (j *journal) close() {
	if j.f != nil {
		_ = j.f.Close() // what was written counts or does not when it was written
	}
}

// create makes the record of an ADD, on the disk when it returns. The error says by netconf.Unchanged that there is
// nothing of this call.
func (r Records) create(ctx context.Context, o owner, head header) (*journal, error) {
	j := &journal{owner: o, path: filepath.Join(r.Dir, o.key()+recordEnding)}
	fail := func(err error) (*journal, error) {
		code := netconf.CodeBadStore
		if ctx.Err() != nil {
			code = netconf.CodeTryAgainLater
		}
		return nil, netconf.Unchanged(netconf.Errorf(code, "record %q: %w", j.path, err))
	}
	data, err := line(head)
	if err != nil {
		return fail(err)
	}
	if len(data) > maxRecord {
		return fail(fmt.Errorf("%d bytes: a record has at most %d", len(data), maxRecord))
	}
	if err := netconf.Before(ctx, "record write "+o.key()); err != nil {
		return fail(err)
	}
	if err := makeFolder(r.Dir); err != nil {
		return fail(err)
	}
	j.f, err = os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("record %q: %w: container %q is attached, a DEL is due first", j.path, netconf.ErrExists, o.ContainerID)
	}
	if err != nil {
		return fail(err)
	}
	// A GC may look at the file at this moment; a DEL may find it empty and move it away.
	if err := lockOpen(ctx, j.f, j.path); err != nil {
		j.close()
		return nil, netconf.Unchanged(netconf.Errorf(netconf.CodeTryAgainLater, "record %q: another call of this attachment is running: %w", j.path, err))
	}
	if err := j.first(data, r.Dir); err != nil {
		if removed := os.Remove(j.path); removed != nil {
			err = fmt.Errorf("%w; it could not be removed: %w", err, removed)
		}
		j.close()
		return fail(err)
	}
	return j, nil
}

// first writes the first line.
func (j *journal) first(data []byte, dir string) error {
	if err := j.append(data); err != nil {
		return err
	}
	if err := j.f.Sync(); err != nil {
		return err
	}
	return syncFolder(dir)
}

func (j *journal) append(data []byte) error {
	if j.size+len(data) > maxRecord {
		return fmt.Errorf("%d bytes: a record has at most %d", j.size+len(data), maxRecord)
	}
	n, err := j.f.Write(data)
	j.size += n
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	return err
}

// makeFolder makes the folder of the records, which only root may read: configurations may hold secrets.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(dir))
}

// note writes a further line. The context's end does not matter: what it tells has happened.
func (j *journal) note(ctx context.Context, e event) error {
	data, err := line(e)
	if err == nil {
		err = netconf.Before(context.WithoutCancel(ctx), "record note "+j.key()+" "+e.IfName)
	}
	if err == nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		err = j.append(append([]byte("\n"), data...)) // so that one which was cut off spoils no other
	}
	return j.failed(err)
}

// remove takes the file away.
func (j *journal) remove(ctx context.Context) error {
	err := netconf.Before(context.WithoutCancel(ctx), "record remove "+j.key())
	if err == nil {
		err = os.Remove(j.path)
	}
	return j.failed(err)
}

func (j *journal) failed(err error) error {
	if err == nil {
		return nil
	}
	return netconf.Errorf(netconf.CodeBadStore, "record %q: %w", j.path, err)
}

// hold opens the record of an owner when nobody else has it, and waits for that until ctx ends (code 11). A holder that
// was killed holds nothing. The error Is fs.ErrNotExist where there is no record.
func (r Records) hold(ctx context.Context, o owner) (*journal, error) {
	j := &journal{owner: o, path: filepath.Join(r.Dir, o.key()+recordEnding)}
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
		switch err = lockOpen(ctx, j.f, j.path); {
		case err == nil:
			return j, nil
		case !errors.Is(err, errReplaced):
			j.close()
			return nil, netconf.Errorf(netconf.CodeTryAgainLater, "record %q: another call of this attachment is running: %w", j.path, err)
		}
		j.close() // its holder has just removed it
	}
}

// errReplaced is a file that is no longer the one of its name.
var errReplaced = errors.New("the file was replaced")

// lockOpen locks a file that was just opened. It polls, as a blocking lock cannot be called off: at first every
// millisecond, then ever less often up to 25 ms. Where there are no locks the file is taken as it is.
func lockOpen(ctx context.Context, f *os.File, path string) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 25*time.Millisecond) {
		taken, err := flock.Try(f)
		switch {
		case err != nil: // this file system has none
			return nil
		case !taken:
		case !flock.StillAt(f, path):
			return errReplaced
		default:
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ended(ctx)
		}
	}
}

// setAside moves a file that is no record out of the way, for a person to look at.
func (r Records) setAside(ctx context.Context, j *journal) error {
	err := netconf.Before(context.WithoutCancel(ctx), "record rename "+j.key())
	if err == nil {
		err = os.Rename(j.path, filepath.Join(r.Dir, j.key()+badEnding))
	}
	if err != nil {
		return j.failed(err)
	}
	return r.prune()
}

// prune removes the oldest of what was set aside.
func (r Records) prune() error {
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
		errs = append(errs, os.RemoveAll(o.path)) // somebody may have made a folder of the name
	}
	return netconf.Join(errs...)
}
