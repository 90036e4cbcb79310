package state_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
	"github.com/cnikit/cnikit/skel/state"
)

const record, bad = "test:net:c1:eth0.state", "test:net:c1:eth0.state.bad"

// damages are what may stand where a record should, and a word of what is said of it.
var damages = map[string][2]string{
	"empty":     {"", "unexpected end"},
	"half":      {`{"version":1,"att`, "unexpected end"},
	"garbage":   {"\x00\xff", "invalid character"},
	"no object": {"[]", "cannot unmarshal"},
	"no keys":   {"{}", "without a version"},
	"no list":   {`{"version":1,"attachment":{"plugin":"test","network":"net","containerID":"c1","ifname":"eth0"}}`, "without entries"},
	"newer":     {`{"version":2,"attachment":7,"entries":[]}`, "of a newer plugin"},
	"another's": {`{"version":1,"attachment":{"plugin":"test","network":"net","containerID":"c2","ifname":"eth0"},"entries":{"k":"eA=="}}`, "c2"},
	"no base64": {`{"version":1,"attachment":{"plugin":"test","network":"net","containerID":"c1","ifname":"eth0"},"entries":{"k":"?"}}`, "base64"},
}

func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		for _, command := range []netconf.Command{netconf.Add, netconf.Del, netconf.GC, netconf.Check} {
			t.Run(name+"/"+string(command), func(t *testing.T) {
				t.Parallel()
				h := newStore(t)
				h.put(t, record, damage[0])
				r := h.open(t, one("c1"), command)
				data, err := r.Load("k")
				if command == netconf.Check {
					if netconf.Code(err) != netconf.CodeBadStore || !strings.Contains(err.Error(), record) || !strings.Contains(err.Error(), damage[1]) {
						t.Errorf("CHECK of a record that cannot be read: %v", err)
					}
					wantFiles(t, h, record)
					return
				}
				if err != nil || data != nil {
					t.Errorf("%q, %v", data, err)
				}
				if len(h.warnings) != 1 || !strings.Contains(h.warnings[0], record) || !strings.Contains(h.warnings[0], damage[1]) {
					t.Errorf("nothing is lost in silence: warnings %q", h.warnings)
				}
				if lost, err := os.ReadFile(filepath.Join(h.Dir, bad)); err != nil || string(lost) != damage[0] {
					t.Errorf("moved aside: %v, %q", err, lost)
				}
				save(t, r, "k", "v")
				wantEntry(t, h.open(t, one("c1"), command), "k", "v")
				wantFiles(t, h, record, bad)
				if err := r.Remove(); err != nil {
					t.Error(err)
				}
				wantFiles(t, h)
			})
		}
	}
}

// There is one file moved aside for each attachment, the last.
func TestDamagedRecordsDoNotPileUp(t *testing.T) {
	t.Parallel()
	h := newStore(t)
	for i := range 5 {
		h.put(t, record, fmt.Sprint("damage ", i))
		wantEntry(t, h.open(t, one("c1"), netconf.Add), "k", "")
	}
	wantFiles(t, h, bad)
	if lost, err := os.ReadFile(filepath.Join(h.Dir, bad)); err != nil || string(lost) != "damage 4" {
		t.Errorf("%v, %q", err, lost)
	}
}

// What is no file at all is not waited for, and does not eat the memory.
func TestRecordThatIsNoFile(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(path string) error{
		"a FIFO":   func(path string) error { return exec.Command("mkfifo", path).Run() },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":   func(path string) error { return os.Symlink("/dev/zero", path) },
		"too large": func(path string) error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(path, 1<<40)
		},
	} {
		for _, file := range []string{record, record + ".new"} {
			t.Run(name+" as "+file, func(t *testing.T) {
				t.Parallel()
				h := newStore(t)
				h.put(t, "x", "")
				if err := make(filepath.Join(h.Dir, file)); err != nil {
					t.Fatal(err)
				}
				r := h.open(t, one("c1"), netconf.Add)
				save(t, r, "k", "v")
				wantEntry(t, h.open(t, one("c1"), netconf.Del), "k", "v")
				if err := r.Remove(); err != nil {
					t.Error(err)
				}
				wantFiles(t, h, "x")
			})
		}
	}
}

func TestRecordThatGetsTooLarge(t *testing.T) {
	t.Parallel()
	h := newStore(t)
	r := h.open(t, one("c1"), netconf.Add)
	save(t, r, "k", "v")
	if err := r.Save("large", make([]byte, 13<<20)); netconf.Code(err) != netconf.CodeBadStore || !strings.Contains(err.Error(), "at most") {
		t.Errorf("%v", err)
	}
	wantEntry(t, r, "k", "v")
	wantFiles(t, h, record)
}

// Readers see the old record or the new one, whole, while writers are at work; run with -race.
func TestReadersAndWriters(t *testing.T) {
	t.Parallel()
	h := newStore(t)
	r := h.open(t, one("c1"), netconf.Add)
	texts := []string{strings.Repeat("a", 10_000), strings.Repeat("b", 20_000)}
	save(t, r, "k", texts[0])
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		writers.Go(func() {
			for i := range 50 {
				if err := r.Save("k", []byte(texts[i%2])); err != nil {
					t.Error(err)
				}
			}
		})
		readers.Go(func() {
			for {
				data, err := state.Store{Dir: h.Dir}.Open(t.Context(), one("c1"), netconf.Check).Load("k")
				if err != nil || string(data) != texts[0] && string(data) != texts[1] {
					t.Errorf("%d bytes, %v", len(data), err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	wantFiles(t, h, record)
}

// On a full disk nothing is saved and nothing is lost; what is there can still be read and removed.
func TestFullDisk(t *testing.T) {
	skeltest.NeedRoot(t)
	h := newStore(t)
	mount(t, h.Dir, "size=64k")
	r := h.open(t, one("c1"), netconf.Add)
	save(t, r, "k", "v")
	save(t, h.open(t, one("c2"), netconf.Add), "k", "v")
	fill(t, h.Dir)
	for _, a := range []state.Attachment{one("c1"), one("new")} {
		err := h.open(t, a, netconf.Add).Save("k", make([]byte, 100_000))
		if netconf.Code(err) != netconf.CodeBadStore || !strings.Contains(err.Error(), "no space left on device") {
			t.Errorf("%v", err)
		}
	}
	wantFiles(t, h, "fill", record, "test:net:c2:eth0.state")
	wantEntry(t, r, "k", "v")
	if err := r.Forget("k"); err != nil {
		t.Error(err)
	}
	if err := h.open(t, one("c2"), netconf.Del).Remove(); err != nil {
		t.Error(err)
	}
	wantFiles(t, h, "fill")
}

func TestReadOnlyFolder(t *testing.T) {
	skeltest.NeedRoot(t)
	h := newStore(t)
	mount(t, h.Dir, "size=64k")
	save(t, h.open(t, one("c1"), netconf.Add), "k", "v")
	h.put(t, "test:net:c2:eth0.state", "damaged")
	remount(t, h.Dir, "ro")
	for name, err := range map[string]error{
		"save": h.open(t, one("c1"), netconf.Add).Save("k", nil), "forget": h.open(t, one("c1"), netconf.Add).Forget("k"),
		"remove": h.open(t, one("c1"), netconf.Del).Remove(), "damaged": h.open(t, one("c2"), netconf.Add).Save("k", nil),
		"damaged, on DEL": h.open(t, one("c2"), netconf.Del).Save("k", nil),
	} {
		if netconf.Code(err) != netconf.CodeBadStore || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantEntry(t, h.open(t, one("c1"), netconf.Add), "k", "v")
	wantEntry(t, h.open(t, one("c2"), netconf.Del), "k", "")
	// What cannot be written is said once, on one line, and is no removal.
	err := h.open(t, one("c1"), netconf.Add).Save("k", nil)
	if text := fmt.Sprint(err); strings.Count(text, "read-only file system") != 1 || strings.ContainsAny(text, "\n;") || strings.Contains(text, "remove") {
		t.Errorf("%q", text)
	}
	remount(t, h.Dir, "rw")
}

// Folders with something in them where the files belong keep no attachment from being made, time and again, and nothing
// that is in them is lost.
func TestFoldersInTheWayBlockNoADD(t *testing.T) {
	t.Parallel()
	for _, ends := range [][]string{{record}, {record, bad}, {record, bad, bad + ".1"}, {record + ".new"}, {record + ".new", bad}, {record, record + ".new", bad}, {bad}} {
		t.Run(fmt.Sprint(ends), func(t *testing.T) {
			t.Parallel()
			h := newStore(t)
			kept := 0
			for range 3 {
				for _, end := range ends {
					if err := os.MkdirAll(filepath.Join(h.Dir, end), 0o700); err != nil {
						t.Fatal(err)
					}
					h.put(t, filepath.Join(end, fmt.Sprint(kept)), "precious")
					kept++
				}
				wantEntry(t, h.open(t, one("c1"), netconf.Add), "k", "")
				r := h.open(t, one("c1"), netconf.Add)
				save(t, r, "k", "v")
				wantEntry(t, h.open(t, one("c1"), netconf.Check), "k", "v")
				if err := r.Forget("k"); err != nil {
					t.Error(err)
				}
			}
			if found, err := filepath.Glob(filepath.Join(h.Dir, "*", "*")); err != nil || len(found) != kept {
				t.Errorf("%v, %d of %d files: %q", err, len(found), kept, found)
			}
			h.put(t, record, "damaged") // a file, with a folder as its .bad
			save(t, h.open(t, one("c1"), netconf.Add), "k", "v")
		})
	}
}

// A folder in the way, with something in it, is moved to the name that the package comment tells, with one warning, by
// whatever verb comes first, also where no step asks for the state; no later DEL or GC warns of it again.
func TestFolderInTheWayIsMovedOnce(t *testing.T) {
	t.Parallel()
	for _, end := range []string{record, bad} {
		for _, asked := range []bool{true, false} {
			for _, command := range []netconf.Command{netconf.Del, netconf.GC} {
				h := newStore(t)
				if err := os.MkdirAll(filepath.Join(h.Dir, end), 0o700); err != nil {
					t.Fatal(err)
				}
				h.put(t, filepath.Join(end, "precious"), "")
				r := h.open(t, one("c1"), command)
				if asked {
					wantEntry(t, r, "k", "")
				}
				if err := r.Remove(); err != nil {
					t.Error(err)
				}
				wantFiles(t, h, bad+".1")
				if len(h.warnings) != 1 || !strings.Contains(h.warnings[0], record) {
					t.Errorf("%s, %s: warnings %q, expected one", end, command, h.warnings)
				}
				if left, err := h.List(t.Context(), "test", "net"); err != nil || len(left) > 0 {
					t.Errorf("%s, %s: a GC would find it again: %v, %v", end, command, left, err)
				}
				if err := h.open(t, one("c1"), command).Remove(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
