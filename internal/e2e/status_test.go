package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/containerd"
	"github.com/cnikit/cnikit/internal/e2e/node"
	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// containerd 2.4 reports the network as not ready as long as STATUS of our plugin fails, with the plugin's
// words, and as ready when it does not any more.
func TestReadinessFollowsStatus(t *testing.T) {
	for _, c := range []struct {
		name      string
		bad, good func(*node.Node, *skeltest.IPAM)
		says      string
	}{
		{
			"the parent is gone",
			func(n *node.Node, _ *skeltest.IPAM) { n.Run("ip", "link", "set", "uplink", "name", "unplugged") },
			func(n *node.Node, _ *skeltest.IPAM) { n.Run("ip", "link", "set", "unplugged", "name", "uplink") },
			`macvlan: link "uplink": there is no such parent link`,
		},
		{
			"the IPAM plugin says so",
			func(_ *node.Node, ipam *skeltest.IPAM) { ipam.Fail("STATUS") },
			func(_ *node.Node, ipam *skeltest.IPAM) { ipam.Heal() },
			"test-ipam",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n, ipam := machine(t), skeltest.NewIPAM(t)
			bin := []string{filepath.Dir(testbin.Plugin(t, "macvlan")), ipam.Path}
			r := containerd.Start(t, n, containerd.Options{Version: containerd.V24, BinDirs: bin})
			r.Conf("10-net.conflist", `{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"macvlan","master":"uplink","ipam":{"type":"test-ipam"}}]}`)
			r.WaitNetwork(true)
			c.bad(n, ipam)
			if message := r.WaitNetwork(false); !strings.Contains(message, c.says) {
				t.Errorf("the message of the condition is %q: expected %q in it", message, c.says)
			}
			c.good(n, ipam)
			r.WaitNetwork(true)
			r.RunPod(containerd.PodSpec{}).Remove()
			if left := left(t, n, "containerd"); left != "" || len(ipam.Reserved()) > 0 {
				t.Errorf("left behind:\n%s%v", left, ipam.Reserved())
			}
		})
	}
}
