package ipam_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// watcher is an IPAM plugin that notes whether the interface is there when it is called.
const watcher = `if nsenter --net="$CNI_NETNS" ip link show "$CNI_IFNAME" > /dev/null 2>&1; then echo $CNI_COMMAND with >> "${0%/*}/seen"; else echo $CNI_COMMAND without >> "${0%/*}/seen"; fi
` + book

// An IPAM plugin that speaks through the interface, as dhcp does, has it in an ADD, in a DEL with and without a
// prevResult, and in the rollback; so it has under each of the example plugins.
func TestTheInterfaceIsThereWhenTheIPAMPluginIsCalled(t *testing.T) {
	skeltest.NeedRoot(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for name, keys := range map[string]string{"macvlan": `"master":"uplink"`, "ipvlan": `"master":"uplink"`, "bridge": `"bridge":"br0"`, "ptp": `"mtu":1400`} {
		t.Run(name, func(t *testing.T) {
			ns, plugin := skeltest.NewNS(t), skeltest.Binary(testbin.Plugin(t, name))
			skeltest.Host(t, "ip", "link", "add", "uplink", "type", "veth", "peer", "name", "wire")
			t.Cleanup(func() {
				for _, link := range []string{"uplink", "br0"} {
					_ = exec.Command("ip", "link", "del", link).Run() // the bridge is made by one of them alone
				}
			})
			dir := program(t, watcher, `{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.3/24","gateway":"10.0.0.1"}]}`)
			add := skeltest.Call{Command: netconf.Add, ContainerID: "c1", Netns: ns.Path, IfName: "eth0", Path: dir, Env: []string{"PATH=" + os.Getenv("PATH")},
				Config: fmt.Sprintf(`{"cniVersion":"1.1.0","name":"net","type":%q,%s,"ipam":{"type":"fake"}}`, name, keys)}
			a := add.Run(t.Context(), t, plugin)
			if a.Exit != 0 && a.Err.Code == netconf.CodeNotSupported {
				t.Skip(a.Err.Msg)
			}
			a.OK(t)
			add.With(netconf.Del).WithPrev(a).Run(t.Context(), t, plugin).OK(t)
			add.Run(t.Context(), t, plugin).OK(t)
			add.With(netconf.Del).Run(t.Context(), t, plugin).OK(t)
			unread := add
			unread.Stdout = full
			if a := unread.Run(t.Context(), t, plugin); a.Exit == 0 {
				t.Error("ADD succeeds with a result that nobody can read")
			}
			seen, err := os.ReadFile(filepath.Join(dir, "seen"))
			if want := strings.Repeat("ADD with\nDEL with\n", 3); err != nil || string(seen) != want {
				t.Errorf("%v, seen\n%sexpected\n%s", err, seen, want)
			}
			add.With(netconf.Del).Run(t.Context(), t, plugin).OK(t)
			if left := leases(t, dir); len(left) > 0 || strings.Contains(ns.Run("ip", "link"), "eth0") {
				t.Errorf("left behind: %v, %s", left, ns.Run("ip", "link"))
			}
		})
	}
}
