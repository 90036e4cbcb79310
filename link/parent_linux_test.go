package link_test

import (
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// TestParentOfADefaultRouteByAnObject: the link was taken from a default route of a higher metric, which nothing goes by.
func TestParentOfADefaultRouteByAnObject(t *testing.T) {
	parallelNS(t)
	for _, f := range families() {
		container, _, _, _ := twoLinks(t, everything)
		other := map[string]string{"-4": "-6", "-6": "-4"}[f.flag]
		container.Run("ip", other, "route", "del", "default")
		otherDefault(container, object, f) // of metric 0, which for IPv6 is 1024
		_, n := spaces(t, container)
		create := func() error {
			_, err := link.Macvlan{Parent: link.Parent{InContainer: true, Key: "master"}}.Create(t.Context(), n, n, link.Owner{Network: "n", ContainerID: "c", IfName: "m0"})
			return err
		}
		for _, setup := range []string{"true", "ip FLAG route add default via SECOND dev net1 metric 2000"} {
			container.Run("sh", "-ec", f.replaced(setup))
			if err := create(); netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), "nexthop object") || !strings.Contains(err.Error(), `"master"`) {
				t.Errorf("%s, %s: %v (code %d): expected 7, with the key", f.flag, setup, err, netconf.Code(err))
			}
		}
		container.Run("sh", "-ec", f.replaced("ip FLAG route del default nhid 7; ip FLAG route add default nhid 7 metric 3000"))
		if err := create(); err != nil { // the other is the one in use
			t.Error(err)
		}
	}
}
