package netconf_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
)

// current is a result printed in the current version, on one line.
func current(t *testing.T, r *types100.Result) string {
	t.Helper()
	var out, line bytes.Buffer
	if err := netconf.EncodeResult(&out, nil, r, "1.1.0"); err != nil {
		t.Fatal(err)
	}
	if err := json.Compact(&line, out.Bytes()); err != nil {
		t.Fatal(err)
	}
	return line.String()
}

func TestParseResult(t *testing.T) {
	t.Parallel()
	const two = `"ips":[{"address":"10.61.0.3/24","gateway":"10.61.0.1"},{"address":"fd61::3/64"}]`
	for _, c := range []struct{ name, assumed, result, want string }{
		{"0.1.0", "1.1.0", `{"cniVersion":"0.1.0","ip4":{"ip":"10.61.0.3/24","gateway":"10.61.0.1"},"ip6":{"ip":"fd61::3/64"}}`, `{"cniVersion":"1.1.0",` + two + `}`},
		{"0.2.0: a route without a gateway has none", "1.1.0",
			`{"cniVersion":"0.2.0","ip4":{"ip":"10.61.0.3/24","gateway":"10.61.0.1","routes":[{"dst":"0.0.0.0/0"},{"dst":"198.51.100.0/24","gw":"10.61.0.9"}]},"dns":{"nameservers":["10.61.0.1"]}}`,
			`{"cniVersion":"1.1.0","ips":[{"address":"10.61.0.3/24","gateway":"10.61.0.1"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"198.51.100.0/24","gw":"10.61.0.9"}],"dns":{"nameservers":["10.61.0.1"]}}`},
		{"IPv6 alone", "1.1.0", `{"cniVersion":"0.2.0","ip6":{"ip":"fd61::3/64","gateway":"fd61::1"}}`, `{"cniVersion":"1.1.0","ips":[{"address":"fd61::3/64","gateway":"fd61::1"}]}`},
		{"no version, the old form", "1.1.0", `{"ip4":{"ip":"10.61.0.3/24"}}`, `{"cniVersion":"1.1.0","ips":[{"address":"10.61.0.3/24"}]}`},
		{"no version, the old form, empty text", "", `{"cniVersion":"","ip4":{"ip":"10.61.0.3/24"}}`, `{"cniVersion":"1.1.0","ips":[{"address":"10.61.0.3/24"}]}`},
		{"no version, the current form", "1.0.0", `{` + two + `}`, `{"cniVersion":"1.1.0",` + two + `}`},
		{"no version, the current form in an old configuration", "0.1.0", `{` + two + `}`, `{"cniVersion":"1.1.0",` + two + `}`},
		{"0.3.0", "1.1.0", `{"cniVersion":"0.3.0","interfaces":[{"name":"eth0"}],"ips":[{"version":"4","interface":0,"address":"10.61.0.3/24"}]}`, `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"}],"ips":[{"interface":0,"address":"10.61.0.3/24"}]}`},
		{"0.3.1, a number as version of the address", "1.1.0", `{"cniVersion":"0.3.1","ips":[{"version":4,"address":"10.61.0.3/24"}]}`, `{"cniVersion":"1.1.0","ips":[{"address":"10.61.0.3/24"}]}`},
		{"0.4.0", "1.1.0", `{"cniVersion":"0.4.0",` + two + `}`, `{"cniVersion":"1.1.0",` + two + `}`},
		{"1.0.0", "1.1.0", `{"cniVersion":"1.0.0",` + two + `}`, `{"cniVersion":"1.1.0",` + two + `}`},
		{"1.1.0 in full", "0.1.0",
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01","mtu":1400,"sandbox":"/n","socketPath":"/s","pciID":"p"}],"ips":[{"interface":0,"address":"10.61.0.3/24"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.61.0.1","mtu":1,"advmss":2,"priority":3,"table":0,"scope":0}],"dns":{"nameservers":["a"],"domain":"d","search":["s"],"options":["o"]}}`,
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","mac":"02:00:00:00:00:01","mtu":1400,"sandbox":"/n","socketPath":"/s","pciID":"p"}],"ips":[{"interface":0,"address":"10.61.0.3/24"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.61.0.1","mtu":1,"advmss":2,"priority":3,"table":0,"scope":0}],"dns":{"nameservers":["a"],"domain":"d","search":["s"],"options":["o"]}}`},
		{"the host part of an address is kept, that of a route too", "1.1.0", `{"ips":[{"address":"10.61.0.3/8"}],"routes":[{"dst":"10.1.2.3/8"}]}`, `{"cniVersion":"1.1.0","ips":[{"address":"10.61.0.3/8"}],"routes":[{"dst":"10.1.2.3/8"}]}`},
		{"IPv6 under ip4 does no harm", "1.1.0", `{"ip4":{"ip":"fd61::3/64"}}`, `{"cniVersion":"1.1.0","ips":[{"address":"fd61::3/64"}]}`},
		{"nulls are left out", "1.1.0", `{"ips":null,"interfaces":null,"routes":null,"dns":null,"ip4":null}`, `{"cniVersion":"1.1.0"}`},
		{"null members", "1.1.0", `{"ips":[{"address":"10.61.0.3/24","gateway":null,"interface":null}],"routes":[{"dst":"0.0.0.0/0","gw":null,"table":null}]}`, `{"cniVersion":"1.1.0","ips":[{"address":"10.61.0.3/24"}],"routes":[{"dst":"0.0.0.0/0"}]}`},
		{"index -1 is none", "1.1.0", `{"interfaces":[{"name":"a"}],"ips":[{"address":"10.61.0.3/24","interface":-1}]}`, `{"cniVersion":"1.1.0","interfaces":[{"name":"a"}],"ips":[{"address":"10.61.0.3/24"}]}`},
		{"empty", "1.1.0", `{}`, `{"cniVersion":"1.1.0"}`},
		{"no version anywhere", "", `{}`, `{"cniVersion":"1.1.0"}`},
		{"in another case", "1.1.0", `{"IPS":[{"Address":"10.61.0.3/24"}]}`, `{"cniVersion":"1.1.0","ips":[{"address":"10.61.0.3/24"}]}`},
		{"both forms: the version's own counts", "1.1.0", `{"cniVersion":"1.0.0",` + two + `,"ip4":{"ip":"192.0.2.9/24"}}`, `{"cniVersion":"1.1.0",` + two + `}`},
	} {
		r, err := netconf.ParseResult([]byte(c.result), c.assumed)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := current(t, r); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		if r.CNIVersion != "1.1.0" {
			t.Errorf("%s: version %q", c.name, r.CNIVersion)
		}
	}
}

func TestParseResultErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, result string
		code         uint
		words        string
	}{
		{"no JSON", `{`, 6, "result: (line 1, column 2): not JSON"},
		{"a list", `[]`, 6, "expected an object, got an array"},
		{"nothing", ``, 6, "result: empty"},
		{"unknown version", `{"cniVersion":"2.0.0"}`, 1, `result: cniVersion (line 1, column 15): version "2.0.0" is unknown: expected one of [0.1.0`},
		{"half a version", `{"cniVersion":"1.1"}`, 1, `"1.1"`},
		{"a number", `{"cniVersion":1.1}`, 6, "cniVersion (line 1, column 15): expected a string, got the number 1.1"},
		{"null in ips", `{"ips":[null]}`, 6, "ips[0] (line 1, column 9): expected an object, got null"},
		{"null in interfaces", `{"interfaces":[{"name":"a"},null]}`, 6, "interfaces[1] (line 1, column 29): expected an object, got null"},
		{"null in routes", `{"routes":[null]}`, 6, "routes[0] (line 1, column 12): expected an object, got null"},
		{"no address", `{"ips":[{}]}`, 6, "ips[0].address: missing"},
		{"empty address", `{"ips":[{"address":""}]}`, 6, "ips[0].address (line 1, column 20)"},
		{"address without length", `{"ips":[{"address":"10.0.0.1"}]}`, 6, "ips[0].address (line 1, column 20): invalid CIDR address"},
		{"null address", `{"ips":[{"address":null}]}`, 6, "ips[0].address (line 1, column 20): missing"},
		{"no dst", `{"routes":[{"gw":"10.0.0.1"}]}`, 6, "routes[0].dst: missing"},
		{"bad gateway", `{"ips":[{"address":"10.0.0.1/8","gateway":"x"}]}`, 6, "ips[0].gateway (line 1, column 43): invalid IP address"},
		{"index too big", `{"interfaces":[{"name":"a"}],"ips":[{"address":"10.0.0.1/8","interface":1}]}`, 7, "ips[0].interface (line 1, column 73): there is no index 1: the result has 1 interfaces"},
		{"index below 0", `{"interfaces":[{"name":"a"}],"ips":[{"address":"10.0.0.1/8","interface":-2}]}`, 7, "there is no index -2"},
		{"index of a text", `{"ips":[{"address":"10.0.0.1/8","interface":"0"}]}`, 6, "ips[0].interface (line 1, column 45): expected an integer of 64 bits, got a string"},
		{"ips in an old version", `{"cniVersion":"0.2.0","ips":[{"address":"10.0.0.1/8"}]}`, 6, "ips (line 1, column 29): a result of version 0.2.0 has its addresses in ip4 and ip6"},
		{"ip4 in a new version", `{"cniVersion":"1.0.0","ip4":{"ip":"10.0.0.1/8"}}`, 6, "ip4 (line 1, column 29): a result of version 1.0.0 has its addresses in ips"},
		{"ip4 without ip", `{"ip4":{}}`, 6, "ip4.ip: missing"},
		{"ip4 with a bad route", `{"ip4":{"ip":"10.0.0.1/8","routes":[null,{},{"dst":"x"}]}}`, 6, "ip4.routes[2].dst (line 1, column 52): invalid CIDR"},
		{"ip4 with a null route", `{"ip4":{"ip":"10.0.0.1/8","routes":[null,{}]}}`, 6, "ip4.routes[0] (line 1, column 37): expected an object, got null|ip4.routes[1].dst: missing"},
		{"ip4 is a list", `{"ip4":[]}`, 6, "ip4 (line 1, column 8): expected an object, got an array"},
		{"several", `{"ips":[{},null],"routes":[{}]}`, 6, "ips[0].address|ips[1]|routes[0].dst"},
	} {
		r, err := netconf.ParseResult([]byte(c.result), "1.1.0")
		t.Run(c.name, func(t *testing.T) { check(t, err, c.code, strings.Split(c.words, "|")...) })
		if r != nil {
			t.Errorf("%s: a result beside the error", c.name)
		}
	}
	_, err := netconf.ParseResult([]byte(`{}`), "9.9.9")
	check(t, err, 1, `"9.9.9"`)
}
