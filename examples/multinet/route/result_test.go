package route

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/containernetworking/cni/pkg/types"
)

// FuzzResult: of whatever can be a result, one that loses its default routes of IPv4 has none of them afterwards and all others,
// and one that gets two has these. The text and the value say the same.
func FuzzResult(f *testing.F) {
	for _, text := range []string{
		`{"cniVersion":"1.0.0","routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1"},{"dst":"::/0"},{"dst":"10.0.0.0/8"}]}`,
		`{"cniVersion":"1.1.0","routes":[{"dst":"0.0.0.0/0","table":100},{"dst":"0.0.0.0/0","table":254,"priority":7}],"routes":[]}`,
		`{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/24","routes":[{"dst":"0.0.0.0/0"}]},"ip6":{"ip":"fd00::2/64","routes":[{"dst":"::/0"}]}}`,
		`{"cniVersion":"0.4.0","Routes":[{"dst":"0.0.0.0/0"}],"x":[]}`,
		`{"cniVersion":"1.0.0","routes":null}`,
	} {
		f.Add(text)
	}
	gateway := func(i byte) link.LinkRoute {
		r := link.Route{Dst: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.AddrFrom4([4]byte{10, 1, 0, i}), Metric: int(i)}
		return link.LinkRoute{MovedRoute: link.MovedRoute{Route: r}, Link: "net1"}
	}
	c := &Changed{owners: Changes{{IfName: "net1", Gateways: []netip.Addr{netip.MustParseAddr("10.1.0.1")}}}, now: []link.LinkRoute{gateway(1), gateway(2)}}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := netconf.ParseResult([]byte(text), "1.0.0")
		var version struct {
			CNIVersion string `json:"cniVersion"`
		}
		if err != nil || json.Unmarshal([]byte(text), &version) != nil || version.CNIVersion == "" {
			return // a delegate.Result is parsed, and has its version
		}
		for ifname, added := range map[string]int{"eth0": 0, "net1": 2} {
			got, err := c.Result(ifname, delegate.Result{Result: parsed, JSON: json.RawMessage(text)})
			if err != nil {
				if (netconf.Network{CNIVersion: version.CNIVersion}).Is("0.3.0") {
					t.Fatalf("%s: %v", ifname, err)
				}
				return // an old result has no place for routes without an address
			}
			again, err := netconf.ParseResult(got.JSON, "1.0.0")
			if err != nil {
				t.Fatalf("%s: %v: %s", ifname, err, got.JSON)
			}
			if list(again.Routes) != list(got.Routes) {
				t.Fatalf("%s: the value says %s, the text %s", ifname, list(got.Routes), list(again.Routes))
			}
			var others []*types.Route
			for _, r := range parsed.Routes {
				if !isDefault(r, false) {
					others = append(others, r)
				}
			}
			kept := got.Routes[:len(got.Routes)-min(added, len(got.Routes))]
			if (netconf.Network{CNIVersion: version.CNIVersion}).Is("0.3.0") && list(kept) != list(others) {
				t.Fatalf("%s: kept %s, expected %s", ifname, list(kept), list(others))
			}
			count := 0
			for _, r := range got.Routes {
				if isDefault(r, false) {
					count++
				}
			}
			old := !(netconf.Network{CNIVersion: version.CNIVersion}).Is("0.3.0") // no place for routes of a family without an address
			if count != added && !(old && count == 0) {
				t.Fatalf("%s: %d default routes of IPv4, expected %d: %s", ifname, count, added, got.JSON)
			}
		}
	})
}

func list(routes []*types.Route) string {
	var all []string
	for _, r := range routes {
		all = append(all, r.String())
	}
	return strings.Join(all, " ")
}
