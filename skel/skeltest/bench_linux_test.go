package skeltest

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/skel"
)

// fixed is a plugin that gives one answer to all calls.
type fixed string

func (f fixed) Run(_ context.Context, call skel.IO) int {
	if _, err := io.WriteString(call.Stdout, string(f)); err != nil {
		return 1
	}
	return 0
}

// What a check does decides what becomes of the requirement, and nothing that goes wrong counts as a pass.
func TestBenchTellsOutcomesApart(t *testing.T) {
	t.Parallel()
	const versions = `{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0","7.0.0"]}`
	for _, test := range []struct {
		name   string
		config string
		kinds  []skel.Kind
		check  func(b *Bench)
		status Status
		detail string
	}{
		{name: "nothing", check: func(*Bench) {}, status: Pass},
		{name: "log", check: func(b *Bench) { b.Log("seen") }, status: Pass},
		{name: "error", check: func(b *Bench) { b.Errorf("%d seen", 1); b.Error("and more") }, status: Failed, detail: "1 seen\nand more"},
		{name: "fatal", check: func(b *Bench) { b.Fatal("seen"); b.Error("never") }, status: Failed, detail: "seen"},
		{name: "skip", check: func(b *Bench) { b.Skipf("no %s", "need"); b.Error("never") }, status: NotApplicable, detail: "no need"},
		{name: "error, then skip", check: func(b *Bench) { b.Error("seen"); b.Skip("no need") }, status: Failed, detail: "seen\nno need"},
		{name: "panic", check: func(*Bench) { panic("oh") }, status: NotJudged, detail: "panic: oh"},
		{name: "what a Bench does not have", check: func(b *Bench) { b.Setenv("A", "b") }, status: NotJudged, detail: "panic: "},
		{name: "panic of a cleanup", check: func(b *Bench) { b.Cleanup(func() { panic("oh") }) }, status: NotJudged, detail: "panic: oh"},
		{name: "error of a cleanup", check: func(b *Bench) { b.Cleanup(func() { b.Error("left") }) }, status: Failed, detail: "left"},
		{name: "another kind", kinds: []skel.Kind{skel.IPAM}, check: func(b *Bench) { b.Error("never") }, status: NotApplicable, detail: "interface"},
		{name: "no configuration", config: "{", check: func(*Bench) {}, status: NotJudged, detail: "the configuration: "},
		{name: "a path without delegates", check: func(b *Bench) { b.Error(b.gc("a", "[]").Path) }, status: Failed, detail: os.TempDir() + "/bench"},
		{name: "newest version", check: func(b *Bench) { b.Error(b.Base) }, status: Failed, detail: `"cniVersion":"1.0.0"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.config == "" {
				test.config = `{"cniVersion":"0.4.0","name":"net"}`
			}
			b := &Bench{Target: Target{Plugin: fixed(versions), Config: test.config}, id: "a/b"}
			status, detail := b.judge(Requirement{ID: "a/b", Kinds: test.kinds, Check: test.check})
			if status != test.status || !strings.Contains(detail, test.detail) || test.detail == "" && detail != "" {
				t.Errorf("%s %q, expected %s %q", status, detail, test.status, test.detail)
			}
		})
	}
}

// What stands around a document on stdout is seen, and the document is read all the same.
func TestAnswerIsReadAndJudged(t *testing.T) {
	t.Parallel()
	const result = `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2/24"}]}`
	for _, test := range []struct {
		stdout, says string
		ips          int
	}{
		{result, "", 1},
		{"hello\n" + result, "no document", 1},
		{result + result, "more than one document", 1},
		{result + "bye", "more than one document", 1},
		{"", "without a result", 0},
		{"[1]", "expected an object", 0},
	} {
		a := Call{Command: "ADD"}.run(t.Context(), t, fixed(test.stdout))
		ips := 0
		if a.Result != nil {
			ips = len(a.Result.IPs)
		}
		if ips != test.ips || (a.protocol == nil) != (test.says == "") || a.protocol != nil && !strings.Contains(a.protocol.Error(), test.says) {
			t.Errorf("%q: %d addresses, %v; expected %d, %q", test.stdout, ips, a.protocol, test.ips, test.says)
		}
	}
}
