package delegate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// busy is a program that somebody has open for writing, as while it is being installed.
func busy(t *testing.T) (path string, writer *os.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fake")
	writer, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Close() }) // closed already in one of the tests
	if _, err := writer.WriteString("#!/bin/sh\nexit 7\n"); err != nil {
		t.Fatal(err)
	}
	return path, writer
}

// Upstream's library tries the same exec.Cmd again, which can only fail.
func TestTextFileBusyIsTriedAgain(t *testing.T) {
	t.Parallel()
	path, writer := busy(t)
	attempts := 0
	cmd, err := start(t.Context(), func() *exec.Cmd {
		if attempts++; attempts == 3 {
			if err := writer.Close(); err != nil {
				t.Error(err)
			}
		}
		return exec.Command(path)
	})
	if err != nil || attempts < 3 {
		t.Fatalf("%v after %d attempts", err, attempts)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%v: the program did not run", err)
	}
}

func TestTextFileBusyHasAnEnd(t *testing.T) {
	t.Parallel()
	path, _ := busy(t)
	attempts := 0
	command := func() *exec.Cmd { attempts++; return exec.Command(path) }
	if _, err := start(t.Context(), command); !errors.Is(err, syscall.ETXTBSY) || netconf.Code(err) != 11 || attempts != busyAttempts {
		t.Errorf("%v, code %d, %d attempts", err, netconf.Code(err), attempts)
	}
	ctx, cancel := context.WithCancel(t.Context())
	attempts = 0
	_, err := start(ctx, func() *exec.Cmd { cancel(); return command() })
	if !errors.Is(err, syscall.ETXTBSY) || !errors.Is(err, context.Canceled) || netconf.Code(err) != 11 || attempts != 1 {
		t.Errorf("%v, code %d, %d attempts: expected one", err, netconf.Code(err), attempts)
	}
}

// A program whose interpreter is missing is there and cannot be started; nothing may stay open.
func TestStartFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fake"), []byte("#!/nowhere/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	req := &netconf.Request{Command: netconf.Del, Network: netconf.Network{Type: "fake"}, Path: []string{dir}}
	_, err := Exec{Stderr: io.Discard}.Call(t.Context(), req)
	if netconf.Code(err) != 5 || !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrNotFound) {
		t.Errorf("%v, code %d", err, netconf.Code(err))
	}
	s, err := newStreams(io.Discard, "fake", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.read()
	for _, one := range []*stream{s.stdout, s.stderr} {
		<-one.done // as nobody writes
	}
	s.close()
	for _, one := range []*stream{s.stdout, s.stderr} {
		if err := one.r.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("still open: %v", err)
		}
	}
}

// The limit of open files is reached when many plugins run at once, and is over when they have ended.
func TestStartWithoutDescriptors(t *testing.T) {
	t.Parallel()
	for err, code := range map[error]uint{syscall.EMFILE: 11, syscall.ENFILE: 11, syscall.ENOMEM: 11, syscall.EAGAIN: 11, syscall.ENOEXEC: 5} {
		if got := startCode(&os.PathError{Op: "fork/exec", Path: "/fake", Err: err}); got != code {
			t.Errorf("%v: code %d, expected %d", err, got, code)
		}
	}
	_, err := start(t.Context(), func() *exec.Cmd { return &exec.Cmd{Path: "/fake", Err: os.NewSyscallError("open", syscall.EMFILE)} })
	if netconf.Code(err) != 11 || !errors.Is(err, syscall.EMFILE) {
		t.Errorf("%v, code %d", err, netconf.Code(err))
	}
}

// What is kept of stdout ends at the limit, wherever a read ends, and the program is told of once.
func TestCappedAtTheLimit(t *testing.T) {
	t.Parallel()
	told := 0
	c := &capped{full: func() { told++ }}
	c.add(make([]byte, maxStdout-3))
	c.add(make([]byte, 3))
	if c.over() || told != 0 {
		t.Error("the limit itself is too much")
	}
	c.kept = c.kept[:maxStdout-3]
	c.add([]byte("abcdef"))
	c.add([]byte("g"))
	if got := c.bytes(); len(got) != maxStdout || string(got[maxStdout-3:]) != "abc" || !c.over() || told != 1 {
		t.Errorf("%d bytes, of at most %d, told %d times", len(got), maxStdout, told)
	}
}

// What a child writes that outlives the call is not the log's any more: its owner may be gone, or writing.
func TestNothingIsPassedOnAfterTheEnd(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	kept := &tail{to: &log, name: "fake"}
	kept.add([]byte("words\nmore"))
	all := kept.end()
	kept.add([]byte(", late\n"))
	kept.flush()
	if all != "words\nmore" || log.String() != "fake: words\n" {
		t.Errorf("kept %q, passed on %q", all, &log)
	}
}

// The whole configuration is there before anybody reads, so before a process is started.
func TestStdinIsComplete(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 4 << 10, 64 << 10, 65<<10 + 1, 1 << 20, 5 << 20} {
		data := bytes.Repeat([]byte("x"), size)
		for name, fill := range map[string]func([]byte) (input, error){"pipe": filled, "file": filledFile} {
			in, err := fill(data)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(in.file)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s of %d bytes: %d bytes, %v", name, size, len(got), err)
			}
			in.release()
		}
	}
}

func TestNear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		near bool
	}{
		{"hostlocal", "host-local", true}, {"host-local", "hostlocal", true}, {"host_local", "host-local", true}, {"host-locla", "host-local", true},
		{"dhcpd", "dhcp", true}, {"dhcp", "dhcp", true}, {"tap", "ptp", false}, {"aaaa", "aaa", true},
		{"static", "statistic", false}, {"macvlan", "ipvlan", false}, {"bridge", "", false}, {"abcd", "badc", false},
	} {
		if got := near(c.a, c.b); got != c.near {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}
