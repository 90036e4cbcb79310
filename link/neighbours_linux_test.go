package link_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func neighbours(list ...string) (s link.Neighbours) {
	for _, one := range list {
		ip, hw, _ := strings.Cut(one, " ")
		s.Neighbours = append(s.Neighbours, link.Neighbour{IP: netip.MustParseAddr(ip), MAC: mac(hw)})
	}
	return s
}

// TestNeighbours: packets reach a neighbour that answers to no question; CHECK and DEL know the entries.
func TestNeighbours(t *testing.T) {
	parallelNS(t)
	container, neighbour, _, call := changer(t, everything)
	neighbour.Run("ip", "link", "set", "p0", "arp", "off", "address", "02:00:00:00:00:51")
	eth0 := strings.Fields(container.Run("ip", "-br", "link", "show", "eth0"))[2]
	neighbour.Run("sh", "-ec", "ip neighbour replace 10.1.1.9 lladdr "+eth0+" dev p0; ip neighbour replace fd00::9 lladdr "+eth0+" dev p0")
	container.Run("ip", "neighbour", "flush", "all")
	if _, err := container.Try("ping", "-n", "-c", "1", "-W", "1", "10.1.1.1"); err == nil {
		t.Fatal("the neighbour answers: the test proves nothing")
	}
	step := neighbours("10.1.1.1 02:00:00:00:00:51", "fd00::1 02:00:00:00:00:51")
	p := plugin(step)
	p.Kind = skel.Chained
	before := layer3(container)
	a := call.Run(t.Context(), t, p).OK(t)
	container.Ping("10.1.1.1")
	container.Ping("fd00::1")
	check := call.With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, p).OK(t)
	call.Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "eth0")
	container.Run("ip", "neighbour", "replace", "10.1.1.1", "lladdr", "02:00:00:00:00:52", "dev", "eth0")
	container.Run("ip", "neighbour", "replace", "fd00::1", "lladdr", "02:00:00:00:00:51", "dev", "eth0", "nud", "stale")
	check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, "10.1.1.1", "02:00:00:00:00:52", "fd00::1", "not there")
	container.Run("ip", "neighbour", "replace", "10.1.1.1", "lladdr", "02:00:00:00:00:51", "dev", "eth0")
	for range 2 {
		call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	}
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}

func TestWalkNeighbours(t *testing.T) {
	container, _, p, call := changer(t, neighbours("10.1.1.1 02:00:00:00:00:51", "fd00::1 02:00:00:00:00:51"))
	if n := skeltest.Walk(t, p, call, container, nil); n < 3 {
		t.Errorf("the hook saw %d operations", n)
	}
}

// TestNeighboursOfOthers: a permanent entry that was there stays, and one with another hardware address is not replaced.
func TestNeighboursOfOthers(t *testing.T) {
	parallelNS(t)
	container, _, p, call := changer(t, neighbours("10.1.1.1 02:00:00:00:00:51", "10.1.1.7 02:00:00:00:00:57"))
	container.Run("ip", "neighbour", "add", "10.1.1.7", "lladdr", "02:00:00:00:00:57", "dev", "eth0")
	before := layer3(container)
	call.Run(t.Context(), t, p).OK(t)
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	container.Run("ip", "neighbour", "replace", "10.1.1.7", "lladdr", "02:00:00:00:00:99", "dev", "eth0")
	before = layer3(container)
	call.Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "10.1.1.7", "02:00:00:00:00:99")
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	for _, step := range []link.Neighbours{
		{Neighbours: []link.Neighbour{{IP: netip.MustParseAddr("10.1.1.1")}}}, {Neighbours: []link.Neighbour{{MAC: mac("02:00:00:00:00:51")}}},
		neighbours("ff02::1 02:00:00:00:00:51"), neighbours("10.1.1.1 02:00:00:00:00:51", "10.1.1.1 02:00:00:00:00:51"),
	} {
		call.Run(t.Context(), t, plugin(step)).Fails(t, netconf.CodeInvalidNetworkConfig, "neighbour")
	}
}

func TestNeighboursCore(t *testing.T) {
	parallelNS(t)
	container, _, _, _ := changer(t, everything)
	_, n := spaces(t, container)
	step := neighbours("10.1.1.1 02:00:00:00:00:51", "fd00::1 02:00:00:00:00:51")
	if err := step.Verify(t.Context(), n, "eth0"); !errors.Is(err, netconf.ErrDifferent) {
		t.Errorf("before: %v", err)
	}
	for range 2 {
		if err := errors.Join(step.Ensure(t.Context(), n, "eth0"), step.Verify(t.Context(), n, "eth0")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(step.Delete(t.Context(), n, "eth0"), step.Delete(t.Context(), n, "eth0"), step.Delete(t.Context(), n, "eth7")); err != nil {
		t.Fatal(err)
	}
	if show := container.Run("ip", "neighbour", "show", "nud", "permanent"); strings.TrimSpace(show) != "" {
		t.Errorf("left: %s", show)
	}
}
