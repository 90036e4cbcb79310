package podman_test

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/image"
	"github.com/cnikit/cnikit/internal/e2e/node"
	"github.com/cnikit/cnikit/internal/e2e/podman"
	"github.com/cnikit/cnikit/internal/testbin"
)

// A container in a CNI network answers the node that it runs on.
func Example() {
	_ = func(t *testing.T) { // TestContainerAnswers
		n := node.Start(t, node.Options{})
		bin := []string{filepath.Dir(testbin.Plugin(t, "ptp")), testbin.Reference(t, testbin.HostLocal)}
		p := podman.New(t, n, podman.Options{BinDirs: bin})
		p.Conf("10-net.conflist", `{"cniVersion":"0.4.0","name":"net","plugins":[{"type":"ptp","ipam":{"type":"host-local","subnet":"10.1.0.0/24"}}]}`)
		c := p.Run("net", "-listen", ":80")
		t.Log(n.Run(image.Program(t), "-dial", netip.AddrPortFrom(c.IPs[0], 80).String()))
		c.Stop()
		c.Remove()
	}
}
