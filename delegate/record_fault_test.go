package delegate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// The fault hook is asked before each write. What cannot be written at ADD is an error before any plugin runs, or with all
// undone; at DEL it stops nothing.
func TestRecordFaults(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, c := range []struct {
		name, op  string
		verb      netconf.Command
		want      string
		unchanged bool
		files     []string
		warnings  int
	}{
		{"the draft", "record create outer:c1:eth0", netconf.Add, "", true, []string{}, 0},
		{"the record", "record write outer:c1:eth0", netconf.Add, "", true, []string{}, 0},
		{"putting it on the disk", "record sync outer:c1:eth0", netconf.Add, "", true, []string{}, 0},
		{"putting its name on the disk", "record sync folder", netconf.Add, "", true, []string{}, 0},
		{"its name", "record link outer:c1:eth0", netconf.Add, "", true, []string{}, 0},
		{"a lock that is refused", "record lock outer:c1:eth0", netconf.Add, "", true, []string{}, 0},
		{"a result", "record note outer:c1:eth0 if-b", netconf.Add, "a ADD, b ADD, b DEL, a DEL", false, []string{}, 1},
		{"what was detached", "record note outer:c1:eth0 if-b", netconf.Del, "e DEL, d DEL, c DEL, b DEL, a DEL", false, []string{}, 1},
		{"the end", "record remove outer:c1:eth0", netconf.Del, "e DEL, d DEL, c DEL, b DEL, a DEL", false, []string{file}, 1},
		{"a lock that is refused, at DEL", "record lock outer:c1:eth0", netconf.Del, "", false, []string{file}, 0},
		{"moving it aside", "record rename outer:c1:eth0", netconf.GC, "", false, []string{file}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, r := &spy{}, records(t)
			set, req := four(t, s), attach(t)
			if c.verb != netconf.Add {
				add(t, r, set, req)
				s.said()
			}
			warnings := heard(req)
			ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
				if op == c.op || op == c.op+" "+r.Dir {
					return broken
				}
				return nil
			})
			switch c.verb {
			case netconf.Add:
				_, err := r.Add(ctx, set, req)
				if wants(t, err, 105, "broken", file); !errors.Is(err, broken) || netconf.IsUnchanged(err) != c.unchanged {
					t.Error(err)
				}
			case netconf.GC: // that is, the DEL of a damaged one
				write(t, filepath.Join(r.Dir, file), "damage", 0o600)
				fallthrough
			case netconf.Del:
				err := r.Del(ctx, set.Plugins, req)
				if strings.Contains(c.op, " lock ") {
					wants(t, err, 105, "broken", file) // else two calls could be at work on it
				} else if err != nil {
					t.Error(err)
				}
			}
			if got := s.said(); got != c.want || len(*warnings) != c.warnings {
				t.Errorf("%s, %q: expected %s", got, *warnings, c.want)
			}
			wantNames(t, r, c.files...)
			if err := r.Del(t.Context(), set.Plugins, req); err != nil { // the next DEL mends all
				t.Error(err)
			}
		})
	}
}

// The end of the context stops no write of what has happened.
func TestRecordsAndTheEndOfTheContext(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Add(ctx, set, attach(t))
	if wants(t, err, 11); !netconf.IsUnchanged(err) || s.said() != "" {
		t.Error(err)
	}
	wantNames(t, r)
	set.Plugins = s.plugins("a", "b", "c", "d", "e")
	during, end := context.WithCancel(t.Context())
	defer end()
	s.answer = func(ctx context.Context, name string, req *netconf.Request) error {
		if name == "e" && req.Command == netconf.Add {
			end() // too late: all is made, and told
		}
		return nil
	}
	if _, err := r.Add(during, set, attach(t)); err != nil {
		t.Error(err)
	}
	if err := r.Del(ctx, set.Plugins, bare(t)); netconf.Code(err) != 11 {
		t.Errorf("%v", err)
	}
	wantNames(t, r, file)
}

// A record that would be too large, and a folder that cannot be made, are errors before anything is run.
func TestRecordThatCannotBeMade(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	set.Attachments[0].Args = netconf.Args{"X": strings.Repeat("x", 17<<20)}
	_, err := r.Add(t.Context(), set, attach(t))
	if wants(t, err, 105, "at most"); !netconf.IsUnchanged(err) {
		t.Error(err)
	}
	many := four(t, s)
	for i := range 1000 {
		many.Attachments = append(many.Attachments, delegate.Attachment{Network: parse(t, plain), IfName: fmt.Sprint("n", i)})
	}
	_, err = r.Add(t.Context(), many, attach(t))
	if wants(t, err, 105, "at most 1000"); !netconf.IsUnchanged(err) {
		t.Error(err)
	}
	if err := os.Remove(r.Dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	write(t, r.Dir, "no folder", 0o600)
	_, err = r.Add(t.Context(), four(t, s), attach(t))
	if wants(t, err, 105, "not a directory"); !netconf.IsUnchanged(err) || s.said() != "" {
		t.Error(err)
	}
	if err := r.Del(t.Context(), nil, bare(t)); netconf.Code(err) != 105 {
		t.Errorf("%v: a folder that cannot be read is no success", err)
	}
	if _, err := r.List(""); netconf.Code(err) != 105 {
		t.Error(err)
	}
}

// Where a record that has grown cannot be written anew it is as it was, whole.
func TestRewriteThatFails(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"record rewrite outer:c1:eth0", "record rename outer:c1:eth0.record.new"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			s, r := &spy{}, records(t)
			set := four(t, s)
			add(t, r, set, attach(t))
			before := read(t, filepath.Join(r.Dir, file))
			write(t, filepath.Join(r.Dir, draft), "of a killed call", 0o600)
			broken := errors.New("broken")
			ctx := netconf.WithFault(t.Context(), func(_ context.Context, is string) error {
				if is == op {
					return broken
				}
				return nil
			})
			large := fmt.Sprintf(`{"cniVersion":"1.1.0","x":%q}`, strings.Repeat("x", 2<<20))
			wants(t, r.SetResult(ctx, attach(t), "if-a", []byte(large)), 105, "broken", file)
			if wantNames(t, r, file); read(t, filepath.Join(r.Dir, file)) != before {
				t.Error("it was changed")
			}
			if err := r.SetResult(t.Context(), attach(t), "if-a", []byte(large)); err != nil {
				t.Error(err)
			}
			rec, err := r.Load(t.Context(), attach(t))
			if err != nil || len(rec.Attachments) != 4 || string(rec.Attachments[0].Result) != large || len(rec.Attachments[3].Result) == 0 {
				t.Errorf("%v", err)
			}
		})
	}
}

// A panic while a draft is held, in a process that lives on, leaves it neither held nor there.
func TestPanicLeavesNoDraft(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"create", "lock", "write", "sync", "link"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			r, set, req := records(t), four(t, &spy{}), attach(t)
			ctx := netconf.WithFault(t.Context(), func(_ context.Context, did string) error {
				if did == "record "+op+" outer:c1:eth0" {
					panic("injected")
				}
				return nil
			})
			func() {
				defer func() {
					if recover() == nil {
						t.Error("there was no panic")
					}
				}()
				_, _ = r.Add(ctx, set, req) // it panics
			}()
			if left, err := filepath.Glob(filepath.Join(r.Dir, "*")); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}
