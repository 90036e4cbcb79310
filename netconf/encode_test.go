package netconf_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types020 "github.com/containernetworking/cni/pkg/types/020"
	types040 "github.com/containernetworking/cni/pkg/types/040"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/cnikit/cnikit/netconf"
)

var versions = []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}

const (
	prevText = `{"cniVersion":"1.1.0","interfaces":[{"name":"br0","mac":"02:00:00:00:00:01"},{"name":"eth0","mtu":1400,"sandbox":"/n","socketPath":"/s","pciID":"p"}],
		"ips":[{"interface":1,"address":"192.0.2.2/24","gateway":"192.0.2.1"}],"routes":[{"dst":"0.0.0.0/0"}],"dns":{"nameservers":["192.0.2.1"]}}`
	resultText = `{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"/n"}],
		"ips":[{"interface":0,"address":"2001:db8::2/64"}],"routes":[{"dst":"::/0","gw":"2001:db8::1","mtu":1300,"advmss":1200,"priority":5,"table":100,"scope":0}],"dns":{"domain":"d<é"}}`
)

func result(t testing.TB, text string) *types100.Result {
	t.Helper()
	r, err := netconf.ParseResult([]byte(text), "1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func compact(t *testing.T, data []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, data); err != nil {
		t.Fatalf("%v: %q", err, data)
	}
	return out.String()
}

func TestEncodeResultGolden(t *testing.T) {
	t.Parallel()
	old := `"ip4":{"ip":"192.0.2.2/24","gateway":"192.0.2.1","routes":[{"dst":"0.0.0.0/0"}]},"ip6":{"ip":"2001:db8::2/64","routes":[{"dst":"::/0","gw":"2001:db8::1"}]},"dns":{"domain":"d\u003cé"}}`
	tail := `"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0","gw":"2001:db8::1","mtu":1300,"advmss":1200,"priority":5,"table":100,"scope":0}],"dns":{"domain":"d\u003cé"}}`
	middle := `"interfaces":[{"name":"br0","mac":"02:00:00:00:00:01"},{"name":"eth0","sandbox":"/n"},{"name":"net1","sandbox":"/n"}],"ips":[{"version":"4","interface":1,"address":"192.0.2.2/24","gateway":"192.0.2.1"},{"version":"6","interface":2,"address":"2001:db8::2/64"}],` + tail
	recent := `"interfaces":[{"name":"br0","mac":"02:00:00:00:00:01"},{"name":"eth0","mtu":1400,"sandbox":"/n","socketPath":"/s","pciID":"p"},{"name":"net1","sandbox":"/n"}],"ips":[{"interface":1,"address":"192.0.2.2/24","gateway":"192.0.2.1"},{"interface":2,"address":"2001:db8::2/64"}],` + tail
	want := map[string]string{"0.1.0": old, "0.2.0": old, "0.3.0": middle, "0.3.1": middle, "0.4.0": middle, "1.0.0": recent, "1.1.0": recent}
	prev, res := result(t, prevText), result(t, resultText)
	for _, v := range versions {
		var out bytes.Buffer
		if err := netconf.EncodeResult(&out, prev, res, v); err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		if got, want := compact(t, out.Bytes()), `{"cniVersion":"`+v+`",`+want[v]; got != want {
			t.Errorf("%s:\n got %s\nwant %s", v, got, want)
		}
		if !strings.HasSuffix(out.String(), "\n}\n") || strings.Count(out.String(), "\n}") != 1 {
			t.Errorf("%s: not indented, or no newline at the end: %q", v, out.String())
		}
		upstreamReads(t, v, out.Bytes())
	}
	if *res.IPs[0].Interface != 0 || *prev.IPs[0].Interface != 1 || len(prev.IPs) != 1 {
		t.Error("the arguments are changed")
	}
}

// upstreamReads checks that the library of the specification takes the result.
func upstreamReads(t *testing.T, v string, data []byte) {
	t.Helper()
	parsed, err := create.Create(v, data)
	if err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	switch r := parsed.(type) {
	case *types020.Result:
		if r.IP4.Gateway.String() != "192.0.2.1" || r.IP6.Routes[0].GW.String() != "2001:db8::1" {
			t.Errorf("%s: %v", v, r)
		}
	case *types040.Result:
		if len(r.Interfaces) != 3 || r.IPs[1].Version != "6" || *r.IPs[1].Interface != 2 {
			t.Errorf("%s: %v", v, r)
		}
	case *types100.Result:
		if len(r.Interfaces) != 3 || *r.Routes[1].Table != 100 || *r.IPs[1].Interface != 2 {
			t.Errorf("%s: %v", v, r)
		}
	}
}

func TestEncodeResultDNSAndNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ prev, result, want string }{
		{`{}`, `{}`, `{"cniVersion":"1.0.0"}`},
		{`{"dns":{"domain":"a"}}`, `{}`, `{"cniVersion":"1.0.0","dns":{"domain":"a"}}`},
		{`{"dns":{"domain":"a"}}`, `{"dns":{"search":["b"]}}`, `{"cniVersion":"1.0.0","dns":{"search":["b"]}}`},
		{`{"interfaces":[{"name":"a"}]}`, `{"ips":[{"address":"192.0.2.2/24"}]}`, `{"cniVersion":"1.0.0","interfaces":[{"name":"a"}],"ips":[{"address":"192.0.2.2/24"}]}`},
		{`{"interfaces":[{"name":""}]}`, `{}`, `{"cniVersion":"1.0.0","interfaces":[{"name":""}]}`},
	} {
		var out bytes.Buffer
		if err := netconf.EncodeResult(&out, result(t, c.prev), result(t, c.result), "1.0.0"); err != nil {
			t.Fatal(err)
		}
		if got := compact(t, out.Bytes()); got != c.want {
			t.Errorf("%s and %s:\n got %s\nwant %s", c.prev, c.result, got, c.want)
		}
	}
	var out bytes.Buffer
	if err := netconf.EncodeResult(&out, nil, nil, "1.1.0"); err != nil || compact(t, out.Bytes()) != `{"cniVersion":"1.1.0"}` {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestEncodeResultErrorsWriteNothing(t *testing.T) {
	t.Parallel()
	minus, one := -1, 1
	for _, c := range []struct {
		name    string
		result  *types100.Result
		version string
		code    uint
		words   string
	}{
		{"no address", &types100.Result{}, "0.2.0", 7, "0.2.0 has room for one address of each family and needs at least one; there are 0 IPv4 and 0 IPv6"},
		{"two IPv4", result(t, `{"ips":[{"address":"10.61.0.3/24"},{"address":"10.61.0.4/24"}]}`), "0.2.0", 7, "there are 2 IPv4 and 0 IPv6"},
		{"two IPv6", result(t, `{"ips":[{"address":"10.61.0.3/24"},{"address":"fd00::1/64"},{"address":"fd00::2/64"}]}`), "0.1.0", 7, "1 IPv4 and 2 IPv6"},
		{"unknown version", &types100.Result{}, "9.9.9", 1, `version "9.9.9" is unknown`},
		{"no version", &types100.Result{}, "", 1, `version "" is unknown`},
		{"null interface", &types100.Result{Interfaces: []*types100.Interface{nil}}, "1.1.0", 999, "the plugin's own result: interfaces[0]"},
		{"null address", &types100.Result{IPs: []*types100.IPConfig{nil}}, "1.1.0", 999, "ips[0]"},
		{"null route", &types100.Result{Routes: []*types.Route{nil}}, "1.1.0", 999, "routes[0]"},
		{"empty address", &types100.Result{IPs: []*types100.IPConfig{{}}}, "1.1.0", 999, "ips[0].address: missing"},
		{"bad index", &types100.Result{Interfaces: []*types100.Interface{{}}, IPs: result(t, `{"ips":[{"address":"10.61.0.3/24"}]}`).IPs}, "1.1.0", 0, ""},
		{"index below 0", &types100.Result{Interfaces: []*types100.Interface{{}}, IPs: withIndex(t, &minus)}, "1.1.0", 999, "ips[0].interface: there is no index -1"},
		{"index too big", &types100.Result{Interfaces: []*types100.Interface{{}}, IPs: withIndex(t, &one)}, "1.1.0", 999, "ips[0].interface: there is no index 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			check(t, netconf.EncodeResult(&out, nil, c.result, c.version), c.code, c.words)
			if c.code != 0 && out.Len() > 0 {
				t.Errorf("written: %q", out.String())
			}
		})
	}
	check(t, netconf.EncodeResult(failing{}, nil, nil, "1.1.0"), 5, "write the result: no space left")
}

// With a prevResult before it, an index of the plugin's own that points nowhere must not be taken for
// one of the prevResult's.
func TestEncodeResultIndexThatPointsNowhere(t *testing.T) {
	t.Parallel()
	minus := -1
	err := netconf.EncodeResult(io.Discard, result(t, prevText), &types100.Result{IPs: withIndex(t, &minus)}, "1.1.0")
	check(t, err, 999, "there is no index -1")
}

func withIndex(t *testing.T, index *int) []*types100.IPConfig {
	t.Helper()
	ips := result(t, `{"ips":[{"address":"10.61.0.3/24"}]}`).IPs
	ips[0].Interface = index
	return ips
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// A chained plugin passes on what it does not know, where it stood.
func TestEncodeResultKeepsUnknownMembers(t *testing.T) {
	t.Parallel()
	const prev = `{"cniVersion":"1.1.0","vendor":{"big":9007199254740993},"interfaces":[{"name":"a","sandbox":"/n","vlan":5},{"name":"a","sandbox":"/n"},{"name":"a","sandbox":"/n","vlan":6},{"name":"b","x\"y":null}],
		"ips":[{"address":"10.0.0.2/24","lease":"1h"},{"address":"10.0.0.3/24"}],"routes":[{"dst":"10.1.0.0/16","table":7,"proto":1},{"dst":"10.1.0.0/16","proto":2},{"dst":"10.1.0.0/16","gw":"10.0.0.1","proto":3}],"dns":{"ttl":5}}`
	run := func(change func(*types100.Result)) string {
		req := parse(t, with("ADD"), strings.TrimSuffix(minimal, "}")+`,"prevResult":`+prev+`}`)
		change(req.Prev)
		req.AddInterface(&types100.Interface{Name: "new"})
		var out bytes.Buffer
		if err := req.EncodeResult(&out); err != nil {
			t.Fatal(err)
		}
		return compact(t, out.Bytes())
	}
	const all = `{"cniVersion":"1.1.0","interfaces":[{"name":"a","sandbox":"/n","vlan":5},{"name":"a","sandbox":"/n"},{"name":"a","sandbox":"/n","vlan":6},{"name":"b","x\"y":null},{"name":"new"}],` +
		`"ips":[{"address":"10.0.0.2/24","lease":"1h"},{"address":"10.0.0.3/24"}],"routes":[{"dst":"10.1.0.0/16","table":7,"proto":1},{"dst":"10.1.0.0/16","proto":2},{"dst":"10.1.0.0/16","gw":"10.0.0.1","proto":3}],"dns":{"ttl":5},"vendor":{"big":9007199254740993}}`
	if got := run(func(*types100.Result) {}); got != all {
		t.Errorf("\n got %s\nwant %s", got, all)
	}
	got := run(func(r *types100.Result) { r.IPs, r.Routes, r.Interfaces = r.IPs[1:], r.Routes[2:], r.Interfaces[3:] })
	const want = `{"cniVersion":"1.1.0","interfaces":[{"name":"b","x\"y":null},{"name":"new"}],"ips":[{"address":"10.0.0.3/24"}],"routes":[{"dst":"10.1.0.0/16","gw":"10.0.0.1","proto":3}],"dns":{"ttl":5},"vendor":{"big":9007199254740993}}`
	if got != want {
		t.Errorf("after a change:\n got %s\nwant %s", got, want)
	}
}

func TestEncodeResultOfOldPrevResult(t *testing.T) {
	t.Parallel()
	conf := func(v string) string {
		return `{"cniVersion":"` + v + `","name":"n","type":"t","prevResult":{"cniVersion":"0.2.0","x":1,"ip4":{"ip":"10.61.0.3/24","y":2,"routes":[{"dst":"0.0.0.0/0","z":3}]},"ip6":null}}`
	}
	for v, want := range map[string]string{
		"1.0.0": `{"cniVersion":"1.0.0","ips":[{"address":"10.61.0.3/24","y":2}],"routes":[{"dst":"0.0.0.0/0","z":3}],"x":1}`,
		"0.2.0": `{"cniVersion":"0.2.0","ip4":{"ip":"10.61.0.3/24","routes":[{"dst":"0.0.0.0/0","z":3}],"y":2},"x":1}`,
	} {
		req := parse(t, with("ADD"), conf(v))
		var out bytes.Buffer
		if err := req.EncodeResult(&out); err != nil {
			t.Fatal(err)
		}
		if got := compact(t, out.Bytes()); got != want {
			t.Errorf("%s:\n got %s\nwant %s", v, got, want)
		}
	}
}
