package netconf_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
)

// A delegate's answer is printed with what nobody here knows, whether there was a prevResult or not.
func TestAppendResult(t *testing.T) {
	t.Parallel()
	const (
		one = `{"cniVersion":"1.1.0","x":9007199254740993,"y":1,"interfaces":[{"name":"a","sandbox":"/n","vlan":1}],"ips":[{"address":"10.0.0.3/24","interface":0,"lease":2}],"dns":{"domain":"d","z":3}}`
		two = `{"cniVersion":"0.4.0","y":4,"interfaces":[{"name":"a","sandbox":"/n","vlan":5}],"ips":[{"version":"4","address":"10.0.0.4/24","interface":0,"lease":6}],"dns":{"z":7}}`
	)
	printed := func(req *netconf.Request) string {
		t.Helper()
		var out bytes.Buffer
		if err := req.EncodeResult(&out); err != nil {
			t.Fatal(err)
		}
		return compact(t, out.Bytes())
	}
	req := &netconf.Request{Network: netconf.Network{CNIVersion: "1.1.0"}}
	req.AddInterface(&types100.Interface{Name: "mine"})
	result := req.Result
	for _, answer := range []string{one, two} {
		if err := req.AppendResult([]byte(answer)); err != nil {
			t.Fatal(err)
		}
	}
	const both = `{"cniVersion":"1.1.0","interfaces":[{"name":"mine"},{"name":"a","sandbox":"/n","vlan":1},{"name":"a","sandbox":"/n","vlan":5}],` +
		`"ips":[{"interface":1,"address":"10.0.0.3/24","lease":2},{"interface":2,"address":"10.0.0.4/24","lease":6}],"dns":{"domain":"d","z":7},"x":9007199254740993,"y":4}`
	if got := printed(req); got != both || req.Result != result {
		t.Errorf("\n got %s\nwant %s", got, both)
	}
	for _, wrong := range []string{`{"ips":[{"address":"x"}]}`, `[]`} {
		if req.AppendResult([]byte(wrong)) == nil || req.SetResult([]byte(wrong)) == nil || printed(req) != both {
			t.Errorf("%s: taken", wrong)
		}
	}
	if got := printed(req.As(netconf.Add)); got != both {
		t.Errorf("a copy: %s", got)
	}
	if got := printed(req.For(req.Network, "")); strings.Contains(got, "x") {
		t.Errorf("a delegate's: %s", got)
	}
	// Behind a prevResult, whose members come first.
	if err := req.SetPrev(json.RawMessage(`{"cniVersion":"1.1.0","y":0,"interfaces":[{"name":"a","sandbox":"/n","vlan":0}]}`)); err != nil {
		t.Fatal(err)
	}
	if err := req.SetResult([]byte(two)); err != nil || req.Result != result {
		t.Fatal(err)
	}
	const behind = `{"cniVersion":"1.1.0","interfaces":[{"name":"a","sandbox":"/n","vlan":0},{"name":"a","sandbox":"/n","vlan":5}],"ips":[{"interface":1,"address":"10.0.0.4/24","lease":6}],"dns":{"z":7},"y":4}`
	if got := printed(req); got != behind {
		t.Errorf("\n got %s\nwant %s", got, behind)
	}
	if err := req.SetResult(nil); err != nil {
		t.Fatal(err)
	}
	if got := printed(req); got != `{"cniVersion":"1.1.0","interfaces":[{"name":"a","sandbox":"/n","vlan":0}],"y":0}` {
		t.Error(got)
	}
}
