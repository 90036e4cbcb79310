package e2e_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/record"
)

// Each runtime starts containers through each of our plugins; packets flow, and nothing is left.
func TestContainersThroughOurPlugins(t *testing.T) {
	for _, c := range clients {
		for _, p := range plugins {
			t.Run(c.name+"/"+p.name, func(t *testing.T) {
				t.Parallel()
				n, rec := machine(t), recorded(t, p.name)
				runtime := c.start(t, n, rec.Dir)
				runtime.conf(conflist(c.version, p.name, p.keys))
				if p.name == "macvlan" { // the world of its network is on the wire
					n.Run("ip", "address", "add", "10.9.0.1/24", "dev", "wire")
					n.Run("ip", "address", "add", "fd09::1/64", "dev", "wire", "nodad")
				}
				first, second := runtime.run(t), runtime.run(t)
				if len(first.addresses()) != 2 || len(second.addresses()) != 2 {
					t.Fatalf("addresses %v and %v: expected one of each family", first.addresses(), second.addresses())
				}
				for i, address := range first.addresses() {
					there := netip.AddrPortFrom(address, 8080).String()
					expectAnswer(t, second.Exec("-dial", there), there, second.addresses()[i])
					expectAnswer(t, dial(t, n, there), there, netip.Addr{})
				}
				first.stop()
				second.remove() // without having been stopped
				first.remove()
				expectDEL(t, rec, p.name, c.removes)
				daemons := map[bool][]string{true: {"containerd"}}[c.removes]
				if left := left(t, n, daemons...); left != "" {
					t.Errorf("left behind:\n%s", left)
				}
			})
		}
	}
}

// expectAnswer holds what a container answered, "LOCAL REMOTE", against where it was asked and by whom.
func expectAnswer(t *testing.T, answer, local string, remote netip.Addr) {
	t.Helper()
	ends := strings.Fields(answer)
	if len(ends) != 2 || ends[0] != local {
		t.Errorf("the answer %q does not come from %s", answer, local)
		return
	}
	host, _, err := net.SplitHostPort(ends[1])
	if err != nil || remote.IsValid() && host != remote.String() {
		t.Errorf("the answer %q is not to %s (%v)", answer, remote, err)
	}
}

// expectDEL sees to it that all calls have succeeded, and that two containers were each DELeted: twice, the second
// time without a prevResult, by a runtime that removes what was stopped.
func expectDEL(t *testing.T, rec *record.Recorder, plugin string, twice bool) {
	t.Helper()
	for _, call := range rec.Calls() {
		if !call.Ended || call.Exit != 0 {
			t.Errorf("%s of %s: exit status %d (ended: %v), stdin %s", call.Command, call.Type, call.Exit, call.Ended, call.Stdin)
		}
	}
	with, without := map[string]int{}, map[string]int{}
	for _, call := range rec.Of(plugin, "DEL") {
		if strings.Contains(call.Stdin, `"prevResult"`) {
			with[call.ContainerID]++
		} else {
			without[call.ContainerID]++
		}
	}
	if len(with) != 2 || twice && len(without) != 2 {
		t.Errorf("DEL with a prevResult %v, without %v: expected two containers", with, without)
	}
}
