package e2e_test

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/containerd"
	"github.com/cnikit/cnikit/internal/e2e/node"
	"github.com/cnikit/cnikit/internal/e2e/record"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// crash is a moment at which containerd is killed, and whether the plugin is, too.
type crash struct {
	plugin, command string // the call that has just begun
	plugins         bool   // the bridge plugin dies of SIGKILL as well
}

var crashes = map[string]crash{
	"before ADD":                          {"bridge", "ADD", false},
	"in the middle of ADD":                {hostLocal, "ADD", false}, // there is a link
	"in the middle of ADD, plugin killed": {hostLocal, "ADD", true},
	"before DEL":                          {"bridge", "DEL", false},
	"in the middle of DEL, plugin killed": {hostLocal, "DEL", true},
}

// containerd is killed while a plugin works on one pod, and started again. Another pod lives on meanwhile; and when
// all are removed, nothing is left.
func TestKilledRuntime(t *testing.T) {
	for _, version := range []containerd.Version{containerd.V24, containerd.V16} {
		for name, c := range crashes {
			t.Run(string(version)+"/"+name, func(t *testing.T) { c.test(t, version) })
		}
	}
}

func (c crash) test(t *testing.T, version containerd.Version) {
	t.Parallel()
	n, rec := machine(t), recorded(t, "bridge")
	r := containerd.Start(t, n, containerd.Options{Version: version, BinDirs: []string{rec.Dir}})
	r.Conf("10-net.conflist", strings.Replace(conflist("1.0.0", "bridge", `"bridge":"br0","isGateway":true`), `"host-local"`, strconv.Quote(hostLocal), 1))
	r.WaitNetwork(true)
	alive := r.RunPod(containerd.PodSpec{})
	alive.Run("-listen", ":8080")
	crictl := []string{"runp", r.PodFile(containerd.PodSpec{})}
	if c.command == "DEL" {
		crictl = []string{"rmp", "--force", r.RunPod(containerd.PodSpec{}).ID}
	}

	rec.Hold(c.plugin, c.command)
	ended := make(chan error, 1)
	go func() {
		_, err := r.TryCrictl(crictl...)
		ended <- err
	}()
	rec.WaitHeld(c.plugin, c.command)
	r.Kill()
	if err := <-ended; err == nil {
		t.Fatalf("crictl %v has succeeded, though containerd was killed", crictl)
	}
	if c.plugins {
		killPlugin(t, n, rec, c)
	}
	rec.Release(c.plugin, c.command)
	if !c.plugins {
		c.expectEnd(t, rec)
	}

	r.Restart()
	r.WaitNetwork(true)
	for _, ip := range alive.IPs {
		there := netip.AddrPortFrom(ip, 8080).String()
		expectAnswer(t, dial(t, n, there), there, netip.Addr{})
	}
	for _, id := range strings.Fields(r.Crictl("pods", "--quiet")) {
		r.Crictl("rmp", "--force", id)
	}
	if left := left(t, n, "containerd"); left != "" {
		t.Errorf("left behind:\n%s", left)
	}
}

// killPlugin kills the bridge plugin, which waits for host-local. Its kernel kills host-local with it: else an
// orphan would go on to take an address that nobody gives back.
func killPlugin(t *testing.T, n *node.Node, rec *record.Recorder, c crash) {
	t.Helper()
	calls := rec.Calls()
	for _, call := range slices.Backward(calls) {
		if call.Type == "bridge" {
			n.Run("kill", "-KILL", call.PID)
			break
		}
	}
	skeltest.Eventually(t, "host-local has died with the plugin", func() bool {
		_, err := n.Try("kill", "-0", calls[len(calls)-1].PID)
		return err != nil
	})
}

// expectEnd waits for the plugin whose runtime is dead. An ADD whose result nobody reads is undone.
func (c crash) expectEnd(t *testing.T, rec *record.Recorder) {
	t.Helper()
	rec.WaitEnded()
	calls := rec.Of("bridge", c.command)
	last := calls[len(calls)-1]
	if undone := last.Exit != 0; undone != (c.command == "ADD") {
		t.Errorf("%s, whose runtime is dead, has exit status %d", c.command, last.Exit)
	}
	if dels := rec.Of(hostLocal, "DEL"); len(dels) != 1 || dels[0].ContainerID != last.ContainerID {
		t.Errorf("before containerd has come back, host-local saw the DELs %+v: expected one, for %s", dels, last.ContainerID)
	}
}
