package skeltest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing/iotest"

	"golang.org/x/sys/unix"
)

// streamRequirements are about what stdin and stdout are connected to.
func streamRequirements() []Requirement {
	return slices.Concat(stdinRequirements(), stdoutRequirements())
}

// stdinRequirements are about stdin.
func stdinRequirements() []Requirement {
	return []Requirement{{
		ID: "stdin/closed", Level: Must, Section: "CNI 1.1.0, 2 (\"configuration ... on standard input\")",
		Text:    "ADD with a closed stdin fails, and makes nothing.",
		Explain: "There is no configuration then, and its defaults are not what anybody wanted.",
		Check: func(b *Bench) {
			call := Call{}
			if _, program := b.Plugin.(Binary); !program {
				call.Stdin = iotest.ErrReader(os.ErrClosed)
			}
			refuses(b, b.closing("<&-"), call, "ADD with a closed stdin", true)
		},
	}, {
		ID: "stdin/never-closed", Level: Ours, Section: "CNI 1.1.0, 2",
		Text:    "ADD with a stdin that is never closed ends when it is told to, by SIGTERM, and makes nothing; or it works.",
		Explain: "A runtime that hangs, or leaks the pipe to a child, never closes it. A plugin that waits must still be one that can be ended.",
		Check:   stdinOpen,
	}, {
		ID: "stdin/huge", Level: Ours, Section: "CNI 1.1.0, 2",
		Text:    "ADD with 17 MB of configuration works, or fails with an error document and makes nothing.",
		Explain: "It must not be cut off in silence, and not end in a crash: what is cut off is another configuration.",
		Check: func(b *Bench) {
			c := b.Container()
			before := b.Settle(c)
			c.Add.Config = b.Set(c.Add.Config, "args", `{"padding":"`+strings.Repeat("x", 17<<20)+`"}`)
			if a := b.Run(c.Add); a.Exit == 0 {
				b.Succeeds(c.Del())
			} else if problem := errorDocument(a); problem != "" {
				b.Error(problem)
			}
			b.Same(before, "after ADD with 17 MB of configuration", c)
		},
	}}
}

// stdoutRequirements are about stdout.
func stdoutRequirements() []Requirement {
	return []Requirement{{
		ID: "stdout/closed", Level: Ours, Section: "CNI 1.1.0, 5 (Success)",
		Text:    "ADD that cannot print its result, because stdout is closed, fails and leaves nothing.",
		Explain: "A result that nobody gets is an attachment that nobody knows of. Printing is a part of ADD: when it fails, roll back.",
		Check: func(b *Bench) {
			call := Call{}
			if _, program := b.Plugin.(Binary); !program {
				call.Stdout = unwritable{}
			}
			refuses(b, b.closing(">&-"), call, "ADD with a closed stdout", false)
		},
	}, {
		ID: "stdout/full", Level: Ours, Section: "CNI 1.1.0, 5 (Success)",
		Text:    "ADD that cannot print its result, because the disk behind stdout is full, fails and leaves nothing.",
		Explain: "The error of the last write is the one that is forgotten most. Check it, and roll back.",
		Check: func(b *Bench) {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer full.Close()
			refuses(b, b.Plugin, Call{Stdout: full}, "ADD with a full stdout", false)
		},
	}, {
		ID: "stdout/no-reader", Level: Ours, Section: "CNI 1.1.0, 5 (Success)",
		Text:    "ADD whose stdout nobody reads any more fails and leaves nothing.",
		Explain: "The runtime has died. Writing to its pipe is SIGPIPE, which ends a program at once, without any rollback: ignore the signal, and take the write's error.",
		Check: func(b *Bench) {
			r, w, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
			refuses(b, b.Plugin, Call{Stdout: w}, "ADD with a stdout that nobody reads", false)
		},
	}}
}

// unwritable is a closed stdout.
type unwritable struct{}

func (unwritable) Write([]byte) (int, error) { return 0, os.ErrClosed }

// closing is the program with a stream closed, by the shell's word for it; a plugin in this process stays as it is.
func (b *Bench) closing(redirection string) Plugin {
	program, ok := b.Plugin.(Binary)
	if !ok {
		return b.Plugin
	}
	script := filepath.Join(b.TempDir(), "closing")
	text := fmt.Sprintf("#!/bin/sh\nexec '%s' %s\n", strings.ReplaceAll(string(program), "'", `'\''`), redirection)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		b.Fatal(err)
	}
	return Binary(script)
}

// refuses makes an ADD on streams that cannot work: it must fail, by itself, and leave nothing. said wants an error
// document, where there is a stdout for it.
func refuses(b *Bench, p Plugin, with Call, what string, said bool) {
	b.Helper()
	c := b.Container()
	before := b.Settle(c)
	call := c.Add
	call.Stdin, call.Stdout = with.Stdin, with.Stdout
	ctx, cancel := context.WithTimeout(b.Context(), b.Limit)
	defer cancel()
	switch a := call.run(ctx, b, p); {
	case ctx.Err() != nil:
		b.Errorf("%s did not end within %v", what, b.Limit)
	case a.Exit == 0:
		b.Errorf("%s succeeded", what)
	case a.Exit < 0:
		b.Errorf("%s: the program ended by a signal, or could not be started\nstderr: %s", what, a.Stderr)
	case said:
		b.explained(a, what)
	}
	b.Same(before, "after "+what, c)
}

func stdinOpen(b *Bench) {
	c := b.Container()
	before := b.Settle(c)
	config, err := io.ReadAll(c.Add.stdin(b))
	if err != nil {
		b.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	defer r.Close() // which ends the writing, if the plugin did not read all
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = w.Write(config) // a plugin that ends before it has read all is judged by what it leaves
	}()
	call := c.Add
	call.Stdin = r
	ctx, terminate := context.WithCancel(b.Context())
	defer terminate()
	ended := make(chan Answer, 1)
	go func() { ended <- b.limited(ctx, call) }()
	Eventually(b, "the plugin has read the configuration", func() bool {
		select {
		case <-written: // a pipe holds 64 KB
		default:
			return len(ended) > 0
		}
		unread, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		return err != nil || unread == 0 || len(ended) > 0
	})
	terminate()
	a := <-ended
	b.inTime(call, a)
	if a.Exit == 0 {
		b.Succeeds(c.Del())
	} else if a.Exit == -int(unix.SIGKILL) {
		b.Errorf("ADD did not end within %v of SIGTERM, and was killed", grace)
	}
	for _, end := range []*os.File{w, r} { // what waits for more, as a shell's cat, ends with that
		_ = end.Close() // as it is closed below
	}
	b.Same(before, "after ADD with a stdin that is never closed", c)
}
