//go:build linux

package plugins_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// ownTap is what two taps of the same configuration differ in: the index, the alias and group that mark ours, and a random MAC.
var ownTap = regexp.MustCompile(`(?m)^\d+: |^ *alias .*\n| group (default|\d+) qlen|link/ether \S+|\w+_timer +\S+`)

// Both programs are asked the same: the result is the same, and so is the tap. Where ours does otherwise, the README says so.
func TestTapAnswersAsTheReferencePlugin(t *testing.T) {
	skeltest.NeedRoot(t)
	ours := skeltest.Binary(testbin.Plugin(t, "tap"))
	reference := skeltest.Binary(filepath.Join(testbin.Reference(t, testbin.Tap), "tap"))
	own := regexp.MustCompile(`"mac": *"[^"]*",?|"mtu": *\d+,`) // our result has the MTU too
	for _, keys := range []string{"", `,"owner":107`, `,"group":108`, `,"multiQueue":true,"mtu":1400`, `,"owner":0,"mac":"02:00:00:00:00:07"`, `,"bridge":"br0"`} {
		ns := skeltest.NewNS(t)
		ns.Run("sh", "-c", "ip link add br0 address 02:00:00:00:00:77 type bridge; ip link set br0 up")
		add := skeltest.Call{Command: netconf.Add, ContainerID: "c1", Netns: ns.Path, IfName: "eth0", Path: "/none", Env: []string{"PATH=" + os.Getenv("PATH")},
			Config: fmt.Sprintf(`{"cniVersion":"1.0.0","name":"net","type":"tap"%s}`, keys)}
		var results, links [2]string
		for i, p := range []skeltest.Binary{ours, reference} {
			results[i] = own.ReplaceAllString(add.Run(t.Context(), t, p).OK(t).Stdout, "")
			links[i] = ownTap.ReplaceAllString(ns.Run("ip", "-d", "link", "show", "dev", "eth0"), "")
			add.With(netconf.Del).Run(t.Context(), t, p).OK(t)
		}
		if !sameJSON(t, results[0], results[1]) || links[0] != links[1] {
			t.Errorf("%s: ours\n%s\n%s\ntheirs\n%s\n%s", keys, results[0], links[0], results[1], links[1])
		}
	}
}
