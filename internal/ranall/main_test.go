package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	t.Parallel()
	line := func(action, test string) string {
		return `{"Action":"` + action + `","Package":"p","Test":"` + test + `"}` + "\n"
	}
	for _, c := range []struct {
		name   string
		passes []string
		ok     bool
		want   string
	}{
		{"all ran", []string{line("run", "A") + line("pass", "A") + line("pass", "")}, true, "1 passed, 0 failed, 0 skipped\n"},
		{"one pass skips", []string{line("skip", "A") + line("pass", "B"), line("pass", "A")}, true, "2 passed, 0 failed, 0 skipped\n"},
		{"all passes skip", []string{line("skip", "A") + line("pass", "B"), line("skip", "A")}, false, "skipped in every pass: p A\n1 passed, 0 failed, 1 skipped\n"},
		{"one pass fails", []string{line("pass", "A"), line("fail", "A") + line("fail", "")}, false, "failed: p A\n0 passed, 1 failed, 0 skipped\n"},
		{"the output of the pass that fails", []string{line("run", "A") + `{"Action":"output","Package":"p","Test":"A","Output":"why\n"}` + "\n" + line("fail", "A"), line("run", "A") + line("pass", "A")}, false, "failed: p A\nwhy\n0 passed, 1 failed, 0 skipped\n"},
		{"a subtest fails", []string{line("fail", "A/x") + line("fail", "A")}, false, "failed: p A/x\nfailed: p A\n0 passed, 2 failed, 0 skipped\n"},
		{"did not build", []string{line("pass", "B") + `{"Action":"output","Package":"q","Output":"no\n"}` + "\n" + `{"Action":"fail","Package":"q"}`}, false, "failed: q \nno\n1 passed, 1 failed, 0 skipped\n"},
		{"died", []string{line("run", "A")}, false, "failed: p A\n0 passed, 1 failed, 0 skipped\n"},
		{"no tests", []string{`{"Action":"skip","Package":"p"}` + "\nnoise\n" + line("pass", "A")}, true, "1 passed, 0 failed, 0 skipped\n"},
		{"nothing ran", []string{""}, false, "0 passed, 0 failed, 0 skipped\n"},
	} {
		r := newReport()
		for _, p := range c.passes {
			if err := r.read(strings.NewReader(p)); err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		if ok := r.print(&out); ok != c.ok || out.String() != c.want {
			t.Errorf("%s: %v\n got %q\nwant %q", c.name, ok, out.String(), c.want)
		}
	}
}
