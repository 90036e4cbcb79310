package delegate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// What the program says on stderr arrives while it runs, on success too, and the end of it is in the error.
func TestStderrIsPassedOnAsItComes(t *testing.T) {
	t.Parallel()
	dir := program(t, `echo first >&2; read word < "$0.fifo"; i=0; while [ $i -lt 200 ]; do echo "line $i of stderr, to fill it up" >&2; i=$((i+1)); done; echo '{"code":7,"msg":"bad","details":"its own"}'; exit 1`)
	fifo := filepath.Join(dir, "fake.fifo")
	if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v: %s", err, out)
	}
	heard := &listener{word: "first", then: func() {
		if err := os.WriteFile(fifo, []byte("go on\n"), 0); err != nil { // the program waits for it
			t.Error(err)
		}
	}}
	_, err := delegate.Exec{Stderr: heard}.Call(t.Context(), call(t, netconf.Add, plain, dir))
	wants(t, err, 7, "bad")
	if all := heard.String(); !strings.HasPrefix(all, "fake: first\nfake: line 0 ") || !strings.HasSuffix(all, "\nfake: line 199 of stderr, to fill it up\n") {
		t.Errorf("stderr was not passed on whole: %d bytes", len(all))
	}
	var own *delegate.Error
	if !errors.As(err, &own) || len(own.Stderr) > 4<<10 || !strings.HasSuffix(own.Stderr, "line 199 of stderr, to fill it up\n") {
		t.Errorf("kept of stderr: %q", own.Stderr)
	}
	var coded *types.Error
	if !errors.As(err, &coded) {
		t.Fatal(err)
	}
	for _, want := range []string{"its own", filepath.Join(dir, "fake"), "line 199"} {
		if !strings.Contains(coded.Details, want) {
			t.Errorf("details %q: expected %q", coded.Details, want)
		}
	}
}

// Each line has the plugin's name, also the last one that has no end and one that is too long for a line; and
// lines of plugins that run side by side are not mixed.
func TestStderrLineByLine(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		`printf 'a\nb' >&2`:               "fake: a\nfake: b\n",
		`printf '\n\n\tx\r\n' >&2`:        "fake: \nfake: \nfake: \tx\r\n",
		`printf a >&2; printf 'b\nc' >&2`: "fake: ab\nfake: c\n",
		`true`:                            "",
		`head -c 40000 /dev/zero >&2`:     "fake: " + strings.Repeat("\x00", 40000) + "\n",
	} {
		var log listener
		if _, err := (delegate.Exec{Stderr: &log}).Call(t.Context(), call(t, netconf.Add, plain, program(t, script+"; echo '{}'"))); err != nil {
			t.Error(err)
		}
		got := log.String()
		if len(want) > 30000 { // where it is cut depends on how it is read
			for line := range strings.Lines(got) {
				if !strings.HasPrefix(line, "fake: ") || len(line) > 60<<10 {
					t.Errorf("a line of %d bytes", len(line))
				}
			}
			if strings.Count(got, "\n") < 2 {
				t.Errorf("%d bytes in one line: it has no end", len(got))
			}
			got, want = strings.ReplaceAll(got, "\nfake: ", ""), strings.TrimSuffix(want, "\n")+"\n"
		}
		if got != want {
			t.Errorf("%s: %q: expected %q", script, got, want)
		}
	}
	var log listener
	dir := program(t, `i=0; while [ $i -lt 50 ]; do printf "$CNI_CONTAINERID " >&2; echo "$CNI_CONTAINERID" >&2; i=$((i+1)); done; echo '{}'`)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			req := call(t, netconf.Add, plain, dir)
			req.ContainerID = fmt.Sprintf("c%d", i)
			if _, err := (delegate.Exec{Stderr: &log}).Call(t.Context(), req); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	for _, line := range lines {
		if id := strings.Fields(line)[1]; line != "fake: "+id+" "+id {
			t.Errorf("%q", line)
		}
	}
	if len(lines) != 200 {
		t.Errorf("%d lines", len(lines))
	}
}

// listener is a writer that does something when it first hears a word.
type listener struct {
	mu   sync.Mutex
	all  bytes.Buffer
	word string
	then func()
}

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(p)
	if l.then != nil && strings.Contains(l.all.String(), l.word) {
		l.then()
		l.then = nil
	}
	return len(p), nil
}

func (l *listener) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// It belongs to the call's log: a plugin that runs in-process has not the process's stderr. A writer given to
// Exec stands before that of the request.
func TestStderrGoesToTheCallersLog(t *testing.T) {
	t.Parallel()
	type config struct{}
	for _, own := range []io.Writer{nil, &bytes.Buffer{}} {
		plugin := skel.Plugin[config]{Name: "main", Kind: skel.Meta, RunDir: t.TempDir(), Steps: func(*netconf.Request, *config) skel.Steps {
			return skel.Steps{skel.Funcs{Add: func(ctx context.Context, req *netconf.Request) error {
				_, err := delegate.Exec{Type: "fake", Stderr: own}.Call(ctx, req)
				return err
			}}.Step()}
		}}
		a := skeltest.Call{Command: netconf.Add, ContainerID: "c1", Netns: fmt.Sprintf("/proc/%d/ns/net", os.Getpid()), IfName: "eth0",
			Path: program(t, `echo "words from below" >&2; echo "{}"`), Env: []string{"PATH=" + os.Getenv("PATH"), "CNI_NETNS_OVERRIDE=1"},
			Config: `{"cniVersion":"0.3.1","name":"net","type":"main"}`}.Run(t.Context(), t, plugin).OK(t)
		if heard := strings.Contains(a.Stderr, "fake: words from below\n"); heard != (own == nil) {
			t.Errorf("stderr %q, with a writer of the delegate's own: %v", a.Stderr, own)
		}
	}
}

// A log that is full, or stuck, fails no attachment.
func TestStderrThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := program(t, `echo words >&2; echo '{}'`)
	release := make(chan struct{})
	defer close(release)
	for name, w := range map[string]writer{
		"fails":  func([]byte) (int, error) { return 0, errors.New("disk full") },
		"blocks": func([]byte) (int, error) { <-release; return 0, errors.New("too late") },
	} {
		if _, err := (delegate.Exec{Stderr: w}).Call(t.Context(), call(t, netconf.Add, plain, dir)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
