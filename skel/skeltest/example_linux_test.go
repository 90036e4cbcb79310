package skeltest_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// A test of a plugin's program: attach a namespace, look, detach, and see that nothing is left. A test of
// a skel.Plugin is the same with the plugin in the program's place; it can be given to [skeltest.Walk] too,
// which breaks it at each of its operations.
func Example() {
	_ = func(t *testing.T) { // TestAttach
		ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
		plugin := skeltest.Binary("/opt/cni/bin/ptp")
		add := skeltest.Call{
			Command: netconf.Add, ContainerID: "c1", Netns: ns.Path, IfName: "eth0", Path: ipam.Path,
			Config: `{"cniVersion": "1.1.0", "name": "net", "type": "ptp", "ipam": {"type": "test-ipam"}}`,
		}
		before := ns.Snapshot()
		added := add.Run(t.Context(), t, plugin).OK(t)
		ns.Ping(added.Result.IPs[0].Gateway.String())
		add.With(netconf.Check).WithPrev(added).Run(t.Context(), t, plugin).OK(t)
		add.With(netconf.Del).Run(t.Context(), t, plugin).OK(t)
		if diff := before.Diff(ns.Snapshot()); diff != "" {
			t.Errorf("left behind:\n%s", diff)
		}
	}
}

// Once in each package whose tests touch the kernel. Tests that need no root, or no kernel, run as ever.
func ExampleMain() {
	_ = func(m *testing.M) { // TestMain
		skeltest.Main(m) // and exits
	}
}

// A test that holds a plugin to the whole suite. A skel.Plugin in the program's place is also harmed at each of its
// operations.
func ExampleConform() {
	_ = func(t *testing.T) { // TestConforms
		path := skeltest.Build(t, ".", "github.com/cnikit/cnikit/examples/plugins/host-local") // "." is the tested one, ptp
		skeltest.Conform(t, skeltest.Target{
			Plugin: skeltest.Binary(filepath.Join(path, "ptp")),
			Path:   []string{path},
			State:  append(skeltest.DefaultState(), "/var/lib/ptp"), // all folders that are written to
			Config: `{"cniVersion": "1.1.0", "name": "net", "type": "ptp",
				"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.0.0/24"}]]}}`,
		})
	}
}

// A requirement of one's own, beside those that come with the package.
func ExampleRequirement() {
	_ = skeltest.Requirement{
		ID: "site/mtu", Level: skeltest.Ours, Section: "our network's rules",
		Text:    "The interface has an MTU of 1400 bytes.",
		Explain: "The tunnel between the sites takes 100 bytes. Set \"mtu\" in the configuration.",
		Check: func(b *skeltest.Bench) {
			c := b.Container()
			b.Attach(c)
			if link := c.Run("ip", "link", "show", c.Add.IfName); !strings.Contains(link, "mtu 1400") {
				b.Errorf("the interface is %s", link)
			}
		},
	}
}
