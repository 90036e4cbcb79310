//go:build linux

package plugins_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// Both programs are asked the same, in the same state of the container: the result is the same, and so is what the
// container then looks like, but for our label. Where ours does otherwise, the README says so.
func TestLoopbackAnswersAsTheReferencePlugin(t *testing.T) {
	skeltest.NeedRoot(t)
	ours := skeltest.Binary(testbin.Plugin(t, "loopback"))
	reference := filepath.Join(testbin.Reference(t, testbin.Loopback), "loopback")
	const prev = `,"prevResult":{"cniVersion":%[1]q,"interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"/x"}],` +
		`"ips":[{"version":"4","interface":0,"address":"10.1.0.2/24","gateway":"10.1.0.1"}],"routes":[{"dst":"0.0.0.0/0"}],"dns":{"nameservers":["10.1.0.1"]}}`
	for _, version := range []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		for _, c := range []struct{ name, before, more string }{
			{"down", "ip link set lo down", ""},
			{"up", "true", ""},
			{"without IPv6", "ip link set lo down; echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6", ""},
			{"a second address", "ip address add 127.0.0.7/8 dev lo", ""},
			{"no address", "ip address flush dev lo", ""},
			{"dns", "ip link set lo down", `,"dns":{"nameservers":["10.1.0.9"]}`},
			{"a foreign address", "ip address add 192.0.2.7/32 dev lo", ""},
			{"prevResult", "ip link set lo down", prev},
		} {
			more := c.more
			if more == prev {
				more = fmt.Sprintf(prev, version)
			}
			ns := skeltest.NewNS(t)
			ns.Run("sh", "-c", c.before)
			add := skeltest.Call{Command: netconf.Add, ContainerID: "c1", Netns: ns.Path, IfName: "eth0", Path: "/none",
				Config: fmt.Sprintf(`{"cniVersion":%q,"name":"lo","type":"loopback"%s}`, version, more)}
			answer := add.Run(t.Context(), t, ours)
			look := func() string {
				return strings.ReplaceAll(ns.Run("ip", "address", "show", "dev", "lo"), "    alias cni:lo:c1:eth0:lo\n", "")
			}
			mine := look()
			add.With(netconf.Del).Run(t.Context(), t, ours).OK(t)
			ns.Run("sh", "-c", c.before+" 2>/dev/null; true")
			said, err := program(reference, add)
			if (answer.Exit == 0) != (err == nil) || err == nil && !sameJSON(t, unversioned(answer.Stdout), unversioned(said)) {
				t.Errorf("%s, version %s: ours %d\n%s\ntheirs %v\n%s", c.name, version, answer.Exit, answer.Stdout, err, said)
			}
			if theirs := look(); mine != theirs {
				t.Errorf("%s, version %s: ours\n%s\ntheirs\n%s", c.name, version, mine, theirs)
			}
		}
	}
}

// unversioned leaves out what the versions 0.3.0 to 0.4.0 want of an address and the reference plugin, whose result has the form
// of 1.0.0 in each version, lacks.
func unversioned(result string) string {
	return strings.NewReplacer(`"version": "4",`, "", `"version": "6",`, "").Replace(result)
}
