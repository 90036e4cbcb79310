package state

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/internal/filekey"
	"github.com/cnikit/cnikit/netconf"
)

// Attachment says whose a record is.
type Attachment struct {
	Plugin      string `json:"plugin"`      // the plugin's name: two plugins of a chain each have a record
	Network     string `json:"network"`     // the network's name
	ContainerID string `json:"containerID"` // CNI_CONTAINERID
	IfName      string `json:"ifname"`      // CNI_IFNAME
}

// Key is the attachment's name as that of a file, without a folder: plugin:network:container:ifname. None of
// the parts can contain a ':' (netconf.Parse sees to it), so two attachments cannot share one. A name
// that would be too long ends in a hash of the whole; so does one with a part that is no name, as a DEL may
// bring it, whose configuration is not refused: "../x" is a path.
func (a Attachment) Key() string {
	parts := []string{a.Plugin, a.Network, a.ContainerID, a.IfName}
	valid := netconf.CheckName(a.Network) == nil && netconf.CheckName(a.ContainerID) == nil && netconf.CheckIfName(a.IfName) == nil
	switch plugin := netconf.CheckName(a.Plugin) == nil; {
	case plugin && valid:
		return filekey.Join(parts...)
	case plugin:
		return filekey.Hashed(a.Plugin, parts...)
	}
	return filekey.Hashed("", parts...)
}

// fromKey reads an attachment from its key; not ok if the key has a hash.
func fromKey(key string) (a Attachment, ok bool) {
	parts, ok := filekey.Split(key, 4)
	if !ok {
		return Attachment{}, false
	}
	return Attachment{parts[0], parts[1], parts[2], parts[3]}, true
}

// Store is a folder of records.
type Store struct {
	Dir string // made with the first record, readable for root alone
	// Warn is told what is wrong but no reason to fail, with key-value pairs as in log/slog; nil drops it.
	Warn func(msg string, args ...any)
}

// The ends of the names of an attachment's files.
const (
	ending = ".state"     // the record
	beside = ".state.new" // it is being written; what a killed writer left
	aside  = ".state.bad" // it could not be read
)

// Open returns the record of an attachment, which need not exist. command is the verb that is served: it
// decides what a record means that cannot be read (see the package comment). The context's fault hook is asked
// before each change; its end stops nothing, for a rollback comes after it.
func (s Store) Open(ctx context.Context, a Attachment, command netconf.Command) *Record {
	r := s.at(ctx, a.Key(), command)
	r.of = a
	return r
}

func (s Store) at(ctx context.Context, key string, command netconf.Command) *Record {
	warn := s.Warn
	if warn == nil {
		warn = func(string, ...any) {}
	}
	return &Record{ctx: context.WithoutCancel(ctx), base: filepath.Join(s.Dir, key), command: command, warn: warn}
}

// List returns the records of a plugin's network, in the order of their names: those that cannot be read
// too, and what a killed writer left. A store without a folder has none. A long name whose record cannot be read
// is not known to be of this network and is left out where not enough of it is left.
func (s Store) List(ctx context.Context, plugin, network string) ([]*Record, error) {
	return s.list(ctx, func(r *Record) bool { return r.identify(plugin, network) })
}

// Find returns the records of an attachment of any network, for a DEL whose configuration does not say which: a
// container has one interface of a name, so there is one at most, unless an older one was never deleted. What cannot be
// read is found by its file's name, where that is not too long to tell.
func (s Store) Find(ctx context.Context, plugin, containerID, ifname string) ([]*Record, error) {
	return s.list(ctx, func(r *Record) bool {
		of, ok := fromKey(r.Key())
		if f, err := readFile(r.base + ending); !ok && err == nil {
			of, ok = f.Attachment, f.Attachment.Key() == r.Key()
		}
		r.of = of
		return ok && of == Attachment{plugin, of.Network, containerID, ifname}
	})
}

func (s Store) list(ctx context.Context, wanted func(*Record) bool) ([]*Record, error) {
	names, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, netconf.Errorf(netconf.CodeBadStore, "state: %w", err)
	}
	var records []*Record
	seen := map[string]bool{}
	for _, n := range names {
		key, ok := cutEnding(n.Name())
		if !ok || seen[key] {
			continue
		}
		seen[key] = true
		if r := s.at(ctx, key, netconf.GC); wanted(r) {
			records = append(records, r)
		}
	}
	return records, nil
}

// cutEnding returns what stands before the ending of a file of ours.
func cutEnding(name string) (key string, ok bool) {
	for _, end := range []string{ending, beside, aside} {
		if key, ok := strings.CutSuffix(name, end); ok {
			return key, true
		}
	}
	return "", false
}

// Stale is List without the records of the attachments that live, as the runtime lists them for GC.
func (s Store) Stale(ctx context.Context, plugin, network string, living []types.GCAttachment) ([]*Record, error) {
	keys := make(map[string]bool, len(living))
	for _, a := range living {
		keys[Attachment{plugin, network, a.ContainerID, a.IfName}.Key()] = true
	}
	records, err := s.List(ctx, plugin, network)
	return slices.DeleteFunc(records, func(r *Record) bool { return keys[r.Key()] }), err
}
