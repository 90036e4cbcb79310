package node

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Daemon is a program that runs in a node until it is stopped.
type Daemon struct {
	PID int // as seen from the test

	node *Node
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// Daemon starts a program in the node. What it prints goes into the file Dir/NAME.log, after what an
// earlier one of that name has printed; the end of the file is shown if the test fails. To set its
// environment, start it by env(1).
func (n *Node) Daemon(name, program string, args ...string) *Daemon {
	n.t.Helper()
	d := &Daemon{node: n, log: filepath.Join(n.Dir, name+".log"), done: make(chan struct{})}
	_, err := os.Stat(d.log)
	first := os.IsNotExist(err)
	out, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.t.Fatal(err)
	}
	defer out.Close()
	d.cmd = n.command(context.Background(), program, args)
	d.cmd.Stdout, d.cmd.Stderr = out, out
	if err := n.enter(d.cmd.Start); err != nil {
		n.t.Fatalf("in %s: start %s: %v", n.Name, name, err)
	}
	d.PID = d.cmd.Process.Pid
	go func() {
		_ = d.cmd.Wait() // killed or not, it has ended: its log says the rest
		close(d.done)
	}()
	if first {
		n.t.Cleanup(func() {
			if n.t.Failed() {
				n.t.Logf("%s, the end of the log of %s:\n%s", n.Name, name, tail(d.Log(), 60))
			}
		})
	}
	return d
}

// Log is what it has printed, with its predecessors of the same name.
func (d *Daemon) Log() string {
	d.node.t.Helper()
	data, err := os.ReadFile(d.log)
	if err != nil {
		d.node.t.Fatal(err)
	}
	return string(data)
}

// Ended is closed when the program has ended.
func (d *Daemon) Ended() <-chan struct{} { return d.done }

// Kill kills the program, by SIGKILL, and waits for it. Its children live on.
func (d *Daemon) Kill() { d.end(syscall.SIGKILL) }

// Stop stops the program, by SIGTERM, after ten seconds by SIGKILL, and waits for it.
func (d *Daemon) Stop() { d.end(syscall.SIGTERM) }

func (d *Daemon) end(signal syscall.Signal) {
	_ = d.cmd.Process.Signal(signal) // it may have ended
	select {
	case <-d.done:
		return
	case <-time.After(10 * time.Second):
	}
	_ = d.cmd.Process.Kill() // as above
	<-d.done
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
