package skeltest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// Bench is where one requirement is judged: a host of its own, with the plugin. It is a [testing.TB], so that all of
// this package works with it: what fails the test fails the requirement, and its text is the difference that the
// author of the plugin reads; Skip says why the requirement does not apply.
type Bench struct {
	testing.TB // nil: what is not defined here panics, and so the requirement is not judged
	Target

	// Versions are the versions of the specification that the plugin announces.
	Versions []string
	// Base is the configuration of the judged plugin alone, in the newest version that it announces.
	Base string

	id       string
	parent   bool     // the parent was there before any attachment
	before   []string // the configurations of the plugins before it
	paths    []string // CNI_PATH
	said     []string
	failed   bool
	skipped  bool
	number   int
	cleanups []func()
	links    []string       // of the host, that the plugins before it have made
	setUp    map[int]string // what Setup has started, and when each began
	lasting  map[int]string // what has been left behind
}

// judge runs the check and tells what became of it.
func (b *Bench) judge(r Requirement) (Status, string) {
	if r.Kinds != nil && !slices.Contains(r.Kinds, b.Kind) {
		return NotApplicable, "it is for other plugins than those of the kind " + kindName(b.Kind)
	}
	var broken string
	if b.guard(b.prepare, &broken); broken == "" && b.failed {
		broken = strings.Join(b.said, "\n")
	}
	if broken == "" && !b.skipped {
		b.guard(func() { r.Check(b) }, &broken)
	}
	for _, f := range slices.Backward(b.cleanups) {
		b.guard(f, &broken)
	}
	said := strings.TrimSpace(strings.Join(b.said, "\n"))
	switch {
	case broken != "":
		return NotJudged, broken
	case b.failed:
		return Failed, said
	case b.skipped:
		return NotApplicable, said
	}
	return Pass, ""
}

// guard runs f in a goroutine that Fatal and Skip can end.
func (b *Bench) guard(f func(), broken *string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				*broken = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

// Helper does nothing.
func (b *Bench) Helper() {}

// Name is the requirement's ID.
func (b *Bench) Name() string { return b.id }

// Context ends with the process.
func (b *Bench) Context() context.Context { return context.Background() }

// Log keeps a text, which is shown if the requirement fails.
func (b *Bench) Log(args ...any) {
	b.said = append(b.said, strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
}

// Logf is Log with a format.
func (b *Bench) Logf(format string, args ...any) { b.Log(fmt.Sprintf(format, args...)) }

// Fail fails the requirement.
func (b *Bench) Fail() { b.failed = true }

// Failed tells whether it has failed.
func (b *Bench) Failed() bool { return b.failed }

// FailNow fails the requirement and ends the check.
func (b *Bench) FailNow() {
	b.failed = true
	runtime.Goexit()
}

// Error is Log and Fail.
func (b *Bench) Error(args ...any) { b.Log(args...); b.Fail() }

// Errorf is Logf and Fail.
func (b *Bench) Errorf(format string, args ...any) { b.Logf(format, args...); b.Fail() }

// Fatal is Log and FailNow.
func (b *Bench) Fatal(args ...any) { b.Log(args...); b.FailNow() }

// Fatalf is Logf and FailNow.
func (b *Bench) Fatalf(format string, args ...any) { b.Logf(format, args...); b.FailNow() }

// Skip says why the requirement does not apply, and ends the check.
func (b *Bench) Skip(args ...any) { b.Log(args...); b.SkipNow() }

// Skipf is Skip with a format.
func (b *Bench) Skipf(format string, args ...any) { b.Logf(format, args...); b.SkipNow() }

// SkipNow ends the check: the requirement does not apply.
func (b *Bench) SkipNow() {
	b.skipped = true
	runtime.Goexit()
}

// Skipped tells whether it does not apply.
func (b *Bench) Skipped() bool { return b.skipped }

// Cleanup runs f when the check has ended.
func (b *Bench) Cleanup(f func()) { b.cleanups = append(b.cleanups, f) }

// TempDir makes a folder that goes when the check has ended.
func (b *Bench) TempDir() string {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) }) // what is in use yet goes with the host's folder, which judge takes away
	return dir
}
