package delegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// It is what skel takes, without knowing it.
var (
	_ skel.Step      = delegate.Step{}
	_ skel.Collector = delegate.Step{}
	_ skel.Prober    = delegate.Step{}
	_ skel.Namer     = delegate.Step{}
)

// The printed result is what the delegate answered and what later steps add, whatever of it was there before.
func TestStepResult(t *testing.T) {
	t.Parallel()
	const none = ""
	for _, c := range []struct {
		name         string
		prev, result string // before; the latter is what steps before made
		answer       string // "same": the prevResult as it came
		want         string // printed, without what the later step adds
		added        string // in req.Result: names of interfaces
	}{
		{"nothing before", none, `{}`, `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"}],"ips":[{"address":"10.0.0.3/24","interface":0}],"routes":[{"dst":"10.8.0.0/16"}],"dns":{"domain":"x"}}`,
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"}],"ips":[{"address":"10.0.0.3/24","interface":0}],"routes":[{"dst":"10.8.0.0/16"}],"dns":{"domain":"x"}}`, "eth0"},
		{"passed through", none, `{"interfaces":[{"name":"eth0","sandbox":"/n"}],"ips":[{"address":"10.0.0.3/24","interface":0}],"routes":[{"dst":"10.8.0.0/16"}],"dns":{"domain":"x"}}`, "same",
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"}],"ips":[{"address":"10.0.0.3/24","interface":0}],"routes":[{"dst":"10.8.0.0/16"}],"dns":{"domain":"x"}}`, "eth0"},
		{"our own is changed", none, `{"interfaces":[{"name":"eth0","sandbox":"/n","mac":"02:00:00:00:00:01"}]}`, `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n","mac":"02:00:00:00:00:02"}]}`,
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n","mac":"02:00:00:00:00:02"}]}`, "eth0"},
		{"added in a chained plugin", `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"}],"ips":[{"address":"10.0.0.3/24","interface":0}]}`, `{"interfaces":[{"name":"own"}]}`,
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n","mtu":9},{"name":"own"},{"name":"new"}],"ips":[{"address":"10.0.0.3/24","interface":0},{"address":"10.0.0.4/24","interface":2},{"address":"10.0.0.5/24"}]}`,
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n","mtu":9},{"name":"own"},{"name":"new"}],"ips":[{"address":"10.0.0.3/24","interface":0},{"address":"10.0.0.4/24","interface":2},{"address":"10.0.0.5/24"}]}`, "own new"},
		{"an address for what came before", `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"}]}`, `{}`,
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"},{"name":"new"}],"ips":[{"address":"10.0.0.4/24","interface":0},{"address":"10.0.0.5/24","interface":1}]}`,
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"},{"name":"new"}],"ips":[{"address":"10.0.0.4/24","interface":0},{"address":"10.0.0.5/24","interface":1}]}`, "new"},
		{"addresses that cannot be told apart", `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"}]}`, `{}`,
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"},{"name":"new"}],"ips":[{"address":"10.0.0.5/24","interface":1},{"address":"10.0.0.4/24","interface":0}]}`,
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"},{"name":"new"}],"ips":[{"address":"10.0.0.5/24","interface":1},{"address":"10.0.0.4/24","interface":0}]}`, ""},
		{"what came before is taken away", `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"},{"name":"h0"}],"routes":[{"dst":"10.8.0.0/16"}],"dns":{"domain":"x"}}`, `{}`,
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"}]}`, `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"}]}`, ""},
		{"what nobody here knows", `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n","vlan":7}],"x":1}`, `{}`, "same", `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n","vlan":7}],"x":1}`, ""},
		{"what nobody here knows, and nothing before", none, `{}`, `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n","vlan":7}],"ips":[{"address":"10.0.0.3/24","interface":0,"lease":8}],"x":1}`,
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n","vlan":7}],"ips":[{"address":"10.0.0.3/24","interface":0,"lease":8}],"x":1}`, "eth0"},
		{"what nobody here knows, behind our own", none, `{"interfaces":[{"name":"own"}]}`, `{"cniVersion":"1.1.0","interfaces":[{"name":"own"},{"name":"eth0","sandbox":"/n","vlan":7}],"x":1}`,
			`{"cniVersion":"1.1.0","interfaces":[{"name":"own"},{"name":"eth0","sandbox":"/n","vlan":7}],"x":1}`, "own eth0"},
		{"the delegate speaks an older version", none, `{"interfaces":[{"name":"eth0","sandbox":"/n","mtu":5}]}`, `{"cniVersion":"0.4.0","interfaces":[{"name":"eth0","sandbox":"/n"}],"ips":[{"version":"4","address":"10.0.0.3/24","interface":0}]}`,
			`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"}],"ips":[{"address":"10.0.0.3/24","interface":0}]}`, "eth0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := program(t, `cat > "$0.$CNI_COMMAND"; [ $CNI_COMMAND != ADD ] || cat "$0.answer"`)
			config := `{"cniVersion":"1.1.0","name":"net","type":"main"}`
			if c.prev != none {
				config = patch(t, config, "prevResult", c.prev)
			}
			req := call(t, netconf.Add, config, dir)
			before := result(t, c.result)
			req.Result = before
			sent := printed(t, req)
			if c.answer == "same" {
				c.answer = sent
			}
			write(t, filepath.Join(dir, "fake.answer"), c.answer, 0o644)
			step := delegate.Step{Config: json.RawMessage(`{"type":"fake","n":9007199254740993}`)}
			warnings := heard(req)
			if err := step.Add(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if warned := strings.Contains(strings.Join(*warnings, ";"), "leaves out interfaces"); warned != (c.name == "what came before is taken away") {
				t.Errorf("warned: %v, %q", warned, *warnings)
			}
			got := read(t, filepath.Join(dir, "fake.ADD"))
			if prev := key(t, got, "prevResult"); strings.Contains(sent, "interfaces") {
				same(t, prev, sent)
			} else if prev != "" {
				t.Errorf("prevResult %s where there is nothing yet", prev)
			}
			if key(t, got, "name") != `"net"` || key(t, got, "cniVersion") != `"1.1.0"` || !strings.HasPrefix(got, `{"type":"fake","n":9007199254740993,`) {
				t.Errorf("%s", got)
			}
			same(t, printed(t, req), c.want)
			var names []string
			for _, i := range req.Result.Interfaces {
				names = append(names, i.Name)
			}
			if strings.Join(names, " ") != c.added || req.Result != before {
				t.Errorf("the plugin's own result has %q: expected %q", names, c.added)
			}
			if (req.Prev == nil) != (c.prev == none) {
				t.Errorf("prevResult %v", req.Prev)
			}
		})
	}
}

// result reads what steps before have made.
func result(t *testing.T, text string) *types100.Result {
	t.Helper()
	r, err := netconf.ParseResult([]byte(text), "1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func printed(t *testing.T, req *netconf.Request) string {
	t.Helper()
	var b strings.Builder
	if err := req.EncodeResult(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Below 0.3.0 there is no prevResult: what the delegate answers is added to what there is.
func TestStepInAnOldVersion(t *testing.T) {
	t.Parallel()
	dir := program(t, `cat > "$0.$CNI_COMMAND"; echo '{"cniVersion":"0.2.0","ip6":{"ip":"fd00::3/64"}}'`)
	req := call(t, netconf.Add, `{"cniVersion":"0.2.0","name":"net","type":"main"}`, dir)
	i := req.AddInterface(&types100.Interface{Name: "eth0"})
	req.AddIP(i, net.IPNet{IP: net.IPv4(10, 0, 0, 3), Mask: net.CIDRMask(24, 32)}, nil)
	step := delegate.Step{Config: json.RawMessage(`{"type":"fake"}`)}
	if err := step.Add(t.Context(), req); err != nil || key(t, read(t, filepath.Join(dir, "fake.ADD")), "prevResult") != "" {
		t.Fatal(err)
	}
	same(t, printed(t, req), `{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.3/24"},"ip6":{"ip":"fd00::3/64"}}`)
	newer := program(t, `echo '{"cniVersion":"0.4.0","interfaces":[{"name":"a"},{"name":"b"}],"ips":[{"version":"4","address":"10.0.0.4/24","interface":1}]}'`)
	req.Path = []string{newer}
	if err := step.Add(t.Context(), req); err != nil || len(req.Result.Interfaces) != 3 || *req.Result.IPs[2].Interface != 2 {
		t.Errorf("%v, %v: expected the address on the third interface", err, req.Result)
	}
	req.Path = []string{dir}
	if err := step.Check(t.Context(), req); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "fake.CHECK")); err == nil {
		t.Error("CHECK was sent, which the version does not have")
	}
}

// The delegate's verbs are called in their place, with what is known.
func TestStepUnderSkel(t *testing.T) {
	t.Parallel()
	type config struct{}
	s := &spy{}
	var last error
	var order []string
	note := func(name string) func(context.Context, *netconf.Request) error {
		return func(context.Context, *netconf.Request) error { order = append(order, name); return nil }
	}
	first := skel.Funcs{Title: "first", Add: func(_ context.Context, req *netconf.Request) error {
		req.AddInterface(&types100.Interface{Name: "eth0", Sandbox: req.Netns, Mac: "02:00:00:00:00:01"})
		return nil
	}, Check: note("first"), Del: note("first DEL"), GC: note("first"), Status: note("first")}.Step()
	own := skel.Funcs{Title: "own", Add: func(context.Context, *netconf.Request) error { return last }, Check: note("own"), GC: note("own"), Status: note("own")}.Step()
	step := delegate.Step{Config: json.RawMessage(`{"type":"a","capabilities":{"mac":true}}`), Plugins: s.plugins("a")}
	plugin := skel.Plugin[config]{Name: "main", RunDir: t.TempDir(), Steps: func(*netconf.Request, *config) skel.Steps { return skel.Steps{first, step, own} }}
	c := skeltest.Call{Command: netconf.Add, ContainerID: "c1", Netns: fmt.Sprintf("/proc/%d/ns/net", os.Getpid()), IfName: "eth0", Path: "/opt",
		Env: []string{"CNI_NETNS_OVERRIDE=1"}, Config: `{"cniVersion":"1.1.0","name":"net","type":"main","runtimeConfig":{"mac":"02:00:00:00:00:09","ips":[]}}`}

	added := c.Run(t.Context(), t, plugin).OK(t)
	if len(added.Result.Interfaces) != 2 || added.Result.Interfaces[1].Name != "a" || len(added.Result.IPs) != 1 || *added.Result.IPs[0].Interface != 1 {
		t.Errorf("%s", added.Stdout)
	}
	c.With(netconf.Check).WithPrev(added).Run(t.Context(), t, plugin).OK(t)
	c.With(netconf.Del).WithPrev(added).Run(t.Context(), t, plugin).OK(t)
	c.With(netconf.Del).Run(t.Context(), t, plugin).OK(t)
	c.With(netconf.Status).Run(t.Context(), t, plugin).OK(t)
	gc := c.With(netconf.GC)
	gc.Config = patch(t, c.Config, "cni.dev/valid-attachments", `[{"containerID":"c1","ifname":"eth0"}]`)
	gc.Run(t.Context(), t, plugin).OK(t)
	for i, call := range s.calls {
		prev := key(t, call.config, "prevResult")
		switch {
		case i == 0 && (strings.Count(prev, `"name"`) != 1 || key(t, call.config, "runtimeConfig") != `{"mac":"02:00:00:00:00:09"}`):
			t.Errorf("%s: %s", call, call.config)
		case (i == 1 || i == 2) && squeeze(prev) != squeeze(added.Stdout), i > 2 && prev != "":
			t.Errorf("%s: prevResult %s", call, prev)
		case call.verb == netconf.GC && key(t, call.config, "cni.dev/valid-attachments") != `[{"containerID":"c1","ifname":"eth0"}]`:
			t.Errorf("%s: %s", call, call.config)
		}
	}
	if got := s.said(); got != "a ADD, a CHECK, a DEL, a DEL, a STATUS, a GC" {
		t.Error(got)
	}

	last = errors.New("no room") // the step after it fails: it is rolled back with what it had made
	c.Run(t.Context(), t, plugin).Fails(t, 999, "own: no room")
	if prev := key(t, s.calls[1].config, "prevResult"); strings.Count(prev, `"name"`) != 2 {
		t.Errorf("rolled back with %s", prev)
	}
	if got := s.said(); got != "a ADD, a DEL" {
		t.Error(got)
	}
	last, s.answer, order = nil, func(_ context.Context, _ string, req *netconf.Request) error {
		return map[netconf.Command]error{netconf.Add: netconf.Errorf(101, "full")}[req.Command]
	}, nil
	c.Run(t.Context(), t, plugin).Fails(t, 101, `a: delegate "a" ADD, network "net": full`)
	if got := s.said(); got != "a ADD, a DEL" || !slices.Contains(order, "first DEL") {
		t.Errorf("%s, %q", got, order)
	}
}

// A program that is missing has changed nothing; at DEL the other steps do their work, and it is an error. What
// names no plugin can have made nothing.
func TestStepWithoutAPlugin(t *testing.T) {
	t.Parallel()
	req := call(t, netconf.Add, `{"cniVersion":"1.1.0","name":"net","type":"main"}`, t.TempDir())
	missing := delegate.Step{Config: json.RawMessage(`{"type":"fake"}`)}
	err := missing.Add(t.Context(), req)
	if wants(t, err, 5, `delegate "fake" ADD`); !netconf.IsUnchanged(err) {
		t.Errorf("%v: nothing was changed", err)
	}
	wants(t, missing.Del(t.Context(), req), 5, `delegate "fake" DEL`)
	for _, config := range []string{`{}`, ``, `null`, `{"type":"a/b"}`} {
		step := delegate.Step{Config: json.RawMessage(config)}
		err := step.Add(t.Context(), req)
		if wants(t, err, 7); !netconf.IsUnchanged(err) {
			t.Errorf("%v: nothing was changed", err)
		}
		if err := step.Del(t.Context(), req); err != nil {
			t.Error(err)
		}
		if name := step.Name(); name != "delegate" && config != `{"type":"a/b"}` {
			t.Errorf("%q", name)
		}
	}
	req.Network.ValidAttachments = []types.GCAttachment{}
	wants(t, missing.GC(t.Context(), req), 5, "GC")
	wants(t, missing.Status(t.Context(), req), 50, "STATUS")
}
