package skel_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// pluginMain is the test binary as a plugin: what SKEL_TEST_PLUGIN says happens in its ADD; each
// DEL appends to the file SKEL_TEST_LOG.
func pluginMain() {
	add := func(ctx context.Context, req *netconf.Request) error {
		switch os.Getenv("SKEL_TEST_PLUGIN") {
		case "print":
			fmt.Println(`{"stray":"document"}`)
			child := exec.Command("echo", `{"of":"a child"}`)
			child.Stdout = os.Stdout
			if err := child.Run(); err != nil {
				return err
			}
		case "panic":
			panic("F2")
		case "wait":
			fmt.Fprintln(os.Stderr, "waiting")
			<-ctx.Done()
			return ctx.Err()
		case "spin":
			fmt.Fprintln(os.Stderr, "waiting")
			for n := 0; ; n++ {
			}
		case "processors":
			fmt.Fprintf(os.Stderr, "on %d\n", runtime.GOMAXPROCS(0))
		case "die":
			fmt.Fprintln(os.Stderr, "waiting")
			select {}
		}
		return iface(ctx, req)
	}
	del := func(context.Context, *netconf.Request) error {
		f, err := os.OpenFile(os.Getenv("SKEL_TEST_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString("DEL\n")
		return errors.Join(err, f.Close())
	}
	skel.Main(skel.Plugin[config]{
		Name: "test", About: "for tests", RunDir: os.Getenv("SKEL_TEST_DIR"),
		Steps: func(*netconf.Request, *config) skel.Steps {
			return skel.Steps{skel.Funcs{Add: add, Del: del, Check: add, GC: del, Status: add}.Step()}
		},
	})
}

// process is the test binary as a plugin about to serve a call.
type process struct {
	*exec.Cmd
	dir            string
	stdout, stderr bytes.Buffer
}

func newProcess(t *testing.T, mode string, command netconf.Command) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.CommandContext(t.Context(), self), dir: t.TempDir()}
	c := call(command)
	p.Env = append(c.Env, "SKEL_TEST_PLUGIN="+mode, "SKEL_TEST_LOG="+p.dir+"/log", "SKEL_TEST_DIR="+p.dir, "PATH="+os.Getenv("PATH"),
		"CNI_COMMAND="+string(command), "CNI_CONTAINERID=c1", "CNI_NETNS="+c.Netns, "CNI_IFNAME=eth0")
	p.Stdin, p.Stdout, p.Stderr = strings.NewReader(c.Config), &p.stdout, &p.stderr
	return p
}

// rolledBack tells whether the plugin's DEL ran, once.
func (p *process) rolledBack(t *testing.T) bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data) == "DEL\n"
}

// F3: what a library or a child prints never gets between the documents.
func TestF3StrayOutputGoesToStderr(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "print", netconf.Add)
	if err := p.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &p.stderr)
	}
	documents := json.NewDecoder(&p.stdout)
	var result struct{ CNIVersion string }
	if err := documents.Decode(&result); err != nil || result.CNIVersion != "1.1.0" {
		t.Errorf("stdout: %v, %+v", err, result)
	}
	if err := documents.Decode(&result); err != io.EOF {
		t.Errorf("more than one document: %v", err)
	}
	for _, stray := range []string{"stray", "of"} {
		if !strings.Contains(p.stderr.String(), stray) {
			t.Errorf("%q is not on stderr: %s", stray, &p.stderr)
		}
	}
}

// F2: a panic is an error document with a status, not an empty stdout.
func TestF2PanicIsAnErrorDocument(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "panic", netconf.Add)
	err := p.Run()
	if p.ProcessState.ExitCode() != 1 || !strings.Contains(p.stdout.String(), `"code": 999`) || !strings.Contains(p.stdout.String(), "panic: F2") {
		t.Errorf("%v: %s", err, &p.stdout)
	}
	if !p.rolledBack(t) {
		t.Error("no rollback")
	}
}

// A call is on one processor, unless the environment says otherwise.
func TestProcessors(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{"": "on 1\n", "3": "on 3\n"} {
		p := newProcess(t, "processors", netconf.Add)
		p.Env = append(p.Env, "GOMAXPROCS="+env)
		if err := p.Run(); err != nil || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("%q: %v, expected %q in %s", env, err, want, &p.stderr)
		}
	}
}

// A step that computes and never looks up, on the one processor that there is, keeps neither the end of the call from
// being seen nor the rollback from running.
func TestStepThatNeverReturnsLeavesRoomForTheRollback(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "spin", netconf.Add)
	p.signalWhenWaiting(t, syscall.SIGTERM)
	if p.ProcessState.ExitCode() != 1 || !strings.Contains(p.stdout.String(), `"code": 11`) {
		t.Errorf("%v: %s", p.ProcessState, &p.stdout)
	}
	if !p.rolledBack(t) {
		t.Error("no rollback")
	}
}

func TestSignalEndsTheCallAfterItsRollback(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		p := newProcess(t, "wait", netconf.Add)
		p.signalWhenWaiting(t, syscall.SIGPIPE, sig)
		if p.ProcessState.ExitCode() != 1 || !strings.Contains(p.stdout.String(), `"code": 11`) || !strings.Contains(p.stdout.String(), sig.String()) {
			t.Errorf("%v: %v, %s", sig, p.ProcessState, &p.stdout)
		}
		if !p.rolledBack(t) {
			t.Errorf("%v: no rollback", sig)
		}
	}
}

// signalWhenWaiting starts the process, sends it signals once it says that it waits, and waits for its end.
func (p *process) signalWhenWaiting(t *testing.T, signals ...syscall.Signal) {
	t.Helper()
	p.Stderr = nil
	stderr, err := p.StderrPipe()
	if err == nil {
		err = p.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(stderr).ReadString('\n')
	}
	for _, sig := range signals {
		if err == nil {
			err = p.Process.Signal(sig)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := p.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
}

func TestDeadHolderOfTheLockHoldsNothing(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "die", netconf.Add)
	p.signalWhenWaiting(t, syscall.SIGKILL)
	if _, err := os.Stat(filepath.Join(p.dir, "test:net:c1:eth0.lock")); err != nil {
		t.Fatalf("the killed call had no lock: %v", err)
	}
	q := newProcess(t, "plain", netconf.Del)
	q.Env = append(q.Env, "SKEL_TEST_DIR="+p.dir)
	if err := q.Run(); err != nil {
		t.Fatalf("%v: %s", err, &q.stdout)
	}
}

// A result that nobody can read was not delivered: the attachment is undone.
func TestStdoutThatCannotBeWrittenIsRolledBack(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	reader, broken, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	reader.Close()
	for name, stdout := range map[string]*os.File{"full": full, "broken pipe": broken, "closed": nil} {
		p := newProcess(t, "plain", netconf.Add)
		p.Stdout = stdout
		if stdout == nil { // the shell closes it, as a caller would; exec cannot
			p.Stdout = &p.stdout
			p.Args = []string{"sh", "-c", `exec "$0" >&-`, p.Path}
			p.Path = "/bin/sh"
		}
		if stdout == broken {
			p.Stderr = broken
		}
		err := p.Run()
		if p.ProcessState.ExitCode() != 1 || !p.rolledBack(t) {
			t.Errorf("%s: %v, rolled back: %v, stderr: %s", name, err, p.rolledBack(t), &p.stderr)
		}
		p = newProcess(t, "plain", netconf.Version)
		p.Stdout = stdout
		if stdout != nil && p.Run() == nil {
			t.Errorf("%s: VERSION succeeded", name)
		}
	}
	p := newProcess(t, "plain", netconf.Add)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p.Stdout = null
	if err := p.Run(); err != nil {
		t.Errorf("a caller who throws the result away: %v: %s", err, &p.stderr)
	}
}
