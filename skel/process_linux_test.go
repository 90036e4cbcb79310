package skel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// processMain is the test binary as a plugin, in the modes of the tests of this file; it returns for others.
func processMain(mode string) {
	add := map[string]func() error{
		"go panic": func() error {
			go func() { panic("in a goroutine") }()
			select {}
		},
		"alone": func() error { // an error unless no other process is in here
			mark := filepath.Join(os.Getenv("SKEL_TEST_DIR"), "mark")
			f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("not alone: %w", err)
			}
			time.Sleep(5 * time.Millisecond) // for the others to come
			return errors.Join(f.Close(), os.Remove(mark))
		},
	}[mode]
	if add == nil {
		return
	}
	skel.Main(skel.Plugin[config]{
		Name: "test", RunDir: os.Getenv("SKEL_TEST_DIR"),
		Steps: func(*netconf.Request, *config) skel.Steps {
			return skel.Steps{&step{name: "a", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
				return errors.Join(add(), iface(ctx, req))
			}}}
		},
	})
}

// A panic in a goroutine that a step starts can be caught by nobody: the process ends at once, and says so by its exit
// status and its stderr. The DEL that follows is not held up.
func TestPanicInAGoroutineOfAStep(t *testing.T) {
	t.Parallel()
	p := newProcess(t, "go panic", netconf.Add)
	err := p.Run()
	if p.ProcessState.ExitCode() != 2 || p.stdout.Len() > 0 || !strings.Contains(p.stderr.String(), "panic: in a goroutine") || !strings.Contains(p.stderr.String(), "process_linux_test.go") {
		t.Errorf("%v: stdout %q, stderr %s", err, &p.stdout, &p.stderr)
	}
	q := newProcess(t, "plain", netconf.Del)
	q.Env = append(q.Env, "SKEL_TEST_DIR="+p.dir)
	if err := q.Run(); err != nil {
		t.Errorf("%v: %s", err, &q.stdout)
	}
}

// Processes at once take turns at an attachment.
func TestOneProcessAtATime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all []*process
	for range 8 {
		p := newProcess(t, "alone", netconf.Add)
		p.Env = append(p.Env, "SKEL_TEST_DIR="+dir)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	for _, p := range all {
		if err := p.Wait(); err != nil {
			t.Errorf("%v: %s", err, &p.stdout)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Whatever the run directory is like, an attachment is made and taken away.
func TestLockThatCannotBeHad(t *testing.T) {
	skeltest.NeedRoot(t)
	const lock = "test:net:c1:eth0.lock"
	for name, spoil := range map[string]func(dir string) error{
		"read-only": func(dir string) error {
			mount(t, dir, 0, "")
			mount(t, dir, unix.MS_REMOUNT|unix.MS_RDONLY, "")
			return nil
		},
		"no inode left":    func(dir string) error { mount(t, dir, 0, "nr_inodes=1"); return nil },
		"a folder":         func(dir string) error { return os.Mkdir(filepath.Join(dir, lock), 0o700) },
		"a link to itself": func(dir string) error { return os.Symlink(lock, filepath.Join(dir, lock)) },
		"a link to a file": func(dir string) error { // its lock is had at once, and is never the one at the path
			return errors.Join(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600), os.Symlink("file", filepath.Join(dir, lock)))
		},
	} {
		p := plugin(t, &step{name: "a", j: &journal{}, add: iface})
		p.Timeout = time.Minute
		if err := spoil(p.RunDir); err != nil {
			t.Fatal(err)
		}
		for _, command := range []netconf.Command{netconf.Add, netconf.Del} {
			if a := call(command).Run(t.Context(), t, p).OK(t); !strings.Contains(a.Stderr, "goes on without a lock") {
				t.Errorf("%s: %s: no warning: %s", name, command, a.Stderr)
			}
		}
	}
	p := plugin(t, &step{name: "a", j: &journal{}, add: iface}) // the file of a holder that is dead, and not ours to read
	if err := os.WriteFile(filepath.Join(p.RunDir, lock), []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if a := call(netconf.Add).Run(t.Context(), t, p).OK(t); a.Stderr != "" {
		t.Errorf("stderr: %s", a.Stderr)
	}
}

// mount puts a tmpfs over a folder, or changes the one there.
func mount(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		t.Fatal(err)
	}
	if flags&unix.MS_REMOUNT == 0 {
		t.Cleanup(func() {
			if err := unix.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		})
	}
}
