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
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// callerDir marks the environment of a test binary that is to be a caller, see below.
const callerDir = "DELEGATE_TEST_CALLER"

// twinDir marks that of one that is to be the plugin twin; it is a folder for locks and state.
const twinDir = "DELEGATE_TEST_TWIN"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(callerDir); ok {
		caller(dir) // must never go on to the tests, which would start it again
		os.Exit(1)
	}
	if dir, ok := os.LookupEnv(twinDir); ok {
		skel.Main(twin(dir)) // never returns
	}
	if dir, ok := os.LookupEnv(recordDir); ok {
		keeper(dir)
		os.Exit(1) // as above
	}
	skeltest.Main(m)
}

// alive is a program that says "ready" on the fifo "fake.alive", which it and its children keep open
// until they die: who reads the fifo to its end has seen all of them die. The script has READY where
// it is to say so.
func alive(t *testing.T, script string) (dir string, fifo string) {
	t.Helper()
	dir = program(t, `exec 9> "$0.alive"; `+strings.Replace(script, "READY", "echo ready >&9", 1))
	fifo = filepath.Join(dir, "fake.alive")
	for _, path := range []string{fifo, filepath.Join(dir, "fake.never")} { // the latter to wait at
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, fifo
}

// whenReady opens the fifo, waits for the word, calls f and returns what came up to the end of the fifo.
func whenReady(t *testing.T, fifo string, f func()) string {
	t.Helper()
	r, err := os.Open(fifo) // waits for the program
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	word := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(r, word); err != nil || string(word) != "ready\n" {
		t.Fatalf("%q, %v: expected the program to be ready", word, err)
	}
	f()
	rest, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(rest)
}

// within fails the test, instead of letting it hang, when something that must end does not.
func within(t *testing.T, what string, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatalf("%s did not end", what)
		return nil
	}
}

// The context's end ends the program and its children, whatever they do, and the call does not wait for the
// pipes that they hold.
func TestContextEndsTheCall(t *testing.T) {
	t.Parallel()
	const deaf, undoes = 200 * time.Millisecond, 5 * time.Second // also a child that nobody reaps costs all of it
	for name, c := range map[string]struct {
		grace        time.Duration
		script, want string
	}{
		"a child holds the pipes": {deaf, `READY; sleep 1000; true`, ""},
		"deaf to SIGTERM":         {deaf, `trap "" TERM; READY; while :; do sleep 1000; done`, ""},
		"a deaf child":            {deaf, `(trap "" TERM; READY; while :; do sleep 1000; done) & wait`, ""},
		"undoes its work": {undoes, `trap 'kill $!; echo undone >&9; echo "{\"code\":11,\"msg\":\"told to stop\"}"; exit 1' TERM; READY; sleep 1000 9>&- & wait`,
			"undone\n"},
		"a wrapper's child undoes its work": {undoes, `(trap 'sleep 0.2 9>&-; echo undone >&9; exit' TERM; READY; while :; do sleep 0.01 9>&-; done) & wait`,
			"undone\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, fifo := alive(t, c.script)
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := delegate.Exec{Stderr: io.Discard, Grace: c.grace}.Call(ctx, call(t, netconf.Add, plain, dir))
				done <- err
			}()
			word := errors.New("signal: terminated")
			rest := whenReady(t, fifo, func() { cancel(word) })
			if rest != c.want {
				t.Errorf("the program wrote %q: expected %q", rest, c.want)
			}
			err := within(t, "the call", done)
			wants(t, err, 11, `delegate "fake" ADD`, "signal: terminated")
			if strings.Contains(c.script, "told") {
				wants(t, err, 11, "told to stop")
			}
			if !errors.Is(err, context.Canceled) || !errors.Is(err, word) {
				t.Errorf("%v: neither the context's error nor its cause may be lost", err)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := quiet().Call(ctx, call(t, netconf.Del, plain, program(t, "sleep 1000")))
	wants(t, err, 11, "deadline exceeded")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// A plugin may leave a child behind (a daemon that it starts), which holds its streams: the answer is there
// when the plugin has ended.
func TestChildThatOutlivesTheProgram(t *testing.T) {
	t.Parallel()
	dir, fifo := alive(t, `READY; echo $$ >&9; sleep 1000 & echo '{}'; echo words >&2`)
	done := make(chan error, 1)
	var log bytes.Buffer
	go func() {
		_, err := delegate.Exec{Stderr: &log}.Call(t.Context(), call(t, netconf.Add, plain, dir))
		done <- err
	}()
	rest := whenReady(t, fifo, func() {
		if err := within(t, "the call", done); err != nil {
			t.Error(err)
		}
		group := strings.TrimSpace(readLine(t, fifo))
		if out, err := exec.Command("/bin/sh", "-c", "kill -9 -"+group).CombinedOutput(); err != nil {
			t.Errorf("the child is gone with the program: %s", out)
		}
	})
	if rest != "" || log.String() != "fake: words\n" {
		t.Errorf("fifo %q, stderr %q", rest, &log)
	}
}

// readLine reads one line of a fifo that somebody has open.
func readLine(t *testing.T, fifo string) string {
	t.Helper()
	f, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := make([]byte, 20)
	n, err := f.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	return string(line[:n])
}

// caller is a process that calls a plugin and never comes to the answer. Its other threads end all the
// time, which must not be taken for its own end.
func caller(dir string) {
	for range 4 {
		go func() {
			for range 100 {
				done := make(chan struct{})
				go func() {
					runtime.LockOSThread() // the thread ends with the goroutine
					close(done)
				}()
				<-done
			}
		}()
	}
	req, err := netconf.ParseNetwork([]byte(plain))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, err = delegate.Exec{}.Call(context.Background(), &netconf.Request{Command: netconf.Add, ContainerID: "c1", IfName: "eth0",
		Path: []string{dir}, Environ: os.Environ(), Network: req, Config: req.Bytes()})
	fmt.Fprintln(os.Stderr, "the call ended:", err)
	os.Exit(1)
}

// A killed plugin's delegate must not live on and take an address that nobody releases (case C-CONC-02).
func TestF11DelegateDiesWithItsCaller(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			dir, fifo := alive(t, `trap "" TERM; exec 8<> "$0.never"; READY; read word <&8`) // no child, which would be left behind
			self := exec.Command("/proc/self/exe")
			self.Env = append(os.Environ(), callerDir+"="+dir)
			self.Stderr = os.Stderr
			if err := self.Start(); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- self.Wait() }()
			ended := make(chan error, 1)
			go func() {
				whenReady(t, fifo, func() {
					if err := self.Process.Signal(signal); err != nil {
						t.Error(err)
					}
				})
				ended <- nil
			}()
			_ = within(t, "the caller", done) // that a signal ended it is what was wanted
			_ = within(t, "the delegate", ended)
		})
	}
}

// The thread that has started the program is held until its end: when that thread ends, the kernel ends the program. It
// takes a preemption at one place for the call to go on in another thread, so the runtime is asked instead of waiting for one.
func TestThreadThatStartedTheProgramIsHeld(t *testing.T) {
	t.Parallel()
	dir, fifo := alive(t, `exec 8<> "$0.never"; READY; read word <&8`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := quiet().Call(ctx, call(t, netconf.Add, plain, dir))
		done <- err
	}()
	whenReady(t, fifo, func() {
		defer cancel()
		stacks := make([]byte, 8<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		held, calls := 0, 0
		for stack := range strings.SplitSeq(string(stacks), "\n\n") {
			head, frames, _ := strings.Cut(stack, "\n")
			if strings.Contains(frames, "delegate.Exec.run(") && strings.Contains(frames, "TestThreadThatStartedTheProgramIsHeld") {
				calls++
				held += strings.Count(head, "locked to thread")
			}
		}
		if calls != 1 || held != 1 {
			t.Errorf("of %d calls %d hold their thread", calls, held)
		}
	})
	wants(t, within(t, "the call", done), 11)
}
