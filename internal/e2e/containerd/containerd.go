package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/internal/e2e/image"
	"github.com/cnikit/cnikit/internal/e2e/node"
	"github.com/cnikit/cnikit/internal/testbin"
)

// Version is a release line of containerd.
type Version string

// The versions that there are.
const (
	V16 Version = "1.6" // Debian's
	V24 Version = "2.4" // built from source
)

// Socket is where containerd listens, a path of its node: crictl's and kubelet's endpoint is "unix://" and it.
const Socket = "/run/containerd/containerd.sock"

// Options say how containerd runs.
type Options struct {
	Version Version
	// ConfDir is where it looks for CNI configurations, as the node sees it; default: a folder "net.d" of the
	// node's Dir.
	ConfDir string
	// BinDirs are where it looks for CNI plugins, as the node sees them. 1.6 takes one folder: it gets one of
	// links to what is in these at the start.
	BinDirs []string
}

// Runtime is a running containerd.
type Runtime struct {
	Node    *node.Node
	ConfDir string

	t      testing.TB
	dir    string // of the programs; "" is the PATH's
	crictl string
	number int // of the pods and containers made
	daemon *node.Daemon
}

// Start starts containerd on a node, waits until it answers, and imports the image of package image.
func Start(t testing.TB, n *node.Node, opts Options) *Runtime {
	t.Helper()
	bin := build(t)
	r := &Runtime{Node: n, ConfDir: opts.ConfDir, t: t, crictl: filepath.Join(bin, "crictl")}
	if opts.Version == V24 {
		r.dir = bin
	}
	if said := n.Run(r.program("containerd"), "--version"); !strings.Contains(said, " "+string(opts.Version)+".") && !strings.Contains(said, " v"+string(opts.Version)+".") {
		t.Fatalf("containerd says it is %q: these tests need %s", strings.TrimSpace(said), opts.Version)
	}
	if r.ConfDir == "" {
		r.ConfDir = filepath.Join(n.Dir, "net.d")
		if err := os.Mkdir(r.ConfDir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if opts.Version == V16 {
		opts.BinDirs = []string{r.links(append([]string{bin}, opts.BinDirs...))}
	}
	r.write("containerd.toml", config(opts.Version, r.ConfDir, opts.BinDirs))
	r.write("crictl.yaml", "runtime-endpoint: unix://"+Socket+"\nimage-endpoint: unix://"+Socket+"\ntimeout: 60\n")
	r.Restart()
	r.Import(image.Archive(t))
	return r
}

// program is the path, or the name on the PATH, of one of containerd's programs.
func (r *Runtime) program(name string) string { return filepath.Join(r.dir, name) }

// Restart starts containerd again, after a Kill or a Stop, and waits until it answers. Pods live on meanwhile.
func (r *Runtime) Restart() {
	r.t.Helper()
	// The shim is looked for on the PATH; Debian has one of 1.6 there.
	path := os.Getenv("PATH")
	if r.dir != "" {
		path = r.dir + ":" + path
	}
	r.daemon = r.Node.Daemon("containerd", "env", "PATH="+path, r.program("containerd"), "--config", filepath.Join(r.Node.Dir, "containerd.toml"))
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		select {
		case <-r.daemon.Ended():
			r.t.Fatal("containerd has ended, see its log")
		default:
		}
		if _, err = r.TryCrictl("version"); err == nil {
			return
		}
	}
	r.t.Fatalf("containerd does not answer: %v", err)
}

// Kill kills containerd with SIGKILL. Its shims, and so the containers, live on.
func (r *Runtime) Kill() { r.daemon.Kill() }

// Stop stops containerd with SIGTERM. Its shims, and so the containers, live on.
func (r *Runtime) Stop() { r.daemon.Stop() }

// Log is what containerd has logged since the start.
func (r *Runtime) Log() string { return r.daemon.Log() }

// Conf writes a file into the folder of CNI configurations. containerd watches the folder: it takes a moment
// until it has noticed; see [Runtime.WaitNetwork].
func (r *Runtime) Conf(name, content string) {
	r.t.Helper()
	// By renaming: else containerd may read half of it.
	path := filepath.Join(r.ConfDir, name)
	if err := os.WriteFile(path+".tmp", []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		r.t.Fatal(err)
	}
}

// Import loads an image archive, a path that the node sees, into what pods are made of.
func (r *Runtime) Import(archive string) {
	r.t.Helper()
	r.Node.Run(r.program("ctr"), "--address", Socket, "--namespace", "k8s.io", "images", "import", archive)
}

// links makes a folder of links to all programs in others; of two of a name the later one counts.
func (r *Runtime) links(dirs []string) string {
	r.t.Helper()
	all := filepath.Join(r.Node.Dir, "bin")
	if err := os.Mkdir(all, 0o755); err != nil {
		r.t.Fatal(err)
	}
	for _, dir := range dirs {
		// In the node, which may see others there.
		r.Node.Run("find", dir, "-mindepth", "1", "-maxdepth", "1", "!", "-name", ".*", "-exec", "ln", "-sf", "-t", all, "{}", "+")
	}
	return all
}

// write writes a file into the node's folder and returns its path.
func (r *Runtime) write(name, content string) string {
	r.t.Helper()
	path := filepath.Join(r.Node.Dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// config is containerd's configuration file. Folders are fixed: they are the node's own.
func config(version Version, confDir string, binDirs []string) string {
	// restrict_oom_score_adj: root may lack CAP_SYS_RESOURCE, without which runc cannot lower a score.
	if version == V16 {
		return fmt.Sprintf(`version = 2
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
`, image.Name, binDirs[0], confDir)
	}
	quoted := make([]string, len(binDirs))
	for i, dir := range binDirs {
		quoted[i] = fmt.Sprintf("%q", dir)
	}
	return fmt.Sprintf(`version = 3
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = %q
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = [%s]
    conf_dir = %q
    use_internal_loopback = true
`, image.Name, strings.Join(quoted, ", "), confDir)
}

// build builds containerd 2.4 and crictl, and returns their folder.
func build(t testing.TB) string {
	t.Helper()
	const runtimes, release = "internal/e2e/tools/runtimes", "v2.4.2" // as in its go.mod
	return testbin.Tools(t, runtimes,
		// What these snapshotters need is not here; and they take a third of the build.
		[]string{"-tags=no_btrfs no_devmapper no_zfs no_aufs", "-ldflags=-s -w -X github.com/containerd/containerd/v2/version.Version=" + release},
		"github.com/containerd/containerd/v2/cmd/containerd",
		"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
		"github.com/containerd/containerd/v2/cmd/ctr",
		"sigs.k8s.io/cri-tools/cmd/crictl",
		"github.com/containernetworking/plugins/plugins/main/loopback", // 1.6 has none within
	)
}
