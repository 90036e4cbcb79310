package link_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

const announced = `"ips":[{"address":"10.1.1.2/24"},{"address":"10.1.1.3/24"},{"address":"fd00::2/64"}]`

// stale makes a neighbour believe that the container's addresses are at another MAC.
func stale(neighbour *skeltest.NS, dev string) {
	for _, a := range []string{"10.1.1.2", "10.1.1.3", "fd00::2"} {
		neighbour.Run("ip", "neighbour", "replace", a, "lladdr", "02:00:00:00:00:99", "dev", dev, "nud", "reachable")
	}
}

func pingAll(ns *skeltest.NS) {
	for _, a := range []string{"10.1.1.2", "10.1.1.3", "fd00::2"} {
		ns.Run("ping", "-n", "-c", "1", "-W", "1", a)
	}
}

// TestAnnounce: a neighbour that knows an address by the MAC of its last owner reaches the new one at once.
func TestAnnounce(t *testing.T) {
	parallelNS(t)
	t.Run("a link that was up", func(t *testing.T) {
		t.Parallel()
		container, neighbour := pair(t, "10.1.1.1/24", "fd00::1/64")
		stale(neighbour, "p0")
		container.Run("ip", "link", "set", "eth0", "up")
		newCall(t, container, announced).add(t, link.Addresses{})
		pingAll(neighbour)
	})
	t.Run("macvlan", func(t *testing.T) {
		t.Parallel()
		_, containers := lan(t, 2)
		newCall(t, containers[0], `"ips":[{"address":"10.1.1.1/24"},{"address":"fd00::1/64"}]`).add(t, link.Addresses{DAD: link.DADOff})
		stale(containers[0], "eth0")
		newCall(t, containers[1], announced).add(t, link.Addresses{})
		pingAll(containers[0])
	})
	// The bridge's port begins to forward a moment after the link is up.
	for range 5 {
		t.Run("bridge", func(t *testing.T) {
			t.Parallel()
			host, container := skeltest.NewNS(t), skeltest.NewNS(t)
			host.Run("ip", "link", "add", "br0", "type", "bridge")
			host.Run("ip", "address", "add", "10.1.1.1/24", "dev", "br0")
			host.Run("ip", "address", "add", "fd00::1/64", "dev", "br0", "nodad")
			host.Run("ip", "link", "set", "br0", "up")
			host.Run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "eth0", "netns", container.Name)
			host.Run("ip", "link", "set", "v0", "master", "br0")
			host.Run("ip", "link", "set", "v0", "up")
			stale(host, "br0")
			newCall(t, container, announced).add(t, link.Addresses{})
			pingAll(host)
		})
	}
}

// TestAnnounceFails: an announcement that cannot be made is a warning.
func TestAnnounceFails(t *testing.T) {
	parallelNS(t)
	container, _ := pair(t)
	container.Run("ip", "link", "set", "eth0", "up")
	c := newCall(t, container, announced)
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if strings.HasPrefix(op, "announce") {
			return errors.New("no such luck")
		}
		return nil
	})
	if err := (link.Addresses{}).Add(ctx, c.Request); err != nil {
		t.Fatal(err)
	}
	if len(c.warnings) != 1 || !strings.Contains(c.warnings[0], "no such luck") {
		t.Errorf("warnings: %q", c.warnings)
	}
}
