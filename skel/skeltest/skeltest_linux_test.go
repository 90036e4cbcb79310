package skeltest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// TestMain lets three tests run on a processor: most are the faults', which wait for processes half of their time, and
// one for 20 s. -test.parallel says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	Main(m)
}

// The harness works in namespaces of its own, and they are empty.
func TestMainIsolates(t *testing.T) {
	NeedRoot(t)
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if first, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", os.Getppid())); err != nil || first == own {
		t.Errorf("the tests are in the namespace of the process that started them: %v", err)
	}
	if links := Host(t, "ip", "-br", "link"); strings.Count(links, "\n") != 1 || !strings.HasPrefix(links, "lo ") {
		t.Errorf("the tests' host has the links %s", links)
	}
	ns := NewNS(t)
	for _, dir := range []string{"/run/cnikit", "/var/lib/cni"} {
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("%s: %v, %v", dir, files, err)
		}
	}
	ns.Ping("127.0.0.1")
	ns.Remove()
	if _, err := os.Stat(ns.Path); !os.IsNotExist(err) {
		t.Errorf("a removed namespace is still there: %v", err)
	}
}

// A snapshot sees each kind of thing that an attachment can leave, says which, and forgets it when it is gone.
func TestSnapshotSees(t *testing.T) {
	ns := NewNS(t)
	ns.Run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0")
	for _, end := range []string{"a0", "b0"} { // without link-local addresses, which come in their own time
		ns.Run("ip", "link", "set", end, "addrgenmode", "none", "up")
	}
	before := ns.Snapshot()
	if diff := before.Diff(ns.Snapshot()); diff != "" {
		t.Fatalf("two snapshots of the same differ:\n%s", diff)
	}
	for _, change := range []struct{ do, undo, seen string }{
		{"ip link add br0 type bridge", "ip link del br0", "+ link: "},
		{"ip link set a0 alias x", "ip link set a0 alias ", "alias x"},
		{"ip link set a0 mtu 1400", "ip link set a0 mtu 1500", "mtu 1400"},
		{"ip link set b0 down", "ip link set b0 up", "- link: "},
		{"ip address add 10.0.0.1/24 dev a0", "ip address del 10.0.0.1/24 dev a0", "+ address: "},
		{"ip route add blackhole 10.9.0.0/24 table 77", "ip route del blackhole 10.9.0.0/24 table 77", "table 77"},
		{"ip -6 route add blackhole fd09::/64", "ip -6 route del blackhole fd09::/64", "+ route: blackhole fd09::/64"},
		{"ip rule add from 10.0.0.1 table 77", "ip rule del from 10.0.0.1 table 77", "+ rule: "},
		{"ip -6 rule add from fd09::1 table 77", "ip -6 rule del from fd09::1 table 77", "from fd09::1 lookup 77"},
		{"ip -6 rule add iif a0 priority 0 table 255", "ip -6 rule del iif a0 priority 0 table 255", "from all iif a0"},
		{"ip -6 rule del priority 32766", "ip -6 rule add priority 32766 table main", "+ rule: 0: from all lookup local"},
		{"ip neighbour add 10.0.0.9 lladdr 02:00:00:00:00:01 dev a0", "ip neighbour del 10.0.0.9 dev a0", "+ neighbour: 10.0.0.9"},
		{"tc qdisc add dev a0 ingress", "tc qdisc del dev a0 ingress", "+ qdisc: ingress dev a0"},
		{"nft add table inet x", "nft delete table inet x", "+ nft: table inet x"},
		{"nft add table arp y", "nft delete table arp y", "+ nft: table arp y"},
	} {
		do, undo := strings.Split(change.do, " "), strings.Split(change.undo, " ")
		if out, err := ns.Try(do[0], do[1:]...); err != nil && strings.Contains(err.Error(), "qdisc kind is unknown") {
			continue // the kernel has no such thing to be seen
		} else if err != nil {
			t.Fatalf("%s: %v %s", change.do, err, out)
		}
		if diff := before.Diff(ns.Snapshot()); !strings.Contains(diff, change.seen) {
			t.Errorf("%s: the difference does not tell of %q:\n%s", change.do, change.seen, diff)
		}
		ns.Run(undo[0], undo[1:]...)
		if diff := before.Diff(ns.Snapshot()); diff != "" {
			t.Errorf("%s: not forgotten:\n%s", change.undo, diff)
		}
	}
}

// files is a step that makes two files, and is told what to get wrong.
type files struct {
	dir   string
	wrong string
}

func (f files) Add(ctx context.Context, req *netconf.Request) error {
	if f.wrong != "never looks" {
		if _, err := os.Stat(filepath.Join(f.dir, "one")); err == nil {
			return netconf.ErrExists
		}
	}
	for _, name := range []string{"one", "two"} {
		if err := netconf.Before(ctx, "write "+name); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(f.dir, name), nil, 0o600); err != nil {
			return err
		}
	}
	req.AddInterface(&types100.Interface{Name: req.IfName, Sandbox: req.Netns})
	return nil
}

func (files) Check(context.Context, *netconf.Request) error { return nil }

func (f files) Del(ctx context.Context, req *netconf.Request) error {
	if f.wrong == "forgets what it had begun" && len(req.Result.Interfaces) == 0 {
		if _, err := os.Stat(filepath.Join(f.dir, "two")); err != nil {
			return nil
		}
	}
	for _, name := range []string{"one", "two"} {
		if err := netconf.Before(ctx, "remove "+name); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func TestWalkFindsWhatIsWrong(t *testing.T) {
	NeedRoot(t)
	for wrong, found := range map[string]string{
		"":                          "",
		"forgets what it had begun": `Fail of ADD before operation 2, "write two"`,
		"never looks":               `Fail of a second ADD before operation 1, "write one"`,
	} {
		t.Run(wrong, func(t *testing.T) {
			dir := t.TempDir()
			p := skel.Plugin[struct{}]{Name: "files", RunDir: t.TempDir(), Steps: func(*netconf.Request, *struct{}) skel.Steps {
				return skel.Steps{files{dir, wrong}}
			}}
			call := Call{ContainerID: "c", Netns: "/proc/self/ns/net", IfName: "eth0", Env: []string{"CNI_NETNS_OVERRIDE=1"},
				Config: `{"cniVersion":"1.1.0","name":"net","type":"files"}`}
			operations, err := walk(t, p, call, func() Snapshot {
				files, err := filepath.Glob(filepath.Join(dir, "*"))
				if err != nil {
					t.Fatal(err)
				}
				return files
			})
			switch {
			case found == "" && (err != nil || operations != 2):
				t.Errorf("%d operations, %v", operations, err)
			case found != "" && (err == nil || !strings.Contains(err.Error(), found)):
				t.Errorf("found %v, expected %s", err, found)
			}
		})
	}
}

func TestIPAMKeepsAndFails(t *testing.T) {
	ipam := NewIPAM(t)
	run := func(verb netconf.Command, id string) Answer {
		c := Call{Command: verb, ContainerID: id, Netns: "/x", IfName: "eth0", Config: `{"cniVersion":"1.0.0","name":"n","ipam":{"type":"test-ipam"}}`}
		return c.Run(t.Context(), t, Binary(filepath.Join(ipam.Path, "test-ipam")))
	}
	if a := run(netconf.Add, "a").OK(t); a.Result.IPs[0].Address.String() != "10.1.0.2/24" {
		t.Errorf("result %s", a.Stdout)
	}
	if a := run(netconf.Add, "b").OK(t); a.Result.IPs[1].Address.String() != "fd00:1::3/64" {
		t.Errorf("result %s", a.Stdout)
	}
	run(netconf.Add, "a").Fails(t, 100)
	run(netconf.Check, "a").OK(t)
	run(netconf.Del, "a").OK(t)
	run(netconf.Del, "a").OK(t)
	run(netconf.Check, "a").Fails(t, 102)
	ipam.Fail("ADD")
	run(netconf.Add, "c").Fails(t, 101)
	ipam.Heal()
	if got := ipam.Reserved(); !slices.Equal(got, []string{"2 c eth0", "3 b eth0"}) {
		t.Errorf("reserved: %q", got)
	}
}
