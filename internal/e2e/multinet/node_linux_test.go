package multinet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/cnikit/cnikit/internal/e2e/cluster"
	"github.com/cnikit/cnikit/internal/e2e/image"
)

// The annotations of a pod: what it wants, and what it is told.
const (
	wanted = "k8s.v1.cni.cncf.io/networks"
	told   = "k8s.v1.cni.cncf.io/network-status"
)

// Pods of a real node: kubelet and containerd call the program, and kubelet writes the same pods' statuses beside it.
func TestNode(t *testing.T) {
	api := cluster.StartAPI(t, cluster.APIOptions{})
	api.Apply(t, manifest(t, "crd.yaml"))
	api.Apply(t, manifest(t, "rbac.yaml"))
	for name, subnet := range map[string]string{"lan": "10.72.0.0/24", "store": "fd72::/64"} {
		define(t, api, "default", name, fmt.Sprintf(`{"cniVersion":"1.1.0","type":"bridge","bridge":"br-%s","ipam":{"type":"host-local","subnet":%q}}`, name, subnet))
	}
	program, plugins := build(t)
	config, _ := kubeconfigFor(t, api.NodeURL, api, token(t, api))
	static := t.TempDir()
	n := cluster.StartNode(t, api, cluster.NodeOptions{
		BinDirs: []string{plugins, filepath.Dir(string(program))}, Kubelet: cluster.Object{"staticPodPath": static},
	})
	indicator := filepath.Join(t.TempDir(), "ready")
	n.Runtime.Conf("00-multinet.conflist", fmt.Sprintf(`{"cniVersion":"1.1.0","name":"multinet","plugins":[{"type":"multinet",
		"kubeconfig":%q,"cniDir":"/var/lib/cni/multinet","binDir":%q,"readinessindicatorfile":%q,"delegates":[{"cniVersion":"1.1.0","name":"default","type":"bridge","bridge":"br-pods",
		"isGateway":true,"ipam":{"type":"host-local","subnet":"10.71.0.0/24","routes":[{"dst":"0.0.0.0/0"}]}}]}]}`, config, plugins, indicator))
	n.WaitReady(t, false, "readinessindicatorfile")
	if err := os.WriteFile(indicator, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n.WaitReady(t, true, "")

	pods := runPods(t, api, n)
	runStatic(t, api, n, static)
	pods = append(pods, runLate(t, api, n))
	for _, p := range pods {
		p.Delete(t)
	}
	cluster.Eventually(t, func() error { return left(n) }) // containerd calls DEL a second time when it removes the sandbox
}

// runPods runs pods with three networks at once; each reaches the others.
func runPods(t *testing.T, api *cluster.API, n *cluster.Node) (pods []*cluster.Pod) {
	for range 4 {
		pods = append(pods, n.CreatePod(t, cluster.PodSpec{Annotations: map[string]string{wanted: "lan,store@disk", "mine": "1"}}))
	}
	for i, created := range pods {
		p := n.WaitPod(t, created.Namespace, created.Name)
		pods[i] = p
		if len(p.IPs) != 1 || !netip.MustParsePrefix("10.71.0.0/24").Contains(p.IPs[0]) {
			t.Errorf("%s has the addresses %v", p.Name, p.IPs)
		}
		if got := fmt.Sprint(entries(t, api, p.Name)); got != "[default:eth0 default/lan:net1 default/store:disk]" {
			t.Errorf("%s: status %s", p.Name, got)
		}
		if mine := getPod(t, api, "default", p.Name).Metadata.Annotations["mine"]; mine != "1" {
			t.Errorf("%s: its own annotation is %q", p.Name, mine)
		}
	}
	for _, address := range []string{address(t, api, pods[1].Name, 1), address(t, api, pods[2].Name, 2), pods[3].IPs[0].String()} {
		pods[0].Run(t, "ping", "-n", "-c", "1", "-W", "2", address)
	}
	return pods
}

// runStatic runs a pod of a file, whose mirror in the API has another UID than the runtime tells, and takes it away.
func runStatic(t *testing.T, api *cluster.API, n *cluster.Node, dir string) {
	text, err := yaml.Marshal(cluster.Object{
		"apiVersion": "v1", "kind": "Pod", "metadata": cluster.Object{"name": "static", "annotations": cluster.Object{wanted: "lan"}},
		"spec": cluster.Object{"terminationGracePeriodSeconds": 1, "containers": []cluster.Object{{"name": "c", "image": image.Name, "imagePullPolicy": "Never"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/static.yaml", text, 0o600); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, func() error {
		var pod struct {
			Metadata struct{ Annotations map[string]string }
			Status   struct{ Phase string }
		}
		if err := api.Admin.Get(t.Context(), "/api/v1/namespaces/default/pods/static-"+n.Name, &pod); err != nil {
			return err
		}
		if pod.Status.Phase != "Running" || !strings.Contains(pod.Metadata.Annotations[told], `"net1"`) {
			return fmt.Errorf("it is %s: %v", pod.Status.Phase, pod.Metadata.Annotations)
		}
		return nil
	})
	if err := os.Remove(dir + "/static.yaml"); err != nil {
		t.Fatal(err)
	}
}

// runLate runs a pod whose network is not there: it does not run, and says why, until the network is there.
func runLate(t *testing.T, api *cluster.API, n *cluster.Node) *cluster.Pod {
	late := n.CreatePod(t, cluster.PodSpec{Annotations: map[string]string{wanted: "late"}})
	cluster.Eventually(t, func() error {
		if events := api.Kubectl(t, "describe", "pod", late.Name); !strings.Contains(events, "NoNetworkFound") || !strings.Contains(events, "default/late") {
			return errors.New(events)
		}
		return nil
	})
	define(t, api, "default", "late", `{"type":"bridge","bridge":"br-lan"}`)
	return n.WaitPod(t, late.Namespace, late.Name)
}

// left says what is left of pods on the node.
func left(n *cluster.Node) error {
	var all []string
	for _, pattern := range []string{"/var/lib/cni/multinet/*", "/var/lib/cni/networks/*/10.7*", "/var/lib/cni/networks/*/fd72*"} {
		files, err := filepath.Glob(n.Path(pattern))
		if err != nil {
			return err
		}
		all = append(all, files...)
	}
	for _, bridge := range []string{"br-pods", "br-lan", "br-store"} {
		ports, err := n.Try("ip", "-o", "link", "show", "master", bridge)
		if err != nil {
			return err
		}
		if ports != "" {
			all = append(all, ports)
		}
	}
	if all != nil {
		return fmt.Errorf("left: %q", all)
	}
	return nil
}

// status is a pod's network-status.
func status(t *testing.T, api *cluster.API, pod string) (all []entry) {
	t.Helper()
	text := getPod(t, api, "default", pod).Metadata.Annotations[told]
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%s: %v\n%s", pod, err, text)
	}
	return all
}

// entries are the names of the networks of a pod, with those of their interfaces.
func entries(t *testing.T, api *cluster.API, pod string) (all []string) {
	t.Helper()
	for _, e := range status(t, api, pod) {
		all = append(all, e.Name+":"+e.Interface)
	}
	return all
}

// address is that of a pod in one of its networks.
func address(t *testing.T, api *cluster.API, pod string, number int) string {
	t.Helper()
	all := status(t, api, pod)
	if len(all) <= number || len(all[number].IPs) != 1 {
		t.Fatalf("%s: %+v", pod, all)
	}
	return all[number].IPs[0]
}
