package record_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cnikit/cnikit/internal/e2e/record"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// script is a plugin that answers with what it was given. WAIT prints its process id and waits half a minute for SIGTERM.
const script = `#!/bin/sh
trap 'exit 7' TERM
[ "$CNI_COMMAND" != WAIT ] || { echo $$; n=0; while [ $((n += 1)) -lt 2000 ]; do sleep 0.01; done; }
printf '%s %s %s' "$CNI_COMMAND" "$CNI_CONTAINERID" "$(cat)"
echo said >&2
[ "$CNI_COMMAND" != FAIL ] || exit 3
`

func wrapped(t *testing.T) *record.Recorder {
	t.Helper()
	skeltest.NeedRoot(t) // where the go command is, which builds the recorder
	plugin := filepath.Join(t.TempDir(), "plug")
	if err := os.WriteFile(plugin, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return record.Wrap(t, plugin)
}

func command(rec *record.Recorder, verb string) (cmd *exec.Cmd, stdout, stderr *strings.Builder) {
	cmd, stdout, stderr = exec.Command(filepath.Join(rec.Dir, "plug")), new(strings.Builder), new(strings.Builder)
	cmd.Env = append(os.Environ(), "CNI_COMMAND="+verb, "CNI_CONTAINERID=c1", "CNI_IFNAME=eth0", "CNI_NETNS=/ns", "CNI_ARGS=A=B", "CNI_PATH="+rec.Dir)
	cmd.WaitDelay = 10 * time.Second // a plugin that lives on holds the streams
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(`{"x":1}`), stdout, stderr
	return cmd, stdout, stderr
}

// The runtime sees the plugin's answer and exit status, and the test sees the calls, in order.
func TestCallsAreNotedAndPassedOn(t *testing.T) {
	rec := wrapped(t)
	if calls := rec.Calls(); len(calls) != 0 {
		t.Errorf("calls before the first: %+v", calls)
	}
	for verb, exit := range map[string]int{"ADD": 0, "FAIL": 3} {
		cmd, stdout, stderr := command(rec, verb)
		var failed *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		if cmd.ProcessState.ExitCode() != exit || stdout.String() != verb+` c1 {"x":1}` || stderr.String() != "said\n" {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q", verb, cmd.ProcessState.ExitCode(), stdout, stderr)
		}
		calls := rec.Of("plug", verb)
		if len(calls) != 1 {
			t.Fatalf("%s: calls %+v", verb, calls)
		}
		c := calls[0]
		c.ID, c.PID = "", ""
		want := record.Call{Type: "plug", Command: verb, ContainerID: "c1", Netns: "/ns", IfName: "eth0", Args: "A=B", Path: rec.Dir, Stdin: `{"x":1}`, Ended: true, Exit: exit}
		if c != want {
			t.Errorf("noted %+v, expected %+v", c, want)
		}
	}
}

func TestHold(t *testing.T) {
	rec := wrapped(t)
	rec.Hold("plug", "ADD")
	cmd, stdout, _ := command(rec, "ADD")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	rec.WaitHeld("plug", "ADD")
	if other, _, _ := command(rec, "DEL"); other.Run() != nil {
		t.Error("another verb is held, too")
	}
	if calls := rec.Of("plug", "ADD"); len(calls) != 1 || calls[0].Ended {
		t.Errorf("while it is held: %+v", calls)
	}
	rec.Release("plug", "ADD")
	rec.WaitEnded()
	if err := cmd.Wait(); err != nil || stdout.String() != `ADD c1 {"x":1}` {
		t.Errorf("after the release: %v, %q", err, stdout)
	}
}

// A signal is for the plugin, and death, too.
func TestSignals(t *testing.T) {
	rec := wrapped(t)
	for signal, exit := range map[syscall.Signal]int{syscall.SIGTERM: 7, syscall.SIGKILL: -1} {
		cmd, _, _ := command(rec, "WAIT")
		cmd.Stdout = nil
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var pid int
		if _, err := fmt.Fscanln(out, &pid); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its exit status tells
		if got := cmd.ProcessState.ExitCode(); got != exit {
			t.Errorf("%v: exit status %d, expected %d", signal, got, exit)
		}
		skeltest.Eventually(t, "the plugin has ended", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
	}
}
