package netconf_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// A result that came from a plugin goes on to the next, in that one's version, with what nobody here knows.
func TestSetPrev(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"cniVersion":"1.1.0","vendor":9007199254740993,"interfaces":[{"name":"eth0","sandbox":"/n","mtu":1400,"vlan":7}],"ips":[{"address":"10.0.0.3/24","interface":0}]}`)
	req := &netconf.Request{Network: netconf.Network{CNIVersion: "0.4.0"}}
	if err := req.SetPrev(raw); err != nil || req.Prev == nil || req.Prev.Interfaces[0].Mtu != 1400 {
		t.Fatalf("%v, %v", req.Prev, err)
	}
	clear(raw)
	var out bytes.Buffer
	if err := req.EncodeResult(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"cniVersion":"0.4.0"`, `"vendor":9007199254740993`, `"vlan":7`, `"version":"4"`} {
		if squeezed := strings.Join(strings.Fields(out.String()), ""); !strings.Contains(squeezed, want) {
			t.Errorf("%s: expected %s in it", squeezed, want)
		}
	}
	before := req.Prev
	if err := req.SetPrev([]byte(`{"ips":[{"address":"x"}]}`)); netconf.Code(err) != netconf.CodeDecodingFailure || req.Prev != before {
		t.Errorf("%v: expected code 6 and the same prevResult", err)
	}
	if err := req.SetPrev(nil); err != nil || req.Prev != nil {
		t.Errorf("%v, %v: expected none", req.Prev, err)
	}
	out.Reset()
	if err := req.EncodeResult(&out); err != nil || strings.Contains(out.String(), "vendor") {
		t.Errorf("%s, %v: expected nothing of the old one", out.String(), err)
	}
}

func TestParsePrevResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, prev string
		code       uint
		there      bool
		words      string
	}{
		{"absent", ``, 0, false, ""},
		{"null", `,"prevResult":null`, 0, false, ""},
		{"empty", `,"prevResult":{}`, 0, true, ""},
		{"another version", `,"prevResult":{"cniVersion":"0.2.0","ip4":{"ip":"192.0.2.1/24"}}`, 0, true, ""},
		{"unknown version", `,"prevResult":{"cniVersion":"9.9.9"}`, 1, false, `prevResult.cniVersion (line 1, column 72): version "9.9.9"`},
		{"a string", `,"prevResult":"x"`, 6, false, "prevResult (line 1, column 58): expected an object, got a string"},
		{"bad address", `,"prevResult":{"ips":[{"address":"192.0.2.1"}]}`, 6, false, "prevResult.ips[0].address (line 1, column 77): invalid CIDR address"},
		{"null address", `,"prevResult":{"ips":[null]}`, 6, false, "prevResult.ips[0] (line 1, column 66): expected an object, got null"},
		{"index of no interface", `,"prevResult":{"interfaces":[{"name":"a"}],"ips":[{"address":"192.0.2.1/24","interface":7}]}`, 7, false, "prevResult.ips[0].interface (line 1, column 132): there is no index 7"},
		{"index -1", `,"prevResult":{"interfaces":[{"name":"a"}],"ips":[{"address":"192.0.2.1/24","interface":-1}]}`, 0, true, ""},
		{"index of a text", `,"prevResult":{"interfaces":[{"name":"a"}],"ips":[{"address":"192.0.2.1/24","interface":"0"}]}`, 6, false, "prevResult.ips[0].interface"},
		{"two errors", `,"prevResult":{"ips":[{"address":5,"gateway":"x"}]}`, 6, false, "prevResult.ips[0].address|prevResult.ips[0].gateway"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conf := strings.TrimSuffix(minimal, "}") + c.prev + "}"
			req, err := netconf.Parse(with("ADD").get, strings.NewReader(conf))
			check(t, err, c.code, strings.Split(c.words, "|")...)
			if (req.Prev != nil) != c.there {
				t.Errorf("prevResult %v", req.Prev)
			}
			for _, verb := range []string{"DEL", "GC"} {
				req, err = netconf.Parse(with(verb).get, strings.NewReader(gc(c.prev)))
				check(t, err, 0)
				check(t, req.Warnings(), c.code)
			}
		})
	}
}

// Some plugins say by an index of -1 that they know of no interface. It is passed on as the specification has it: left out.
func TestIndexOfNoInterfaceIsLeftOut(t *testing.T) {
	t.Parallel()
	const prev = `,"prevResult":{"interfaces":[{"name":"eth0"}],"ips":[{"address":"192.0.2.1/24","interface":-1,"x":1}]}}`
	req := parse(t, with("ADD"), strings.TrimSuffix(minimal, "}")+prev)
	var out strings.Builder
	if err := req.EncodeResult(&out); err != nil || strings.Contains(out.String(), `"interface"`) || !strings.Contains(out.String(), `"x": 1`) {
		t.Errorf("%v, printed %s", err, &out)
	}
}
