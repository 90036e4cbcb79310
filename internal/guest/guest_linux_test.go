package guest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// script starts one of the scripts with its temporary files in a folder of its own, by which its processes are known.
type script struct {
	*exec.Cmd
	dir            string
	stdout, stderr bytes.Buffer
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: the gate's nobody has no cache with kernels, and no go command")
	}
}

func command(t *testing.T, name string, args ...string) *script {
	t.Helper()
	needRoot(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	s := &script{Cmd: exec.CommandContext(ctx, "./"+name, args...), dir: t.TempDir()}
	s.Env = append(os.Environ(), "TMPDIR="+s.dir)
	s.Stdout, s.Stderr = &s.stdout, &s.stderr
	return s
}

// status runs it to its end.
func (s *script) status(t *testing.T) int {
	t.Helper()
	err := s.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	t.Logf("%v: %v\n%s%s", s.Args, err, quoted(s.stdout.String()), &s.stderr)
	return s.ProcessState.ExitCode()
}

// quoted is a text whose marks of test2json are not taken for our own.
func quoted(text string) string { return strings.ReplaceAll(text, "\x16", "^V") }

// processes lists what runs of it, the guest above all: the folder is in its command line.
func (s *script) processes(t *testing.T) (found []string) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if line, err := os.ReadFile(name); err == nil && bytes.Contains(line, []byte(s.dir)) {
			found = append(found, filepath.Dir(name)+" "+string(line))
		}
	}
	return found
}

func (s *script) nothingRuns(t *testing.T) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for len(s.processes(t)) > 0 {
		if time.Now().After(end) {
			t.Fatalf("left running: %q", s.processes(t))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// What a program is and sees, and its status, in both kernels.
func TestRun(t *testing.T) {
	for kernel, version := range map[string]string{"uml": "6.1.", "qemu": "6.12."} {
		t.Run(kernel, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			s := command(t, "run", "-k", kernel, "-o", out, "sh", "-c", `
				uname -r; id -u; pwd; echo "$SAID"; ls /sys/class/net; ip link add d0 type dummy && ls /sys/class/net
				echo back > $GUEST_OUT/file; echo lost > "$0"; cat "$0"; mktemp; exit 7`, filepath.Join(t.TempDir(), "lost"))
			s.Env = append(s.Env, "SAID=two words")
			if got := s.status(t); got != 7 {
				t.Errorf("status %d, expected 7", got)
			}
			here, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(s.stdout.String(), "\n")
			want := []string{version, "0", here, "two words", "lo", "d0", "lo", "lost", "/run/tmp/"}
			if len(lines) != len(want)+1 {
				t.Fatalf("printed %q", lines)
			}
			for i, w := range want {
				if !strings.HasPrefix(lines[i], w) {
					t.Errorf("printed %q, expected %q", lines[i], w)
				}
			}
			if got := read(t, filepath.Join(out, "file")); got != "back\n" {
				t.Errorf("back came %q", got)
			}
			if _, err := os.Stat(s.Args[len(s.Args)-1]); !os.IsNotExist(err) {
				t.Errorf("what the guest wrote is on the host: %v", err)
			}
			s.nothingRuns(t)
			if left, err := os.ReadDir(s.dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// Several programs in one boot, and the status of each.
func TestList(t *testing.T) {
	out, list := t.TempDir(), filepath.Join(t.TempDir(), "list")
	write(t, list, `good / echo one; pwd
seven /usr exit 7
killed / sleep 1000 & kill -9 $$
none / exec /no/such/program
hangs / echo waits; sleep 1000; # sh says what became of sleep
lonely / pidof sleep || echo alone
`)
	s := command(t, "run", "-k", "uml", "-t", "5", "-o", out, "-l", list)
	if got := s.status(t); got != 1 {
		t.Errorf("status %d, expected 1: some failed", got)
	}
	for name, want := range map[string][2]string{
		"good": {"0", "one\n/\n"}, "seven": {"7", ""}, "killed": {"137", ""}, "none": {"127", ""}, "lonely": {"0", "alone\n"},
		"hangs": {"124", "waits\nQuit\nguest: not done after 5s\n"},
	} {
		if got := read(t, filepath.Join(out, name+".status")); got != want[0]+"\n" {
			t.Errorf("%s: status %q, expected %s", name, got, want[0])
		}
		if got := read(t, filepath.Join(out, name+".output")); name != "none" && got != want[1] {
			t.Errorf("%s: printed %q, expected %q", name, got, want[1])
		}
	}
}

// The output comes while the program runs; and the guest ends when the script is killed, however.
func TestKilled(t *testing.T) {
	for kernel, sig := range map[string]syscall.Signal{"uml": syscall.SIGKILL, "qemu": syscall.SIGTERM} {
		t.Run(kernel, func(t *testing.T) {
			s := command(t, "run", "-k", kernel, "sh", "-c", "echo now; sleep 1000")
			s.Stdout = nil
			stdout, err := s.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "now\n" {
				t.Fatalf("printed %q, %v\n%s", line, err, &s.stderr)
			}
			if len(s.processes(t)) == 0 {
				t.Error("no guest is seen: this test would see none left either")
			}
			if err := s.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			s.nothingRuns(t)
			if err := s.Wait(); sig == syscall.SIGTERM && s.ProcessState.ExitCode() != 143 {
				t.Errorf("ended with %v, expected 143", err)
			}
		})
	}
}

// Where a Go program hangs is seen, also if another process waits for it, whose end it would not survive.
func TestHangingGoProgramSaysWhere(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc hangsHere() { select {} }\n\nfunc main() { go func() { for { } }(); hangsHere() }\n")
	program := filepath.Join(dir, "hang")
	if out, err := exec.Command("go", "build", "-o", program, filepath.Join(dir, "main.go")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := command(t, "run", "-k", "uml", "-t", "2", "sh", "-c", "setpriv --pdeathsig KILL "+program+" & wait")
	if got := s.status(t); got != 124 {
		t.Errorf("status %d, expected 124", got)
	}
	if !strings.Contains(s.stdout.String(), "main.hangsHere") {
		t.Error("not said where")
	}
}
