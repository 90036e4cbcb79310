package delegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// file is the record's of attach's request.
const file = "outer:c1:eth0.record"

// records is a folder of records that does not exist yet.
func records(t *testing.T) delegate.Records {
	t.Helper()
	return delegate.Records{Dir: filepath.Join(t.TempDir(), "records")}
}

// names lists the folder.
func names(t *testing.T, r delegate.Records) []string {
	t.Helper()
	entries, err := os.ReadDir(r.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	all := []string{}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func wantNames(t *testing.T, r delegate.Records, want ...string) {
	t.Helper()
	if got := names(t, r); !slices.Equal(got, want) {
		t.Errorf("files %q: expected %q", got, want)
	}
}

// add adds a set and fails the test if that fails.
func add(t *testing.T, r delegate.Records, set delegate.Set, req *netconf.Request) []delegate.Result {
	t.Helper()
	results, err := r.Add(t.Context(), set, req)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// bare is what a DEL has from a runtime: no namespace, no arguments, no configuration but the name.
func bare(t *testing.T) *netconf.Request {
	t.Helper()
	return call(t, netconf.Del, `{"cniVersion":"1.0.0","name":"outer","type":"meta"}`)
}

// heard makes a request note what it is warned of.
func heard(req *netconf.Request) *[]string {
	var all []string
	req.Warn = func(msg string, args ...any) { all = append(all, fmt.Sprint(msg, args)) }
	return &all
}

// CHECK and DEL work from the record alone, with every byte of the configuration that ADD had, as far as it means
// anything: a number above 2^53, the order of keys, a key given twice, what HTML would escape.
func TestRecordLife(t *testing.T) {
	t.Parallel()
	const odd = `{ "cniVersion": "1.1.0", "name": "odd",  "type": "d", "z": 18446744073709551615, "a": 1.10, "a": 1e2, "html": "<&>\u2028é", "capabilities": {"mac": true},
		"nested": { "b" : [ 1 , 2 ] } }`
	s, r := &spy{}, records(t)
	set, req := four(t, s), attach(t)
	set.Attachments[3].Network = parse(t, odd)
	results := add(t, r, set, req)
	atAdd := map[string]string{}
	for _, c := range s.calls {
		atAdd[c.plugin] = c.config
	}
	if got := s.said(); got != "a ADD, b ADD, c ADD, d ADD" {
		t.Error(got)
	}
	info, err := os.Stat(filepath.Join(r.Dir, file))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v: a configuration may hold secrets", info.Mode(), err)
	}
	if info, err := os.Stat(r.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	compact := func(text string) string {
		var b strings.Builder
		inString := false
		for i, c := range text {
			if c == '"' && (i == 0 || text[i-1] != '\\') {
				inString = !inString
			}
			if inString || !strings.ContainsRune(" \t\n", c) {
				b.WriteRune(c)
			}
		}
		return b.String()
	}
	if err := r.Check(t.Context(), set.Plugins, bare(t)); err != nil {
		t.Error(err)
	}
	if err := r.Del(t.Context(), set.Plugins, bare(t)); err != nil {
		t.Error(err)
	}
	for _, c := range s.calls {
		i := strings.Index("abcd", c.plugin)
		same(t, key(t, c.config, "prevResult"), string(results[i].JSON))
		without := func(config string) string {
			return compact(patch(t, patch(t, config, "prevResult", "1"), "prevResult", "1"))
		}
		if got, want := without(c.config), without(atAdd[c.plugin]); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", c, got, want)
		}
		args := "IgnoreUnknown=1;A=b=c;K8S_POD_UID="
		if c.plugin == "d" {
			args = "IgnoreUnknown=1;A=mine;K8S_POD_UID=;IP=10.0.0.9"
		}
		if c.variable("CNI_ARGS") != args || c.variable("CNI_IFNAME") != "if-"+c.plugin {
			t.Errorf("%s: %q", c, c.env)
		}
	}
	if got := s.said(); got != "a CHECK, b CHECK, c CHECK, d CHECK, d DEL, c DEL, b DEL, a DEL" {
		t.Error(got)
	}
	wantNames(t, r)
	// And once more: what is gone is gone.
	if err := r.Del(t.Context(), set.Plugins, bare(t)); err != nil || s.said() != "" {
		t.Error(err)
	}
	_, err = r.Load(t.Context(), req)
	if wants(t, err, 105, "no record", "c1"); !errors.Is(err, delegate.ErrNoRecord) || !errors.Is(r.Check(t.Context(), nil, req), delegate.ErrNoRecord) {
		t.Error(err)
	}
}

// The arguments of the ADD are there, in their order, where a DEL brings none; its own values take their places.
func TestRecordKeepsTheArguments(t *testing.T) {
	t.Parallel()
	const came = "K8S_POD_UID=;IgnoreUnknown=1;A=b=c"
	for args, want := range map[string]string{"": came, "A=new;K8S_POD_UID=7;B=1": "K8S_POD_UID=7;IgnoreUnknown=1;A=new;B=1"} {
		s, r := &spy{}, records(t)
		set := four(t, s)
		set.Attachments = set.Attachments[:1]
		first, req := attach(t), bare(t)
		if err := errors.Join(first.SetArgs(came), req.SetArgs(args)); err != nil {
			t.Fatal(err)
		}
		add(t, r, set, first)
		s.said()
		if err := r.Check(t.Context(), set.Plugins, req); err != nil {
			t.Fatal(err)
		}
		if got := s.calls[0].variable("CNI_ARGS"); got != want {
			t.Errorf("CHECK: %q: expected %q", got, want)
		}
		s.said()
		req.Netns = ""
		if err := r.Del(t.Context(), set.Plugins, req); err != nil {
			t.Fatal(err)
		}
		if got := s.calls[0].variable("CNI_ARGS"); got != want || s.calls[0].variable("CNI_NETNS") != "" {
			t.Errorf("%q: expected %q and no namespace: the runtime's word is newer", s.calls[0].env, want)
		}
	}
}

// What lives is refused, whatever else is wrong with the second ADD, and nothing of it is touched. The error says so:
// skel would call Del.
func TestSecondAddIsRefused(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	add(t, r, set, attach(t))
	before := read(t, filepath.Join(r.Dir, file))
	s.said()
	twice := set
	twice.Attachments = slices.Concat(set.Attachments, set.Attachments)
	unnamed := attach(t)
	unnamed.Network.Name = ""
	for name, c := range map[string]struct {
		set  delegate.Set
		req  *netconf.Request
		code uint
	}{
		"the same": {set, attach(t), 100}, "other networks": {delegate.Set{Attachments: set.Attachments[:1], Plugins: set.Plugins}, attach(t), 100},
		"a wrong set": {twice, attach(t), 7}, "none": {delegate.Set{}, attach(t), 7}, "no name": {set, unnamed, 7},
	} {
		_, err := r.Add(t.Context(), c.set, c.req)
		if netconf.Code(err) != c.code || !netconf.IsUnchanged(err) || errors.Is(err, netconf.ErrExists) != (c.code == 100) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Also where it cannot be read: a DEL is due, which moves it aside.
	if got := read(t, filepath.Join(r.Dir, file)); got != before || s.said() != "" {
		t.Errorf("%s: changed", got)
	}
	write(t, filepath.Join(r.Dir, file), "damaged", 0o600)
	_, err := r.Add(t.Context(), set, attach(t))
	if wants(t, err, 100, file, "DEL"); s.said() != "" {
		t.Error("something was run")
	}
	// Another interface of the container, another network, another container are others.
	for _, change := range []func(*netconf.Request){
		func(req *netconf.Request) { req.IfName = "eth1" }, func(req *netconf.Request) { req.ContainerID = "c2" }, func(req *netconf.Request) { req.Network.Name = "other" },
	} {
		req := attach(t)
		change(req)
		add(t, r, set, req)
	}
	wantNames(t, r, "other:c1:eth0.record", file, "outer:c1:eth1.record", "outer:c2:eth0.record")
}

// The record is there before the first plugin runs, and each answer before the next one runs.
func TestRecordIsAheadOfThePlugins(t *testing.T) {
	t.Parallel()
	r := records(t)
	var seen []int // how many results there are when each plugin is called
	s := &spy{answer: func(ctx context.Context, name string, req *netconf.Request) error {
		seen = append(seen, strings.Count(read(t, filepath.Join(r.Dir, file)), `"result"`))
		return grow(ctx, name, req)
	}}
	add(t, r, four(t, s), attach(t))
	if !slices.Equal(seen, []int{0, 1, 2, 3, 3}) {
		t.Errorf("%v", seen)
	}
	rec, err := r.Load(t.Context(), attach(t))
	if err != nil || rec.Netns != "/run/netns/none" || len(rec.Attachments) != 4 || rec.ContainerID != "c1" || rec.IfName != "eth0" || rec.Network != "outer" || rec.Args["A"] != "b=c" || rec.Busy {
		t.Fatalf("%+v, %v", rec, err)
	}
	for _, a := range rec.Attachments {
		if len(a.Result) == 0 {
			t.Errorf("%s has no result", a.IfName)
		}
	}
}

// After a failed ADD nothing stays, or what its DELs could not take away, for the next DEL.
func TestFailedAddAndItsRecord(t *testing.T) {
	t.Parallel()
	for stuck, want := range map[string]string{"": "", "b": "if-b", "a,c": "if-a if-c", "a,b,c": "if-a if-b if-c"} {
		t.Run(stuck, func(t *testing.T) {
			t.Parallel()
			r := records(t)
			mended := false
			s := &spy{answer: func(ctx context.Context, name string, req *netconf.Request) error {
				switch {
				case req.Command == netconf.Del && !mended && strings.Contains(stuck, name):
					return errors.New("stuck")
				case req.Command == netconf.Add && name == "c":
					return netconf.Errorf(101, "full")
				}
				return grow(ctx, name, req)
			}}
			set := four(t, s)
			_, err := r.Add(t.Context(), set, attach(t))
			if wants(t, err, 101, "full"); stuck != "" && !strings.Contains(err.Error(), "stuck") {
				t.Error(err)
			}
			s.said()
			if stuck == "" {
				wantNames(t, r)
				return
			}
			rec, err := r.Load(t.Context(), attach(t))
			if err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, a := range rec.Attachments {
				left = append(left, a.IfName)
			}
			if got := strings.Join(left, " "); got != want {
				t.Errorf("left %s: expected %s", got, want)
			}
			if err := r.Del(t.Context(), set.Plugins, bare(t)); err == nil {
				t.Error("it is stuck still")
			}
			wantNames(t, r, file)
			mended = true
			s.said()
			if err := r.Del(t.Context(), set.Plugins, bare(t)); err != nil {
				t.Error(err)
			}
			wantNames(t, r)
			if got := s.said(); got != map[string]string{"b": "b DEL", "a,c": "c DEL, a DEL", "a,b,c": "c DEL, b DEL, a DEL"}[stuck] {
				t.Errorf("%s: what was detached had another DEL, or what was not had none", got)
			}
		})
	}
}

// A missing program of one network stops no other; only what is left gets the next DEL (case C-DEL-06).
func TestRecordAndAMissingProgram(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	add(t, r, set, attach(t))
	s.said()
	err := r.Del(t.Context(), set.Plugins.Without("b"), bare(t))
	wants(t, err, 5, `interface "if-b": delegate "b" DEL, network "net-b"`, "no such program")
	if got := s.said(); got != "e DEL, d DEL, c DEL, a DEL" {
		t.Error(got)
	}
	for range 2 {
		if err := r.Del(t.Context(), set.Plugins, bare(t)); err != nil {
			t.Error(err)
		}
	}
	if got := s.said(); got != "b DEL" {
		t.Error(got)
	}
	wantNames(t, r)
}

// A result can be replaced while the container lives, and the last one counts.
func TestSetResult(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	const better = `{"cniVersion":"1.1.0","interfaces":[{"name":"b","sandbox":"/n"}]}`
	wants(t, r.SetResult(t.Context(), attach(t), "if-b", json.RawMessage(better)), 105, "no record")
	add(t, r, set, attach(t))
	s.said()
	wants(t, r.SetResult(t.Context(), attach(t), "if-x", json.RawMessage(better)), 105, `"if-x"`)
	if err := r.SetResult(t.Context(), attach(t), "if-b", json.RawMessage(`{"cniVersion":"1.1.0","ips":1}`)); err == nil {
		t.Error("what is no result was taken")
	}
	if err := r.SetResult(t.Context(), attach(t), "if-b", json.RawMessage(better)); err != nil {
		t.Fatal(err)
	}
	if err := r.Del(t.Context(), set.Plugins, bare(t)); err != nil {
		t.Fatal(err)
	}
	for _, c := range s.calls {
		if c.plugin == "b" {
			same(t, key(t, c.config, "prevResult"), better)
		}
	}
}

// However often a result is replaced, the record stays one that can be read, with all else that it had.
func TestSetResultForAYear(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	add(t, r, set, attach(t))
	if err := r.Del(t.Context(), set.Plugins.Without("a"), bare(t)); err == nil {
		t.Fatal("the program is not missing")
	}
	if rec, err := r.Load(t.Context(), attach(t)); err != nil || len(rec.Attachments) != 1 {
		t.Fatalf("%+v, %v", rec, err)
	}
	path, last := filepath.Join(r.Dir, file), ""
	for i := range 60 {
		last = fmt.Sprintf(`{"cniVersion":"1.1.0","interfaces":[{"name":"a","sandbox":"/n"}],"x":%d,"y":%q}`, i, strings.Repeat("y", 400_000))
		if err := r.SetResult(t.Context(), attach(t), "if-a", json.RawMessage(last)); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() > 2<<20 || info.Mode() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
	}
	wantNames(t, r, file)
	s.said()
	if err := r.Del(t.Context(), set.Plugins, bare(t)); err != nil {
		t.Error(err)
	}
	if len(s.calls) != 1 || key(t, s.calls[0].config, "prevResult") != last {
		t.Errorf("%d calls", len(s.calls))
	}
	wantNames(t, r)
}
