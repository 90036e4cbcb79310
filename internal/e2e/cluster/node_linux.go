package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/containerd"
	"github.com/cnikit/cnikit/internal/e2e/node"
)

// NodeOptions say what a node is like.
type NodeOptions struct {
	Name    string   // of the machine and in the API; default: "node" and a number
	BinDirs []string // where containerd looks for CNI plugins, as the node sees it
	ConfDir string   // where it looks for CNI configurations, as the node sees it; default: a folder of the node's Dir
	// Setup is called when the machine is there with its link to the others, before containerd and kubelet start:
	// for mounts and further links. It may be nil.
	Setup func(*node.Node)
	// Kubelet changes keys of kubelet's configuration, as its file has them. It may be nil.
	Kubelet Object
	// Args are further arguments of kubelet.
	Args []string
}

// Node is a machine of a cluster with containerd 2.4 and kubelet. What package node offers is there for
// programs beside them, such as a plugin's daemon.
type Node struct {
	*node.Node
	Runtime *containerd.Runtime
	IP      string // its address on eth0, a bridge port among the cluster's other nodes; the kubelet's too

	api     *API
	args    []string
	kubelet *node.Daemon
}

// StartNode starts a node and waits until the API server has it: four seconds, if the programs are built. It
// is not ready before there is a CNI configuration: see [Node.WaitReady].
func StartNode(t testing.TB, api *API, options NodeOptions) *Node {
	t.Helper()
	n := &Node{Node: node.Start(t, node.Options{Name: options.Name}), api: api}
	if err := n.connect(t); err != nil {
		t.Fatalf("node %q: its link to the others: %v", n.Name, err)
	}
	if options.Setup != nil {
		options.Setup(n.Node)
	}
	n.Runtime = containerd.Start(t, n.Node, containerd.Options{Version: containerd.V24, BinDirs: options.BinDirs, ConfDir: options.ConfDir})
	if err := n.prepareKubelet(options.Kubelet); err != nil {
		t.Fatalf("node %q: prepare kubelet: %v", n.Name, err)
	}
	n.args = append([]string{
		"--config=" + n.file("kubelet.json"), "--kubeconfig=" + n.file("kubelet.kubeconfig"),
		"--hostname-override=" + n.Name, "--node-ip=" + n.IP, "--v=2",
	}, options.Args...)
	t.Cleanup(func() { n.explain(t) })
	n.StartKubelet(t)
	return n
}

func (n *Node) file(name string) string { return filepath.Join(n.Dir, name) }

// connect gives the node its eth0, and leads the address of the API server inside the cluster to the real one:
// the part of kube-proxy that pods with an account need.
func (n *Node) connect(t testing.TB) error {
	network := n.api.network
	n.api.mu.Lock()
	n.api.nodes++
	number := n.api.nodes
	n.api.mu.Unlock()
	n.IP = network.address(1 + number)
	port := fmt.Sprintf("%sp%d", network.bridge, number)
	if err := run("ip", "link", "add", port, "master", network.bridge, "up", "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(n.PID)); err != nil {
		return err
	}
	t.Cleanup(func() {
		// The kernel would take it away too, but a while after the node's end.
		if err := run("ip", "link", "delete", port); err != nil && !strings.Contains(err.Error(), "Cannot find device") {
			t.Error(err)
		}
	})
	rules := fmt.Sprintf(`table ip cluster_service {
	chain output { type nat hook output priority -100; ip daddr %[1]s tcp dport 443 dnat to %[2]s:%[3]d; }
	chain prerouting { type nat hook prerouting priority -100; ip daddr %[1]s tcp dport 443 dnat to %[2]s:%[3]d; }
	chain postrouting { type nat hook postrouting priority 100; ct status dnat ip daddr %[2]s tcp dport %[3]d masquerade; }
}
`, ServiceAddress, network.address(1), n.api.ports.api)
	if err := os.WriteFile(n.file("service.nft"), []byte(rules), 0o644); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"ip", "address", "add", n.IP + "/24", "dev", "eth0"},
		{"ip", "link", "set", "eth0", "up"},
		{"ip", "route", "add", "default", "via", network.address(1)},
		{"nft", "-f", n.file("service.nft")},
	} {
		if _, err := n.Try(command[0], command[1:]...); err != nil {
			return fmt.Errorf("%v: %w", command, err)
		}
	}
	return nil
}

// prepareKubelet writes kubelet's files.
func (n *Node) prepareKubelet(changes Object) error {
	if err := n.hideSysctls(); err != nil {
		return err
	}
	client, err := n.api.authority.issue("system:node:"+n.Name, []string{"system:nodes"})
	if err != nil {
		return err
	}
	server, err := n.api.authority.issue(n.Name, nil, n.Name, n.IP)
	if err != nil {
		return err
	}
	config, err := json.Marshal(n.kubeletConfig(changes))
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"kubelet.json": config, "kubelet.kubeconfig": kubeconfig(n.api.NodeURL, n.api.authority, &client, ""),
		"kubelet.crt": server.cert, "kubelet.key": server.key, "ca.crt": n.api.authority.pem,
	} {
		if err := os.WriteFile(n.file(name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// hideSysctls puts files with the values that kubelet wants over the kernel's settings which it would write
// otherwise: these are of the whole machine, not of a namespace.
func (n *Node) hideSysctls() error {
	for name, value := range map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0",
		"kernel/panic": "10", "kernel/panic_on_oops": "1", "kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
	} {
		path := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without it, which kubelet does not ask either
		}
		file := n.file("sysctl." + filepath.Base(name))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if _, err := n.Try("mount", "--bind", file, path); err != nil {
			return err
		}
	}
	return nil
}

// kubeletConfig is kubelet's configuration file.
func (n *Node) kubeletConfig(changes Object) Object {
	config := Object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + containerd.Socket,

		// The node's cgroup is nobody's to divide: it need not even have all controllers.
		"cgroupDriver": "cgroupfs", "cgroupsPerQOS": false, "enforceNodeAllocatable": []string{},
		"failCgroupV1": false, "failSwapOn": false,
		// A full disk of the machine is no reason to evict a test's pods.
		"evictionHard":                  Object{"memory.available": "10Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"},
		"imageGCHighThresholdPercent":   100,
		"localStorageCapacityIsolation": false,

		// What would be written to the machine: kernel settings, iptables, a folder in /usr/libexec.
		"protectKernelDefaults": true, "makeIPTablesUtilChains": false, "volumePluginDir": "/var/lib/kubelet/volume-plugins",

		"address": n.IP, "healthzPort": 0, "resolvConf": "",
		"tlsCertFile": n.file("kubelet.crt"), "tlsPrivateKeyFile": n.file("kubelet.key"),
		"authentication": Object{"anonymous": Object{"enabled": false}, "webhook": Object{"enabled": false}, "x509": Object{"clientCAFile": n.file("ca.crt")}},
		"authorization":  Object{"mode": "AlwaysAllow"},

		"nodeStatusUpdateFrequency": "1s", // 10 s otherwise, which tests of readiness would wait for
	}
	for key, value := range changes {
		config[key] = value
	}
	return config
}
