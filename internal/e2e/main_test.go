package e2e_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/containerd"
	"github.com/cnikit/cnikit/internal/e2e/image"
	"github.com/cnikit/cnikit/internal/e2e/node"
	"github.com/cnikit/cnikit/internal/e2e/podman"
	"github.com/cnikit/cnikit/internal/e2e/record"
	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// client is a runtime, as far as these tests are alike for all.
type client interface {
	conf(conflist string)
	run(t *testing.T) container // it listens on port 8080
}

// container is a container with a network of its own.
type container interface {
	addresses() []netip.Addr
	Exec(args ...string) string
	stop()
	remove()
}

// clients are the runtimes, each with the CNI version that it is used with here.
var clients = []struct {
	name, version string
	removes       bool // calls DEL again when what was stopped is removed
	start         func(testing.TB, *node.Node, string) client
}{
	{"containerd-2.4", "1.1.0", true, startContainerd(containerd.V24)},
	{"containerd-1.6", "1.0.0", true, startContainerd(containerd.V16)},
	{"podman-4.3", "0.4.0", false, func(t testing.TB, n *node.Node, bin string) client {
		return podmanClient{podman.New(t, n, podman.Options{BinDirs: []string{bin}})}
	}},
}

type containerdClient struct{ *containerd.Runtime }

func startContainerd(version containerd.Version) func(testing.TB, *node.Node, string) client {
	return func(t testing.TB, n *node.Node, bin string) client {
		return containerdClient{containerd.Start(t, n, containerd.Options{Version: version, BinDirs: []string{bin}})}
	}
}

func (c containerdClient) conf(conflist string) {
	c.Conf("10-net.conflist", conflist)
	c.WaitNetwork(true)
}

func (c containerdClient) run(t *testing.T) container {
	t.Helper()
	pod := c.RunPod(containerd.PodSpec{})
	return podContainer{pod, pod.Run("-listen", ":8080")}
}

type podContainer struct {
	pod *containerd.Pod
	*containerd.Container
}

func (c podContainer) addresses() []netip.Addr { return c.pod.IPs }
func (c podContainer) stop()                   { c.pod.Stop() }
func (c podContainer) remove()                 { c.pod.Remove() }

type podmanClient struct{ *podman.Podman }

func (c podmanClient) conf(conflist string) { c.Conf("10-net.conflist", conflist) }

func (c podmanClient) run(t *testing.T) container {
	t.Helper()
	return podmanContainer{c.Run(network, "-listen", ":8080")}
}

type podmanContainer struct{ *podman.Container }

func (c podmanContainer) addresses() []netip.Addr { return c.IPs }
func (c podmanContainer) stop()                   { c.Stop() }
func (c podmanContainer) remove()                 { c.Remove() }

// network is the name of the network in these tests.
const network = "net"

// plugins are our plugins with their keys.
var plugins = []struct{ name, keys string }{
	{"macvlan", `"master":"uplink"`},
	{"bridge", `"bridge":"br0","isGateway":true`},
	{"ptp", `"mtu":1400`},
}

// conflist is a network of two families.
func conflist(version, plugin, keys string) string {
	return fmt.Sprintf(`{"cniVersion":%q,"name":%q,"plugins":[{"type":%q,%s,"ipam":{"type":"host-local",
		"ranges":[[{"subnet":"10.9.0.0/24","rangeStart":"10.9.0.10"}],[{"subnet":"fd09::/64","rangeStart":"fd09::10"}]],
		"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]}}]}`, version, network, plugin, keys)
}

// machine makes a node with an uplink, and a wire to it: what is sent over the wire comes in at the uplink.
func machine(t *testing.T) *node.Node {
	t.Helper()
	n := node.Start(t, node.Options{})
	n.Run("ip", "link", "add", "uplink", "up", "type", "veth", "peer", "name", "wire")
	n.Run("ip", "link", "set", "wire", "up")
	return n
}

// hostLocal is the reference host-local under a name of its own, beside which ours is host-local.
const hostLocal = "reference-host-local"

// recorded is one of our plugins, and both host-locals, with a recorder before them.
func recorded(t *testing.T, plugin string) *record.Recorder {
	t.Helper()
	program := filepath.Join(t.TempDir(), hostLocal)
	if err := os.Symlink(filepath.Join(testbin.Reference(t, testbin.HostLocal), "host-local"), program); err != nil {
		t.Fatal(err)
	}
	return record.Wrap(t, testbin.Plugin(t, plugin), testbin.Plugin(t, "host-local"), program)
}

// dial connects from the node's own namespace and returns what is answered.
func dial(t *testing.T, n *node.Node, address string) string {
	t.Helper()
	return n.Run(image.Program(t), "-dial", address)
}

// left says what containers, runtimes and plugins have left on a node but its own links, the bridge, and the
// daemon that runs still.
func left(t *testing.T, n *node.Node, daemons ...string) string {
	t.Helper()
	var out []string
	for line := range strings.Lines(n.Run("ip", "-o", "link")) {
		name, _, _ := strings.Cut(strings.Fields(line)[1], "@")
		if name = strings.Trim(name, ":"); !slices.Contains([]string{"lo", "uplink", "wire", "br0"}, name) {
			out = append(out, "link "+name)
		}
	}
	for _, family := range []string{"-4", "-6"} {
		for line := range strings.Lines(n.Run("ip", family, "route")) {
			if strings.Contains(line, "veth") || strings.Contains(line, "dev br0") && !strings.Contains(line, "proto kernel") {
				out = append(out, "route "+line)
			}
		}
	}
	for line := range strings.Lines(n.Run("cat", "/proc/self/mountinfo")) {
		if strings.Contains(line, " nsfs ") {
			out = append(out, "namespace "+line)
		}
	}
	for _, dir := range []string{"/var/lib/cni/networks/" + network, "/var/lib/cni/results", "/run/cnikit"} {
		files, err := os.ReadDir(n.Path(dir))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.Name() != "lock" && !strings.HasPrefix(f.Name(), "last_reserved_ip.") {
				out = append(out, "file "+filepath.Join(dir, f.Name()))
			}
		}
	}
	for line := range strings.Lines(n.Run("ps", "-e", "-o", "comm=")) {
		if name := strings.TrimSpace(line); name != "keeper" && name != "ps" && !slices.Contains(daemons, name) {
			out = append(out, "process "+name)
		}
	}
	return strings.Join(out, "\n")
}
