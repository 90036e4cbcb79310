package skel

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cnikit/cnikit/netconf"
)

// stateVersion is of the layout of a state file.
const stateVersion = 1

// record is the Recorder that keeps an attachment's entries in one file, which is replaced whole: a
// reader sees the old one or the new one. The file is gone when the last entry is.
type record struct {
	path, name string
	lenient    bool     // DEL: a file that cannot be read is as good as none
	saved      []string // what was saved in this call
	warn       func(msg string, args ...any)
}

type stateFile struct {
	Version    int               `json:"version"`
	Attachment string            `json:"attachment"` // plugin:network:container:ifname
	Entries    map[string][]byte `json:"entries"`
}

// Save keeps data under key.
func (r *record) Save(key string, data []byte) error {
	s, err := r.read()
	if err != nil {
		return err
	}
	s.Entries[key] = data
	r.saved = append(r.saved, key)
	return r.write(s)
}

// forgetSaved drops what was saved in this call: an ADD that was undone. What was there before stays: in
// a second ADD it is the live attachment's.
func (r *record) forgetSaved() {
	for _, key := range r.saved {
		if err := r.Forget(key); err != nil {
			r.warn("the ADD was undone, its state was not", "error", err.Error())
		}
	}
}

// Load returns what was saved under key, nil if nothing was.
func (r *record) Load(key string) ([]byte, error) {
	s, err := r.read()
	if err != nil {
		return nil, err
	}
	return s.Entries[key], nil
}

// Forget drops key.
func (r *record) Forget(key string) error {
	s, err := r.read()
	if err != nil {
		return err
	}
	if _, ok := s.Entries[key]; !ok {
		return nil
	}
	delete(s.Entries, key)
	return r.write(s)
}

func (r *record) read() (*stateFile, error) {
	s := &stateFile{}
	data, err := os.ReadFile(r.path)
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	if err == nil && (s.Version != stateVersion || s.Attachment != r.name) {
		err = fmt.Errorf("version %d of %q: expected version %d of %q", s.Version, s.Attachment, stateVersion, r.name)
	}
	switch {
	case err == nil && s.Entries != nil:
		return s, nil
	case err == nil || errors.Is(err, os.ErrNotExist):
	case r.lenient:
		r.warn("state is not readable, goes on without it", "file", r.path, "error", err.Error())
	default:
		return nil, netconf.Errorf(netconf.CodeBadStore, "state %q: %w", r.path, err)
	}
	return &stateFile{Version: stateVersion, Attachment: r.name, Entries: map[string][]byte{}}, nil
}

func (r *record) write(s *stateFile) error {
	if len(s.Entries) == 0 {
		return r.remove()
	}
	data, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(r.path), 0o700)
	}
	if err == nil {
		err = replaceFile(r.path, data)
	}
	if err != nil {
		return netconf.Errorf(netconf.CodeBadStore, "state: %w", err)
	}
	return nil
}

// replaceFile writes a file beside and moves it into place. The folder is on a tmpfs, so nothing is
// synced: what a crash of the machine loses, it loses with the attachment.
func replaceFile(path string, data []byte) error {
	beside := path + ".new" // one name: the attachment's lock is held
	if err := os.WriteFile(beside, data, 0o600); err != nil {
		return errors.Join(err, removeFile(beside))
	}
	if err := os.Rename(beside, path); err != nil {
		return errors.Join(err, removeFile(beside))
	}
	return nil
}

func (r *record) remove() error {
	// What a killed Save has left beside goes too.
	if err := errors.Join(removeFile(r.path), removeFile(r.path+".new")); err != nil {
		return netconf.Errorf(netconf.CodeBadStore, "state: %w", err)
	}
	return nil
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// forgetAll drops what a step saved and did not forget, once the attachment is gone. A file that stays
// all the same harms nobody: an attachment's name does not come again.
func forgetAll(req *netconf.Request) {
	if r, ok := req.State.(*record); ok {
		if err := r.remove(); err != nil {
			req.Warn("the attachment is gone, its state is not", "error", err.Error())
		}
	}
}
