package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnikit/cnikit/internal/testbin"
)

// limit is how long a command of [Node.Try] may run.
const limit = 2 * time.Minute

// Options say what a node is like. The zero value is a node of the name "node" and a number.
type Options struct {
	Name string // the host name, letters, digits and "-"; default: "node" and a number. Nodes of one name may run at once
}

// Node is a machine, as far as a container runtime sees one.
type Node struct {
	Name string
	PID  int    // the first process, as seen from the test: /proc/PID/ns/net is the node's network
	Dir  string // a folder of the test's, the same path in the node: for logs and configurations
	// CGroup is the name, in each hierarchy of the machine, of the cgroup that all of the node's are below.
	CGroup string

	t      testing.TB
	join   string // the keeper's program, which joins a node's cgroups
	keeper *exec.Cmd
	alive  io.Closer // the keeper's stdin
	said   *strings.Builder
}

var count atomic.Int64

// Start starts a node. It ends with the test, and everything in it; or with the test process. The test is
// skipped without root.
func Start(t testing.TB, opts Options) *Node {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: makes namespaces and cgroups")
	}
	number := count.Add(1)
	n := &Node{Name: opts.Name, Dir: t.TempDir(), t: t, said: new(strings.Builder)}
	if n.Name == "" {
		n.Name = fmt.Sprintf("node%d", number)
	}
	n.CGroup = fmt.Sprintf("cnikit-%d-%d-%s", os.Getpid(), number, n.Name)
	n.join = filepath.Join(testbin.Tools(t, "internal/e2e", nil, "./node/keeper"), "keeper")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.start(os.TempDir(), cache); err != nil {
		t.Fatalf("node %s: %v\n%s", n.Name, err, n.said)
	}
	t.Cleanup(n.Stop)
	return n
}

// start starts the keeper, and waits until the node is there. The folders are seen in the node, too.
func (n *Node) start(dirs ...string) error {
	n.keeper = exec.Command(n.join, append([]string{n.CGroup, n.Name}, dirs...)...)
	// A Ctrl-C at the terminal is not for the keeper: it takes everything away after the test process is gone.
	n.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	n.keeper.Stderr = n.said
	var err error
	if n.alive, err = n.keeper.StdinPipe(); err != nil {
		return err
	}
	out, err := n.keeper.StdoutPipe()
	if err != nil {
		return err
	}
	if err := n.keeper.Start(); err != nil {
		return err
	}
	if _, err = fmt.Fscanln(out, &n.PID); err != nil {
		return errors.Join(fmt.Errorf("what the keeper prints: %w", err), n.alive.Close(), n.keeper.Wait())
	}
	return nil
}

// Stop kills everything that runs in the node and takes it away, as when the test ends; again does nothing.
func (n *Node) Stop() {
	n.t.Helper()
	if n.keeper.ProcessState != nil {
		return
	}
	err := n.alive.Close()
	if err = errors.Join(err, n.keeper.Wait()); err != nil {
		n.t.Errorf("node %s: its end: %v\n%s", n.Name, err, n.said)
	}
}

// Path is the path by which the test sees a file of the node.
func (n *Node) Path(path string) string {
	return filepath.Join("/proc", strconv.Itoa(n.PID), "root", path)
}

// Run runs a command in the node and returns what it printed on stdout; the test fails if it fails.
func (n *Node) Run(name string, args ...string) string {
	n.t.Helper()
	out, err := n.Try(name, args...)
	if err != nil {
		n.t.Fatalf("in %s: %s %s: %v\n%s", n.Name, name, strings.Join(args, " "), err, out)
	}
	return out
}

// Try runs a command in the node and returns what it printed on stdout, and its error, with what it printed
// on stderr. A command that runs longer than two minutes is killed.
func (n *Node) Try(name string, args ...string) (string, error) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var out, said strings.Builder
	cmd := n.command(ctx, name, args)
	cmd.Stdout, cmd.Stderr = &out, &said
	err := n.enter(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", errors.Join(ctx.Err(), err), strings.TrimSpace(said.String()))
	}
	return out.String(), err
}

// command is a command of the node: to be started in it, by enter.
func (n *Node) command(ctx context.Context, name string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, n.join, append([]string{"-join", name}, args...)...)
	cmd.Dir = "/"
	cmd.WaitDelay = 5 * time.Second // a child that was left behind may hold the streams
	return cmd
}

// enter runs start on a thread that is in the node's namespaces, and ends with it.
func (n *Node) enter(start func() error) error {
	return locked(func() error {
		pidfd, err := unix.PidfdOpen(n.PID, 0)
		if err != nil {
			return fmt.Errorf("the node's first process: %w", err)
		}
		defer unix.Close(pidfd)
		if err := unix.Unshare(unix.CLONE_FS); err != nil { // else a thread may not change its mounts
			return fmt.Errorf("unshare: %w", err)
		}
		const all = unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP
		if err := unix.Setns(pidfd, all); err != nil {
			return fmt.Errorf("enter the namespaces: %w", err)
		}
		return start()
	})
}

// locked runs f on a thread that ends with it, and is never the main thread, which cannot end.
func locked(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			done <- f()
			return
		}
		done <- locked(f) // the main thread is held meanwhile, so that the next one is another
		runtime.UnlockOSThread()
	}()
	return <-done
}
