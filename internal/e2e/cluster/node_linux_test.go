package cluster_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/cluster"
	"github.com/cnikit/cnikit/internal/e2e/node"
	"github.com/cnikit/cnikit/internal/testbin"
)

// binDirs are our plugin of the given name and the reference host-local.
func binDirs(t *testing.T, plugin string) []string {
	t.Helper()
	return []string{filepath.Dir(testbin.Plugin(t, plugin)), testbin.Reference(t, testbin.HostLocal)}
}

// bridge is a network on our bridge plugin, by which pods reach the node and what it leads to.
func bridge(subnet string) string {
	return conflist("bridge", `"bridge":"pods0","isGateway":true`, fmt.Sprintf(`{"subnet":%q}`, subnet), `,"routes":[{"dst":"0.0.0.0/0"}]`)
}

func conflist(plugin, keys, pool, more string) string {
	return fmt.Sprintf(`{"cniVersion":"1.1.0","name":"pods","plugins":[{"type":%q,%s,"ipam":{"type":"host-local","ranges":[[%s]]%s}}]}`,
		plugin, keys, pool, more)
}

// listen is a pod that answers TCP connections with a line: the address asked, and that of who asks.
var listen = cluster.PodSpec{Args: []string{"-listen", ":8080"}}

func port(ip netip.Addr) string { return netip.AddrPortFrom(ip, 8080).String() }

// ask connects from the node to a pod, and returns its answer.
func ask(t *testing.T, n *cluster.Node, p *cluster.Pod) string {
	t.Helper()
	program := filepath.Join(testbin.Tools(t, "internal/e2e", nil, "./image/pause"), "pause")
	out, err := n.Try(program, "-dial", port(p.IPs[0]))
	if err != nil {
		t.Fatalf("from %s to %s: %v", n.Name, p.Name, err)
	}
	return out
}

// The tests of a node with our bridge plugin share one.
func TestNode(t *testing.T) {
	t.Parallel()
	api := cluster.StartAPI(t, cluster.APIOptions{})
	n := cluster.StartNode(t, api, cluster.NodeOptions{
		BinDirs: binDirs(t, "bridge"), Kubelet: cluster.Object{"maxPods": 7}, Args: []string{"--node-labels=zone=a"},
	})
	if got := api.Kubectl(t, "get", "node", n.Name, "-o", "jsonpath={.status.capacity.pods} {.metadata.labels.zone}"); got != "7 a" {
		t.Errorf("pods that the node takes, and its label: %q", got)
	}
	n.WaitReady(t, false, "cni plugin not initialized") // there is no configuration yet
	n.Runtime.Conf("10-pods.conflist", bridge("10.88.7.0/24"))
	n.WaitReady(t, true, "")
	for _, part := range []struct {
		name string
		test func(*testing.T, *cluster.API, *cluster.Node)
	}{
		{"pods", testPods},
		{"account", testAccountInPod},
		{"restart", testKubeletRestart},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, api, n) })
	}
}

// The life of pods: addresses of the pool, packets, and nothing left at the end.
func testPods(t *testing.T, api *cluster.API, n *cluster.Node) {
	a, b := n.RunPod(t, listen), n.RunPod(t, listen)
	for _, p := range []*cluster.Pod{a, b} {
		if len(p.IPs) != 1 || !netip.MustParsePrefix("10.88.7.0/24").Contains(p.IPs[0]) {
			t.Fatalf("pod %s has the addresses %v", p.Name, p.IPs)
		}
		if got := ask(t, n, p); !strings.HasPrefix(got, port(p.IPs[0])+" 10.88.7.1:") {
			t.Errorf("pod %s answers the node %q", p.Name, got)
		}
	}
	a.Run(t, "ping", "-n", "-c", "1", "-W", "2", b.IPs[0].String())
	if got := api.Kubectl(t, "exec", b.Name, "--", "/pause", "-dial", port(a.IPs[0])); !strings.HasPrefix(got, port(a.IPs[0])+" "+b.IPs[0].String()+":") {
		t.Errorf("pod to pod: %q", got)
	}
	if leases := files(t, n, "/var/lib/cni/networks/pods"); len(leases) != 2 {
		t.Errorf("leases of two pods: %q", leases)
	}
	if ports := links(t, n, "master", "pods0"); len(ports) != 2 {
		t.Errorf("ports of two pods: %q", ports)
	}

	a.Delete(t)
	b.Delete(t)
	if leases := files(t, n, "/var/lib/cni/networks/pods"); len(leases) != 0 {
		t.Errorf("leases after the end: %q", leases)
	}
	if ports := links(t, n, "type", "veth"); len(ports) != 1 || !strings.Contains(ports[0], "eth0") {
		t.Errorf("links after the end: %q", ports)
	}
}

// files are the leases, or other files named by an address, in a folder of the node.
func files(t *testing.T, n *cluster.Node, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(n.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if _, err := netip.ParseAddr(e.Name()); err == nil {
			names = append(names, e.Name())
		}
	}
	return names
}

// links are the node's links of a kind, as ip says it.
func links(t *testing.T, n *cluster.Node, of ...string) []string {
	t.Helper()
	return strings.FieldsFunc(n.Run("ip", append([]string{"-o", "link", "show"}, of...)...), func(r rune) bool { return r == '\n' })
}

// Two nodes of one cluster, ready when the plugin's STATUS says so: pods with links of their own on the nodes'
// network reach one another.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	api := cluster.StartAPI(t, cluster.APIOptions{})
	var pods []*cluster.Pod
	var nodes []*cluster.Node
	for i, half := range []string{`"rangeEnd":"10.88.9.99"`, `"rangeStart":"10.88.9.100"`} {
		n := cluster.StartNode(t, api, cluster.NodeOptions{
			Name: fmt.Sprint("worker", i), BinDirs: binDirs(t, "macvlan"),
			Setup: func(machine *node.Node) { machine.Run("ip", "link", "set", "eth0", "alias", "set up") },
		})
		if eth0 := n.Run("ip", "link", "show", "eth0"); !strings.Contains(eth0, "alias set up") {
			t.Errorf("Setup was not called: %s", eth0)
		}
		n.Runtime.Conf("10-pods.conflist", conflist("macvlan", `"master":"uplink"`, `{"subnet":"10.88.9.0/24",`+half+`}`, ""))
		n.WaitReady(t, false, `"uplink": there is no such parent`)
		n.Run("ip", "link", "add", "uplink", "link", "eth0", "type", "macvlan", "mode", "bridge")
		n.Run("ip", "link", "set", "uplink", "up")
		n.WaitReady(t, true, "")
		nodes, pods = append(nodes, n), append(pods, n.RunPod(t, listen))
	}
	pods[0].Run(t, "ping", "-n", "-c", "1", "-W", "2", pods[1].IPs[0].String())
	if got := api.Kubectl(t, "exec", pods[1].Name, "--", "/pause", "-dial", port(pods[0].IPs[0])); !strings.HasPrefix(got, port(pods[0].IPs[0])+" "+pods[1].IPs[0].String()+":") {
		t.Errorf("pod to pod: %q", got)
	}
	nodes[0].Run("ping", "-n", "-c", "1", "-W", "2", nodes[1].IP)
	for i, n := range nodes {
		if got := api.Kubectl(t, "get", "pod", pods[i].Name, "-o", "jsonpath={.spec.nodeName} {.status.hostIP}"); got != n.Name+" "+n.IP {
			t.Errorf("%s is on %q, want %s", pods[i].Name, got, n.Name)
		}
	}
	nodes[0].Stop() // the other does not notice
	nodes[1].Run("ip", "link", "delete", "uplink")
	nodes[1].WaitReady(t, false, `"uplink": there is no such parent`)
	pods[1].Delete(t)
	if leases := files(t, nodes[1], "/var/lib/cni/networks/pods"); len(leases) != 0 {
		t.Errorf("leases after a DEL without a parent: %q", leases)
	}
}

// Kubelet is killed and comes again: pods live on, and are still its.
func testKubeletRestart(t *testing.T, _ *cluster.API, n *cluster.Node) {
	p := n.RunPod(t, listen)
	for _, end := range []func(){n.KillKubelet, n.StopKubelet} {
		end()
		ask(t, n, p)
		n.StartKubelet(t)
		c, err := net.Dial("unix", n.PodResources())
		if err != nil {
			t.Fatalf("the socket for pod resources: %v", err)
		}
		c.Close()
	}
	n.RunPod(t, cluster.PodSpec{}).Delete(t)
	p.Delete(t)
}

// A pod's account has the rights it was given, by the means that every client in a pod uses: address and port
// in the environment, token and authority in files. It runs in the pods' network and in the node's.
func testAccountInPod(t *testing.T, api *cluster.API, n *cluster.Node) {
	api.Namespace(t, "tools")
	api.Account(t, "tools", "reader", cluster.Rule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}})
	for _, hostNetwork := range []bool{false, true} {
		name := fmt.Sprintf("reader-%v", hostNetwork)
		api.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: tools}
spec:
  nodeName: %s
  serviceAccountName: reader
  hostNetwork: %v
  tolerations: [{operator: Exists}]
  volumes: [{name: kubectl, hostPath: {path: %s, type: File}}]
  containers:
  - name: main
    image: local.test/pause:1
    imagePullPolicy: Never
    command: [/kubectl, --cache-dir=/tmp/cache, get, nodes, --output=name, --watch]
    volumeMounts: [{name: kubectl, mountPath: /kubectl, readOnly: true}]
`, name, n.Name, hostNetwork, api.KubectlPath))
		p := n.WaitPod(t, "tools", name)
		cluster.Eventually(t, func() error {
			if said := p.Log(t); !strings.HasPrefix(said, "node/"+n.Name+"\n") { // a line each time that the node's status changes
				return fmt.Errorf("%s sees the nodes %q", name, said)
			}
			return nil
		})
		whoami := []string{"/kubectl", "--cache-dir=/tmp/cache", "auth", "whoami", "--output=jsonpath={.status.userInfo.username}"}
		if got := api.Kubectl(t, append([]string{"exec", "-n", "tools", name, "--"}, whoami...)...); got != "system:serviceaccount:tools:reader" {
			t.Errorf("%s is %q", name, got)
		}
		if onHost := p.Netns == "" || p.IPs[0].String() == n.IP; onHost != hostNetwork {
			t.Errorf("%s has the addresses %v and the namespace %q", name, p.IPs, p.Netns)
		}
		p.Delete(t)
	}
}
