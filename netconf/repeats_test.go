package netconf_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// A key that is given again is warned of wherever it stands, with the place of the one that does not count.
func TestKeyGivenAgainAtAnyDepth(t *testing.T) {
	t.Parallel()
	many := ""
	for i := range 40 {
		many += fmt.Sprintf(`"k%d":%d,`, i, i)
	}
	for config, want := range map[string]string{ // @ is before a key that does not count
		`"runtimeConfig":{@"mac":"a","mac":"b"}`:                              "runtimeConfig.mac",
		`"args":{"cni":{@"ips":["10.0.0.1/8"],"x":{"ips":1},"ips":[]}}`:       "args.cni.ips",
		`"capabilities":{@"mac":true,"\u006dac":false}`:                       "capabilities.mac",
		`"dns":{@"search":[],"domain":"x",@"search":[],"search":[]}`:          "dns.search dns.search",
		`"prevResult":{"ips":[{"a":1},{@"address":"x","address":"y"}]}`:       "prevResult.ips[1].address",
		`"ipam":{"type":"a","deep":[[],[{"x":{@"y":1,"z":2,"y":{"y":3}}}]]}`:  "ipam.deep[1][0].x.y",
		`"ipam":{@"k39":1,` + many + `"z":{@"b":1,"b":1}}`:                    "ipam.k39 ipam.z.b",
		`"ipam":{` + many + `"k":0,@"l":{@"a":1,"a":2},"z":1,"l":{"b":1}}`:    "ipam.l ipam.l.a",
		`@"a":1,@"b":2,"a":{@"c":1,"c":2},"b":{@"c":1,"c":2}`:                 "a b a.c b.c",
		`"a":{"x":"a","y":"x"},"b":{"x":1},"c":["x","x","x:","\":"],"x":[{}]`: "",
	} {
		req := &netconf.Request{Command: netconf.Add}
		parts := strings.Split(`{"cniVersion":"1.0.0","name":"n",`+config+"}", "@")
		var got, wanted []string
		for i, path := range strings.Fields(want) {
			req.Config = append(req.Config, parts[i]...)
			wanted = append(wanted, fmt.Sprintf("configuration: line 1, column %d: key %q is given again: the last one counts", len(req.Config)+1, path))
		}
		req.Config = append(req.Config, parts[len(parts)-1]...)
		req.Warn = func(msg string, _ ...any) {
			if strings.Contains(msg, "given again") {
				got = append(got, msg)
			}
		}
		if _, err := netconf.Decode[struct{}](req, nil); err != nil {
			t.Error(err)
		}
		slices.Sort(got)
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("%s: warned of %q, expected %q", config, got, wanted)
		}
	}
}

// Of two container IDs in one entry of GC's list, or two interfaces, one would be destroyed.
func TestGCEntryThatNamesTwoIsRefused(t *testing.T) {
	t.Parallel()
	env := map[string]string{"CNI_COMMAND": "GC", "CNI_PATH": "/opt/cni/bin"}
	for list, path := range map[string]string{
		`"cni.dev/valid-attachments":[{"containerID":"a","ifname":"e"},{"containerID":"b","ifname":"e","containerID":"c"}]`: "cni.dev/valid-attachments[1].containerID",
		`"cni.dev/valid-attachments":[{"containerID":"a","ContainerID":"b","ifname":"e"}]`:                                  "cni.dev/valid-attachments[0].containerID",
		`"cni.dev/attachments":[{"containerID":"a","ifname":"e","ifname":"f"}]`:                                             "cni.dev/attachments[0].ifname",
	} {
		config := `{"cniVersion":"1.1.0","name":"n","type":"t",` + list + "}"
		_, err := netconf.Parse(func(key string) string { return env[key] }, strings.NewReader(config))
		check(t, err, 7, path+" (line 1, column ", "given 2 times")
	}
}
