package containerd_test

import (
	"path/filepath"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/containerd"
	"github.com/cnikit/cnikit/internal/e2e/node"
	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

func TestSmoke(t *testing.T) {
	for _, v := range []containerd.Version{containerd.V24, containerd.V16} {
		t.Run(string(v), func(t *testing.T) {
			n := node.Start(t, node.Options{})
			testbin.Plugin(t, "bridge")
			bin := t.TempDir()
			n.Run("cp", testbin.Plugin(t, "bridge"), filepath.Join(testbin.Reference(t, testbin.HostLocal), "host-local"), bin)
			r := containerd.Start(t, n, containerd.Options{Version: v, BinDirs: []string{bin}})
			t.Log(r.Network())
			r.Conf("10.conflist", `{"cniVersion":"1.0.0","name":"testnet","plugins":[
 {"type":"bridge","bridge":"br0","isGateway":true,"ipam":{"type":"host-local","ranges":[[{"subnet":"10.88.77.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}`)
			r.WaitNetwork(true)
			p := r.RunPod(containerd.PodSpec{})
			t.Logf("%+v", p)
			t.Log(p.Exec("ip", "a"))
			c := p.Run("-listen", ":8080")
			t.Log(c.Exec("-dial", "127.0.0.1:8080"))
			t.Log(n.Run("sh", "-c", "find /sys/fs/cgroup/*/k8s.io; cat /proc/self/mountinfo | grep run; find /run /var/lib/cni"))
			p.Stop()
			p.Remove()
			t.Log(n.Run("sh", "-c", "cat /proc/self/mountinfo | grep run/cont; ps ax; find /run /var/lib/cni"))
		})
	}
}
