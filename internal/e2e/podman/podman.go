// Package podman runs Debian's podman 4.3 with its CNI networks on a node of a test.
//
// There is no daemon: each command of podman is a process, and conmon watches the container. It accepts
// configurations up to the CNI version 1.0.0, of which 0.4.0 is what it makes itself; it calls VERSION,
// ADD and DEL, and keeps the container's address from one start to the next only if it is asked to.
package podman

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/image"
	"github.com/cnikit/cnikit/internal/e2e/node"
)

// Options say how podman runs.
type Options struct {
	ConfDir string   // where it looks for CNI configurations, as the node sees it; default: a folder "net.d" of the node's Dir
	BinDirs []string // where it looks for CNI plugins, as the node sees them
}

// Podman is podman on a node. What it keeps is below the node's own /run and /var/lib.
type Podman struct {
	Node    *node.Node
	ConfDir string

	t      testing.TB
	config string
}

// New prepares a node for podman, and loads the image of package image.
func New(t testing.TB, n *node.Node, opts Options) *Podman {
	t.Helper()
	p := &Podman{Node: n, ConfDir: opts.ConfDir, t: t, config: filepath.Join(n.Dir, "containers.conf")}
	if p.ConfDir == "" {
		p.ConfDir = filepath.Join(n.Dir, "net.d")
		if err := os.Mkdir(p.ConfDir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	quoted := make([]string, len(opts.BinDirs))
	for i, dir := range opts.BinDirs {
		quoted[i] = fmt.Sprintf("%q", dir)
	}
	// oom_score_adj, default_ulimits: root may lack CAP_SYS_RESOURCE, without which nothing can be raised.
	config := fmt.Sprintf(`[containers]
oom_score_adj = 0
default_ulimits = []
[network]
network_backend = "cni"
cni_plugin_dirs = [%s]
network_config_dir = %q
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
`, strings.Join(quoted, ", "), p.ConfDir)
	if err := os.WriteFile(p.config, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if said := p.Podman("--version"); !strings.Contains(said, " 4.3.") {
		t.Fatalf("podman says it is %q: these tests need 4.3, the last that Debian has with CNI", strings.TrimSpace(said))
	}
	p.Podman("load", "--quiet", "--input", image.Archive(t))
	return p
}

// Podman runs podman in the node and returns what it printed; the test fails if it fails.
func (p *Podman) Podman(args ...string) string {
	p.t.Helper()
	out, err := p.TryPodman(args...)
	if err != nil {
		p.t.Fatalf("podman %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TryPodman runs podman in the node and returns what it printed, and its error, with what it printed on stderr.
func (p *Podman) TryPodman(args ...string) (string, error) {
	p.t.Helper()
	return p.Node.Try("env", append([]string{"CONTAINERS_CONF=" + p.config, "podman"}, args...)...)
}

// Conf writes a file into the folder of CNI configurations, which podman reads at each command.
func (p *Podman) Conf(name, content string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.ConfDir, name), []byte(content), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// Container is a container with a network.
type Container struct {
	ID    string       // CNI's container id too
	Netns string       // the network namespace's path, in the node
	IPs   []netip.Addr // in the network

	p *Podman
}

// Run starts a container in a network; the arguments are those of the image's program.
func (p *Podman) Run(network string, args ...string) *Container {
	p.t.Helper()
	c, err := p.TryRun(network, args...)
	if err != nil {
		p.t.Fatalf("podman run: %v", err)
	}
	return c
}

// TryRun starts a container in a network, or returns podman's error.
func (p *Podman) TryRun(network string, args ...string) (*Container, error) {
	p.t.Helper()
	out, err := p.TryPodman(append([]string{"run", "--detach", "--pull=never", "--network=" + network, image.Name}, args...)...)
	if err != nil {
		return nil, err
	}
	c := &Container{ID: strings.TrimSpace(out), p: p}
	var found []struct {
		NetworkSettings struct {
			SandboxKey string
			Networks   map[string]struct{ IPAddress, GlobalIPv6Address string }
		}
	}
	data := p.Podman("inspect", c.ID)
	if err := json.Unmarshal([]byte(data), &found); err != nil || len(found) != 1 {
		p.t.Fatalf("what podman inspect printed: %v\n%s", err, data)
	}
	c.Netns = found[0].NetworkSettings.SandboxKey
	its := found[0].NetworkSettings.Networks[network]
	for _, ip := range []string{its.IPAddress, its.GlobalIPv6Address} {
		if ip == "" {
			continue
		}
		address, err := netip.ParseAddr(ip)
		if err != nil {
			p.t.Fatalf("podman inspect: %v", err)
		}
		c.IPs = append(c.IPs, address)
	}
	return c, nil
}

// Exec runs the image's program once more in the container, with other arguments, and returns what it printed.
func (c *Container) Exec(args ...string) string {
	c.p.t.Helper()
	return c.p.Podman(append([]string{"exec", c.ID, image.Entrypoint}, args...)...)
}

// Stop stops the container, and its network is taken away.
func (c *Container) Stop() { c.p.t.Helper(); c.p.Podman("stop", "--time=5", c.ID) }

// Remove removes the container, and stops it before if it runs.
func (c *Container) Remove() { c.p.t.Helper(); c.p.Podman("rm", "--force", "--time=5", c.ID) }
