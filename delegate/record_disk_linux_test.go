package delegate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// disk is a small file system of its own for records.
type disk struct {
	delegate.Records
	fill string // a file that takes what there is
}

func newDisk(t *testing.T, options string) disk {
	t.Helper()
	skeltest.NeedRoot(t)
	r := records(t)
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", r.Dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(r.Dir, 0); err != nil {
			t.Error(err)
		}
	})
	return disk{r, filepath.Join(r.Dir, "fill")}
}

// full leaves room for as many bytes as there are in left, in whole pages.
func (d disk) full(t *testing.T, left int64) {
	t.Helper()
	if err := os.WriteFile(d.fill, make([]byte, 8<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
	info, err := os.Stat(d.fill)
	if err == nil && left > 0 {
		err = os.Truncate(d.fill, info.Size()-left)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (d disk) empty(t *testing.T) {
	t.Helper()
	if err := os.Remove(d.fill); err != nil {
		t.Fatal(err)
	}
}

// On a full disk an ADD fails before anything is run, wherever it gets full, and nothing stays of it.
// (A second name takes an inode on a tmpfs.)
func TestAddOnAFullDisk(t *testing.T) {
	for name, c := range map[string]struct {
		options string
		left    int64
		large   int // bytes of the record, about
	}{
		"full": {"size=64k", 0, 0}, "in the middle of the line": {"size=64k", 4096, 10_000}, "no room for its name": {"size=64k,nr_inodes=3", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d, s := newDisk(t, c.options), &spy{}
			set := four(t, s)
			set.Attachments[0].Args = netconf.Args{"X": strings.Repeat("x", c.large)}
			d.full(t, c.left)
			_, err := d.Add(t.Context(), set, attach(t))
			if wants(t, err, 105, "no space left", file); !netconf.IsUnchanged(err) || s.said() != "" {
				t.Errorf("%v, %s", err, s.said())
			}
			wantNames(t, d.Records, "fill")
			d.empty(t)
			add(t, d.Records, set, attach(t))
		})
	}
}

// A disk that gets full while the second is being added: all is undone, and the record is gone.
func TestDiskThatFillsDuringAnAdd(t *testing.T) {
	d := newDisk(t, "size=64k")
	s := &spy{answer: func(ctx context.Context, name string, req *netconf.Request) error {
		if req.Command != netconf.Add {
			return nil
		}
		if name == "b" {
			d.full(t, 0)
		}
		req.Result.DNS.Options = []string{strings.Repeat("x", 5000)} // large answers fill the page that the record has
		return grow(ctx, name, req)
	}}
	_, err := d.Add(t.Context(), four(t, s), attach(t))
	wants(t, err, 105, "no space left", `interface "if-b"`)
	if got := s.said(); got != "a ADD, b ADD, b DEL, a DEL" {
		t.Error(got)
	}
	wantNames(t, d.Records, "fill")
}

// A DEL on a full disk goes on, and the record is gone; on one that cannot be written to at all it goes on too, and the
// record stays for GC.
func TestDelOnAFullDisk(t *testing.T) {
	d, s := newDisk(t, "size=64k"), &spy{}
	set := four(t, s)
	for _, ro := range []bool{false, true} {
		add(t, d.Records, set, attach(t))
		d.full(t, 0)
		s.said()
		if ro {
			if err := unix.Mount("tmpfs", d.Dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
		}
		req := bare(t)
		warnings := heard(req)
		if err := d.Del(t.Context(), set.Plugins, req); err != nil {
			t.Error(err)
		}
		if got := s.said(); got != "e DEL, d DEL, c DEL, b DEL, a DEL" || ro != (len(*warnings) == 5) {
			t.Errorf("%s, %q", got, *warnings)
		}
		if !ro {
			wantNames(t, d.Records, "fill")
			d.empty(t)
			continue
		}
		wantNames(t, d.Records, "fill", file)
		if rec, err := d.Load(t.Context(), req); err != nil || len(rec.Attachments) != 4 {
			t.Errorf("%+v, %v", rec, err)
		}
	}
}

// Where a result has no room the record is as it was, also where it is to be written anew.
func TestSetResultOnAFullDisk(t *testing.T) {
	d, s := newDisk(t, "size=4m"), &spy{}
	set := four(t, s)
	add(t, d.Records, set, attach(t))
	large := func(n int) []byte {
		return fmt.Appendf(nil, `{"cniVersion":"1.1.0","x":%q}`, strings.Repeat("x", n))
	}
	before := large(900_000)
	if err := d.SetResult(t.Context(), attach(t), "if-a", before); err != nil {
		t.Fatal(err)
	}
	d.full(t, 0)
	for _, n := range []int{20_000, 900_000} {
		wants(t, d.SetResult(t.Context(), attach(t), "if-a", large(n)), 105, "no space left", file)
		wantNames(t, d.Records, "fill", file)
		rec, err := d.Load(t.Context(), attach(t))
		if err != nil || len(rec.Attachments) != 4 || string(rec.Attachments[0].Result) != string(before) || len(rec.Attachments[1].Result) == 0 {
			t.Errorf("%v: the record was changed", err)
		}
	}
}
