package link_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// TestAddressesInOrder: sysctls and addresses come before the link is up, or detection would begin with the
// wrong ones; routes come after.
func TestAddressesInOrder(t *testing.T) {
	parallelNS(t)
	container, _ := pair(t, "10.1.1.1/24", "fd00::1/64")
	c := newCall(t, container, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"},{"address":"fd00::2/64","gateway":"fd00::1"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]`)
	order := []string{"sysctl", "address add", "link up", "route add", "announce"}
	at, last := 0, ""
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		i := slices.IndexFunc(order, func(prefix string) bool { return strings.HasPrefix(op, prefix) })
		if i < at {
			t.Errorf("%q comes after %q", op, last)
		}
		at, last = max(at, i), op
		return nil
	})
	if err := (link.Addresses{}).Add(ctx, c.Request); err != nil {
		t.Fatal(err)
	}
	if at < 3 {
		t.Errorf("the last operation was %q", last)
	}
}

// TestAddressesSysctls: what Addresses promises to write, on this link alone, and what keep_addr_on_down is for.
func TestAddressesSysctls(t *testing.T) {
	parallelNS(t)
	const dual = `"ips":[{"address":"10.1.1.2/24"},{"address":"fd00::2/64","gateway":"fd00::1"}],"routes":[{"dst":"::/0"}]`
	for _, test := range []struct {
		name string
		step link.Addresses
		ipam string
		want string // of sysctls below
	}{
		{"dual", link.Addresses{}, dual, "1 1 1 0 1 0"},
		{"dual, own", link.Addresses{DAD: link.DADOwn}, dual, "1 1 1 1 0 0"},
		{"no default route", link.Addresses{}, `"ips":[{"address":"fd00::2/64"}]`, "0 1 1 0 1 1"},
		{"v4", link.Addresses{}, `"ips":[{"address":"10.1.1.2/24"}]`, "1 0 0 1 1 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			container, _ := pair(t, "fd00::1/64")
			sysctls := func(dev string) string {
				args := []string{"-n", "net.ipv4.conf." + dev + ".arp_notify"}
				for _, key := range []string{"ndisc_notify", "keep_addr_on_down", "accept_dad", "router_solicitation_delay", "accept_ra_defrtr"} {
					args = append(args, "net.ipv6.conf."+dev+"."+key)
				}
				return strings.Join(strings.Fields(container.Run("sysctl", args...)), " ")
			}
			others := sysctls("lo") + sysctls("all") + sysctls("default")
			c := newCall(t, container, test.ipam)
			c.add(t, test.step)
			if got := sysctls("eth0"); got != test.want {
				t.Errorf("sysctls %q, expected %q", got, test.want)
			}
			if got := sysctls("lo") + sysctls("all") + sysctls("default"); got != others {
				t.Errorf("sysctls of other links: %q, before %q", got, others)
			}
			if strings.Contains(test.ipam, "fd00::2") {
				container.Run("ip", "link", "set", "eth0", "down")
				if out := container.Run("ip", "address", "show", "dev", "eth0"); !strings.Contains(out, "fd00::2") {
					t.Errorf("lost with the link down: %s", out)
				}
			}
		})
	}
}
