package skeltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inside marks the environment of a test binary that Main has started again in its own namespaces.
const inside = "CNIKIT_TEST_INSIDE"

// Main runs a package's tests and exits. As root it first starts the test binary again in a network
// and a mount namespace of its own, with lo up, and with tmpfs over /run and /var/lib/cni: both are empty. Of the
// machine's /run there is only what is mounted below it (but /run/netns, /run/cni and /run/cnikit), the folder for
// temporary files and the working directory.
//
// All other folders are the machine's. A plugin that keeps its state elsewhere, in /var/lib/NAME perhaps, must be given
// a folder of the test's ([testing.T.TempDir]) by its configuration; [Conform] covers those that Target.State names.
func Main(m *testing.M) {
	if os.Getuid() != 0 {
		os.Exit(m.Run())
	}
	if os.Getenv(inside) != "" {
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, "skeltest: prepare the namespaces of the tests:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig follows the thread that forks
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit) && exit.Exited():
		os.Exit(exit.ExitCode())
	}
	fmt.Fprintln(os.Stderr, "skeltest: run the tests in namespaces of their own:", err)
	os.Exit(1)
}

// prepare makes the namespaces of this process what tests need; keep are folders that stay, also in /run.
func prepare(keep ...string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	if err := coverRun(keep...); err != nil {
		return err
	}
	for _, dir := range []string{"/run/netns", "/run/cnikit", "/var/lib/cni"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("mount a tmpfs on %q: %w", dir, err)
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("link lo: %w", err)
	}
	return netlink.LinkSetUp(lo)
}

// NeedRoot skips the test when it does not run as root inside Main's namespaces.
func NeedRoot(t testing.TB) {
	t.Helper()
	switch {
	case os.Getuid() != 0:
		t.Skip("needs root: makes network namespaces and links")
	case os.Getenv(inside) == "":
		t.Fatal("the package's TestMain must call skeltest.Main: this test would work on the machine's own network")
	}
}

// NS is a throw-away network namespace.
type NS struct {
	Name string // as in ip netns
	Path string // /run/netns/NAME: what goes into CNI_NETNS
	t    testing.TB
}

var count atomic.Int64

// NewNS makes a network namespace with lo up; it is removed when the test ends. What was put into it
// goes with it.
func NewNS(t testing.TB) *NS {
	t.Helper()
	NeedRoot(t)
	n := &NS{Name: fmt.Sprintf("t%d", count.Add(1)), t: t}
	n.Path = filepath.Join("/run/netns", n.Name)
	if err := os.WriteFile(n.Path, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	err := locked(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		if err := unix.Mount("/proc/thread-self/ns/net", n.Path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %q: %w", n.Path, err)
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		t.Fatalf("new namespace %s: %v", n.Name, err)
	}
	t.Cleanup(func() {
		n.empty()
		n.Remove()
	})
	return n
}

// empty deletes what links are left, as the kernel would with the namespace, but a moment after it: the next test would
// still see the host's ends of pairs.
func (n *NS) empty() {
	_ = within(n.Path, func() error { // it may be gone, and what cannot be deleted is the kernel's to take
		links, err := netlink.LinkList()
		for _, l := range links {
			_ = netlink.LinkDel(l)
		}
		return err
	})
}

// Remove unmounts the namespace's path and removes it, as the runtime does at the end of a
// sandbox; again does nothing.
func (n *NS) Remove() {
	if err := unix.Unmount(n.Path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		n.t.Errorf("unmount %q: %v", n.Path, err)
	}
	if err := os.Remove(n.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		n.t.Error(err)
	}
}

// Do runs f in the namespace, on a thread of its own, and waits for it. f must not start goroutines
// that rely on the namespace, nor call t.FailNow.
func (n *NS) Do(f func()) {
	n.t.Helper()
	err := within(n.Path, func() error { f(); return nil })
	if err != nil {
		n.t.Fatalf("enter namespace %q: %v", n.Path, err)
	}
}

// within runs f in the namespace at path.
func within(path string, f func() error) error {
	return locked(func() error {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

// locked runs f on a thread that ends with it: whatever namespace f leaves it in is never seen by
// another goroutine. It is never the main thread, which cannot end and is what /proc/PID/ns/net shows.
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

// Run runs a command in the namespace and returns what it printed; the test fails if it fails.
func (n *NS) Run(name string, args ...string) string {
	n.t.Helper()
	out, err := n.Try(name, args...)
	if err != nil {
		n.t.Fatalf("in %s: %s %s: %v\n%s", n.Name, name, strings.Join(args, " "), err, out)
	}
	return out
}

// Try runs a command in the namespace and returns what it printed on stdout, and its error, with what it
// printed on stderr. A command that runs longer than a minute is killed.
func (n *NS) Try(name string, args ...string) (string, error) {
	n.t.Helper()
	var out []byte
	var err error
	n.Do(func() { out, err = run(name, args...) })
	return string(out), err
}

// Host runs a command in the namespace that stands for the host in the tests: the test binary's own.
func Host(t testing.TB, name string, args ...string) string {
	t.Helper()
	NeedRoot(t)
	out, err := run(name, args...)
	if err != nil {
		t.Fatalf("on the host: %s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func run(name string, args ...string) ([]byte, error) { return runWith("", name, args...) }

// runWith is run with a stdin.
func runWith(stdin, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return out, err
}

// Ping sends one packet to an address and waits up to two seconds for the answer; the test fails
// without one.
func (n *NS) Ping(address string) {
	n.t.Helper()
	n.Run("ping", "-n", "-c", "1", "-W", "2", address)
}
