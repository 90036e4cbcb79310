package netconf_test

import (
	"fmt"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// An error about a part of a configuration names the place in the whole, not in the part.
func TestDecodeAtTellsPlacesOfTheWhole(t *testing.T) {
	t.Parallel()
	type part struct {
		A int    `json:"a"`
		B string `json:"b"`
	}
	defaults := func() part { return part{A: 7, B: "b"} }
	const config = "{\"name\":\"n\",\n \"args\":{\"cni\":{\"A\":1},\n  \"cni\":{\n   \"a\":\"x\", \"b\":[]}},\n \"list\":[{},{\"b\":\"c\"}], \"null\":null}"
	req := &netconf.Request{Config: []byte(config)}
	got, err := netconf.DecodeAt(req, "args.cni", defaults)
	check(t, err, 6, "configuration: args.cni.a (line 4, column 8): expected an integer", "args.cni.b (line 4, column 17): expected a string")
	if *got != defaults() {
		t.Errorf("%+v", *got)
	}
	for path, want := range map[string]part{"list[1]": {7, "c"}, "list[0]": {7, "b"}, "list[2]": {7, "b"}, "none": {7, "b"}, "null": {7, "b"}} {
		if got, err := netconf.DecodeAt(req, path, defaults); err != nil || *got != want {
			t.Errorf("%s: %+v, %v", path, *got, err)
		}
	}
	if got, err := netconf.DecodeAt(&netconf.Request{Config: []byte(`{"Args":{"CNI":{"A":1}}}`)}, "args.cni", defaults); err != nil || got.A != 1 {
		t.Errorf("in another case, as it is read elsewhere: %+v, %v", *got, err)
	}
	_, err = netconf.DecodeAt(req, "list", defaults)
	check(t, err, 6, "configuration: list (line 5, column 9): expected an object, got an array")
	_, err = netconf.DecodeAt[part](&netconf.Request{Config: []byte("{")}, "a", nil)
	check(t, err, 6, "not JSON")
}

// What a person asks for in args.cni is read beside the plugin's own keys.
func ExampleDecodeAt() {
	req := &netconf.Request{Config: []byte(`{"name":"net","args":{"cni":{"mtu":"1400"}}}`)}
	conf, err := netconf.DecodeAt(req, "args.cni", func() struct {
		MTU int `json:"mtu"`
	} {
		return struct {
			MTU int `json:"mtu"`
		}{1500}
	})
	fmt.Println(conf.MTU, err)
	// Output: 1500 configuration: args.cni.mtu (line 1, column 36): expected an integer of 64 bits, got a string
}
