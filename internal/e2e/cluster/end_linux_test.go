package cluster_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/cluster"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// traces are by what a cluster's remains are known.
type traces struct{ apiDir, nodeDir, cgroup string }

// leave starts a cluster with a pod, which is not deleted.
func leave(t *testing.T) traces {
	t.Helper()
	api := cluster.StartAPI(t, cluster.APIOptions{})
	n := cluster.StartNode(t, api, cluster.NodeOptions{BinDirs: binDirs(t, "bridge")})
	n.Runtime.Conf("10-pods.conflist", bridge("10.88.7.0/24"))
	n.WaitReady(t, true, "")
	n.RunPod(t, listen)
	return traces{filepath.Dir(api.CA), n.Dir, n.CGroup}
}

// After a cluster's end nothing of it is there: links, processes, cgroups, files.
func TestNothingLeft(t *testing.T) {
	before := skeltest.HostSnapshot(t)
	var left traces
	t.Run("cluster", func(t *testing.T) {
		left = leave(t)
		if running(t, left) == nil {
			t.Error("a cluster that runs is not seen")
		}
	})
	if diff := before.Diff(skeltest.HostSnapshot(t)); diff != "" {
		t.Errorf("links and addresses:\n%s", diff)
	}
	if err := running(t, left); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{left.apiDir, left.nodeDir} {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", dir, err)
		}
	}
}

// When the test process is killed, its clusters end too.
func TestKilled(t *testing.T) {
	const mark = "CNIKIT_CLUSTER_KILLED"
	if _, child := os.LookupEnv(mark); child {
		left := leave(t)
		fmt.Printf("\nleft %s %s %s\n", left.apiDir, left.nodeDir, left.cgroup)
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // until it is killed, or who wanted to do it is
			t.Error(err)
		}
		return
	}
	skeltest.NeedRoot(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestKilled$", "-test.v", "-test.timeout=5m")
	// Without what tells skeltest.Main that it is in namespaces of its own: the child makes some again.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "CNIKIT_TEST_INSIDE=") || strings.HasPrefix(v, "TMPDIR=")
	})
	cmd.Env = append(cmd.Env, mark+"=1", "TMPDIR="+t.TempDir()) // the files of the dead are nobody's
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var left traces
	var said strings.Builder
	for lines := bufio.NewScanner(stdout); left.cgroup == "" && lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		_, _ = fmt.Sscanf(lines.Text(), "left %s %s %s", &left.apiDir, &left.nodeDir, &left.cgroup) // other lines do not match
	}
	if left.cgroup == "" {
		t.Errorf("no cluster was started: %v\n%s", cmd.Wait(), &said)
		return
	}
	if running(t, left) == nil {
		t.Error("a cluster that runs is not seen")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.Success() {
		t.Errorf("it was not killed: %v", err)
	}
	cluster.Eventually(t, func() error { return running(t, left) })
}

// running is an error that lists the cgroups that are there of a cluster, and the processes that name one of
// its folders. No process is in a cgroup that is not there.
func running(t *testing.T, left traces) error {
	t.Helper()
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/" + left.cgroup, "/sys/fs/cgroup/*/" + left.cgroup} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, paths...)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		line, err := os.ReadFile(path)
		if err != nil {
			continue // has ended meanwhile
		}
		if strings.Contains(string(line), left.apiDir+"/") || strings.Contains(string(line), left.nodeDir+"/") {
			found = append(found, path+": "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	if found != nil {
		return errors.New(strings.Join(found, "\n"))
	}
	return nil
}
