package route_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/examples/multinet/route"
	"github.com/cnikit/cnikit/netconf"
)

// attached is an interface with addresses; asks is nil, or the value of default-route.
func attached(t testing.TB, ifname string, asks []string, addresses ...string) route.Attachment {
	t.Helper()
	a := route.Attachment{IfName: ifname, Asked: asks != nil}
	for _, gw := range asks {
		a.Gateways = append(a.Gateways, netip.MustParseAddr(gw))
	}
	text := `{"cniVersion":"1.0.0","ips":[`
	for i, address := range addresses {
		if i > 0 {
			text += ","
		}
		text += `{"address":"` + address + `"}`
	}
	var err error
	if a.Result, err = netconf.ParseResult([]byte(text+"]}"), "1.0.0"); err != nil {
		t.Fatal(err)
	}
	return a
}

func parse(t testing.TB, text string) delegate.Result {
	t.Helper()
	parsed, err := netconf.ParseResult([]byte(text), "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	return delegate.Result{Result: parsed, JSON: json.RawMessage(text)}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	eth0 := attached(t, "eth0", nil, "10.0.0.2/24", "fd00::2/64")
	for name, c := range map[string]struct {
		attachments []route.Attachment
		want        string // IFNAME 4|6 GATEWAYS; ...
	}{
		"nobody asks":              {[]route.Attachment{eth0, attached(t, "net1", nil, "10.1.0.2/24")}, ""},
		"a gateway":                {[]route.Attachment{eth0, attached(t, "net1", []string{"10.1.0.1"}, "10.1.0.2/24")}, "net1 v6=false [10.1.0.1]; "},
		"of both families":         {[]route.Attachment{eth0, attached(t, "net1", []string{"fd01::1", "10.1.0.1", "10.1.0.9"})}, "net1 v6=false [10.1.0.1 10.1.0.9]; net1 v6=true [fd01::1]; "},
		"of one, by two networks":  {[]route.Attachment{attached(t, "net1", []string{"10.1.0.1"}), eth0, attached(t, "net2", []string{"fd02::1"})}, "net1 v6=false [10.1.0.1]; net2 v6=true [fd02::1]; "},
		"its own":                  {[]route.Attachment{eth0, attached(t, "net1", []string{}, "10.1.0.2/24", "fd01::2/64")}, "net1 v6=false []; net1 v6=true []; "},
		"its own, of one family":   {[]route.Attachment{eth0, attached(t, "net1", []string{}, "fd01::2/64")}, "net1 v6=true []; "},
		"its own, without any":     {[]route.Attachment{eth0, attached(t, "net1", []string{})}, ""},
		"its own, without answer":  {[]route.Attachment{eth0, {IfName: "net1", Asked: true}}, ""},
		"IPv4 in IPv6's clothes":   {[]route.Attachment{attached(t, "net1", []string{"::ffff:10.1.0.1"})}, "net1 v6=false [10.1.0.1]; "},
		"the default network asks": {[]route.Attachment{attached(t, "eth0", []string{}, "10.0.0.2/24"), attached(t, "net1", nil, "10.1.0.2/24")}, "eth0 v6=false []; "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			for _, o := range route.Plan(c.attachments) {
				got += fmt.Sprintf("%s v6=%v %v; ", o.IfName, o.V6, o.Gateways)
			}
			if got != c.want {
				t.Fatalf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestNothingChanged: what was never done has no undo and changes no result.
func TestNothingChanged(t *testing.T) {
	t.Parallel()
	var c *route.Changed
	old := parse(t, `{"cniVersion":"1.0.0","routes":[{"dst":"0.0.0.0/0"}]}`)
	got, err := c.Result("eth0", old)
	if err != nil || !reflect.DeepEqual(got, old) || c.Undo(t.Context()) != nil {
		t.Fatalf("%s, %v", got.JSON, err)
	}
}
