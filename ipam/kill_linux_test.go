package ipam_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// asPlugin marks the environment of a test binary that is to be a plugin.
const asPlugin = "IPAM_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(asPlugin); ok {
		pluginMain() // must never go on to the tests, which would start it again
		os.Exit(1)
	}
	skeltest.Main(m)
}

// pluginMain is the test binary as a plugin.
func pluginMain() {
	skel.Main(skel.Plugin[config]{Name: "main", Kind: skel.IPAM, RunDir: os.Getenv(asPlugin), Steps: func(req *netconf.Request, _ *config) skel.Steps {
		return skel.Steps{ipam.FromConfig(req)}
	}})
}

// plugin is the command that calls it.
func plugin(command, run, path string) (*exec.Cmd, *bytes.Buffer) {
	cmd, out := exec.Command("/proc/self/exe"), &bytes.Buffer{}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), asPlugin + "=" + run, "CNI_COMMAND=" + command, "CNI_CONTAINERID=c1",
		"CNI_NETNS=/run/netns/none", "CNI_IFNAME=eth0", "CNI_PATH=" + path}
	cmd.Stdin, cmd.Stdout = strings.NewReader(withIPAM), out
	return cmd, out
}

// ends fails the test unless all that have the fifo open die.
func ends(t *testing.T, fifo io.Reader) {
	t.Helper()
	dead := make(chan error, 1)
	go func() { _, err := io.ReadAll(fifo); dead <- err }()
	select {
	case err := <-dead:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the IPAM program lives on")
	}
}

// slow is an IPAM plugin whose ADD says "ready" on the fifo "alive", which it keeps open until it
// dies, waits, and then takes an address. No child of it can be left behind.
const slow = `dir=${0%/*}; if [ $CNI_COMMAND = ADD ]; then trap "" TERM; exec 9> "$dir/alive" 8<> "$dir/never"; echo ready >&9; read -r word <&8; fi
` + book

// The runtime's time-out ends the plugin in the middle of an ADD, and its DEL follows at once: the IPAM
// program must not live on and write down a lease that nobody releases (case C-CONC-02).
func TestF11NoAddressIsTakenByAnOrphan(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			dir := program(t, slow, `{"ips":[{"address":"10.0.0.3/24"}]}`)
			for _, name := range []string{"alive", "never"} {
				if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run := t.TempDir()
			add, out := plugin("ADD", run, dir)
			if err := add.Start(); err != nil {
				t.Fatal(err)
			}
			alive, err := os.Open(filepath.Join(dir, "alive")) // waits for the program
			if err != nil {
				t.Fatal(err)
			}
			defer alive.Close()
			word := make([]byte, len("ready\n"))
			if _, err := io.ReadFull(alive, word); err != nil {
				t.Fatal(err)
			}
			if err := add.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := add.Wait(); !errors.As(err, &exit) {
				t.Errorf("%v: expected a failure", err)
			}
			if signal == syscall.SIGTERM && !bytes.Contains(out.Bytes(), []byte(`"code": 11`)) && !bytes.Contains(out.Bytes(), []byte(`"code":11`)) {
				t.Errorf("stdout %q: expected code 11", out)
			}
			del, out := plugin("DEL", run, dir)
			if err := del.Run(); err != nil {
				t.Errorf("DEL: %v: %s", err, out)
			}
			ends(t, alive)
			if found := leases(t, dir); len(found) > 0 {
				t.Errorf("leases %q", found)
			}
		})
	}
}

// An ADD that does not end by itself is killed, and then released by one DEL, which is waited for.
func TestTimedOutAddIsReleasedOnce(t *testing.T) {
	t.Parallel()
	dir := program(t, `[ $CNI_COMMAND = DEL ] || trap "" TERM; `+book, "")
	if err := syscall.Mkfifo(filepath.Join(dir, "fail.ADD"), 0o600); err != nil { // nobody will open it
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	req, _ := call(t, netconf.Add, old(withIPAM), dir)
	go func() { done <- add(ctx, t, req, nil) }()
	skeltest.Eventually(t, "a lease is taken", func() bool { return len(leases(t, dir)) > 0 })
	cancel()
	if err := <-done; netconf.Code(err) != 11 {
		t.Errorf("code %d: %v", netconf.Code(err), err)
	}
	if calls(t, dir) != "ADD DEL" || len(leases(t, dir)) > 0 {
		t.Errorf("calls %q, leases %q", calls(t, dir), leases(t, dir))
	}
}
