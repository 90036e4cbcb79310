package skel_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// validate finds something wrong with a configuration of the plugin exactly if an ADD with it is refused before a step is
// asked; and whatever it is given, each line of its answer names a place that is there.
func FuzzValidate(f *testing.F) {
	const conf = `{"cniVersion":"1.1.0","name":"net","type":"test"`
	for _, text := range []string{
		conf + "}", conf + `,"mtu":1}`, conf + `,"mtu":666}`, conf + `,"mtu":9000,"colour":"blue"}`, conf + `,"colour":"green","deep":{"levels":[13]}}`,
		conf + `,"ipam":{"type":"none"}}`, conf + `,"prevResult":{"ips":[]}}`, conf + `,"name":7}`, "\xef\xbb\xbf" + conf + "}",
		`{"type":"test"}`, `{"name":"a/b","type":"test","cniVersion":"9"}`, `[]`, ``, `"{"`, "{\r\n\t\"type\":\n\"test\",\"NAME\":\"é\"}",
		`{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"test","name":"x","mtu":1},{},7,{"type":"a/b"}]}`, `{"plugins":null}`, `{"plugins":[],"plugins":{}}`,
	} {
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		p := validated(t)
		exit, _, stdout, _ := p.ByHand([]string{"validate", "-"}, text, false, false)
		for line := range strings.Lines(stdout) {
			var l, c int
			if strings.HasPrefix(line, "stdin: ok") && exit == 0 {
				continue
			}
			if n, err := fmt.Sscanf(line, "stdin:%d:%d: ", &l, &c); n != 2 || err != nil || l < 1 || l > 1+strings.Count(text, "\n") || c < 1 || c > 1+len(strings.Split(text, "\n")[l-1]) {
				t.Errorf("no such place: %q", line)
			}
		}
		network, _ := netconf.ParseNetwork([]byte(text))
		if network.Type != "test" || network.Log != nil { // an ADD would write a log file wherever the text says
			return
		}
		worked := false
		p.RunDir = dir
		inner := p.Steps
		p.Steps = func(req *netconf.Request, c *checked) skel.Steps {
			inner(req, c)
			return skel.Steps{skel.Funcs{Add: func(context.Context, *netconf.Request) error { worked = true; return io.EOF }, Check: unreached, GC: unreached, Status: unreached}.Step()}
		}
		add := call(netconf.Add)
		add.Config = text
		if add.Run(t.Context(), t, p); worked != (exit == 0) {
			t.Errorf("validate ends with %d, and the ADD came to the steps: %v\n%q\n%s", exit, worked, text, stdout)
		}
	})
}

func unreached(context.Context, *netconf.Request) error { panic("an ADD asks for no other verb") }
