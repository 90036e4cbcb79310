package link_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/skel/skeltest"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// TestIPv6GatewayAnswersAtOnce: the kernel joins the group in which an address is asked for in a queue of its own. Who asks
// before that asks again after a second.
func TestIPv6GatewayAnswersAtOnce(t *testing.T) {
	bridge(t)
	ns := space(t)
	host, container := spaces(t, ns)
	if _, _, err := (link.Veth{}).Create(t.Context(), host, container, owner("a")); err != nil {
		t.Fatal(err)
	}
	for name, ensure := range map[string]func(ips []*types100.IPConfig) error{
		"br7": func(ips []*types100.IPConfig) error {
			return link.Gateway{Bridge: "br7", Force: true}.Ensure(t.Context(), host, ips)
		},
		owner("a").HostName("host"): func(ips []*types100.IPConfig) error {
			return link.HostRoutes{}.Ensure(t.Context(), host, owner("a"), ips)
		},
	} {
		late := 0
		for i := range 100 { // one alone is mostly in time
			gw := net.ParseIP(fmt.Sprintf("fd00:1::%x", 0x1000+i))
			err := ensure([]*types100.IPConfig{{Address: net.IPNet{IP: net.ParseIP("fd00:1::2"), Mask: net.CIDRMask(64, 128)}, Gateway: gw}})
			if err != nil {
				t.Fatal(err)
			}
			groups, err := os.ReadFile("/proc/thread-self/net/igmp6")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(groups), fmt.Sprintf("%-15s ff0200000000000000000001ff00%04x", name, 0x1000+i)) {
				late++
			}
		}
		if late > 0 {
			t.Errorf("%s: of 100 addresses %d could not be asked for when Ensure returned\n%s", name, late, skeltest.Host(t, "cat", "/proc/net/igmp6"))
		}
	}
}
