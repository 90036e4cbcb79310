package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/internal/e2e/libcni"
	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// What no runtime at hand calls, through the library that all of them call plugins by: CHECK, and GC with a list.
func TestCheckAndGC(t *testing.T) {
	for _, p := range plugins {
		for _, forgotten := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/forgotten=%v", p.name, forgotten), func(t *testing.T) { testGC(t, p.name, p.keys, forgotten) })
		}
	}
}

// testGC attaches three containers; GC keeps two, and then none. libcni calls DEL for the third one, or, if it has
// forgotten it, leaves it to the plugin's GC to find it.
func testGC(t *testing.T, plugin, keys string, forgotten bool) {
	skeltest.NeedRoot(t)
	hostLinks(t)
	store := filepath.Join("/var/lib/cni/networks", network)
	net := libcni.New(t, conflist("1.1.0", plugin, keys),
		filepath.Dir(testbin.Plugin(t, plugin)), testbin.Reference(t, testbin.HostLocal))
	t.Cleanup(func() {
		if err := net.GC(); err != nil { // also when the test has failed half-way
			t.Errorf("GC: %v", err)
		}
	})
	var spaces []*skeltest.NS
	var all []*libcni.Attachment
	for i := range 3 {
		ns := skeltest.NewNS(t)
		a, err := net.Add(fmt.Sprintf("c%d", i), ns.Path, "eth0")
		if err != nil {
			t.Fatal(err)
		}
		spaces, all = append(spaces, ns), append(all, a)
		check(t, net, a, 0)
	}
	if err := net.Status(); err != nil {
		t.Errorf("STATUS: %v", err)
	}
	lost := all[2].Result.IPs[0].Address
	spaces[2].Run("ip", "address", "del", lost.String(), "dev", "eth0")
	check(t, net, all[2], netconf.CodeDifferent, lost.IP.String())

	hosts := hostEnds(t)
	gone := forgotten && plugin == "macvlan" // nothing on the host tells GC where a macvlan is
	if gone {
		spaces[2].Remove()
	}
	if forgotten {
		net.Forget(all[2])
	}
	if err := net.GC(all[0], all[1]); err != nil {
		t.Fatalf("GC: %v", err)
	}
	if !gone {
		if links := spaces[2].Run("ip", "-br", "link"); strings.Contains(links, "eth0") {
			t.Errorf("after GC the third container still has its link: %s", links)
		}
	}
	if now := hostEnds(t); hosts == 3 && now != 2 {
		t.Errorf("after GC the host has %d ends of containers", now)
	}
	for _, ip := range all[1].Result.IPs {
		spaces[0].Ping(ip.Address.IP.String())
	}
	check(t, net, all[0], 0)
	check(t, net, all[1], 0)
	expectReserved(t, store, 4)
	if err := net.GC(); err != nil {
		t.Fatalf("GC with an empty list: %v", err)
	}
	expectReserved(t, store, 0)
	if now := hostEnds(t); now != 0 {
		t.Errorf("after GC of all the host has %d ends of containers", now)
	}
	for _, a := range all {
		if err := net.Del(a); err != nil {
			t.Errorf("DEL after GC: %v", err)
		}
	}
}

// check expects CHECK to fail with a code, and words in its message; or to pass, if the code is 0.
func check(t *testing.T, net *libcni.Network, a *libcni.Attachment, code uint, words ...string) {
	t.Helper()
	err := net.Check(a)
	var failed *types.Error
	switch {
	case code == 0 && err != nil:
		t.Fatalf("CHECK: %v", err)
	case code != 0 && (!errors.As(err, &failed) || failed.Code != code):
		t.Fatalf("CHECK: %v: expected the code %d", err, code)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("CHECK: %v: expected %q in it", err, word)
		}
	}
}

// hostLinks gives the tests' host the parent, and takes it and the bridge away with the test.
func hostLinks(t *testing.T) {
	t.Helper()
	skeltest.Host(t, "ip", "link", "add", "uplink", "up", "type", "veth", "peer", "name", "wire")
	skeltest.Host(t, "ip", "link", "set", "wire", "up")
	t.Cleanup(func() {
		for _, link := range []string{"uplink", "br0"} {
			if strings.Contains(skeltest.Host(t, "ip", "-o", "link"), " "+link) {
				skeltest.Host(t, "ip", "link", "del", link)
			}
		}
		if err := os.RemoveAll("/var/lib/cni/networks"); err != nil {
			t.Error(err)
		}
	})
}

// hostEnds counts the links of the tests' host that lead to containers.
func hostEnds(t *testing.T) int {
	t.Helper()
	return strings.Count(skeltest.Host(t, "ip", "-o", "link", "show", "type", "veth"), ": veth")
}

// expectReserved looks into host-local's store.
func expectReserved(t *testing.T, store string, want int) {
	t.Helper()
	reserved, err := filepath.Glob(filepath.Join(store, "*[.:]1[0-9]"))
	if err != nil {
		t.Fatal(err)
	}
	if len(reserved) != want {
		t.Errorf("reserved addresses %q: expected %d", reserved, want)
	}
}
