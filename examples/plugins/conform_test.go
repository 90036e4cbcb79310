//go:build linux

package plugins_test

import (
	"fmt"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// The programs conform, as anybody's would have to; each plugin's own tests hold it to the same in-process.
func TestProgramsConform(t *testing.T) {
	skeltest.NeedRoot(t)
	if testbin.Guest() {
		t.Skip("thousands of processes: many minutes in an emulated guest")
	}
	path := []string{testbin.Reference(t, testbin.HostLocal)}
	for _, p := range []struct{ name, keys, parent string }{
		{"macvlan", `"master":"p0"`, "p0"},
		{"bridge", `"bridge":"br0","isGateway":true`, "br0"},
		{"ptp", `"mtu":1400`, "p0"},
	} {
		t.Run(p.name, func(t *testing.T) {
			target := skeltest.Target{
				Plugin: skeltest.Binary(testbin.Plugin(t, p.name)), Path: path, Parent: p.parent,
				Config: fmt.Sprintf(`{"cniVersion":"1.1.0","name":"net","type":%q,%s,"ipam":%s}`, p.name, p.keys, hostLocal),
			}
			testbin.Built(t)
			skeltest.Conform(t, target)
		})
	}
}
