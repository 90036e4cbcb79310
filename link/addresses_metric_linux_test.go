package link_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// A caller that attaches a container to several networks says in which order their default routes come. Who came first had
// the better one, and who came late with a lower metric was refused.
func TestAddressesMetricOfTheCaller(t *testing.T) {
	ns := skeltest.NewNS(t)
	step := func(ifname string, n int, metric string) error {
		c := newCall(t, ns, fmt.Sprintf(`"ips":[{"address":"10.%[1]d.0.2/24","gateway":"10.%[1]d.0.1"}],"routes":[{"dst":"0.0.0.0/0"}]`, n))
		c.IfName, c.Result.Interfaces[0].Name = ifname, ifname
		c.Network.Args = map[string]json.RawMessage{"cni": json.RawMessage(`{"defaultMetric":` + metric + `}`)}
		return link.Addresses{}.Add(t.Context(), c.Request)
	}
	for i := range 4 {
		ns.Run("ip", "link", "add", fmt.Sprintf("net%d", i), "type", "veth", "peer", "name", fmt.Sprintf("p%d", i))
	}
	for i, metric := range map[int]string{3: "4099", 1: "4097"} { // in any order
		if err := step(fmt.Sprintf("net%d", i), i, metric); err != nil {
			t.Fatal(err)
		}
	}
	if err := step("net2", 2, "4097"); netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), "needs a higher metric") {
		t.Errorf("%v: two have the same", err)
	}
	if err := step("net2", 2, `"x"`); netconf.Code(err) != netconf.CodeDecodingFailure || !strings.Contains(err.Error(), "args.cni.defaultMetric") {
		t.Error(err)
	}
	ns.Run("ip", "link", "set", "net0", "up")
	ns.Run("ip", "address", "add", "10.0.0.2/24", "dev", "net0")
	ns.Run("ip", "route", "add", "default", "via", "10.0.0.1", "dev", "net0", "metric", "5000")
	if err := step("net2", 2, "4098"); netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), `"net0"`) {
		t.Errorf("%v: net0's route is not of this order", err)
	}
	shown := strings.ReplaceAll(strings.Join(strings.Fields(ns.Run("ip", "route", "show", "default")), " "), " linkdown", "")
	if want := "default via 10.1.0.1 dev net1 proto 67 metric 4097 default via 10.3.0.1 dev net3 proto 67 metric 4099 default via 10.0.0.1 dev net0 metric 5000"; shown != want {
		t.Errorf("the kernel has %s", shown)
	}
}
