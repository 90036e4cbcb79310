package state_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
	"github.com/cnikit/cnikit/skel/state"
)

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv("STATE_TEST_WRITER"); ok {
		saveForEver(dir) // never returns; were it to run the tests, they would start one another without end
	}
	skeltest.Main(m)
}

func one(id string) state.Attachment {
	return state.Attachment{Plugin: "test", Network: "net", ContainerID: id, IfName: "eth0"}
}

// heard is a store in a folder of the test's, and what it warned of.
type heard struct {
	state.Store
	warnings []string
}

func newStore(t *testing.T) *heard {
	h := &heard{Store: state.Store{Dir: filepath.Join(t.TempDir(), "run")}}
	h.Warn = func(msg string, args ...any) { h.warnings = append(h.warnings, fmt.Sprint(msg, args)) }
	return h
}

func (h *heard) open(t *testing.T, a state.Attachment, command netconf.Command) *state.Record {
	return h.Open(t.Context(), a, command)
}

// files lists the folder.
func (h *heard) files(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(h.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (h *heard) put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.Dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func save(t *testing.T, r *state.Record, key, data string) {
	t.Helper()
	if err := r.Save(key, []byte(data)); err != nil {
		t.Fatal(err)
	}
}

func wantEntry(t *testing.T, r *state.Record, key, want string) {
	t.Helper()
	if data, err := r.Load(key); err != nil || string(data) != want {
		t.Errorf("%s of %+v is %q, %v: expected %q", key, r.Attachment(), data, err, want)
	}
}

func wantFiles(t *testing.T, h *heard, want ...string) {
	t.Helper()
	if got := h.files(t); !slices.Equal(got, want) {
		t.Errorf("files %q, expected %q", got, want)
	}
}

func TestEntriesAreKept(t *testing.T) {
	t.Parallel()
	h := newStore(t)
	r := h.open(t, one("c1"), netconf.Add)
	wantEntry(t, r, "a", "")
	if err := errors.Join(r.Forget("nothing"), r.Undo(), r.Remove()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(h.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is made before anything is saved: %v", err)
	}
	save(t, r, "a", "1")
	save(t, r, "b", "\x00\xff")
	save(t, r, "a", "2")
	save(t, h.open(t, one("c2"), netconf.Add), "a", "of another")
	for path, mode := range map[string]os.FileMode{h.Dir: 0o700, filepath.Join(h.Dir, "test:net:c1:eth0.state"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v: for root alone", path, info.Mode(), err)
		}
	}
	r = h.open(t, one("c1"), netconf.Del)
	wantEntry(t, r, "a", "2")
	wantEntry(t, r, "b", "\x00\xff")
	if err := r.Forget("a"); err != nil {
		t.Error(err)
	}
	wantEntry(t, r, "a", "")
	wantEntry(t, r, "b", "\x00\xff")
	wantFiles(t, h, "test:net:c1:eth0.state", "test:net:c2:eth0.state")
	if err := r.Forget("b"); err != nil { // the last entry
		t.Error(err)
	}
	wantFiles(t, h, "test:net:c2:eth0.state")
	save(t, r, "empty", "")
	if data, err := h.open(t, one("c1"), netconf.Del).Load("empty"); err != nil || data == nil {
		t.Errorf("what is empty is as good as nothing: %v", err)
	}
	if len(h.warnings) > 0 {
		t.Errorf("warnings %q", h.warnings)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("c", 300)
	seen := map[string]state.Attachment{}
	for _, a := range []state.Attachment{
		one("c1"), one("c2"), {Plugin: "test", Network: "net", ContainerID: "c1", IfName: "eth1"}, {Plugin: "test2", Network: "net", ContainerID: "c1", IfName: "eth0"},
		{Plugin: "test", Network: "n", ContainerID: "et-c1", IfName: "eth0"}, one(long + "1"), one(long + "2"),
		{Plugin: "test", Network: "../../x", ContainerID: "c1", IfName: "eth0"}, {Plugin: "test", Network: "a/b", ContainerID: "c1", IfName: "eth0"},
		{Plugin: "test", Network: "", ContainerID: "c1", IfName: "eth0"}, {Plugin: "test", Network: "a\x00b", ContainerID: "c1", IfName: "eth0"},
		{Plugin: "../test", Network: "net", ContainerID: "c1", IfName: "eth0"}, {Plugin: "test", Network: "net", ContainerID: "..", IfName: "eth0"},
		{Plugin: "test", Network: "a:b", ContainerID: "c", IfName: "eth0"}, {Plugin: "test", Network: "a", ContainerID: "b:c", IfName: "eth0"},
	} {
		key := a.Key()
		if len(key) > 230 || strings.ContainsAny(key, "/\x00") || key == "" || key[0] == '.' {
			t.Errorf("%+v: key %q", a, key)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%+v and %+v share the key %q", a, other, key)
		}
		seen[key] = a
	}
	if key := one("c1").Key(); key != "test:net:c1:eth0" {
		t.Errorf("key %q", key)
	}
}

// What an ADD that was undone had saved is gone; what was there before is there again.
func TestUndo(t *testing.T) {
	t.Parallel()
	h := newStore(t)
	first := h.open(t, one("c1"), netconf.Add)
	save(t, first, "kept", "of the first")
	save(t, first, "taken", "of the first")
	save(t, first, "other", "of the first")
	second := h.open(t, one("c1"), netconf.Add)
	save(t, second, "kept", "of the second")
	save(t, second, "kept", "of the second again")
	save(t, second, "new", "of the second")
	save(t, second, "taken", "of the second")
	if err := second.Forget("taken"); err != nil { // by a Del in the rollback, which restored it
		t.Fatal(err)
	}
	if err := second.Undo(); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"kept": "of the first", "new": "", "taken": "", "other": "of the first"} {
		wantEntry(t, h.open(t, one("c1"), netconf.Del), key, want)
	}
	third := h.open(t, one("c3"), netconf.Add)
	save(t, third, "a", "1")
	if err := third.Undo(); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, h, "test:net:c1:eth0.state")
}

// A record of another attachment, under a name that two long names share by their hash, is nobody's to take.
func TestRecordOfAnotherIsLeftAlone(t *testing.T) {
	t.Parallel()
	h := newStore(t)
	mine, theirs := one(strings.Repeat("c", 300)), one(strings.Repeat("d", 300))
	save(t, h.open(t, theirs, netconf.Add), "a", "theirs")
	if err := os.Rename(filepath.Join(h.Dir, theirs.Key()+".state"), filepath.Join(h.Dir, mine.Key()+".state")); err != nil {
		t.Fatal(err)
	}
	for _, command := range []netconf.Command{netconf.Add, netconf.Check} {
		if err := h.open(t, mine, command).Save("a", []byte("mine")); netconf.Code(err) != netconf.CodeBadStore {
			t.Errorf("%s: %v", command, err)
		}
	}
	del := h.open(t, mine, netconf.Del)
	wantEntry(t, del, "a", "")
	if err := del.Save("a", []byte("mine")); netconf.Code(err) != netconf.CodeBadStore {
		t.Errorf("DEL overwrites what it could not read: %v", err)
	}
	if err := del.Remove(); err != nil {
		t.Error(err)
	}
	if len(h.warnings) != 1 {
		t.Errorf("one warning is enough, and none too few: %q", h.warnings)
	}
	if data, err := os.ReadFile(filepath.Join(h.Dir, mine.Key()+".state")); err != nil || !strings.Contains(string(data), theirs.ContainerID) {
		t.Errorf("the other's record: %v, %s", err, data)
	}
}

func TestListAndStale(t *testing.T) {
	t.Parallel()
	h := newStore(t)
	if records, err := h.List(t.Context(), "test", "net"); err != nil || len(records) != 0 {
		t.Errorf("without a folder: %v, %v", records, err)
	}
	long := strings.Repeat("l", 300)
	for _, a := range []state.Attachment{one("c1"), one("c2"), one("c3"), one(long), one(long + "2"),
		{Plugin: "test", Network: "net2", ContainerID: "c1", IfName: "eth0"}, {Plugin: "test2", Network: "net", ContainerID: "c1", IfName: "eth0"},
		{Plugin: "test", Network: "net", ContainerID: "c1", IfName: "eth0.state"},
	} {
		save(t, h.open(t, a, netconf.Add), "id", a.ContainerID)
	}
	h.put(t, "test:net:c2:eth0.state", "damaged")
	h.put(t, "test:net:c2:eth0.state.bad", "of before")
	h.put(t, "test:net:c4:eth0.state.new", "killed")
	h.put(t, "test:net:c5:eth0.state.bad", "only this is left")
	h.put(t, "test:net:c6:eth0.lock", "")
	h.put(t, "README", "")
	h.put(t, one(long+"2").Key()+".state", "damaged")
	stale, err := h.Stale(t.Context(), "test", "net", []types.GCAttachment{{ContainerID: "c1", IfName: "eth0"}, {ContainerID: "c2", IfName: "eth1"}, {ContainerID: long, IfName: "eth0"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range stale {
		a := r.Attachment()
		got = append(got, a.ContainerID+"/"+a.IfName)
		if err := r.Remove(); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(got)
	if want := []string{"/", "c1/eth0.state", "c2/eth0", "c3/eth0", "c4/eth0", "c5/eth0"}; !slices.Equal(got, want) {
		t.Errorf("stale %q, expected %q", got, want)
	}
	wantEntry(t, h.open(t, one("c1"), netconf.Del), "id", "c1")
	wantEntry(t, h.open(t, one(long), netconf.Del), "id", long)
	wantFiles(t, h, "README", "test2:net:c1:eth0.state", "test:net2:c1:eth0.state", "test:net:c1:eth0.state", "test:net:c6:eth0.lock", one(long).Key()+".state")
	records, err := h.List(t.Context(), "test", "net")
	if err != nil || len(records) != 2 || records[0].Attachment() != one("c1") || records[1].Attachment() != one(long) {
		t.Errorf("list: %v, %+v", err, records)
	}
	for _, r := range records {
		wantEntry(t, r, "id", r.Attachment().ContainerID)
	}
}

// The fault hook breaks every change, and each leaves the record as it was. The end of the context breaks none.
func TestFaultsAtEachChange(t *testing.T) {
	t.Parallel()
	h := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := h.Open(ctx, one("c1"), netconf.Add)
	save(t, r, "a", "1")
	broken := errors.New("broken")
	var ops []string
	ctx = netconf.WithFault(ctx, func(_ context.Context, op string) error { ops = append(ops, op); return broken })
	b := h.Open(ctx, one("c1"), netconf.Add)
	for name, err := range map[string]error{"save": b.Save("a", []byte("2")), "forget": b.Forget("a"), "undo": b.Undo(), "remove": b.Remove()} {
		if !errors.Is(err, broken) || netconf.Code(err) != netconf.CodeBadStore || !strings.Contains(err.Error(), "test:net:c1:eth0.state") {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantEntry(t, r, "a", "1")
	h.put(t, "test:net:c1:eth0.state", "damaged")
	if _, err := h.Open(ctx, one("c1"), netconf.Add).Load("a"); !errors.Is(err, broken) {
		t.Errorf("moved aside: %v", err)
	}
	if len(ops) != 5 {
		t.Errorf("operations %q", ops)
	}
}

// Without the network's name a record is found by the rest: by its file's name also where it cannot be read, by what is in
// it where the name ends in a hash.
func TestFindWithoutTheNetwork(t *testing.T) {
	t.Parallel()
	h := newStore(t)
	long := one("c1")
	long.Network = strings.Repeat("n", 200)
	other, older := one("c1"), one("c1")
	other.IfName, older.Network = "eth1", "old"
	for _, a := range []state.Attachment{one("c1"), one("c2"), long, other} {
		save(t, h.open(t, a, netconf.Add), "k", a.Network)
	}
	h.put(t, older.Key()+".state", "garbage")
	h.put(t, "test:hashed:0123456789abcdef.state", "garbage") // whose is not known
	h.put(t, "else", "")
	records, err := h.Find(t.Context(), "test", "c1", "eth0")
	var found []state.Attachment
	for _, r := range records {
		found = append(found, r.Attachment())
	}
	if want := []state.Attachment{one("c1"), long, older}; err != nil || !slices.Equal(found, want) {
		t.Errorf("%v, found %v, expected %v", err, found, want)
	}
	for _, wrong := range [][3]string{{"other", "c1", "eth0"}, {"test", "c3", "eth0"}, {"test", "c1", ""}} {
		if records, err := h.Find(t.Context(), wrong[0], wrong[1], wrong[2]); err != nil || len(records) > 0 {
			t.Errorf("%q: %v, %v", wrong, records, err)
		}
	}
	if records, err := (state.Store{Dir: h.Dir + "/none"}).Find(t.Context(), "test", "c1", "eth0"); err != nil || len(records) > 0 {
		t.Errorf("%v, %v", records, err)
	}
}
