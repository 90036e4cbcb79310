package skeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// Plugin is a plugin under test: a skel.Plugin in-process, or a [Binary].
type Plugin interface {
	Run(ctx context.Context, io skel.IO) int
}

// Binary is the path of a plugin's program, of any make. The fault hook does not reach it.
type Binary string

// grace is how long a program may take to end after SIGTERM, and how long its streams are waited for when it has
// ended and its children have not: more than the 10 s that skel gives a rollback.
const grace = 15 * time.Second

// Run starts the program and waits for it. The end of the context is a SIGTERM, as from a runtime that gives up,
// and after another 15 s a SIGKILL. The exit status of a program that a signal has ended is that signal's number, negated.
func (b Binary) Run(ctx context.Context, io skel.IO) int {
	cmd := exec.CommandContext(ctx, string(b))
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = io.Env, io.Stdin, io.Stdout, io.Stderr
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, grace
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && cmd.ProcessState == nil {
		_, _ = io.Stderr.Write([]byte(err.Error())) // into a buffer
		return -1
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return -int(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// Call is one call, in the runtime's words. Empty fields are variables that are not set.
type Call struct {
	Command     netconf.Command
	ContainerID string
	Netns       string
	IfName      string
	Args        string
	Path        string   // CNI_PATH
	Env         []string // further variables
	Config      string   // stdin
	Prev        string   // put into Config as prevResult, if not empty

	Stdin  io.Reader // in the place of Config, if not nil; a program is given an *os.File itself
	Stdout io.Writer // where stdout goes, if not nil: Answer.Stdout is empty then
}

// Answer is what the plugin answered.
type Answer struct {
	Exit           int
	Stdout, Stderr string
	Result         *types100.Result // of a successful ADD
	Err            ErrorDocument    // of a failed call

	protocol error // what of it breaks the protocol
	late     bool  // its time was over
}

// ErrorDocument is the specification's error, section 5.
type ErrorDocument struct {
	CNIVersion string `json:"cniVersion"`
	Code       uint   `json:"code"`
	Msg        string `json:"msg"`
	Details    string `json:"details"`
}

// With returns the call with another verb.
func (c Call) With(command netconf.Command) Call {
	c.Command = command
	return c
}

// WithPrev returns the call with the answer of an ADD as its prevResult.
func (c Call) WithPrev(a Answer) Call {
	c.Prev = a.Stdout
	return c
}

// Run makes the call, with the context's fault hook if it has one, and holds the answer against the
// protocol: exit status 0 with one result for ADD and nothing for the others, or another status with one
// error document that has cniVersion, code and msg. What breaks it fails the test.
func (c Call) Run(ctx context.Context, t testing.TB, p Plugin) Answer {
	t.Helper()
	a := c.run(ctx, t, p)
	if a.protocol != nil {
		t.Errorf("%s: %v\nexit status %d\nstdout: %s\nstderr: %s", c.Command, a.protocol, a.Exit, a.Stdout, a.Stderr)
	}
	return a
}

func (c Call) run(ctx context.Context, t testing.TB, p Plugin) Answer {
	t.Helper()
	var stdout, stderr buffer
	call := skel.IO{Env: c.environ(), Stdin: c.Stdin, Stdout: c.Stdout, Stderr: &stderr}
	if call.Stdin == nil {
		call.Stdin = c.stdin(t)
	}
	if call.Stdout == nil {
		call.Stdout = &stdout
	}
	a := Answer{Exit: p.Run(ctx, call)}
	a.Stdout, a.Stderr = stdout.String(), stderr.String()
	switch {
	case stdout.overflown() || stderr.overflown():
		a.protocol = errFlood
	case c.Stdout == nil:
		a.protocol = a.decode(c.Command)
	}
	return a
}

// outputLimit is how many bytes of stdout, and of stderr, are kept: a plugin in a loop would take the machine's memory.
const outputLimit = 64 << 20

// errFlood is the answer of a plugin that says more; what it says then cannot be written.
var errFlood = errors.New("more than 64 MB of output")

// buffer is a bytes.Buffer for several writers: the log, and delegates, also those that were left behind.
type buffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	full bool // what came was too much
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.full = b.full || b.b.Len()+len(p) > outputLimit; b.full {
		return 0, errFlood
	}
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *buffer) overflown() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.full
}

func (c Call) environ() []string {
	env := c.Env
	for _, kv := range [][2]string{
		{"CNI_COMMAND", string(c.Command)}, {"CNI_CONTAINERID", c.ContainerID}, {"CNI_NETNS", c.Netns},
		{"CNI_IFNAME", c.IfName}, {"CNI_ARGS", c.Args}, {"CNI_PATH", c.Path},
	} {
		if kv[1] != "" {
			env = append(env[:len(env):len(env)], kv[0]+"="+kv[1])
		}
	}
	return env
}

func (c Call) stdin(t testing.TB) io.Reader {
	if c.Prev == "" {
		return strings.NewReader(c.Config)
	}
	config, err := netconf.Patch([]byte(c.Config), "prevResult", json.RawMessage(c.Prev))
	if err != nil {
		t.Fatalf("put the prevResult into the configuration: %v", err)
	}
	return bytes.NewReader(config)
}

// decode reads the first document of stdout, also where something stands before or behind it, and says what of the
// answer breaks the protocol.
func (a *Answer) decode(command netconf.Command) error {
	noise, rest := "", a.Stdout
	if i := strings.IndexByte(rest, '{'); i >= 0 {
		noise, rest = strings.TrimSpace(rest[:i]), rest[i:]
	}
	documents := json.NewDecoder(strings.NewReader(rest))
	var first json.RawMessage
	err := documents.Decode(&first)
	none := err == io.EOF
	if err != nil && !none {
		return err
	}
	wrong := a.understand(command, first)
	switch {
	case noise != "":
		return fmt.Errorf("something that is no document on stdout: %q", noise)
	case !none && documents.Decode(new(json.RawMessage)) != io.EOF:
		return errors.New("more than one document on stdout")
	}
	return wrong
}

// understand reads the document, which is empty if there was none.
func (a *Answer) understand(command netconf.Command, document json.RawMessage) (err error) {
	none := document == nil
	switch {
	case a.Exit != 0 && none:
		return errors.New("failed without an error document")
	case a.Exit != 0:
		if err := json.Unmarshal(document, &a.Err); err != nil {
			return err
		}
		if a.Err.Code == 0 || a.Err.Msg == "" || a.Err.CNIVersion == "" {
			return errors.New("an error document has cniVersion, code and msg")
		}
	case command == netconf.Add:
		if none {
			return errors.New("ADD succeeded without a result")
		}
		a.Result, err = netconf.ParseResult(document, "")
		return err
	case command != netconf.Version && !none:
		return errors.New("output on success")
	}
	return nil
}

// OK fails the test unless the call succeeded, and returns the answer.
func (a Answer) OK(t testing.TB) Answer {
	t.Helper()
	if a.Exit != 0 {
		t.Fatalf("exit status %d, code %d: %s (%s)\nstderr: %s", a.Exit, a.Err.Code, a.Err.Msg, a.Err.Details, a.Stderr)
	}
	return a
}

// Fails fails the test unless the call failed with the code and a message that contains all of the words.
func (a Answer) Fails(t testing.TB, code uint, words ...string) Answer {
	t.Helper()
	if a.Exit == 0 || a.Err.Code != code {
		t.Fatalf("exit status %d, code %d (%s): expected a failure with code %d\nstderr: %s", a.Exit, a.Err.Code, a.Err.Msg, code, a.Stderr)
	}
	for _, word := range words {
		if !strings.Contains(a.Err.Msg+a.Err.Details, word) {
			t.Fatalf("message %q, details %q: expected %q in it", a.Err.Msg, a.Err.Details, word)
		}
	}
	return a
}
