package delegate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

const bad, draft = file + ".bad", file + ".new"

// damages are what may stand where a record should, and a word of what is said of it.
var damages = map[string][2]string{
	"empty":         {"", "unexpected end"},
	"blank":         {"\n\n", "unexpected end"},
	"half":          {`{"version":1,"network":"ou`, "unexpected end"},
	"garbage":       {"\x00\xff", "invalid character"},
	"null":          {"null", "without a version"},
	"no object":     {"[]", "cannot unmarshal"},
	"no keys":       {"{}", "without a version"},
	"newer":         {`{"version":2,"network":7}`, "of a newer plugin"},
	"no owner":      {`{"version":1,"attachments":[{}]}`, "network name"},
	"a path":        {`{"version":1,"network":"outer","containerID":"../x","ifname":"eth0","attachments":[{}]}`, "container ID"},
	"another's":     {`{"version":1,"network":"outer","containerID":"c2","ifname":"eth0","attachments":[{}]}`, "c2"},
	"nothing in it": {`{"version":1,"network":"outer","containerID":"c1","ifname":"eth0","attachments":[]}`, "without attachments"},
	"wrong type":    {`{"version":1,"network":"outer","containerID":"c1","ifname":"eth0","attachments":{}}`, "cannot unmarshal"},
	"too many":      {`{"version":1,"network":"outer","containerID":"c1","ifname":"eth0","attachments":[` + strings.Repeat("{},", 1000) + `{}]}`, "more than 1000"},
	"too large":     {strings.Repeat(" ", 16<<20+1), "no record is that large"},
}

// What is no record keeps no DEL from its end and no further ADD from being made, is told of, and is kept for a person.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := &spy{}, records(t)
			if err := os.Mkdir(r.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(r.Dir, file)
			write(t, path, damage[0], 0o600)
			for what, err := range map[string]error{"CHECK": r.Check(t.Context(), nil, attach(t)), "SetResult": r.SetResult(t.Context(), attach(t), "a", nil)} {
				if wants(t, err, 105, damage[1], path); !errors.Is(err, delegate.ErrBadRecord) || errors.Is(err, delegate.ErrNoRecord) {
					t.Errorf("%s: %v", what, err)
				}
			}
			wantNames(t, r, file)
			req := bare(t)
			warnings := heard(req)
			if err := r.Del(t.Context(), nil, req); err != nil {
				t.Fatalf("%v: DEL is blocked", err)
			}
			if len(*warnings) != 1 || !strings.Contains((*warnings)[0], damage[1]) || !strings.Contains((*warnings)[0], path) {
				t.Errorf("nothing is lost in silence: %q", *warnings)
			}
			wantNames(t, r, bad)
			if read(t, filepath.Join(r.Dir, bad)) != damage[0] {
				t.Error("it is another file")
			}
			add(t, r, four(t, s), attach(t))
			if err := r.Del(t.Context(), four(t, s).Plugins, bare(t)); err != nil {
				t.Error(err)
			}
			wantNames(t, r, bad)
		})
	}
}

// What is no file at all is not waited for.
func TestRecordThatIsNoFile(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(path string) error{
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":   func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := records(t)
			if err := os.Mkdir(r.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := make(filepath.Join(r.Dir, file)); err != nil {
				t.Fatal(err)
			}
			if all, err := r.List(""); err != nil || len(all) != 1 || !errors.Is(all[0].Err, delegate.ErrBadRecord) {
				t.Errorf("%v, %v", all, err)
			}
			if err := r.Del(t.Context(), nil, bare(t)); err != nil {
				t.Error(err)
			}
			wantNames(t, r, bad)
		})
	}
}

// Whatever stands where a draft should, an ADD makes its own, and nobody reads it.
func TestDraftThatIsGarbage(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(path string) error{
		"empty":    func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"half":     func(path string) error { return os.WriteFile(path, []byte(`{"version":1,"net`), 0o600) },
		"a folder": func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) },
		"a link":   func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := &spy{}, records(t)
			set := four(t, s)
			for _, sweep := range []func() error{nil,
				func() error { return r.Del(t.Context(), set.Plugins, bare(t)) },
				func() error {
					req := bare(t)
					req.Network.ValidAttachments = []types.GCAttachment{}
					return r.GC(t.Context(), set.Plugins, req)
				}} {
				if err := os.MkdirAll(r.Dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := make(filepath.Join(r.Dir, draft)); err != nil {
					t.Fatal(err)
				}
				if all, err := r.List(""); err != nil || len(all) != 0 {
					t.Errorf("%v, %v: a draft is no record", all, err)
				}
				if sweep != nil {
					if err := sweep(); err != nil {
						t.Error(err)
					}
					wantNames(t, r)
					continue
				}
				add(t, r, set, attach(t))
				wantNames(t, r, file)
				if err := r.Del(t.Context(), set.Plugins, bare(t)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Also a draft that a killed SetResult has left beside a record goes with that.
func TestDraftBesideARecord(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	add(t, r, set, attach(t))
	write(t, filepath.Join(r.Dir, draft), "half", 0o600)
	if err := r.Del(t.Context(), set.Plugins, bare(t)); err != nil {
		t.Error(err)
	}
	wantNames(t, r)
}

// Where there are no locks calls go on, and say so; two ADDs do not write into one file.
func TestRecordsWithoutLocks(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set, req := four(t, s), attach(t)
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.Dir, draft), "another's", 0o600)
	other, err := os.Open(filepath.Join(r.Dir, draft))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	warnings := heard(req)
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if strings.HasPrefix(op, "record lock ") {
			return fmt.Errorf("lock: %w", syscall.ENOTSUP)
		}
		return nil
	})
	if _, err := r.Add(ctx, set, req); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(other); err != nil || string(text) != "another's" {
		t.Errorf("%q, %v: it wrote into a file that another had", text, err)
	}
	if err := r.Del(ctx, set.Plugins, req); err != nil {
		t.Error(err)
	}
	wantNames(t, r)
	if len(*warnings) == 0 || !strings.Contains(strings.Join(*warnings, "; "), "no locks") {
		t.Errorf("%q", *warnings)
	}
}

// Cut off at any byte, a record is either none, or has the results and the detached up to there: no DEL is blocked, and
// none is left out.
func TestRecordCutOffAnywhere(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	set.Attachments = set.Attachments[:2]
	path := filepath.Join(r.Dir, file)
	add(t, r, set, attach(t))
	stuck := set.Plugins.Without("a")
	if err := r.Del(t.Context(), stuck, bare(t)); err == nil {
		t.Fatal("the program is not missing")
	}
	whole := read(t, path)
	lines := strings.Split(whole, "\n")
	if len(lines) != 4 {
		t.Fatalf("%q", lines)
	}
	s.said()
	for n := range len(whole) {
		write(t, path, whole[:n], 0o600)
		if err := r.Del(t.Context(), set.Plugins, bare(t)); err != nil {
			t.Fatalf("cut off at %d: %v", n, err)
		}
		prev := 0
		for _, c := range s.calls {
			prev += strings.Count(key(t, c.config, "prevResult"), `"sandbox"`)
		}
		want, wantPrev, left := "b DEL, a DEL", 0, ""
		if n < len(lines[0]) {
			want, left = "", bad
		}
		for _, end := range []int{1, 2} {
			if n >= len(strings.Join(lines[:end+1], "\n")) {
				wantPrev++
			}
		}
		if got := s.said(); got != want || prev != wantPrev {
			t.Fatalf("cut off at %d: %s with %d results, expected %s with %d", n, got, prev, want, wantPrev)
		}
		if got := strings.Join(names(t, r), " "); strings.TrimSpace(got) != left && got != left {
			t.Fatalf("cut off at %d: %s", n, got)
		}
		_ = os.Remove(filepath.Join(r.Dir, bad)) // where it is there
	}
}

// A line that was cut off spoils none that comes after it, as on a disk that was full for a while.
func TestRecordGoesOnAfterACut(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	path := filepath.Join(r.Dir, file)
	add(t, r, set, attach(t))
	whole := read(t, path)
	write(t, path, whole[:len(whole)-5], 0o600)
	if err := r.SetResult(t.Context(), attach(t), "if-a", []byte(`{"cniVersion":"1.1.0","interfaces":[{"name":"new"}]}`)); err != nil {
		t.Fatal(err)
	}
	s.said()
	req := bare(t)
	warnings := heard(req)
	if err := r.Del(t.Context(), set.Plugins, req); err != nil {
		t.Fatal(err)
	}
	for _, c := range s.calls {
		prev := key(t, c.config, "prevResult")
		if c.plugin == "a" && !strings.Contains(prev, `"new"`) || strings.Contains("de", c.plugin) != (prev == "") {
			t.Errorf("%s: prevResult %s", c, prev)
		}
	}
	if len(*warnings) != 1 || !strings.Contains((*warnings)[0], "cut off") {
		t.Errorf("%q", *warnings)
	}
	wantNames(t, r)
}

// One attachment that does not decode costs no other its DEL, and is kept for a person.
func TestRecordWithOneBadAttachment(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	path := filepath.Join(r.Dir, file)
	add(t, r, set, attach(t))
	s.said()
	write(t, path, strings.Replace(read(t, path), `{"type":"b"}`, `{"typo":"b"}`, 1), 0o600)
	write(t, path, strings.Replace(read(t, path), `"type":"b"`, `"typo":"b"`, 1), 0o600)
	if err := r.Check(t.Context(), set.Plugins, attach(t)); err == nil || !strings.Contains(err.Error(), `interface "if-b"`) {
		t.Errorf("CHECK: %v", err)
	}
	s.said()
	req := bare(t)
	warnings := heard(req)
	if err := r.Del(t.Context(), set.Plugins, req); err != nil {
		t.Error(err)
	}
	if got := s.said(); got != "e DEL, d DEL, c DEL, a DEL" || len(*warnings) != 1 || !strings.Contains((*warnings)[0], `if-b`) {
		t.Errorf("%s, %q", got, *warnings)
	}
	wantNames(t, r, bad)
}

// Those that were moved aside do not pile up: the newest stay.
func TestBadRecordsDoNotPileUp(t *testing.T) {
	t.Parallel()
	r := records(t)
	if err := os.Mkdir(r.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		req := bare(t)
		req.ContainerID = fmt.Sprintf("c%02d", i)
		path := filepath.Join(r.Dir, fmt.Sprintf("outer:c%02d:eth0.record", i))
		write(t, path, "damage", 0o600)
		when := time.Unix(1_700_000_000+int64(i), 0)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
		if err := r.Del(t.Context(), nil, req); err != nil {
			t.Error(err)
		}
	}
	if got := names(t, r); len(got) != 16 || got[0] != "outer:c04:eth0.record.bad" {
		t.Errorf("%q", got)
	}
}
