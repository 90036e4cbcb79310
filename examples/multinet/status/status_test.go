package status_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/status"
	"github.com/cnikit/cnikit/netconf"
)

func of(t *testing.T, results ...string) []status.Entry {
	t.Helper()
	var all []status.Attachment
	for i, text := range results {
		a := status.Attachment{Name: fmt.Sprintf("ns1/net-%d", i)}
		if text != "" {
			r, err := netconf.ParseResult([]byte(text), "1.0.0")
			if err != nil {
				t.Fatal(err)
			}
			a.Result = r
		}
		all = append(all, a)
	}
	return status.Of(all)
}

// One entry for one attachment, of its first interface in the sandbox.
func TestEntry(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]string{
		"":                       `{"name":"ns1/net-0","default":true,"dns":{}}`,
		`{"cniVersion":"1.0.0"}`: `{"name":"ns1/net-0","default":true,"dns":{}}`,
		// the host's bridge and end of the pair first
		`{"cniVersion":"1.1.0","interfaces":[{"name":"br9","mac":"02:00:00:00:00:01"},{"name":"veth9"},{"name":"net1","mac":"02:00:00:00:00:03","mtu":1400,"sandbox":"/n"}],
			"ips":[{"address":"10.60.0.5/24","gateway":"10.60.0.1","interface":2},{"address":"fd60::5/64","interface":2},{"address":"10.60.0.1/24","interface":0}],"dns":{"nameservers":["10.60.0.53"],"search":["d.test"]}}`: `{"name":"ns1/net-0","interface":"net1","ips":["10.60.0.5","fd60::5"],"mac":"02:00:00:00:00:03","mtu":1400,"default":true,"dns":{"nameservers":["10.60.0.53"],"search":["d.test"]}}`,
		// addresses without an index, with and without an interface in the sandbox
		`{"cniVersion":"1.0.0","ips":[{"address":"10.60.0.6/24"}]}`:                                                                                                                             `{"name":"ns1/net-0","ips":["10.60.0.6"],"default":true,"dns":{}}`,
		`{"cniVersion":"1.0.0","interfaces":[{"name":"br9"}],"ips":[{"address":"10.60.0.7/24","interface":0}]}`:                                                                                 `{"name":"ns1/net-0","ips":["10.60.0.7"],"default":true,"dns":{}}`,
		`{"cniVersion":"1.0.0","interfaces":[{"name":"net1","sandbox":"/n"}],"ips":[{"address":"10.60.0.7/24"}]}`:                                                                               `{"name":"ns1/net-0","interface":"net1","ips":["10.60.0.7"],"default":true,"dns":{}}`,
		`{"cniVersion":"1.0.0","interfaces":[{"name":"a","sandbox":"/n"},{"name":"b","sandbox":"/n"}],"ips":[{"address":"10.6.0.8/24","interface":0},{"address":"10.6.0.9/24","interface":1}]}`: `{"name":"ns1/net-0","interface":"a","ips":["10.6.0.8"],"default":true,"dns":{}}`,
		`{"cniVersion":"0.2.0","ip4":{"ip":"10.60.0.9/24"},"ip6":{"ip":"fd60::9/64"}}`:                                                                                                          `{"name":"ns1/net-0","ips":["10.60.0.9","fd60::9"],"default":true,"dns":{}}`,
		// gateways of default routes alone: a route's own, or the address'
		`{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.2/24","gateway":"10.0.0.1"},{"address":"fd00::2/64"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"},{"dst":"10.9.0.0/16","gw":"10.0.0.9"}]}`: `{"name":"ns1/net-0","ips":["10.0.0.2","fd00::2"],"default":true,"dns":{},"gateway":["10.0.0.1"]}`,
		`{"cniVersion":"1.0.0","routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1"},{"dst":"::/0","gw":"fd00::1"}]}`:                                                                                        `{"name":"ns1/net-0","default":true,"dns":{},"gateway":["10.0.0.1","fd00::1"]}`,
	} {
		entries := of(t, result)
		text, err := json.Marshal(entries)
		if got := string(text); err != nil || got != "["+want+"]" {
			t.Errorf("%s:\n%s\nexpected\n[%s]", result, got, want)
		}
	}
}

// One entry is the default one: that whose result has the default route, IPv4's before IPv6's. None is if there is no such route.
func TestDefault(t *testing.T) {
	t.Parallel()
	const (
		none = `{"cniVersion":"1.0.0"}`
		v4   = `{"cniVersion":"1.0.0","routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1"}]}`
		v6   = `{"cniVersion":"1.0.0","routes":[{"dst":"::/0","gw":"fd00::1"}]}`
		vrf  = `{"cniVersion":"1.1.0","routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1","table":100}]}`
		host = `{"cniVersion":"1.0.0","routes":[{"dst":"10.0.0.0/8","gw":"10.0.0.1"}]}`
	)
	for i, c := range []struct {
		results []string
		want    int
	}{
		{[]string{none, none}, 0}, {[]string{v4, v4}, 0}, {[]string{none, v4}, 1}, {[]string{v6, v4}, 1}, {[]string{none, v6}, 1},
		{[]string{host, vrf, v6}, 2}, {[]string{"", host, vrf}, 0},
	} {
		for j, e := range of(t, c.results...) {
			if e.Default != (j == c.want) {
				t.Errorf("%d: entry %d is the default one: %v", i, j, e.Default)
			}
		}
	}
	for _, e := range status.Of([]status.Attachment{{Name: "a", NoDefault: true}, {Name: "b"}}) {
		if e.Default {
			t.Errorf("%s: a default route that is not there", e.Name)
		}
	}
	if entries := status.Of(nil); len(entries) != 0 {
		t.Errorf("%v", entries)
	}
}

// The text is what people read by kubectl, and no letter in it is escaped.
func TestEncode(t *testing.T) {
	t.Parallel()
	text, err := status.Encode([]status.Entry{{Name: "a<b", DeviceInfo: json.RawMessage(`{"type":"pci","pci":{"pci-address":"0000:00:01.0"}}`)}})
	if err != nil || !strings.Contains(text, `"name": "a<b"`) || !strings.Contains(text, "\n    {") || !strings.Contains(text, `"pci-address": "0000:00:01.0"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// Whatever plugins answer, there is one entry for each, and one default.
func FuzzOf(f *testing.F) {
	f.Add(`{"cniVersion":"1.0.0","interfaces":[{"name":"a","sandbox":"/n"}],"ips":[{"address":"10.0.0.1/8","interface":0}],"routes":[{"dst":"::/0"}]}`, `{"cniVersion":"0.2.0"}`)
	f.Fuzz(func(t *testing.T, one, two string) {
		var all []status.Attachment
		for _, text := range []string{one, two} {
			r, err := netconf.ParseResult([]byte(text), "1.0.0")
			if err != nil {
				return
			}
			all = append(all, status.Attachment{Name: "n", Result: r})
		}
		entries := status.Of(all)
		if len(entries) != 2 || entries[0].Default == entries[1].Default {
			t.Fatalf("%+v", entries)
		}
		text, err := status.Encode(entries)
		if err != nil || strings.Contains(text, "<nil>") {
			t.Fatalf("%s, %v", text, err)
		}
	})
}
