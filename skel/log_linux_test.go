package skel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// A log file that cannot be written fails no call, holds none up, and is told of once.
func TestLogFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]func(dir string) (path string, err error){
		"a folder":           func(dir string) (string, error) { return dir, nil },
		"a folder missing":   func(dir string) (string, error) { return dir + "/none/log", nil },
		"a file as a folder": func(dir string) (string, error) { return dir + "/f/log", os.WriteFile(dir+"/f", nil, 0o600) },
		"a link":             func(dir string) (string, error) { return dir + "/log", os.Symlink(dir+"/precious", dir+"/log") },
		"a link to nothing":  func(dir string) (string, error) { return dir + "/log", os.Symlink(dir+"/none", dir+"/log") },
		"a FIFO":             func(dir string) (string, error) { return dir + "/log", syscall.Mkfifo(dir+"/log", 0o600) },
		"a FIFO that is read": func(dir string) (string, error) {
			if err := syscall.Mkfifo(dir+"/log", 0o600); err != nil {
				return "", err
			}
			r, err := os.OpenFile(dir+"/log", os.O_RDWR, 0) // stays open
			if err == nil {
				t.Cleanup(func() { r.Close() })
			}
			return dir + "/log", err
		},
		"a full device":       func(string) (string, error) { return "/dev/full", nil },
		"a name that is long": func(dir string) (string, error) { return dir + "/" + strings.Repeat("x", 300), nil },
		"no permission":       func(string) (string, error) { return "/proc/version", nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			precious := filepath.Join(dir, "precious")
			if err := os.WriteFile(precious, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			path, err := file(dir)
			if err != nil {
				t.Fatal(err)
			}
			fileCannotBeWritten(t, path)
			if data, err := os.ReadFile(precious); err != nil || len(data) > 0 {
				t.Errorf("a link was followed: %q, %v", data, err)
			}
			if _, err := os.Lstat(dir + "/none"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a link to nothing was followed: %v", err)
			}
		})
	}
}

// fileCannotBeWritten makes calls whose log goes to a path that takes nothing.
func fileCannotBeWritten(t *testing.T, path string) {
	t.Helper()
	p := plugin(t, &step{name: "a", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
		skel.Logger(ctx).Info("noted")
		return iface(ctx, req)
	}})
	for _, command := range []netconf.Command{netconf.Add, netconf.Del} {
		ls := lines(t, withLog(command, `{"level":"debug","file":"`+path+`"}`).Run(t.Context(), t, p).OK(t).Stderr)
		if len(ls) != 1 || ls[0]["level"] != "WARN" || ls[0]["msg"] != "the log file cannot be written, goes on without it" || ls[0]["file"] != path || ls[0]["error"] == "" {
			t.Errorf("%s: stderr has %v", command, ls)
		}
		if strings.Contains(ls[0]["error"], os.ErrDeadlineExceeded.Error()) {
			t.Errorf("%s: the call has waited for its log: %v", command, ls)
		}
	}
}

func TestLogFileOnADiskThatIsFullOrReadOnly(t *testing.T) {
	skeltest.NeedRoot(t)
	dir := t.TempDir()
	mount(t, dir, 0, "size=16k")
	if err := os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
	fileCannotBeWritten(t, filepath.Join(dir, "log"))
	if err := os.Remove(filepath.Join(dir, "fill")); err != nil {
		t.Fatal(err)
	}
	mount(t, dir, unix.MS_REMOUNT|unix.MS_RDONLY, "")
	fileCannotBeWritten(t, filepath.Join(dir, "log"))
	fileCannotBeWritten(t, filepath.Join(dir, "other"))
}

// A disk that fills takes half a line. What is written when there is room again is on a line of its own.
func TestHalfALineIsALine(t *testing.T) {
	skeltest.NeedRoot(t)
	dir := t.TempDir()
	mount(t, dir, 0, "size=16k")
	file, fill := filepath.Join(dir, "log"), filepath.Join(dir, "fill")
	if err := os.WriteFile(file, bytes.Repeat([]byte{'\n'}, 4096-40), 0o600); err != nil { // 40 bytes are left of its page
		t.Fatal(err)
	}
	if err := os.WriteFile(fill, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
	p := plugin(t, &step{name: "a", j: &journal{}, add: iface})
	c := withLog(netconf.Add, `{"file":"`+file+`"}`)
	c.Run(t.Context(), t, p).OK(t)
	if half := strings.TrimLeft(logOf(t, file), "\n"); len(half) != 40 || strings.Index(half, "\n") != 39 {
		t.Fatalf("no half a line: %q", half)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	}
	text := strings.TrimLeft(logOf(t, file), "\n")
	if _, rest, _ := strings.Cut(text, "\n"); len(lines(t, rest)) != 2 || strings.Index(text, "\n") != 39 || strings.Contains(text, "\n\n") {
		t.Errorf("%q", text)
	}
}

// The process, with a file that it may not write to for anybody else's sake: what is there is appended to.
func TestLogFileOfAProcess(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	for _, command := range []netconf.Command{netconf.Add, netconf.Del} {
		p := newProcess(t, "plain", command)
		p.Stdin = strings.NewReader(withLog(command, `{"file":"`+file+`"}`).Config)
		if err := p.Run(); err != nil || p.stderr.Len() > 0 {
			t.Fatalf("%v: %s", err, &p.stderr)
		}
	}
	ls := lines(t, logOf(t, file))
	if len(ls) != 2 || ls[0]["verb"] != "ADD" || ls[1]["verb"] != "DEL" {
		t.Errorf("%v", ls)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// The trace of the caller reaches a delegate's process as it is, byte for byte, also what we would not log.
func TestTraceReachesTheDelegates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := "#!/bin/sh\n" + `printf '%s\n%s\n%s\n' "$TRACEPARENT" "$TRACESTATE" "$BAGGAGE" >> "` + dir + `/seen"` + "\necho '{}'\n"
	if err := os.WriteFile(filepath.Join(dir, "fake"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	p := skel.Plugin[config]{Name: "test", Kind: skel.Meta, RunDir: t.TempDir(), Steps: func(*netconf.Request, *config) skel.Steps {
		f := func(ctx context.Context, req *netconf.Request) error {
			_, err := delegate.Exec{Type: "fake"}.Call(ctx, req)
			return err
		}
		return skel.Steps{skel.Funcs{Add: f, Check: f, Del: f, GC: f, Status: f}.Step()}
	}}
	want := []string{traceparent, tracestate, "k=s p a c e;ä"}
	c := call(netconf.Add)
	c.Path, c.Env = dir, append(c.Env, "PATH="+os.Getenv("PATH"), "TRACEPARENT="+want[0], "TRACESTATE="+want[1], "BAGGAGE="+want[2])
	c.Run(t.Context(), t, p).OK(t)
	c.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if got := strings.Split(strings.TrimSpace(logOf(t, dir+"/seen")), "\n"); !slices.Equal(got, append(want, want...)) {
		t.Errorf("the delegate sees %q", got)
	}
}

// The document is there when the log hangs: a file system that does not answer costs a second.
func TestStdoutDoesNotWaitForTheLog(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	never := make(chan struct{})
	defer close(never)
	c := withLog(netconf.Add, `{"level":"info"}`)
	p := plugin(t, &step{name: "a", j: &journal{}, add: iface})
	done := make(chan int, 1)
	go func() {
		done <- p.Run(t.Context(), skel.IO{Env: append(c.Env, "CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_NETNS="+c.Netns, "CNI_IFNAME=eth0"),
			Stdin: strings.NewReader(c.Config), Stdout: w, Stderr: blocked(never)})
		w.Close()
	}()
	var result struct{ CNIVersion string }
	if err := json.NewDecoder(r).Decode(&result); err != nil || result.CNIVersion != "1.1.0" {
		t.Errorf("%v, %+v", err, result)
	}
	if exit := <-done; exit != 0 {
		t.Errorf("exit status %d", exit)
	}
}
