package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/internal/flock"
	"github.com/cnikit/cnikit/netconf"
)

// Records is a folder that remembers what each container was attached to, so that DEL, CHECK and GC need nothing but
// the folder: not the API that the networks came from, not the files they were read from.
//
// There is one file for each call's own network, container and interface (Network.Name, ContainerID and IfName of the
// request), named by them, readable for its owner alone. It is there, on the disk, before the first plugin runs, and
// is gone when all is detached; an ADD that was killed on the way to it has done nothing, and the next one works. It should be in a folder that outlives a reboot, as the leases do that IPAM
// plugins keep in /var/lib/cni.
//
// While an ADD or a DEL is at work no other call gets at the record, in this process or another: a second DEL
// waits, up to its context's end (code 11), and a second ADD is refused. What was killed holds nothing.
type Records struct {
	Dir string // made when it is needed; its parent folder is too
}

// check says that there is no folder: one without a name would be the working directory's.
func (r Records) check() error {
	if r.Dir == "" {
		return netconf.Errorf(netconf.CodeBadStore, "records: Dir is not set")
	}
	return nil
}

// Record is what is known of one call's attachments.
type Record struct {
	Network, ContainerID, IfName string // the call's own

	Netns       string       // of the ADD. A DEL goes by its own, which is empty where the namespace is gone
	Args        netconf.Args // CNI_ARGS of the ADD
	Attachments []Attachment // those that are not detached, with their Result where there is one
	Path        string       // the file
	Busy        bool         // a call is at work on it
	Bad         []error      // attachments that cannot be read
	Err         error        // from List: why it cannot be read at all; then the name of the file tells whose it is, if at all

	args string // Args as they came
	lost int    // lines that were cut off
}

// request is a request with the CNI_ARGS of the record and its own, of those with the same key its own.
func (rec Record) request(req *netconf.Request, verb netconf.Command) *netconf.Request {
	own := req.As(verb)
	_ = own.SetArgs(rec.args + ";" + req.ArgsText()) // what is none in a damaged record is left out
	return own
}

// ErrNoRecord is in the error of a Load or Check of what was never attached, or is detached.
var ErrNoRecord = errors.New("there is no record of the container's networks")

// ErrBadRecord is in the error of a Load or Check where the file cannot be used: it is empty, cut off, garbage, another
// call's, or of a newer version. A DEL moves it aside.
var ErrBadRecord = errors.New("the record cannot be used")

// Add writes the record and runs set's Add. Each answer is recorded as it comes; what the DELs of a failed ADD leave
// behind stays in the record, for the next DEL.
//
// A container that has a record is refused with an error that Is netconf.ErrExists; so is one whose record cannot
// be used. A record that cannot be written, because the disk is full, say, is an error with code 105. In all these
// cases, as where set or request are wrong, nothing has run and the error says so by netconf.Unchanged.
func (r Records) Add(ctx context.Context, set Set, req *netconf.Request) ([]Result, error) {
	req = req.As(netconf.Add)
	if err := netconf.Join(r.check(), ownerOf(req).check(), set.check(req)); err != nil {
		return nil, netconf.Unchanged(err)
	}
	head, err := newHeader(set, req)
	if err != nil {
		return nil, netconf.Unchanged(err)
	}
	j, err := r.create(ctx, req, head)
	if err != nil {
		return nil, err
	}
	defer j.release()
	left := len(set.Attachments)
	results, err := set.add(ctx, req, notes{
		added: func(place int, result Result) error {
			return j.note(ctx, event{IfName: set.Attachments[place].IfName, Result: result.JSON})
		},
		gone: func(place int) {
			left--
			j.strike(ctx, req, set.Attachments[place].IfName)
		},
	})
	if err != nil && left == 0 {
		j.drop(ctx, req)
	}
	return results, err
}

// Unattached is nil where Add would not be refused for a record that is there, and else that refusal: an error that
// Is netconf.ErrExists. It is for a caller that has work to do before Add, and must not do it for a container that lives.
// It waits for nobody and asks nothing of the fault hook; a call at the same time may still be first, which Add finds.
func (r Records) Unattached(req *netconf.Request) error {
	o := ownerOf(req)
	if err := netconf.Join(r.check(), o.check()); err != nil {
		return netconf.Unchanged(err)
	}
	j := r.journal(o)
	switch _, err := os.Lstat(j.path); {
	case err == nil:
		return netconf.Unchanged(fmt.Errorf("record %q: container %q: %w", j.path, o.ContainerID, errAttached))
	case !errors.Is(err, fs.ErrNotExist):
		return netconf.Unchanged(j.failed(err))
	}
	return nil
}

// strike notes that an attachment is gone. If it cannot, a later DEL runs once more, which does no harm.
func (j *journal) strike(ctx context.Context, req *netconf.Request, ifname string) {
	if err := j.note(ctx, event{IfName: ifname, Gone: true}); err != nil {
		warn(req, "what was detached stays in the record", "interface", ifname, "error", err.Error())
	}
}

// drop removes a record of which nothing is left. If it cannot, GC finds it.
func (j *journal) drop(ctx context.Context, req *netconf.Request) {
	if err := j.remove(ctx); err != nil {
		warn(req, "all is detached, and the record stays", "error", err.Error())
	}
}

// Load reads the record of the request's attachment. Errors carry code 105, or 11 for one that another call is at
// work on until ctx ends; they are ErrNoRecord, ErrBadRecord, or the system's.
func (r Records) Load(ctx context.Context, req *netconf.Request) (*Record, error) {
	j, rec, err := r.open(ctx, req)
	if j != nil {
		j.release()
	}
	if err != nil {
		return nil, err
	}
	return &rec, nil
}

// open holds and reads a record. One that cannot be used is held too: else it might be another one by the time it
// is moved aside.
func (r Records) open(ctx context.Context, req *netconf.Request) (*journal, Record, error) {
	if err := r.check(); err != nil {
		return nil, Record{}, err
	}
	o := ownerOf(req)
	none := netconf.Errorf(netconf.CodeBadStore, "%w: container %q, interface %q, in %q", ErrNoRecord, o.ContainerID, o.IfName, r.Dir)
	if o.check() != nil {
		return nil, Record{}, none
	}
	j, err := r.hold(ctx, req)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Record{}, none
	}
	var rec Record
	if err == nil {
		rec, err = j.read()
	}
	var bad damage
	switch {
	case err == nil:
		return j, rec, nil
	case errors.As(err, &bad), errors.Is(err, errForeign):
		return j, Record{}, netconf.Errorf(netconf.CodeBadStore, "%w", &unusable{j.path, err})
	case j != nil:
		j.release()
		err = j.failed(err)
	}
	return nil, Record{}, err
}

// unusable is a record that is damaged, or foreign.
type unusable struct {
	path string
	why  error
}

func (e *unusable) Error() string        { return fmt.Sprintf("%q: %v: %v", e.path, ErrBadRecord, e.why) }
func (e *unusable) Unwrap() error        { return e.why }
func (e *unusable) Is(target error) bool { return target == ErrBadRecord }

// SetResult replaces the recorded result of one of the attachments, for a caller that changes what the plugins have
// made: it takes a default route away, say. Errors are those of Load, or that of the writing.
func (r Records) SetResult(ctx context.Context, req *netconf.Request, ifname string, result json.RawMessage) error {
	j, rec, err := r.open(ctx, req)
	if j != nil {
		defer j.release()
	}
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(rec.Attachments, func(a Attachment) bool { return a.IfName == ifname }) {
		return netconf.Errorf(netconf.CodeBadStore, "record %q has no interface %q", j.path, ifname)
	}
	if _, err := netconf.ParseResult(result, req.Network.CNIVersion); err != nil {
		return err
	}
	e := event{IfName: ifname, Result: result}
	if j.size+len(result) > maxGrown {
		return r.rewrite(ctx, req, j, e)
	}
	return j.note(ctx, e)
}

// Check runs CHECK of all that is recorded of the request's attachment. Errors are those of Load and of Set.Check.
func (r Records) Check(ctx context.Context, plugins Registry, req *netconf.Request) error {
	rec, err := r.Load(ctx, req)
	if err != nil {
		return err
	}
	own := rec.request(req, netconf.Check)
	return netconf.Join(append(slices.Clone(rec.Bad), Set{Attachments: rec.Attachments, Plugins: plugins}.Check(ctx, own))...)
}

// Del runs DEL of all that is recorded of the request's attachment, in reverse, with the results that ADD had. The
// namespace is the request's; CNI_ARGS are those of the ADD and the request's, of those with the same key the
// request's. What succeeds is struck from the record, the rest stays for the next DEL; the errors are joined.
//
// Also what an ADD did not come to before it was killed gets its DEL, since nobody knows. Without a record there is
// nothing to do. One that cannot be used is moved aside, to NAME.bad (of which there are at most 16), warned about,
// and no error, for no retry will mend it: who can find out otherwise what was attached asks Load before. An error with
// code 105 is a file that cannot be read just now.
func (r Records) Del(ctx context.Context, plugins Registry, req *netconf.Request) error {
	req = req.As(netconf.Del)
	j, rec, err := r.open(ctx, req)
	if j != nil {
		defer j.release()
	}
	switch {
	case errors.Is(err, ErrNoRecord):
		r.sweepOwn(ctx, req)
		return nil
	case errors.Is(err, ErrBadRecord):
		r.dispose(ctx, req, j, err)
		return nil
	case err != nil:
		return err
	}
	return r.del(ctx, plugins, req, j, rec)
}

func (r Records) del(ctx context.Context, plugins Registry, req *netconf.Request, j *journal, rec Record) error {
	own := rec.request(req, netconf.Del)
	if rec.lost > 0 {
		warn(req, "lines of the record were cut off, it is used without them", "file", rec.Path, "lines", rec.lost)
	}
	set := Set{Attachments: rec.Attachments, Plugins: plugins}
	err := set.del(ctx, own, notes{gone: func(place int) { j.strike(ctx, req, set.Attachments[place].IfName) }})
	switch {
	case err != nil:
	case len(rec.Bad) > 0:
		r.dispose(ctx, req, j, &unusable{j.path, netconf.Join(rec.Bad...)})
	default:
		j.drop(ctx, req)
		r.sweepOwn(ctx, req)
	}
	return err
}

// dispose moves a record aside that is of no use. That of another attachment, under the hash of a long name, is left.
func (r Records) dispose(ctx context.Context, req *netconf.Request, j *journal, why error) {
	if errors.Is(why, errForeign) {
		warn(req, "DEL goes on without a record", "error", why.Error())
		return
	}
	args := []any{"error", why.Error()}
	if err := r.setAside(ctx, j); err != nil {
		args = append(args, "aside", err.Error())
	}
	warn(req, "what the container was attached to is not known, its DEL goes on without it", args...)
}

// List returns the records of a network (the call's own, not those that are recorded), of all where it is empty, in the
// order of the files' names: also those that cannot be used or were moved aside, with Err. A folder that is not there
// has none. An error, with code 105, is the folder's.
func (r Records) List(network string) ([]Record, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(r.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, netconf.Errorf(netconf.CodeBadStore, "records: %w", err)
	}
	var all []Record
	for _, file := range files {
		key, good := strings.CutSuffix(file.Name(), recordEnding)
		if !good {
			var bad bool
			if key, bad = strings.CutSuffix(file.Name(), badEnding); !bad {
				continue
			}
		}
		rec := r.look(key, file.Name())
		if !good && rec.Err == nil {
			rec.Err = ErrBadRecord
		}
		if errors.Is(rec.Err, fs.ErrNotExist) { // detached meanwhile
			continue
		}
		if network == "" || rec.Network == network || rec.Network == "" && strings.HasPrefix(key, network+":") {
			all = append(all, rec)
		}
	}
	return all, nil
}

// look reads a record without holding it.
func (r Records) look(key, name string) Record {
	path := filepath.Join(r.Dir, name)
	o, _ := ownerOfKey(key)
	failed := func(err error) Record {
		return Record{Network: o.Network, ContainerID: o.ContainerID, IfName: o.IfName, Path: path, Err: err}
	}
	info, err := os.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: not a regular file", ErrBadRecord)
	}
	if err != nil {
		return failed(err)
	}
	f, err := os.Open(path)
	if err != nil {
		return failed(err)
	}
	defer f.Close() // it was only read
	idle, lockErr := flock.Idle(f)
	busy := !idle && !errors.Is(lockErr, errors.ErrUnsupported) // what nobody knows counts as living
	rec, err := readRecord(f, path)
	if err == nil && busy && lockErr != nil {
		err = fmt.Errorf("lock: %w", lockErr)
	}
	if is := (owner{rec.Network, rec.ContainerID, rec.IfName}); err == nil && is.key() != key {
		err = fmt.Errorf("%w: it is of network %q, container %q, interface %q", ErrBadRecord, is.Network, is.ContainerID, is.IfName)
	}
	if err != nil {
		rec = failed(err)
	}
	rec.Busy = busy
	return rec
}

// Stale is List without the records of what lives, as the runtime lists it for GC, and without those that were
// moved aside.
func (r Records) Stale(network string, living []types.GCAttachment) ([]Record, error) {
	all, err := r.List(network)
	return slices.DeleteFunc(all, func(rec Record) bool {
		return rec.lives(living) || strings.HasSuffix(rec.Path, badEnding)
	}), err
}

func (rec Record) lives(living []types.GCAttachment) bool {
	return slices.Contains(living, types.GCAttachment{ContainerID: rec.ContainerID, IfName: rec.IfName})
}
