package skel_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal makes a pseudo-terminal: what a process sees as one, and the other side of it, where a person sits.
func terminal(t *testing.T) (person, tty *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	var number int
	raw, err := person.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if controlErr := raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); controlErr != nil || err != nil {
		t.Fatal(controlErr, err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return person, tty
}

// byHand starts the test plugin without CNI_COMMAND, each of stdin and stdout at a terminal or not, and returns
// its exit status and what it said. typed is what the person types.
func byHand(t *testing.T, args []string, stdin, stdout bool, typed string, env ...string) (exit int, out, log string) {
	t.Helper()
	p := newProcess(t, "plain", "")
	p.Args = append(p.Args, args...)
	p.Env = append([]string{"SKEL_TEST_PLUGIN=plain", "SKEL_TEST_DIR=" + p.dir, "TERM=xterm"}, env...)
	person, tty := terminal(t)
	p.Stdin = nil // /dev/null, which is a character device too
	if stdin {
		p.Stdin = tty
	}
	if stdout {
		p.Stdout = tty
	}
	if _, err := person.WriteString(typed); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close() // so that what the person reads ends with the process
	seen, err := io.ReadAll(person)
	if err != nil && !errors.Is(err, syscall.EIO) { // how a terminal says that nobody has it open any more
		t.Fatal(err)
	}
	var failed *exec.ExitError
	if err := p.Wait(); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if stdout {
		return p.ProcessState.ExitCode(), strings.ReplaceAll(string(seen), "\r\n", "\n"), p.stderr.String()
	}
	return p.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()
}

// Who starts a plugin at a terminal is told what it is. A program that starts it without CNI_COMMAND gets its
// error document: /dev/null, a pipe, a file are no terminal.
func TestStartedByHandItExplainsItself(t *testing.T) {
	t.Parallel()
	for _, stdout := range []bool{true, false} {
		exit, out, log := byHand(t, nil, true, stdout, "")
		if exit != 0 || log != "" || !strings.Contains(out, "for tests") || !strings.Contains(out, "string: how it is done") || strings.Contains(out, `"code"`) {
			t.Errorf("stdout at a terminal %v: exit status %d: %s%s", stdout, exit, out, log)
		}
		if coloured := strings.Contains(out, "\x1b["); coloured != stdout {
			t.Errorf("stdout at a terminal %v, and colours: %v", stdout, coloured)
		}
	}
	for _, stdout := range []bool{true, false} {
		exit, out, log := byHand(t, nil, false, stdout, "")
		if exit != 1 || !strings.HasPrefix(out, "{\n    \"cniVersion\": \"1.1.0\",\n    \"code\": 4,") || !strings.Contains(out, "CNI_COMMAND") || strings.Count(log, "\n") != 1 || !strings.Contains(log, "test help") {
			t.Errorf("no terminal: exit status %d: %s%s", exit, out, log)
		}
	}
	if exit, out, log := byHand(t, []string{"help"}, false, false, ""); exit != 0 || !strings.Contains(out, "for tests") || log != "" {
		t.Errorf("help without a terminal: exit status %d: %s%s", exit, out, log)
	}
}

func TestColoursAreForATerminalThatTakesThem(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "f.conf")
	if err := os.WriteFile(file, []byte("{\"cniVersion\":\"1.1.0\",\"name\":\"net\",\n\"type\":\"test\",\"mtu\":\"x\"}"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name           string
		terminal       bool
		env            string
		colour, source bool
	}{
		{"a terminal", true, "X=1", true, true},
		{"no terminal", false, "X=1", false, false},
		{"NO_COLOR", true, "NO_COLOR=1", false, true},
		{"an empty NO_COLOR", true, "NO_COLOR=", true, true}, // no-color.org: "when present and not an empty string"
		{"a terminal that takes none", true, "TERM=dumb", false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			exit, out, _ := byHand(t, []string{"validate", file}, false, test.terminal, "", test.env)
			if exit != 1 || !strings.Contains(out, "f.conf:2:21:") || strings.Contains(out, "\x1b[") != test.colour || strings.Contains(out, "\n    \"type\":\"test\"") != test.source {
				t.Errorf("exit status %d: %q", exit, out)
			}
		})
	}
}

// A runtime passes no arguments, and who has set CNI_COMMAND is one: also at a terminal it gets the protocol.
func TestWithCNICommandItIsARuntime(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"help"}, {"validate", "/nowhere"}, {"--version"}} {
		exit, out, log := byHand(t, args, true, false, "{}\n\x04", "CNI_COMMAND=VERSION")
		if exit != 0 || !strings.HasPrefix(out, `{"cniVersion":"0.1.0","supportedVersions":[`) || log != "" {
			t.Errorf("%v: exit status %d: %s%s", args, exit, out, log)
		}
	}
}

// An answer that nobody can read is none: a check in CI must not pass because the disk is full.
func TestAnswerByHandThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	good := filepath.Join(t.TempDir(), "good.conf")
	if err := os.WriteFile(good, []byte(`{"cniVersion":"1.1.0","name":"net","type":"test"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"help"}, {"version"}, {"validate", good}, {"validate", good, "/nowhere"}} {
		for _, closed := range []bool{false, true} {
			p := newProcess(t, "plain", "")
			p.Args = append(p.Args, args...)
			p.Env = []string{"SKEL_TEST_PLUGIN=plain"}
			p.Stdout = full
			if closed {
				p.Stdout = &p.stdout
				p.Args = append([]string{"sh", "-c", `exec "$0" "$@" >&-`, p.Path}, args...)
				p.Path = "/bin/sh"
			}
			if err := p.Run(); p.ProcessState.ExitCode() != 2 || p.stderr.Len() == 0 {
				t.Errorf("%q, closed: %v: %v, %s", args, closed, err, &p.stderr)
			}
		}
	}
}
