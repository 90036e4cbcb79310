// Command keeper makes a node, the namespaces and cgroups that stand for a machine, and takes it away again.
// Package node starts it, in one of three ways:
//
//	keeper CGROUP NAME DIR...
//
// makes the node: its first process, in namespaces and cgroups of its own, which sees the folders wherever they
// are. It prints that process's id when the node is ready. When stdin ends, which it does also when the test process dies of whatever, everything
// in the node is killed and the cgroups are removed.
//
//	keeper -init NAME DIR...
//
// is that first process: mounts, host name, lo; and it reaps the orphans, as containerd's shims are.
//
//	keeper -join PROGRAM ARG...
//
// is run in the node: it joins the node's cgroups and becomes the program.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) > 1 && args[0] == "-init":
		return first(args[1], args[2:])
	case len(args) > 1 && args[0] == "-join":
		return join(args[1], args[1:])
	case len(args) > 1:
		return keep(args[0], args[1:])
	}
	return fmt.Errorf("arguments %q: expected CGROUP and NAME, -init and NAME, or -join and a command", args)
}

// namespaces are those of a node. The cgroup namespace makes the node's cgroup the root of what is seen in it,
// so that each runtime may put containers where it is used to, and all of it is below one folder.
const namespaces = unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP

func keep(cgroup string, args []string) error {
	hierarchies, err := mounted()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := h.create(cgroup); err != nil {
			return errors.Join(err, remove(hierarchies, cgroup))
		}
	}
	return errors.Join(node(hierarchies, args), remove(hierarchies, cgroup))
}

// node starts the first process and stays until stdin ends; then nothing of the node runs any more.
func node(hierarchies []hierarchy, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, append([]string{"-init"}, args...)...)
	cmd.Stderr = os.Stderr
	ready, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig follows the thread that forks
	err = cmd.Start()
	for _, h := range hierarchies { // this process may not be in what it is to remove
		err = errors.Join(err, h.enter("."))
	}
	if err != nil {
		return err
	}
	if said, err := io.ReadAll(ready); err != nil || string(said) != "ready" {
		return errors.Join(fmt.Errorf("the node's first process says %q", said), err, cmd.Process.Kill(), cmd.Wait())
	}
	fmt.Println(cmd.Process.Pid)
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		if kill := cmd.Process.Kill(); kill != nil && !errors.Is(kill, os.ErrProcessDone) {
			err = errors.Join(err, kill)
		}
		ended <- err
	}()
	// The kernel kills all of a pid namespace with its first process, and only then is that one waited for.
	err = cmd.Wait()
	select {
	case err := <-ended:
		return err
	default:
		return fmt.Errorf("the node's first process ended by itself: %w", err)
	}
}

// join moves this process into the node's cgroups, and becomes the program.
func join(program string, args []string) error {
	hierarchies, err := mounted()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := h.enter(h.leaf()); err != nil {
			return err
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return err
	}
	return fmt.Errorf("%q: %w", path, syscall.Exec(path, args, os.Environ()))
}
