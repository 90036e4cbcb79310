package node_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/node"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// victim marks the environment of a test process that is there to be killed.
const victim = "CNIKIT_NODE_VICTIM"

func TestMain(m *testing.M) {
	if _, is := os.LookupEnv(victim); is {
		os.Exit(m.Run())
	}
	skeltest.Main(m)
}

// gone waits until nothing is left of a node.
func gone(t *testing.T, pid int, cgroup string) {
	t.Helper()
	skeltest.Eventually(t, "the node's processes and cgroups are gone", func() bool {
		cgroups, err := filepath.Glob("/sys/fs/cgroup/*/" + cgroup)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := filepath.Glob("/sys/fs/cgroup/" + cgroup)
		if err != nil {
			t.Fatal(err)
		}
		return len(cgroups)+len(alone) == 0 && syscall.Kill(pid, 0) == syscall.ESRCH
	})
}

// busy is a shell command that leaves a process that is nobody's child, a cgroup with a process in it, a mount
// and a link.
const busy = `setsid sleep 1000 > /dev/null 2>&1 &
for dir in /sys/fs/cgroup/memory /sys/fs/cgroup/unified /sys/fs/cgroup; do
	[ -e $dir/cgroup.procs ] || continue
	mkdir -p $dir/pods/one && echo $! > $dir/pods/one/cgroup.procs || exit
done
mkdir /run/m && mount -t tmpfs m /run/m && ip link add br0 up type bridge`

func TestNodesAreApart(t *testing.T) {
	a, b := node.Start(t, node.Options{Name: "a"}), node.Start(t, node.Options{})
	host := skeltest.HostSnapshot(t)
	if names := a.Run("hostname") + b.Run("hostname"); names != "a\n"+b.Name+"\n" {
		t.Errorf("host names %q", names)
	}
	a.Run("sh", "-c", busy)
	if diff := host.Diff(skeltest.HostSnapshot(t)); diff != "" {
		t.Errorf("the test's own namespace sees %s", diff)
	}
	for _, see := range []string{"ps -e", "ip link", "cat /proc/self/mountinfo", "ls /run", "find /sys/fs/cgroup -name pods", "ls /sys/class/net"} {
		args := strings.Fields(see)
		one, other := a.Run(args[0], args[1:]...), b.Run(args[0], args[1:]...)
		for _, word := range []string{"sleep", "br0", "/run/m", "pods"} {
			if strings.Contains(other, word) {
				t.Errorf("%s: the other node sees %s: %s", see, word, other)
			}
		}
		if one == other {
			t.Errorf("%s: nothing of what was made is seen: %s", see, one)
		}
	}
	if _, err := os.Stat(a.Path("/run/m")); err != nil {
		t.Errorf("the test does not see the node's file: %v", err)
	}
	if _, err := os.Stat("/run/m"); err == nil {
		t.Errorf("the node's file is the machine's")
	}
}

func TestStopLeavesNothing(t *testing.T) {
	n := node.Start(t, node.Options{})
	n.Run("sh", "-c", busy)
	d := n.Daemon("sleep", "sleep", "1000")
	n.Stop()
	<-d.Ended()
	gone(t, n.PID, n.CGroup)
	n.Stop()
}

// A test process that is killed leaves nothing either.
func TestKilledTestLeavesNothing(t *testing.T) {
	if _, is := os.LookupEnv(victim); is {
		n := node.Start(t, node.Options{})
		n.Run("sh", "-c", busy)
		n.Daemon("sleep", "sleep", "1000")
		fmt.Println("node", n.PID, n.CGroup)
		select {}
	}
	skeltest.NeedRoot(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), victim+"=1", "TMPDIR="+t.TempDir()) // it cannot remove its own folder
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var cgroup string
	lines, said := bufio.NewScanner(out), ""
	for pid == 0 && lines.Scan() {
		said += lines.Text() + "\n"
		_, _ = fmt.Sscanf(lines.Text(), "node %d %s", &pid, &cgroup) // else pid stays 0
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if pid == 0 {
		t.Fatalf("the test process did not come to its node: %s", said)
	}
	gone(t, pid, cgroup)
}

func TestDaemon(t *testing.T) {
	n := node.Start(t, node.Options{})
	for _, end := range []struct {
		name string
		f    func(*node.Daemon)
		says string
	}{
		{"stop", (*node.Daemon).Stop, "hello\nterminated\n"},
		{"kill", (*node.Daemon).Kill, "hello\n"},
	} {
		d := n.Daemon(end.name, "env", "WORD=hello", "bash", "-c", `trap "echo terminated; exit" TERM; echo $WORD; while :; do sleep 0.01; done`)
		skeltest.Eventually(t, "the daemon's word", func() bool { return strings.Contains(d.Log(), "hello") })
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", d.PID)); err != nil || string(comm) != "bash\n" {
			t.Errorf("PID is that of %q (%v), not the daemon's", comm, err)
		}
		end.f(d)
		if d.Log() != end.says {
			t.Errorf("%s: the log is %q, expected %q", end.name, d.Log(), end.says)
		}
	}
}

// The test's folders are the node's as well, also below what the node has of its own.
func TestFolders(t *testing.T) {
	skeltest.NeedRoot(t)
	for _, parent := range []string{os.TempDir(), "/run/cnikit"} { // the latter is this test process's own
		t.Setenv("TMPDIR", parent)
		dir, err := os.MkdirTemp("", "node")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		file := filepath.Join(dir, "f")
		node.Start(t, node.Options{}).Run("sh", "-c", "echo hello > "+file)
		if got, err := os.ReadFile(file); err != nil || string(got) != "hello\n" {
			t.Errorf("below %s: %q, %v", dir, got, err)
		}
	}
}

func TestTrySaysWhatWentWrong(t *testing.T) {
	n := node.Start(t, node.Options{})
	if out, err := n.Try("sh", "-c", "echo out; echo err >&2; exit 3"); out != "out\n" || err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "err") {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := n.Try("no-such-program"); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("%v", err)
	}
}
