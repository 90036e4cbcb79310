package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchy is a mounted cgroup hierarchy: one of version 1, or the one of version 2.
type hierarchy struct {
	dir  string
	kind string // cgroup or cgroup2
	data string // version 1: the controllers, or the name, as mount wants it
}

// mounted lists the cgroup hierarchies that this process sees.
func mounted() ([]hierarchy, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []hierarchy
	for line := range strings.Lines(string(data)) {
		// ID PARENT DEVICE ROOT DIR OPTIONS [TAG...] - TYPE SOURCE OPTIONS-OF-THE-FILE-SYSTEM
		left, right, found := strings.Cut(line, " - ")
		mount, system := strings.Fields(left), strings.Fields(right)
		if !found || len(mount) < 5 || len(system) < 3 {
			return nil, fmt.Errorf("/proc/self/mountinfo: a line that is not as documented: %q", line)
		}
		switch h := (hierarchy{dir: mount[4], kind: system[0]}); h.kind {
		case "cgroup":
			options := slices.DeleteFunc(strings.Split(system[2], ","), func(o string) bool {
				return o == "rw" || o == "ro" || o == "xattr" || o == "clone_children" || strings.HasPrefix(o, "release_agent=")
			})
			if strings.HasPrefix(options[0], "name=") {
				options = append([]string{"none"}, options...)
			}
			h.data = strings.Join(options, ",")
			out = append(out, h)
		case "cgroup2":
			out = append(out, h)
		}
	}
	return out, nil
}

// create makes a cgroup and moves this process into it.
func (h hierarchy) create(name string) error {
	dir := filepath.Join(h.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if h.kind == "cgroup" {
		// Version 1 lets no process into a cpuset that is empty, and makes it so.
		for _, set := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(h.dir, set))
			switch {
			case errors.Is(err, fs.ErrNotExist): // another controller's
			case err != nil:
				return err
			default:
				if err := os.WriteFile(filepath.Join(dir, set), value, 0); err != nil {
					return err
				}
			}
		}
	}
	if h.kind == "cgroup2" {
		if err := h.delegate(); err != nil {
			return err
		}
	}
	return h.enter(name)
}

// delegate hands all controllers of version 2 on to the cgroups at the top, as a runtime would itself if it were not
// in a node, and systemd does with the most of them. They stay handed on.
func (h hierarchy) delegate() error {
	controllers, err := os.ReadFile(filepath.Join(h.dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, c := range strings.Fields(string(controllers)) {
		// One that cannot be (cpu, beside realtime processes) is missed by the runtime that needs it, which says so.
		_ = os.WriteFile(filepath.Join(h.dir, "cgroup.subtree_control"), []byte("+"+c), 0)
	}
	return nil
}

// enter moves this process into a cgroup of the hierarchy.
func (h hierarchy) enter(name string) error {
	return os.WriteFile(filepath.Join(h.dir, name, "cgroup.procs"), []byte("0"), 0)
}

// leaf is where the processes of a node are that are in no container: in version 2, a cgroup whose
// controllers are handed on to those below it may hold none itself.
func (h hierarchy) leaf() string {
	if h.kind == "cgroup2" {
		return "init"
	}
	return "."
}

// mount mounts the hierarchy again, as it is seen from this process's cgroup namespace.
func (h hierarchy) mount() error {
	if err := os.MkdirAll(h.dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(h.kind, h.dir, h.kind, 0, h.data); err != nil {
		return fmt.Errorf("mount the cgroups %q on %q: %w", h.data, h.dir, err)
	}
	return nil
}

// remove removes the node's cgroups and all below them.
func remove(hierarchies []hierarchy, name string) error {
	var errs error
	for _, h := range hierarchies {
		errs = errors.Join(errs, removeTree(filepath.Join(h.dir, name)))
	}
	return errs
}

// removeTree removes a cgroup and all below it, from the leaves on. A process that has just been waited for
// may be counted for a moment still: it is tried for five seconds.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		end := time.Now().Add(5 * time.Second)
		for {
			err := unix.Rmdir(dir)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			if !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
				return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}
