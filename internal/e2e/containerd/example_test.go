package containerd_test

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/containerd"
	"github.com/cnikit/cnikit/internal/e2e/node"
	"github.com/cnikit/cnikit/internal/e2e/record"
	"github.com/cnikit/cnikit/internal/testbin"
)

// A test of a plugin with containerd: a node, the runtime on it, a network, and two pods that talk. What is done
// in the node is seen by no other.
func Example() {
	_ = func(t *testing.T) { // TestPodsTalk
		n := node.Start(t, node.Options{})
		plugins := record.Wrap(t, testbin.Plugin(t, "bridge"), filepath.Join(testbin.Reference(t, testbin.HostLocal), "host-local"))
		r := containerd.Start(t, n, containerd.Options{Version: containerd.V24, BinDirs: []string{plugins.Dir}})
		r.Conf("10-net.conflist", `{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"bridge","ipam":{"type":"host-local","subnet":"10.1.0.0/24"}}]}`)
		r.WaitNetwork(true)
		server, client := r.RunPod(containerd.PodSpec{}), r.RunPod(containerd.PodSpec{Name: "client"})
		server.Run("-listen", ":80")
		t.Log(client.Run().Exec("-dial", netip.AddrPortFrom(server.IPs[0], 80).String()))
		client.Exec("ip", "address")
		server.Remove()
		client.Remove()
		if links := n.Run("ip", "-o", "link", "show", "type", "veth"); links != "" {
			t.Errorf("left behind: %s", links)
		}
		for _, call := range plugins.Of("bridge", "DEL") {
			t.Log(call.ContainerID, call.Exit)
		}
	}
}
