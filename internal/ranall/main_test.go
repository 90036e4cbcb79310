package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func line(action, test string) string {
	return `{"Action":"` + action + `","Package":"p","Test":"` + test + `"}` + "\n"
}

func TestReport(t *testing.T) {
	t.Parallel()
	output := `{"Action":"output","Package":"p","Test":"A","Output":"why\n"}` + "\n"
	for _, c := range []struct {
		name   string
		passes []string
		ok     bool
		want   string // without the passes' counts
	}{
		{"all ran", []string{line("run", "A") + line("pass", "A") + line("pass", "")}, true, "1 passed, 0 failed, 0 skipped\n"},
		{"one pass skips", []string{line("skip", "A") + line("pass", "B"), line("pass", "A")}, true, "2 passed, 0 failed, 0 skipped\n"},
		{"all passes skip", []string{line("skip", "A") + line("pass", "B"), line("skip", "A") + line("pass", "B")}, false, "skipped in every pass: p A\n1 passed, 0 failed, 1 skipped\n"},
		{"one pass fails", []string{line("pass", "A"), line("fail", "A") + line("fail", "")}, false, "failed: p A\n0 passed, 1 failed, 0 skipped\n"},
		{"one fails, one skips", []string{line("fail", "A"), line("skip", "A") + line("pass", "B")}, false, "failed: p A\n1 passed, 1 failed, 0 skipped\n"},
		{"the output of the pass that fails", []string{line("run", "A") + output + line("fail", "A"), line("run", "A") + line("pass", "A")}, false, "failed: p A\nwhy\n0 passed, 1 failed, 0 skipped\n"},
		{"and which pass it was", []string{line("pass", "A"), line("run", "A") + output + line("fail", "A")}, false, "failed: p A\nin b:\nwhy\n0 passed, 1 failed, 0 skipped\n"},
		{"a subtest fails", []string{line("fail", "A/x") + line("fail", "A")}, false, "failed: p A/x\nfailed: p A\n0 passed, 2 failed, 0 skipped\n"},
		{"did not build", []string{line("pass", "B") + `{"Action":"output","Package":"q","Output":"no\n"}` + "\n" + `{"Action":"fail","Package":"q"}`}, false, "failed: q \nno\n1 passed, 1 failed, 0 skipped\n"},
		{"died", []string{line("run", "A")}, false, "failed: p A\n0 passed, 1 failed, 0 skipped\n"},
		{"died in one pass", []string{line("pass", "A"), line("run", "A")}, false, "failed: p A\n0 passed, 1 failed, 0 skipped\n"},
		{"hung, while others waited", []string{line("run", "A") + line("run", "A/x") + line("pause", "A/x") + line("run", "A/y") + line("pause", "A/y") + line("cont", "A/x") +
			line("run", "B") + line("pause", "B") + line("fail", "")}, false, "failed: p A/x\nfailed: p A\n0 passed, 2 failed, 0 skipped\n"},
		{"died, while all waited", []string{line("run", "A") + line("pause", "A") + line("run", "B") + line("pause", "B") + line("cont", "B") + line("pass", "B")}, false, "failed: p A\n1 passed, 1 failed, 0 skipped\n"},
		{"one waited, and passes elsewhere", []string{line("run", "A") + line("run", "B") + line("pause", "B"), line("pass", "B")}, false, "failed: p A\n1 passed, 1 failed, 0 skipped\n"},
		{"no tests", []string{`{"Action":"skip","Package":"p"}` + "\nnoise\n" + line("pass", "A")}, true, "1 passed, 0 failed, 0 skipped\n"},
		{"nothing ran", []string{""}, false, "failed: the pass a, which ran no test\n0 passed, 1 failed, 0 skipped\n"},
		{"one pass ran nothing", []string{line("pass", "A"), line("skip", "A")}, false, "failed: the pass b, which ran no test\n1 passed, 1 failed, 0 skipped\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &report{told: map[string][]string{}}
			for i, p := range c.passes {
				if err := r.read(string(rune('a'+i)), strings.NewReader(p)); err != nil {
					t.Fatal(err)
				}
			}
			var out, got strings.Builder
			ok := r.print(&out)
			for l := range strings.Lines(out.String()) {
				if !strings.Contains(l, " tests ran, ") {
					got.WriteString(l)
				}
			}
			if ok != c.ok || got.String() != c.want {
				t.Errorf("%v\n got %q\nwant %q", ok, got.String(), c.want)
			}
		})
	}
}

// The whole of it, from files: what is said of passes and guests, and the table.
func TestPassesAndTable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var args []string
	for _, p := range []struct{ label, lines string }{
		{"unit-6.18", line("pass", "A") + line("skip", "B") + line("skip", "C")},
		{"root-6.18", line("pass", "B") + line("skip", "C")},
		{"guest-6.12", line("pass", "C") + line("pass", "C/x") + line("pass", "B/y") + line("pass", "B/z/1") + line("skip", "A") + line("pass", "")},
	} {
		name := filepath.Join(dir, p.label)
		if err := os.WriteFile(name, []byte(p.lines), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, p.label+"="+name)
	}
	r, err := readAll(args)
	if err != nil {
		t.Fatal(err)
	}
	var out, table strings.Builder
	if !r.print(&out) {
		t.Error("not well")
	}
	want := "unit-6.18: 1 tests ran, 2 were skipped\nroot-6.18: 1 tests ran, 1 were skipped\nguest-6.12: 4 tests ran, 1 were skipped\nin guests only:\n  p B: 2 of its subtests\n  p C\n6 passed, 0 failed, 0 skipped\n"
	if out.String() != want {
		t.Errorf("\n got %q\nwant %q", out.String(), want)
	}
	if err := r.table(&table); err != nil {
		t.Fatal(err)
	}
	want = "unit-6.18  root-6.18  guest-6.12  test\npass       -          skip        p A\nskip       pass       -           p B\n-          -          pass        p B/y\n-          -          pass        p B/z/1\nskip       skip       pass        p C\n-          -          pass        p C/x\n"
	if table.String() != want {
		t.Errorf("\n got %s\nwant %s", table.String(), want)
	}
	for _, bad := range []string{"x", "=x", "x=" + filepath.Join(dir, "none")} {
		if _, err := readAll([]string{bad}); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
