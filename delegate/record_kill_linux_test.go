package delegate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// recordDir marks the environment of a test binary that is to be a plugin with records, see keeper. It is a folder
// with the plugin fake. keeperVerb, keeperAt and keeperParallel say what it is to do.
const (
	recordDir      = "DELEGATE_TEST_RECORD"
	keeperVerb     = "DELEGATE_TEST_VERB"
	keeperAt       = "DELEGATE_TEST_AT"
	keeperParallel = "DELEGATE_TEST_PARALLEL"
)

// store is a plugin that keeps a file for each attachment, as an IPAM plugin does, and logs its calls. Where
// KILL is its verb and interface, it kills its caller when its work is done.
const store = `set -e
mkdir -p "$0.store"; echo "$CNI_COMMAND $CNI_IFNAME" >> "$0.log"
lease="$0.store/$CNI_CONTAINERID.$CNI_IFNAME"
case $CNI_COMMAND in
ADD) echo > "$lease"; [ "$KILL" != "ADD $CNI_IFNAME" ] || kill -9 $PPID
     echo '{"cniVersion":"1.1.0","interfaces":[{"name":"'$CNI_IFNAME'","sandbox":"/n"}]}' ;;
DEL) rm -f "$lease"; [ "$KILL" != "DEL $CNI_IFNAME" ] || kill -9 $PPID ;;
esac`

// kept is a set of three networks of the plugin fake, the last a list of two.
func kept(parallel int) (delegate.Set, error) {
	set := delegate.Set{Parallel: parallel}
	for i, text := range []string{`{"cniVersion":"1.1.0","name":"n0","type":"fake"}`, `{"cniVersion":"1.1.0","name":"n1","type":"fake"}`,
		`{"cniVersion":"1.1.0","name":"n2","plugins":[{"type":"fake"},{"type":"fake"}]}`} {
		network, err := delegate.ParseNetwork([]byte(text))
		if err != nil {
			return set, err
		}
		set.Attachments = append(set.Attachments, delegate.Attachment{Network: network, IfName: fmt.Sprint("net", i)})
	}
	return set, nil
}

func keptRequest(dir string) *netconf.Request {
	return &netconf.Request{ContainerID: "c1", IfName: "eth0", Netns: "/n", Path: []string{dir}, Environ: os.Environ(), Network: netconf.Network{Name: "outer"}}
}

// keeper is a process that makes one call with a record, and kills itself before one of the changes that it makes. It
// exits with 0 when it came through.
func keeper(dir string) {
	at, _ := strconv.Atoi(os.Getenv(keeperAt)) // empty: never
	parallel, _ := strconv.Atoi(os.Getenv(keeperParallel))
	var n int
	ctx := netconf.WithFault(context.Background(), func(_ context.Context, op string) error {
		if n++; n == at { // one goroutine at a time but for Parallel, whose test does not count
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	})
	set, err := kept(parallel)
	r := delegate.Records{Dir: filepath.Join(dir, "records")}
	switch {
	case err != nil:
	case os.Getenv(keeperVerb) == "DEL":
		err = r.Del(ctx, nil, keptRequest(dir))
	default:
		_, err = r.Add(ctx, set, keptRequest(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// keep runs a keeper; killed tells that it was.
func keep(t *testing.T, dir string, env ...string) (killed bool) {
	t.Helper()
	self := exec.CommandContext(t.Context(), "/proc/self/exe")
	self.Env = append(append(os.Environ(), recordDir+"="+dir), env...)
	out, err := self.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return false
}

// wantCleared holds what a killed call and a DEL from its record leave to nothing: no lease, no record, and a DEL for each
// plugin that was begun.
func wantCleared(t *testing.T, dir, when string) {
	t.Helper()
	r := delegate.Records{Dir: filepath.Join(dir, "records")}
	if err := r.Del(t.Context(), nil, keptRequest(dir)); err != nil {
		t.Errorf("%s: %v", when, err)
	}
	wantNames(t, r)
	leases, err := os.ReadDir(filepath.Join(dir, "fake.store"))
	if err != nil && !errors.Is(err, os.ErrNotExist) || len(leases) > 0 {
		t.Errorf("%s: %v, %v: leases for ever", when, leases, err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "fake.log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, name := range []string{"net0", "net1", "net2"} {
		if strings.Contains(string(log), "ADD "+name) && strings.LastIndex(string(log), "DEL "+name) < strings.LastIndex(string(log), "ADD "+name) {
			t.Errorf("%s: %s was begun and has no DEL: %q", when, name, log)
		}
	}
}

// Killed before any of its writes and processes, at ADD and at DEL, a call leaves a record from which the next DEL clears
// up all of it (case C-CONC-02).
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"ADD", "DEL"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			for at := 1; ; at++ {
				dir := program(t, store)
				if verb == "DEL" && keep(t, dir) {
					t.Fatal("killed too early")
				}
				killed := keep(t, dir, keeperVerb+"="+verb, fmt.Sprintf("%s=%d", keeperAt, at))
				if verb == "ADD" && killed && at > recordMade {
					wantNames(t, delegate.Records{Dir: filepath.Join(dir, "records")}, "outer:c1:eth0.record")
				}
				wantCleared(t, dir, fmt.Sprintf("%s killed before change %d", verb, at))
				if !killed {
					// ADD: four programs, three results; DEL: the lock, four programs, three strikes, the end
					if want := map[string]int{"ADD": recordMade + 7, "DEL": 9}[verb]; at-1 != want {
						t.Errorf("%s makes %d changes: expected %d", verb, at-1, want)
					}
					return
				}
			}
		})
	}
}

// recordMade is how many changes make a record: the folder, the draft, its lock, the line, its sync, the link; the draft's name
// goes, and the folder is synced.
const (
	recordMade = 8
	linkMade   = 7 // killed before this one, the record has its name
)

// An ADD that was killed while its record was made has run nothing, and the next ADD works without a DEL between them.
// What it left goes also with a DEL, and with a GC that has the container among the living.
func TestAddKilledWhileItsRecordIsMade(t *testing.T) {
	t.Parallel()
	for at := 1; at <= recordMade; at++ {
		for _, next := range []string{"ADD", "DEL", "GC"} {
			t.Run(fmt.Sprint(at, next), func(t *testing.T) {
				t.Parallel()
				dir := program(t, store)
				r := delegate.Records{Dir: filepath.Join(dir, "records")}
				if !keep(t, dir, fmt.Sprintf("%s=%d", keeperAt, at)) {
					t.Fatal("it was not killed")
				}
				linked := at >= linkMade
				switch next {
				case "ADD":
					if linked { // it is a record: a DEL is due
						wantCleared(t, dir, "linked")
					}
					if keep(t, dir) {
						t.Error("killed")
					}
					wantNames(t, r, "outer:c1:eth0.record")
				case "GC":
					req := keptRequest(dir)
					req.Network.ValidAttachments = []types.GCAttachment{{ContainerID: "c1", IfName: "eth0"}}
					if err := r.GC(t.Context(), nil, req); err != nil {
						t.Error(err)
					}
					if linked {
						wantNames(t, r, "outer:c1:eth0.record")
					} else {
						wantNames(t, r)
					}
				}
				wantCleared(t, dir, next)
			})
		}
	}
}

// Killed by the plugin that it runs, which has done its work.
func TestKilledInAPlugin(t *testing.T) {
	t.Parallel()
	for _, parallel := range []string{"1", "3"} {
		for _, kill := range []string{"ADD net0", "ADD net1", "ADD net2", "DEL net0", "DEL net1", "DEL net2"} {
			t.Run(kill+" "+parallel, func(t *testing.T) {
				t.Parallel()
				dir := program(t, store)
				verb, _, _ := strings.Cut(kill, " ")
				if verb == "DEL" && keep(t, dir) {
					t.Fatal("killed too early")
				}
				if !keep(t, dir, keeperVerb+"="+verb, keeperParallel+"="+parallel, "KILL="+kill) {
					t.Fatal("it was not killed")
				}
				wantCleared(t, dir, kill)
			})
		}
	}
}
