package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// first is the first process of a node.
func first(name string, dirs []string) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	hierarchies, err := mounted() // before /sys is another
	if err != nil {
		return err
	}
	if err := mounts(hierarchies, dirs); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("set the host name %q: %w", name, err)
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("ip link set lo up: %w: %s", err, out)
	}
	fmt.Print("ready")
	if err := os.Stdout.Close(); err != nil {
		return err
	}
	for range signals {
		if err := reap(); err != nil {
			return err
		}
	}
	return nil
}

// reap waits for all children that have ended.
func reap() error {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD) || err == nil && pid == 0:
			return nil
		case err != nil:
			return fmt.Errorf("wait for children: %w", err)
		}
	}
}

// mounts makes the node's own file systems: what programs write there is in memory, and goes with the node. What
// they hide of the folders is put back.
func mounts(hierarchies []hierarchy, dirs []string) error {
	kept := make([]*os.File, len(dirs))
	for i, dir := range dirs {
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		defer f.Close()
		kept[i] = f
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount /sys: %w", err)
	}
	for _, m := range []struct{ kind, dir, data string }{
		{"proc", "/proc", ""}, // of the new pid namespace
		{"sysfs", "/sys", ""}, // of the new network namespace
		{"tmpfs", "/run", "mode=755"},
		{"tmpfs", "/var/lib", "mode=755"},
		{"tmpfs", "/var/log", "mode=755"},
		{"tmpfs", "/dev/shm", "mode=1777"},
	} {
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, m.data); err != nil {
			return fmt.Errorf("mount %s on %q: %w", m.kind, m.dir, err)
		}
	}
	for i, dir := range dirs {
		if err := show(dir, kept[i]); err != nil {
			return err
		}
	}
	if err := cgroups(hierarchies); err != nil {
		return err
	}
	for _, dir := range []string{"/run/netns", "/run/lock"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	// As an init of a real machine leaves them: runtimes and kubelet count on it.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make the mounts shared: %w", err)
	}
	return nil
}

// show puts a folder back to where it was, if it is not seen there any more.
func show(dir string, kept *os.File) error {
	was, err := kept.Stat()
	if err != nil {
		return err
	}
	if is, err := os.Stat(dir); err == nil && os.SameFile(was, is) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", kept.Fd()), dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("put %q back: %w", dir, err)
	}
	return nil
}

// cgroups mounts the hierarchies where they were, with the node's own cgroup as their root.
func cgroups(hierarchies []hierarchy) error {
	const dir = "/sys/fs/cgroup"
	alone := len(hierarchies) == 1 && hierarchies[0].dir == dir
	if !alone {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mount a tmpfs on %q: %w", dir, err)
		}
	}
	for _, h := range hierarchies {
		if err := h.mount(); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(h.dir, h.leaf()), 0o755); err != nil {
			return err
		}
		if err := h.enter(h.leaf()); err != nil {
			return err
		}
	}
	return nil
}
