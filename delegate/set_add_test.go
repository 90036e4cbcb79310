package delegate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// At whichever plugin the ADD of a set fails, all that was begun gets its DEL in reverse, with its own prevResult and
// in time of its own, whether they ran one after the other or beside each other.
func TestFailedAddOfASet(t *testing.T) {
	t.Parallel()
	full := netconf.Errorf(101, "full")
	for _, c := range []struct {
		name, fails string
		err, del    error
		want        string
		code        uint
		unchanged   bool
	}{
		{"the first", "a", full, nil, "a ADD, a DEL", 101, false},
		{"the second", "b", full, nil, "a ADD, b ADD, b DEL, a DEL", 101, false},
		{"the last of a list", "e", full, nil, "a ADD, b ADD, c ADD, d ADD, e ADD, e DEL, d DEL, c DEL, b DEL, a DEL", 101, false},
		{"the first of a list", "d", full, nil, "a ADD, b ADD, c ADD, d ADD, d DEL, c DEL, b DEL, a DEL", 101, false},
		{"all DELs fail", "c", full, errors.New("stuck"), "a ADD, b ADD, c ADD, c DEL, b DEL, a DEL", 101, false},
		{"the first is there already", "a", netconf.ErrExists, nil, "a ADD", 100, true},
		{"the third is there already", "c", netconf.ErrExists, nil, "a ADD, b ADD, c ADD, b DEL, a DEL", 100, false},
		{"the first changed nothing", "a", netconf.Unchanged(full), nil, "a ADD", 101, true},
		{"the third changed nothing", "c", netconf.Unchanged(full), nil, "a ADD, b ADD, c ADD, b DEL, a DEL", 101, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := &spy{answer: func(ctx context.Context, name string, req *netconf.Request) error {
				switch {
				case req.Command == netconf.Del:
					if _, limited := ctx.Deadline(); ctx.Err() != nil || !limited {
						t.Errorf("DEL has no time of its own: %v", ctx.Err())
					}
					return c.del
				case name == c.fails:
					cancel()
					return c.err
				}
				return grow(ctx, name, req)
			}}
			results, err := four(t, s).Add(ctx, attach(t))
			wants(t, err, c.code, fmt.Sprintf(`interface "if-%s": delegate %q ADD, network "net-`, strings.ReplaceAll(c.fails, "e", "d"), c.fails))
			if results != nil || netconf.IsUnchanged(err) != c.unchanged || delegate.NotRun(err) {
				t.Errorf("%v, %v: unchanged %v, not run %v", results, err, netconf.IsUnchanged(err), delegate.NotRun(err))
			}
			if c.del != nil && strings.Count(err.Error(), "stuck") != 3 {
				t.Errorf("%v: expected all that was stuck", err)
			}
			for _, call := range s.calls {
				if prev := key(t, call.config, "prevResult"); call.verb == netconf.Del && call.plugin < c.fails && !strings.Contains(prev, fmt.Sprintf(`"name": %q`, call.plugin)) {
					t.Errorf("%s: prevResult %s", call, prev)
				}
			}
			if got := s.said(); got != c.want {
				t.Errorf("%s: expected %s", got, c.want)
			}
		})
	}
}

// With a program that is missing nothing has run where it is the first, and the others are undone where it is not.
func TestMissingProgramOfASet(t *testing.T) {
	t.Parallel()
	s := &spy{}
	set := four(t, s)
	set.Plugins = set.Plugins.Without("a")
	_, err := set.Add(t.Context(), attach(t, t.TempDir()))
	if wants(t, err, 5, `interface "if-a"`, "no such program"); !netconf.IsUnchanged(err) || s.said() != "" {
		t.Errorf("%v, %s", err, s.said())
	}
	set.Plugins = s.plugins("a", "c", "d", "e")
	_, err = set.Add(t.Context(), attach(t, t.TempDir()))
	if wants(t, err, 5, `interface "if-b"`, "no such program"); netconf.IsUnchanged(err) || delegate.NotRun(err) {
		t.Errorf("%v: something was made and undone", err)
	}
	if got := s.said(); got != "a ADD, a DEL" {
		t.Error(got)
	}
	// At DEL the others do their work, and the next DEL mends it (case C-DEL-06).
	err = set.Del(t.Context(), attach(t, t.TempDir()))
	wants(t, err, 5, `interface "if-b": delegate "b" DEL, network "net-b"`)
	if got := s.said(); got != "e DEL, d DEL, c DEL, a DEL" {
		t.Error(got)
	}
}

// Parallel is how many run at once, at most and in fact; those ahead run by themselves and first; the answers
// are in order all the same.
func TestSetInParallel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		parallel, ahead int
		most            int32
	}{{2, 0, 2}, {4, 0, 4}, {9, 1, 3}, {4, 9, 1}, {4, -1, 4}, {1, 0, 1}, {0, 2, 1}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var running atomic.Int32
				goOn := make(chan struct{})
				s := &spy{answer: func(ctx context.Context, name string, req *netconf.Request) error {
					running.Add(1)
					<-goOn
					running.Add(-1)
					return grow(ctx, name, req)
				}}
				set := four(t, s)
				set.Parallel, set.Ahead = c.parallel, c.ahead
				var results []delegate.Result
				var err error
				done := make(chan struct{})
				go func() {
					defer close(done)
					results, err = set.Add(t.Context(), attach(t))
				}()
				most := int32(0)
				for left := 5; left > 0; left-- { // plugins that wait, or will
					synctest.Wait() // until all that may run does
					n := running.Load()
					if most = max(most, n); left == 5 && c.ahead > 0 && n != 1 {
						t.Error("the first does not run alone")
					}
					goOn <- struct{}{}
				}
				<-done
				if err != nil || most != c.most {
					t.Fatalf("%v, %d ran at once: expected %d", err, most, c.most)
				}
				for i, r := range results {
					if r.Interfaces[0].Name != []string{"a", "b", "c", "d"}[i] {
						t.Errorf("result %d: %v", i, r.Interfaces)
					}
				}
			})
		})
	}
}

// The first failure cancels those that run, which are waited for; then all that were begun go in reverse, and what
// was not begun stays untouched. The error is that of the one which failed.
func TestFailureInParallel(t *testing.T) {
	t.Parallel()
	var begun sync.WaitGroup
	begun.Add(2)
	s := &spy{answer: func(ctx context.Context, name string, req *netconf.Request) error {
		switch {
		case req.Command == netconf.Del:
			return nil
		case name == "b":
			begun.Wait()
			return netconf.Errorf(101, "full")
		}
		begun.Done()
		select {
		case <-ctx.Done():
			return fmt.Errorf("stopped: %w", context.Cause(ctx))
		case <-time.After(30 * time.Second):
			t.Error("not cancelled")
			return nil
		}
	}}
	set := four(t, s)
	set.Parallel = 3
	_, err := set.Add(t.Context(), attach(t))
	if wants(t, err, 101, `interface "if-b"`, "full"); strings.Contains(err.Error(), "stopped") {
		t.Error(err)
	}
	said := strings.Split(s.said(), ", ")
	if len(said) != 6 {
		t.Fatalf("%q", said)
	}
	slices.Sort(said[:3])
	if got := strings.Join(said, ", "); got != "a ADD, b ADD, c ADD, c DEL, b DEL, a DEL" {
		t.Errorf("%s: expected d untouched", got)
	}
}

// A context that ends before all were begun is a failure like any; one that ends when all is done is none.
func TestSetWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"b", "c", "d", "e"} {
		for _, parallel := range []int{1, 2} {
			t.Run(fmt.Sprint(at, parallel), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := &spy{answer: func(ctx context.Context, name string, req *netconf.Request) error {
					if name == at && req.Command == netconf.Add {
						cancel()
					}
					return grow(ctx, name, req)
				}}
				set := four(t, s)
				set.Parallel, set.Ahead = parallel, 3
				_, err := set.Add(ctx, attach(t))
				said := s.said()
				if at == "e" {
					if err != nil || strings.Contains(said, "DEL") {
						t.Errorf("%v, %s", err, said)
					}
					return
				}
				if netconf.Code(err) != 11 || strings.Count(said, "ADD") != strings.Count(said, "DEL") || !strings.HasSuffix(said, "a DEL") {
					t.Errorf("%v, %s", err, said)
				}
			})
		}
	}
}

// What a fault hook does to one of several, also a panic, is not lost in a goroutine, where it would end the process.
func TestPanicInParallel(t *testing.T) {
	t.Parallel()
	s := &spy{}
	set := four(t, s)
	set.Parallel = 4
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if op == "call c ADD" {
			panic("ouch")
		}
		return nil
	})
	defer func() {
		if r := recover(); r != "ouch" {
			t.Errorf("%v: expected the panic here", r)
		}
	}()
	_, err := set.Add(ctx, attach(t))
	t.Errorf("%v: expected a panic", err)
}

// A call that was not begun has changed nothing, and no DEL follows: in a second ADD it would take away what lives.
func TestAddThatWasNotBegun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program string // the text of fake; empty: a Go value
		broken  string // the operation that fails; "end": the context has ended before
	}{
		"a program, a fault":          {"#!/bin/sh\necho $CNI_COMMAND >> $0.verbs", "exec fake ADD"},
		"a program, the time is over": {"#!/bin/sh\necho $CNI_COMMAND >> $0.verbs", "end"},
		"no program":                  {"\x00\x01", ""},
		"a Go value, a fault":         {"", "call fake ADD"},
		"a Go value, no time":         {"", "end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir, broken := &spy{}, t.TempDir(), errors.New("broken")
			ctx, cancel := context.WithCancel(netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
				if op == c.broken {
					return broken
				}
				return nil
			}))
			defer cancel()
			if c.broken == "end" {
				cancel()
			}
			var r delegate.Registry
			if c.program == "" {
				r = s.plugins("fake")
			} else {
				write(t, filepath.Join(dir, "fake"), c.program, 0o755)
			}
			_, err := parse(t, plain).Add(ctx, r, attach(t, dir))
			if err == nil || !netconf.IsUnchanged(err) || s.said() != "" {
				t.Errorf("%v, %s", err, s.said())
			}
			if verbs, err := os.ReadFile(filepath.Join(dir, "fake.verbs")); err == nil {
				t.Errorf("%s: expected no call", verbs)
			}
		})
	}
}
