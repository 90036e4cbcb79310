package link_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// What CHECK, and Ensure, of every kind is held to.

// CHECK names what was changed, and passes before.
func TestCheckKinds(t *testing.T) {
	for _, test := range []struct {
		change string // in the container
		words  []string
	}{
		{"ip link set eth0 down", []string{"eth0", "up", "down"}},
		{"ip link set eth0 mtu 1300", []string{"MTU", "1500", "1300"}},
		{"ip link set eth0 address 02:00:00:00:00:07", []string{"hardware address", "02:00:00:00:00:07"}},
		{"ip link set eth0 alias cni:net:b:eth0", []string{"cni:net:a:eth0", "cni:net:b:eth0"}},
		{"ip link del eth0", []string{"eth0", "gone"}},
		{"ip link set eth0 down; ip link set eth0 name eth1", []string{"eth0", "gone"}}, // down: before Linux 6.2 no other is renamed
		{"ip link del eth0; ip link add eth0 type bridge", []string{"kind", "bridge"}},
	} {
		for _, k := range kindsHere(t) {
			if k.sharedMAC && strings.Contains(test.change, "address") {
				continue
			}
			t.Run(test.change+"/"+k.name, func(t *testing.T) {
				uplink(t)
				bridge(t)
				ns := space(t)
				a := add(ns, "a").Run(t.Context(), t, plugin(k.step, link.Addresses{})).OK(t)
				check := add(ns, "a").With(netconf.Check).WithPrev(a)
				check.Run(t.Context(), t, plugin(k.step)).OK(t)
				ns.Run("sh", "-c", test.change)
				check.Run(t.Context(), t, plugin(k.step)).Fails(t, netconf.CodeDifferent, test.words...)
			})
		}
	}
}

// Later plugins may leave MTU and address out of the result, or write what they made of them.
func TestCheckWithoutMTUAndMAC(t *testing.T) {
	uplink(t)
	bridge(t)
	for i, k := range kindsHere(t) {
		id := fmt.Sprint("c", i) // each its own, for the kernel takes its time over the host's end of the one before
		ns := space(t)
		a := add(ns, id).Run(t.Context(), t, plugin(k.step, link.Addresses{})).OK(t)
		ns.Run("ip", "link", "set", "eth0", "mtu", "1300")
		for _, i := range a.Result.Interfaces {
			i.Mtu, i.Mac = 0, ""
		}
		a.Result.CNIVersion = "1.1.0"
		prev, err := json.Marshal(a.Result)
		if err != nil {
			t.Fatal(err)
		}
		check := add(ns, id).With(netconf.Check)
		check.Prev = string(prev)
		check.Run(t.Context(), t, plugin(k.step)).OK(t)
	}
}

// A link that nobody has labelled is not repaired: it is the user's.
func TestEnsureLeavesForeignLinks(t *testing.T) {
	uplink(t)
	ns := space(t)
	host, container := spaces(t, ns)
	ns.Run("sh", "-c", "ip link add q0 type veth peer name q1; ip link add eth0 link q0 type macvlan mode bridge")
	same := unchanged(t, ns)
	if _, err := (link.Macvlan{Parent: link.Parent{Name: "p0"}}).Ensure(t.Context(), host, container, owner("a")); !errors.Is(err, netconf.ErrExists) {
		t.Errorf("macvlan: %v", err)
	}
	same("after Ensure of a macvlan")
	ns.Run("sh", "-c", "ip link del eth0; ip link add eth0 type veth peer name other")
	same = unchanged(t, ns)
	if _, _, err := (link.Veth{}).Ensure(t.Context(), host, container, owner("a")); !errors.Is(err, netconf.ErrExists) {
		t.Errorf("veth: %v", err)
	}
	same("after Ensure of a veth")
}
