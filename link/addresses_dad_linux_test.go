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

// lan makes a namespace with a parent device p0, and containers with a macvlan eth0 on it, down.
func lan(t *testing.T, containers int) (host *skeltest.NS, out []*skeltest.NS) {
	t.Helper()
	host = skeltest.NewNS(t)
	another(host, "p0")
	for range containers {
		c := skeltest.NewNS(t)
		host.Run("ip", "link", "add", "link", "p0", "name", "eth0", "netns", c.Name, "type", "macvlan", "mode", "bridge")
		out = append(out, c)
	}
	return host, out
}

// TestDuplicateAddress is C-LINK-08: the first container's address is usable when ADD returns, the second's ADD
// fails and names the address.
func TestDuplicateAddress(t *testing.T) {
	parallelNS(t)
	for _, ipam := range []string{
		`"ips":[{"address":"fd00::7/64"}]`,
		`"ips":[{"address":"10.1.1.7/24"},{"address":"fd00::8/64"},{"address":"fd00::7/64","gateway":"fd00::1"}],"routes":[{"dst":"::/0"}]`,
	} {
		t.Run(ipam, func(t *testing.T) {
			t.Parallel()
			_, containers := lan(t, 2)
			first := newCall(t, containers[0], `"ips":[{"address":"fd00::7/64"}]`)
			first.add(t, link.Addresses{})
			if out := containers[0].Run("ip", "address", "show", "to", "fd00::7"); strings.Contains(out, "tentative") {
				t.Errorf("tentative after ADD: %s", out)
			}
			first.check(t, link.Addresses{})

			second := newCall(t, containers[1], ipam)
			before := layer3(containers[1])
			err := link.Addresses{}.Add(t.Context(), second.Request)
			if err == nil || netconf.Code(err) != netconf.CodeExists || errors.Is(err, netconf.ErrExists) {
				t.Fatalf("error %v (code %d): expected code 100 that is rolled back", err, netconf.Code(err))
			}
			for _, word := range []string{"fd00::7", "duplicate"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q is not in: %v", word, err)
				}
			}
			second.del(t, link.Addresses{})
			containers[1].Run("ip", "link", "set", "eth0", "down")
			if diff := before.Diff(layer3(containers[1])); diff != "" {
				t.Errorf("left behind:\n%s", diff)
			}
			first.check(t, link.Addresses{})
		})
	}
}

// TestDADByKind: who is asked about is told by the link's kind, and by the caller.
func TestDADByKind(t *testing.T) {
	parallelNS(t)
	const ipam = `"ips":[{"address":"fd00::2/64"}]`
	for _, test := range []struct {
		name  string
		step  link.Addresses
		veth  bool
		nodad bool
	}{
		{"veth", link.Addresses{}, true, true},
		{"veth, own", link.Addresses{DAD: link.DADOwn}, true, false},
		{"macvlan", link.Addresses{}, false, false},
		{"macvlan, off", link.Addresses{DAD: link.DADOff}, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var container *skeltest.NS
			if test.veth {
				container, _ = pair(t)
			} else {
				_, containers := lan(t, 1)
				container = containers[0]
			}
			c := newCall(t, container, ipam)
			c.add(t, test.step)
			out := container.Run("ip", "address", "show", "to", "fd00::2")
			if strings.Contains(out, "nodad") != test.nodad || strings.Contains(out, "tentative") {
				t.Errorf("nodad expected: %v; never tentative: %s", test.nodad, out)
			}
			c.check(t, test.step)
		})
	}
}

// TestDADWithoutCarrier: what cannot be settled is a warning, and a call that ends is not waited beyond.
func TestDADWithoutCarrier(t *testing.T) {
	parallelNS(t)
	host, containers := lan(t, 2)
	host.Run("ip", "link", "set", "peer-p0", "down")
	skeltest.Eventually(t, "p0 knows, and so do the links on it", func() bool { // up to a second later
		return !strings.Contains(host.Run("ip", "link", "show", "p0"), "state UP")
	})

	c := newCall(t, containers[0], `"ips":[{"address":"fd00::2/64","gateway":"fd00::1"}],"routes":[{"dst":"::/0"}]`)
	c.add(t, link.Addresses{})
	if len(c.warnings) != 1 || !strings.Contains(c.warnings[0], "fd00::2") || !strings.Contains(c.warnings[0], "carrier") {
		t.Errorf("warnings: %q", c.warnings)
	}

	c = newCall(t, containers[1], `"ips":[{"address":"fd00::3/64"}]`)
	ctx, cancel := context.WithCancel(t.Context())
	ctx = netconf.WithFault(ctx, func(_ context.Context, op string) error {
		if strings.HasPrefix(op, "link up") {
			cancel()
		}
		return nil
	})
	if err := (link.Addresses{}).Add(ctx, c.Request); netconf.Code(err) != netconf.CodeTryAgainLater || !strings.Contains(err.Error(), "fd00::3") {
		t.Errorf("error %v (code %d): expected code 11 that names the address", err, netconf.Code(err))
	}
}
