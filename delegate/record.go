package delegate

import (
	"bytes"
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

	"github.com/cnikit/cnikit/internal/filekey"
	"github.com/cnikit/cnikit/internal/flock"
	"github.com/cnikit/cnikit/netconf"
)

// The file of a record. Its first line says what is attached; it is written, and synced to the disk with its
// folder, before any plugin runs. Until then the file has another name (draftEnding): under its own it is whole. Each further line is what became of one attachment, in one write that is
// not synced: what a crash of the machine takes of them costs a prevResult, or a DEL that runs twice. A line that
// was cut off is no JSON and counts as not written; the first line is the file's own proof that it is whole.
//
// (A file that is written anew at each step and moved into place has to be synced each time, or a crash leaves an
// empty one and all is lost: a sync is 1 to 5 ms on a disk, of which a pod with four networks would wait for five.)

const (
	recordVersion  = 1                 // of the layout
	maxRecord      = netconf.MaxConfig // bytes; what is larger is no record
	maxAttachments = 1000              // of a record; 16 MB of {}, would take half a gigabyte
	recordEnding   = ".record"
	draftEnding    = recordEnding + ".new" // is being written; what a killed ADD has left
	badEnding      = recordEnding + ".bad" // could not be read
	maxBad         = 16                    // of those in a folder; the oldest go
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

// key names a record's file, see filekey.
func (o owner) key() string { return filekey.Join(o.Network, o.ContainerID, o.IfName) }

// ownerOfKey reads an owner from its key; not ok if that has a hash.
func ownerOfKey(key string) (o owner, ok bool) {
	parts, ok := filekey.Split(key, 3)
	if !ok {
		return owner{}, false
	}
	return owner{parts[0], parts[1], parts[2]}, true
}

// header is the first line.
type header struct {
	Version int `json:"version"`
	owner
	Netns       string  `json:"netns,omitempty"`
	Args        string  `json:"cniArgs,omitempty"` // in their order: Record.Args has none
	Attachments entries `json:"attachments"`
}

// entries are read one by one, so that garbage does not take more room than maxAttachments.
type entries []entry

// UnmarshalJSON reads the list.
func (e *entries) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return json.Unmarshal(text, (*[]entry)(e)) // says what it is instead
	}
	for *e = nil; d.More(); {
		if len(*e) == maxAttachments {
			return fmt.Errorf("more than %d attachments", maxAttachments)
		}
		var one entry
		if err := d.Decode(&one); err != nil {
			return err
		}
		*e = append(*e, one)
	}
	return nil
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

func (r Records) journal(o owner) *journal {
	return &journal{owner: o, path: filepath.Join(r.Dir, o.key()+recordEnding)}
}

// draft is the path of the file until its first line is written.
func (j *journal) draft() string { return strings.TrimSuffix(j.path, recordEnding) + draftEnding }

func (j *journal) release() {
	if j.f != nil {
		_ = j.f.Close() // what was written counts or does not when it was written
		j.f = nil
	}
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
	if err == nil && !flock.StillAt(j.f, j.path) { // an ADD without a record would be one without a DEL
		err = errors.New("it was removed, or replaced, while it was in use")
	}
	return j.failed(err)
}

// remove takes the file away, under both of its names where a killed ADD has left it two.
func (j *journal) remove(ctx context.Context) error {
	if !flock.StillAt(j.f, j.path) {
		return nil // it is gone, or another's
	}
	ctx = context.WithoutCancel(ctx)
	if draft := j.draft(); flock.StillAt(j.f, draft) {
		if err := remove(ctx, j.key()+draftEnding, draft); err != nil {
			return j.failed(err)
		}
	}
	return j.failed(remove(ctx, j.key(), j.path))
}

// remove takes a file away, which somebody else may have done.
func remove(ctx context.Context, name, path string) error {
	if err := netconf.Before(ctx, "record remove "+name); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (j *journal) failed(err error) error {
	if err == nil {
		return nil
	}
	return netconf.Errorf(netconf.CodeBadStore, "record %q: %w", j.path, err)
}
