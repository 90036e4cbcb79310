package netconf_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
)

// vendored is a prevResult with an unknown member at each level: a number that no float64 holds, and an
// object with members of its own.
const vendored = `"x":{"n":9007199254740993,"deep":{"a":[1,{"b":null}]}},
	"interfaces":[{"name":"eth0","sandbox":"/n","x":1},{"name":"eth0","x":2},{"name":"eth0","sandbox":"/n","x":3}],
	"ips":[{"address":"10.0.0.2/24","interface":0,"x":4},{"address":"fd00::2/64","interface":0,"x":{"deep":[5]}}],
	"routes":[{"dst":"0.0.0.0/0","x":6},{"dst":"0.0.0.0/0","gw":"10.0.0.1","x":7}],
	"dns":{"domain":"d","x":8}`

// chained is what a chained plugin prints for a prevResult, on one line, in the version of its configuration.
func chained(t *testing.T, version, prev string, change func(r *netconf.Request)) string {
	t.Helper()
	req := parse(t, with("ADD"), `{"cniVersion":"`+version+`","name":"n","type":"t","prevResult":{`+prev+`}}`)
	if change != nil {
		change(req)
	}
	var out bytes.Buffer
	if err := req.EncodeResult(&out); err != nil {
		t.Fatal(err)
	}
	return compact(t, out.Bytes())
}

func TestUnknownMembersSurviveEveryVersion(t *testing.T) {
	t.Parallel()
	const (
		head    = `"interfaces":[{"name":"eth0","sandbox":"/n","x":1},{"name":"eth0","x":2},{"name":"eth0","sandbox":"/n","x":3}],`
		tail    = `"routes":[{"dst":"0.0.0.0/0","x":6},{"dst":"0.0.0.0/0","gw":"10.0.0.1","x":7}],"dns":{"domain":"d","x":8},"x":{"n":9007199254740993,"deep":{"a":[1,{"b":null}]}}}`
		recent  = head + `"ips":[{"interface":0,"address":"10.0.0.2/24","x":4},{"interface":0,"address":"fd00::2/64","x":{"deep":[5]}}],` + tail
		between = head + `"ips":[{"version":"4","interface":0,"address":"10.0.0.2/24","x":4},{"version":"6","interface":0,"address":"fd00::2/64","x":{"deep":[5]}}],` + tail
		// interfaces do not exist there
		old = `"ip4":{"ip":"10.0.0.2/24","routes":[{"dst":"0.0.0.0/0","x":6},{"dst":"0.0.0.0/0","gw":"10.0.0.1","x":7}],"x":4},"ip6":{"ip":"fd00::2/64","x":{"deep":[5]}},` +
			`"dns":{"domain":"d","x":8},"x":{"n":9007199254740993,"deep":{"a":[1,{"b":null}]}}}`
	)
	want := map[string]string{"0.1.0": old, "0.2.0": old, "0.3.0": between, "0.3.1": between, "0.4.0": between, "1.0.0": recent, "1.1.0": recent}
	for _, from := range []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		for to, want := range want {
			if got := chained(t, to, `"cniVersion":"`+from+`",`+vendored, nil); got != `{"cniVersion":"`+to+`",`+want {
				t.Errorf("%s to %s:\n got %s\nwant %s", from, to, got, want)
			}
		}
	}
	// From the old form to every one.
	const oldIn = `"cniVersion":"0.2.0","x":1,"ip4":{"ip":"10.0.0.2/24","x":2,"routes":[{"dst":"0.0.0.0/0","x":3}]},"dns":{"x":4}`
	for to := range want {
		for _, member := range []string{`"x":1`, `"x":2`, `"dst":"0.0.0.0/0","x":3`, `"dns":{"x":4}`} {
			if got := chained(t, to, oldIn, nil); !strings.Contains(got, member) {
				t.Errorf("0.2.0 to %s: %s is lost in %s", to, member, got)
			}
		}
	}
}

func TestUnknownMembersSurviveAChange(t *testing.T) {
	t.Parallel()
	all := []string{`"x":1`, `"x":2`, `"x":3`, `"x":4`, `"x":{"deep":[5]}`, `"x":6`, `"x":7`, `"x":8`, `"x":{"n":9007199254740993`}
	for _, c := range []struct {
		name   string
		change func(r *netconf.Request)
		lost   string // of all
	}{
		{"nothing", func(*netconf.Request) {}, ""},
		{"hardware address and MTU", func(r *netconf.Request) {
			r.Prev.Interfaces[0].Mac, r.Prev.Interfaces[0].Mtu = "02:00:00:00:00:01", 1400
		}, ""},
		{"gateway and interface of an address", func(r *netconf.Request) {
			r.Prev.IPs[0].Gateway, r.Prev.IPs[0].Interface = r.Prev.IPs[0].Address.IP, nil
		}, ""},
		{"metric of a route", func(r *netconf.Request) { r.Prev.Routes[1].Priority = 5 }, ""},
		{"DNS", func(r *netconf.Request) { r.Prev.DNS = types.DNS{Nameservers: []string{"10.0.0.1"}} }, ""},
		{"DNS of its own", func(r *netconf.Request) { r.Result.DNS.Domain = "own" }, ""},
		{"no DNS", func(r *netconf.Request) { r.Prev.DNS = types.DNS{} }, ""},
		{"another order", func(r *netconf.Request) {
			r.Prev.IPs[0], r.Prev.IPs[1] = r.Prev.IPs[1], r.Prev.IPs[0]
			r.Prev.Routes[0], r.Prev.Routes[1] = r.Prev.Routes[1], r.Prev.Routes[0]
		}, ""},
		{"one more of each before", func(r *netconf.Request) {
			r.Prev.Interfaces = append([]*types100.Interface{{Name: "veth"}}, r.Prev.Interfaces...)
			for _, ip := range r.Prev.IPs {
				*ip.Interface++
			}
		}, ""},
		{"another address", func(r *netconf.Request) { r.Prev.IPs[0].Address.IP.To4()[3]++ }, `"x":4`},
		{"another name", func(r *netconf.Request) { r.Prev.Interfaces[1].Name = "eth1" }, `"x":2`},
		{"a route less", func(r *netconf.Request) { r.Prev.Routes = r.Prev.Routes[1:] }, `"x":6`},
		{"a copy", func(r *netconf.Request) { *r = *r.As(netconf.Add) }, ""},
	} {
		got := chained(t, "1.1.0", vendored, c.change)
		for _, member := range all {
			if strings.Contains(got, member) == (member == c.lost) {
				t.Errorf("%s: %s is there: %v, in %s", c.name, member, member != c.lost, got)
			}
		}
	}
	if got := chained(t, "1.1.0", vendored, func(r *netconf.Request) { r.Prev = nil }); got != `{"cniVersion":"1.1.0"}` {
		t.Errorf("a prevResult that was taken away: %s", got)
	}
}

// Of members given twice those are kept that were read.
func TestUnknownMembersOfWhatIsGivenTwice(t *testing.T) {
	t.Parallel()
	const a, b = `[{"name":"a","x":1}]`, `[{"name":"a","x":2}]`
	for prev, want := range map[string]string{
		`"interfaces":` + a + `,"interfaces":` + b:     `"x":2`,
		`"interfaces":` + b + `,"Interfaces":` + a:     `"x":2`,
		`"Interfaces":` + a + `,"interfaces":` + b:     `"x":2`,
		`"Interfaces":` + a + `,"INTERFACES":` + b:     `"x":2`,
		`"interfaces":[{"name":"b","name":"a","x":2}]`: `"x":2`,
		`"interfaces":[{"name":"b","x":7,"x":8}]`:      `"x":7,"x":8`, // as it came
		`"dns":{"x":1},"dns":{"x":2}`:                  `"dns":{"x":2}`,
		`"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.1/8","routes":[{"dst":"1.0.0.0/8","x":1}],"routes":[{"dst":"1.0.0.0/8","x":2}]}`: `"x":2`,
	} {
		got := chained(t, "1.1.0", prev, nil)
		if !strings.Contains(got, want) || strings.Contains(got, `"x":1`) {
			t.Errorf("%s gives %s, expected %s in it", prev, got, want)
		}
	}
}
