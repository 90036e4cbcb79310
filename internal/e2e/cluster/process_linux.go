package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// process is a program that the kernel kills when the test binary dies.
type process struct {
	cmd  *exec.Cmd
	log  string        // file with what it prints
	done chan struct{} // closed when it has ended and was waited for
}

// start starts a program that appends what it prints to a file.
func start(log string, cmd *exec.Cmd) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	p := &process{cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal is sent when the thread ends that started the program: it stays until then.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in cmd.ProcessState
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %q: %w", cmd.Path, err)
	}
	return p, nil
}

// running tells whether the program has not ended yet. It may be asked of a nil process.
func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop sends a signal and waits for the end. What has ended already is no error.
func (p *process) stop(sig os.Signal) {
	if !p.running() {
		return
	}
	_ = p.cmd.Process.Signal(sig) // it fails only if the program has ended meanwhile
	<-p.done
}

// chatter tells whether a line is of no use to who looks for a mistake: the Kubernetes programs begin those
// that are no warning with "I" and the date.
func chatter(line string) bool {
	return len(line) > 1 && line[0] == 'I' && line[1] >= '0' && line[1] <= '9' || strings.HasSuffix(line, "because it has no resources.")
}

// tail is the last lines of warnings and errors that the program printed, and how it ended.
func (p *process) tail(lines int) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := slices.DeleteFunc(strings.Split(strings.TrimRight(string(text), "\n"), "\n"), chatter)
	state := "running"
	if !p.running() {
		state = p.cmd.ProcessState.String()
	}
	return fmt.Sprintf("%s (%s):\n%s", p.log, state, strings.Join(all[max(0, len(all)-lines):], "\n"))
}

// logOnFailure prints the end of the logs of programs when the test has failed. It is called in a clean-up,
// before the programs are stopped.
func logOnFailure(t testing.TB, programs ...*process) {
	if !t.Failed() {
		return
	}
	for _, p := range programs {
		if p != nil {
			t.Log(p.tail(40))
		}
	}
}
