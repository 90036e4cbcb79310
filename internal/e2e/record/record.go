package record

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cnikit/cnikit/internal/testbin"
)

// Recorder is a folder with recording programs.
type Recorder struct {
	Dir string // a CNI_PATH: the folder of the test's that has the programs

	t testing.TB
}

// Wrap makes a recorder for plugins, which are given by the paths of their programs.
func Wrap(t testing.TB, plugins ...string) *Recorder {
	t.Helper()
	r := &Recorder{Dir: t.TempDir(), t: t}
	program, err := os.ReadFile(filepath.Join(testbin.Tools(t, "internal/e2e", nil, "./record/wrapper"), "wrapper"))
	r.check(err)
	for _, dir := range []string{Plugins, Holds, Held} {
		r.check(os.Mkdir(filepath.Join(r.Dir, dir), 0o755))
	}
	for _, plugin := range plugins {
		name := filepath.Base(plugin)
		r.check(os.Symlink(plugin, filepath.Join(r.Dir, Plugins, name)))
		// A copy, not a link: the recorder finds its folder by where its program is.
		r.check(os.WriteFile(filepath.Join(r.Dir, name), program, 0o755))
	}
	return r
}

func (r *Recorder) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("record: %v", err)
	}
}

// Calls lists the calls, in the order in which they began.
func (r *Recorder) Calls() []Call {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.Dir, Calls))
	if os.IsNotExist(err) {
		return nil
	}
	r.check(err)
	var calls []Call
	for line := range bytes.Lines(data) {
		var c Call
		r.check(json.Unmarshal(line, &c))
		if i := slices.IndexFunc(calls, func(o Call) bool { return o.ID == c.ID }); i >= 0 {
			calls[i] = c
		} else {
			calls = append(calls, c)
		}
	}
	return calls
}

// Of lists the calls of one plugin and verb.
func (r *Recorder) Of(plugin, command string) []Call {
	r.t.Helper()
	return slices.DeleteFunc(r.Calls(), func(c Call) bool { return c.Type != plugin || c.Command != command })
}

// Hold makes calls of a plugin and verb wait, from now on, before the plugin starts, until Release.
func (r *Recorder) Hold(plugin, command string) {
	r.t.Helper()
	r.check(os.WriteFile(filepath.Join(r.Dir, Holds, plugin+"."+command), nil, 0o644))
}

// Release lets the held calls go on.
func (r *Recorder) Release(plugin, command string) {
	r.t.Helper()
	r.check(os.Remove(filepath.Join(r.Dir, Holds, plugin+"."+command)))
}

// WaitHeld waits until a call of a plugin and verb is held; the test fails after half a minute.
func (r *Recorder) WaitHeld(plugin, command string) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(r.Dir, Held, plugin+"."+command)); err == nil {
			return
		} else if !os.IsNotExist(err) {
			r.check(err)
		}
	}
	r.t.Fatalf("record: no %s of %s has come to be held", command, plugin)
}

// WaitEnded waits until no call is under way; the test fails after half a minute.
func (r *Recorder) WaitEnded() {
	r.t.Helper()
	running := func(c Call) bool { return !c.Ended }
	for end := time.Now().Add(30 * time.Second); slices.ContainsFunc(r.Calls(), running); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("record: not all calls have ended: %+v", slices.DeleteFunc(r.Calls(), func(c Call) bool { return c.Ended }))
		}
	}
}
