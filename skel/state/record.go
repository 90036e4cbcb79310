package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cnikit/cnikit/netconf"
)

const (
	version = 1                 // of the layout of a file
	maxFile = netconf.MaxConfig // bytes; what is larger is no record
)

// Record is what is kept for one attachment. It is a netconf.Recorder; errors carry code 105. The file is there
// while it has entries.
type Record struct {
	ctx     context.Context // for the fault hook; never ends
	of      Attachment
	base    string // the path of the files without their endings
	command netconf.Command
	warn    func(msg string, args ...any)

	mu     sync.Mutex        // a step that was left behind and the rollback may come together
	before map[string][]byte // by each key that was saved here, what it was before; nil: nothing
	gone   map[string]bool   // what was forgotten, where the file could not be written
	warned bool              // of what cannot be read
	stuck  bool              // it was warned of what cannot be written
}

var _ netconf.Recorder = (*Record)(nil)

// file is the layout of a file.
type file struct {
	Version    int               `json:"version"`
	Attachment Attachment        `json:"attachment"`
	Entries    map[string][]byte `json:"entries"`

	instead error // of one that could not be read: why; it may not be replaced
}

// errForeign is a record of another attachment.
var errForeign = errors.New("it is another attachment's")

// damage is a file that is no record.
type damage struct{ error }

// Attachment says whose the record is. In one that came from List and cannot be read, ContainerID and IfName are
// empty where the file's name does not tell them.
func (r *Record) Attachment() Attachment { return r.of }

// Key is the name under which the record is filed: Attachment's own, also where that is not known whole.
func (r *Record) Key() string { return filepath.Base(r.base) }

// Save keeps data under key, in place of what was there.
func (r *Record) Save(key string, data []byte) error {
	return r.change(func(entries map[string][]byte) (changed bool) {
		if _, again := r.before[key]; !again {
			if r.before == nil {
				r.before = map[string][]byte{}
			}
			r.before[key] = entries[key]
		}
		entries[key] = append([]byte{}, data...) // never nil
		delete(r.gone, key)
		return true
	})
}

// Forget drops key. On DEL and GC a file that cannot be written (a full disk, one that is read-only) is a warning: key is
// gone for this Record, and the file goes with Remove, which needs no room, or is left for a later DEL or GC. To fail for
// it would be to fail for ever.
func (r *Record) Forget(key string) error {
	err := r.change(func(entries map[string][]byte) (changed bool) {
		_, changed = entries[key]
		delete(entries, key)
		return changed
	})
	if err == nil || !r.lenient() {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone == nil {
		r.gone = map[string]bool{}
	}
	r.gone[key] = true
	if !r.stuck {
		r.stuck = true
		r.warn("the state cannot be written, goes on without", "error", err.Error())
	}
	return nil
}

// lenient tells whether the verb must not fail for a record.
func (r *Record) lenient() bool { return r.command == netconf.Del || r.command == netconf.GC }

// Undo takes back what was saved through this Record, for an ADD that was undone: what was there before is
// there again, for in a second ADD it is the live attachment's. What was forgotten since stays forgotten.
func (r *Record) Undo() error {
	if !r.touched() {
		return nil
	}
	return r.change(func(entries map[string][]byte) (changed bool) {
		for key, data := range r.before {
			if _, there := entries[key]; !there {
				continue
			}
			if entries[key] = data; data == nil {
				delete(entries, key)
			}
			changed = true
		}
		return changed
	})
}

func (r *Record) touched() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.before) > 0
}

// Load returns what was saved under key, nil if nothing was.
func (r *Record) Load(key string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.read()
	if err != nil {
		return nil, r.failed(err)
	}
	return f.Entries[key], nil
}

// Remove takes the record away, once the attachment is gone, with what else is there under its name. That of
// another attachment is left alone.
func (r *Record) Remove() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.decode(); errors.Is(err, errForeign) {
		return nil
	}
	var errs []error
	for _, end := range []string{ending, beside, aside} {
		if _, err := os.Lstat(r.base + end); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := netconf.Before(r.ctx, "state remove "+r.Key()+end)
		if err == nil {
			if err = remove(r.base + end); err != nil && isFolder(r.base+end) {
				r.complain("a folder stands in the place of the state, and is moved aside", err, nil)
				err = r.setAside(end)
			}
		}
		errs = append(errs, err)
	}
	return r.failed(netconf.Join(errs...))
}

// failed makes an error that names the file.
func (r *Record) failed(err error) error {
	if err == nil {
		return nil
	}
	return netconf.Errorf(netconf.CodeBadStore, "state %q: %w", r.base+ending, err)
}

// change reads the entries, lets f change them, and writes them if it did.
func (r *Record) change(f func(entries map[string][]byte) (changed bool)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, err := r.read()
	if err == nil && f(s.Entries) {
		err = r.write(s)
	}
	return r.failed(err)
}

// read returns the record, an empty one where there is none, or none that can be used.
func (r *Record) read() (*file, error) {
	f, err := r.decode()
	lenient := r.lenient()
	instead := &file{Version: version, Attachment: r.of, Entries: map[string][]byte{}}
	var damaged damage
	switch {
	case err == nil:
		for key := range r.gone {
			delete(f.Entries, key)
		}
		return f, nil
	case errors.Is(err, fs.ErrNotExist):
	case errors.As(err, &damaged) && (lenient || r.command == netconf.Add):
		asideErr := r.setAside(ending)
		if asideErr != nil && !lenient {
			return nil, fmt.Errorf("%w; it could not be moved aside: %w", err, asideErr)
		}
		instead.instead = asideErr
		r.complain("the state cannot be used, goes on without it", err, asideErr)
	case lenient:
		instead.instead = err
		r.complain("the state cannot be read, goes on without it", err, nil)
	default:
		return nil, err
	}
	return instead, nil
}

// complain warns, once.
func (r *Record) complain(msg string, err, asideErr error) {
	if r.warned {
		return
	}
	r.warned = true
	args := []any{"file", r.base + ending, "error", err.Error()}
	if asideErr != nil {
		args = append(args, "aside", asideErr.Error())
	}
	r.warn(msg, args...)
}

// decode reads the file.
func (r *Record) decode() (*file, error) {
	f, err := readFile(r.base + ending)
	switch {
	case err != nil:
		return nil, err
	case f.Attachment == r.of:
		return f, nil
	}
	if _, unique := fromKey(r.Key()); unique {
		return nil, damage{fmt.Errorf("it is of %q", f.Attachment)} // somebody has put it there
	}
	return nil, fmt.Errorf("%w: of %q", errForeign, f.Attachment)
}

// readFile reads a record of anybody's.
func readFile(path string) (*file, error) {
	info, err := os.Lstat(path) // a FIFO would be waited for
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, damage{errors.New("not a regular file")}
	case info.Size() > maxFile:
		return nil, damage{fmt.Errorf("%d bytes: no record is that large", info.Size())}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &file{}
	err = json.Unmarshal(data, f)
	switch {
	case f.Version > version: // which may be why it does not decode
		return nil, damage{fmt.Errorf("its layout has version %d, of a newer plugin: expected %d", f.Version, version)}
	case err != nil:
		return nil, damage{err}
	case f.Version != version:
		return nil, damage{errors.New("without a version")}
	case f.Entries == nil:
		return nil, damage{errors.New("without entries")}
	}
	return f, nil
}

// identify finds out whose a file is that was found in the folder, and whether it is of the plugin's network.
func (r *Record) identify(plugin, network string) bool {
	key := r.Key()
	of, ok := fromKey(key)
	if !ok {
		f, err := readFile(r.base + ending)
		if err == nil {
			of, ok = f.Attachment, f.Attachment.Key() == key
		} else {
			of, ok = Attachment{Plugin: plugin, Network: network}, strings.HasPrefix(key, plugin+":"+network+":")
		}
	}
	r.of = of
	return ok && of.Plugin == plugin && of.Network == network
}

// setAside moves what is no record, or no file that a writer left, out of the way.
func (r *Record) setAside(end string) error {
	to := r.spare(end)
	if err := netconf.Before(r.ctx, "state rename "+r.Key()+end); err != nil {
		return err
	}
	if isFolder(r.base+end) && remove(r.base+end) == nil { // an empty one is nothing to keep
		return nil
	}
	return os.Rename(r.base+end, to)
}

// spare is where it goes. A file replaces the last one, NAME.state.bad, and goes with the record; a folder, and what a
// folder is in the way of, gets a name that is free, NAME.state.bad.1, and stays: who has put it there has put something
// into it, perhaps, and without a way around it no ADD of the attachment would succeed again.
func (r *Record) spare(end string) string {
	to := r.base + aside
	if !isFolder(r.base+end) && !isFolder(to) {
		return to
	}
	for n := 1; ; n++ {
		free := fmt.Sprintf("%s.%d", to, n)
		if _, err := os.Lstat(free); err != nil {
			return free
		}
	}
}

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// write replaces the file; without entries there is none.
func (r *Record) write(f *file) error {
	if f.instead != nil {
		return f.instead
	}
	if err := netconf.Before(r.ctx, "state write "+r.Key()+ending); err != nil {
		return err
	}
	if len(f.Entries) == 0 {
		if err := remove(r.base + ending); err != nil {
			return err
		}
		return remove(r.base + beside)
	}
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if len(data) > maxFile {
		return fmt.Errorf("%d bytes: a record has at most %d", len(data), maxFile)
	}
	if err := os.MkdirAll(filepath.Dir(r.base), 0o700); err != nil {
		return err
	}
	return r.replace(data)
}

// replace writes a file beside and moves it into place. Nothing is synced: what a crash of the machine loses, it
// loses with the attachment.
func (r *Record) replace(data []byte) error {
	f, err := r.create()
	if err != nil {
		return err
	}
	n, err := f.Write(data)
	if err == nil && n < len(data) {
		err = io.ErrShortWrite
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(r.base+beside, r.base+ending)
	}
	if err != nil {
		_ = remove(r.base + beside) // what went wrong is in err; what stays the next writer takes, or Remove
	}
	return err
}

// create makes the file beside. One that is there is a killed writer's; a folder with something in it is somebody else's.
func (r *Record) create() (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(r.base+beside, flags, 0o600)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if err := remove(r.base + beside); err != nil {
		if err := r.setAside(beside); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(r.base+beside, flags, 0o600)
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
