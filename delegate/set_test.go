package delegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// four is a set of four networks of one plugin each, a to d, under the names if-a to if-d; the last is a list of two.
func four(t *testing.T, s *spy) delegate.Set {
	t.Helper()
	set := delegate.Set{Plugins: s.plugins("a", "b", "c", "d", "e")}
	for _, name := range []string{"a", "b", "c"} {
		set.Attachments = append(set.Attachments, delegate.Attachment{Network: parse(t, fmt.Sprintf(`{"cniVersion":"1.1.0","name":"net-%[1]s","type":%[1]q}`, name)), IfName: "if-" + name})
	}
	set.Attachments = append(set.Attachments, delegate.Attachment{Network: parse(t, `{"cniVersion":"1.1.0","name":"net-d","plugins":[{"type":"d","capabilities":{"mac":true}},{"type":"e"}]}`), IfName: "if-d",
		Args: netconf.Args{"A": "mine", "IP": "10.0.0.9"}, RuntimeConfig: map[string]json.RawMessage{"mac": json.RawMessage(`"02:00:00:00:00:0d"`), "ips": json.RawMessage(`[]`)}})
	return set
}

// variable is an environment variable of a call.
func (s seen) variable(name string) string {
	for _, kv := range s.env {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// with says a result to each of the attachments.
func with(set delegate.Set, results []delegate.Result) delegate.Set {
	set.Attachments = slices.Clone(set.Attachments)
	for i, r := range results {
		set.Attachments[i].Result = r.JSON
	}
	return set
}

// The life of a container: each attachment has its own name, arguments, runtimeConfig and prevResult.
func TestSetVerbs(t *testing.T) {
	t.Parallel()
	s := &spy{}
	set, req := four(t, s), attach(t)
	if err := req.SetPrev(json.RawMessage(`{"cniVersion":"1.0.0","interfaces":[{"name":"theirs"}]}`)); err != nil {
		t.Fatal(err)
	}
	results, err := set.Add(t.Context(), req)
	if err != nil || len(results) != 4 {
		t.Fatalf("%v, %v", results, err)
	}
	for i, r := range results {
		if want := []string{"a", "b", "c", "d"}[i]; r.Interfaces[0].Name != want || len(r.Interfaces) != 1+i/3 {
			t.Errorf("result %d: %v", i, r.Interfaces)
		}
	}
	checkCalls := func(prevs bool) {
		t.Helper()
		for _, c := range s.calls {
			name := strings.ReplaceAll(c.plugin, "e", "d")
			args, runtime := "IgnoreUnknown=1;A=b=c;K8S_POD_UID=", ""
			if name == "d" {
				args = "IgnoreUnknown=1;A=mine;K8S_POD_UID=;IP=10.0.0.9"
			}
			if c.plugin == "d" {
				runtime = `{"mac":"02:00:00:00:00:0d"}`
			}
			if c.variable("CNI_IFNAME") != "if-"+name || c.variable("CNI_CONTAINERID") != "c1" || c.variable("CNI_ARGS") != args ||
				key(t, c.config, "name") != `"net-`+name+`"` || key(t, c.config, "runtimeConfig") != runtime {
				t.Errorf("%s: %q, %s", c, c.env, c.config)
			}
			if prev := key(t, c.config, "prevResult"); prevs && !strings.Contains(strings.ReplaceAll(prev, " ", ""), `"name":"`+name+`"`) || strings.Contains(prev, "theirs") {
				t.Errorf("%s: prevResult %s", c, prev)
			}
		}
	}
	checkCalls(false)
	if got := s.said(); got != "a ADD, b ADD, c ADD, d ADD, e ADD" {
		t.Error(got)
	}
	if req.IfName != "eth0" || req.Args["A"] != "b=c" || req.Prev == nil || len(req.Network.RuntimeConfig) != 3 {
		t.Errorf("the request was changed: %+v", req)
	}
	set = with(set, results)
	for _, c := range []struct {
		verb func(context.Context, *netconf.Request) error
		want string
	}{
		{set.Check, "a CHECK, b CHECK, c CHECK, d CHECK, e CHECK"}, {set.Del, "e DEL, d DEL, c DEL, b DEL, a DEL"},
	} {
		if err := c.verb(t.Context(), req); err != nil {
			t.Error(err)
		}
		checkCalls(true)
		if got := s.said(); got != c.want {
			t.Errorf("%s: expected %s", got, c.want)
		}
	}
}

// Everything that can be told beforehand is, all of it, and nothing is run; and nobody may take it for an ADD that is
// to be undone, for in a second ADD that would be the live container.
func TestSetIsCheckedBeforeAnythingIsRun(t *testing.T) {
	t.Parallel()
	s := &spy{}
	one := four(t, s).Attachments[0]
	named := func(names ...string) (all []delegate.Attachment) {
		for _, name := range names {
			a := one
			a.IfName = name
			all = append(all, a)
		}
		return all
	}
	unknown := parse(t, `{"cniVersion":"9.9.9","name":"new","type":"a"}`)
	for name, c := range map[string]struct {
		attachments []delegate.Attachment
		container   string
		code        uint
		words       []string
	}{
		"none":                {nil, "c1", 7, []string{"no networks"}},
		"the same name twice": {named("net1", "net2", "net1"), "c1", 7, []string{`interface "net1": network "net-a"`, `of network "net-a" already`}},
		"lo":                  {named("net1", "lo"), "c1", 7, []string{`"lo"`, "loopback"}},
		"no name":             {named(""), "c1", 7, []string{"missing"}},
		"a long name":         {named("net1", "x234567890123456"), "c1", 7, []string{"at most 15"}},
		"a pattern":           {named("%d"), "c1", 7, []string{"invalid character"}},
		"a path":              {named("a/b"), "c1", 7, []string{"invalid character"}},
		"all that is wrong":   {named("a b", "lo", "x", "x"), "c1", 7, []string{"a b", "loopback", "already"}},
		"no network":          {[]delegate.Attachment{one, {IfName: "net1"}}, "c1", 7, []string{`interface "net1": it has no network`}},
		"no plugins":          {[]delegate.Attachment{one, {IfName: "net1", Network: &delegate.Network{Name: "n"}}}, "c1", 7, []string{"no plugins"}},
		"an unknown version":  {[]delegate.Attachment{one, {IfName: "net1", Network: unknown}}, "c1", 1, []string{`interface "net1"`, "9.9.9"}},
		"no container":        {named("net1"), "", 4, []string{"container ID: missing"}},
		"a container's path":  {named("net1"), "../x", 4, []string{"container ID"}},
		"runtimeConfig, no JSON": {[]delegate.Attachment{{IfName: "net1", Network: one.Network, RuntimeConfig: map[string]json.RawMessage{"mac": json.RawMessage("02:00")}}},
			"c1", 7, []string{`runtimeConfig "mac" is not JSON`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := &spy{}
			req := attach(t)
			req.ContainerID = c.container
			_, err := delegate.Set{Attachments: c.attachments, Plugins: own.plugins("a")}.Add(t.Context(), req)
			if wants(t, err, c.code, c.words...); !netconf.IsUnchanged(err) {
				t.Errorf("%v: not said to have changed nothing", err)
			}
			if got := own.said(); got != "" {
				t.Errorf("%s: expected no call", got)
			}
		})
	}
}

// A pair that would be read as several, or as none, is refused: "1;K8S_POD_NAME=evil" is another pod's name.
func TestArgsThatWouldBeOtherPairs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args netconf.Args
		word string // empty: it is good
	}{
		"another pair":      {netconf.Args{"A": "1;K8S_POD_NAME=evil"}, `"A"`},
		"a NUL":             {netconf.Args{"B": "1\x00"}, `"B"`},
		"a key with ;":      {netconf.Args{"A;B": "1"}, `"A;B"`},
		"a key with =":      {netconf.Args{"A=B": "1"}, `"A=B"`},
		"a key with a NUL":  {netconf.Args{"A\x00": "1"}, `"A\x00"`},
		"no key":            {netconf.Args{"": "1"}, "no key"},
		"a word for a bool": {netconf.Args{"IgnoreUnknown": "perhaps"}, "IgnoreUnknown"},
		"a = and a blank":   {netconf.Args{"A": "b=c d", "IgnoreUnknown": "true"}, ""},
		"an empty value":    {netconf.Args{"A": ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &spy{}
			set := four(t, s)
			set.Attachments[2].Args = c.args
			_, err := set.Add(t.Context(), attach(t))
			if c.word == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			warned := attach(t)
			warnings := heard(warned)
			if err := set.Del(t.Context(), warned); err != nil || len(*warnings) != 1 || strings.Contains(fmt.Sprint(s.calls), "evil") {
				t.Errorf("DEL: %v, %q", err, *warnings)
			}
			for _, call := range s.calls {
				if args := call.variable("CNI_ARGS"); call.verb != netconf.Del || call.plugin == "c" && args != "IgnoreUnknown=1;A=b=c;K8S_POD_UID=" {
					t.Errorf("%s: CNI_ARGS %q", call, args)
				}
			}
			s.said()
			if wants(t, err, 7, `interface "if-c"`, c.word); !netconf.IsUnchanged(err) || strings.Contains(err.Error(), "evil") {
				t.Error(err)
			}
		})
	}
}

// DEL and CHECK try all, whatever the others answer, also one that hangs: each has its part of the time.
func TestSetTriesAll(t *testing.T) {
	t.Parallel()
	s := &spy{answer: func(ctx context.Context, name string, req *netconf.Request) error {
		if name == "b" || name == "c" {
			<-ctx.Done()
			return errors.New("hangs")
		}
		return nil
	}}
	set := four(t, s)
	for verb, c := range map[string]struct {
		run  func(context.Context, *netconf.Request) error
		want string
	}{
		"DEL":    {set.Del, "e DEL, d DEL, c DEL, b DEL, a DEL"},
		"CHECK":  {set.Check, "a CHECK, b CHECK, c CHECK, d CHECK, e CHECK"},
		"STATUS": {set.Status, "a STATUS, b STATUS, c STATUS, d STATUS, e STATUS"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := c.run(ctx, attach(t))
		cancel()
		if err == nil || strings.Count(err.Error(), "hangs") != 2 || !strings.Contains(err.Error(), `network "net-b"`) || !strings.Contains(err.Error(), `network "net-c"`) {
			t.Errorf("%s: %v", verb, err)
		}
		if got := s.said(); got != c.want {
			t.Errorf("%s: expected %s", got, c.want)
		}
	}
}

// A prevResult that is none is an error of CHECK and a warning of DEL; an attachment without a network likewise.
func TestSetWithWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := &spy{}
	set := four(t, s)
	set.Attachments[1].Result = json.RawMessage(`{"cniVersion":"1.0.0","ips":7}`)
	set.Attachments[2].Network = nil
	req := attach(t)
	var warnings []string
	req.Warn = func(msg string, args ...any) { warnings = append(warnings, fmt.Sprint(msg, args)) }
	err := set.Check(t.Context(), req)
	if err == nil || !strings.Contains(err.Error(), `interface "if-b": network "net-b" CHECK`) || !strings.Contains(err.Error(), `interface "if-c": it has no network`) {
		t.Error(err)
	}
	if got := s.said(); got != "a CHECK, d CHECK, e CHECK" {
		t.Error(got)
	}
	if err := set.Del(t.Context(), req); err != nil {
		t.Error(err)
	}
	if got := s.said(); got != "e DEL, d DEL, b DEL, a DEL" || len(warnings) != 2 || !strings.Contains(warnings[1], "net-b") || !strings.Contains(warnings[0], "if-c") {
		t.Errorf("%s, %q", got, warnings)
	}
}

// GC and STATUS are the networks', once each; GC's list has the interfaces that the Set has for each container, and
// what the runtime says.
func TestSetOfTheSameNetworks(t *testing.T) {
	t.Parallel()
	s := &spy{}
	set := four(t, s)
	set.Attachments = append(set.Attachments[:2:2], delegate.Attachment{Network: parse(t, `{"cniVersion":"1.1.0","name":"net-a","type":"a"}`), IfName: "second"},
		delegate.Attachment{Network: parse(t, `{"cniVersion":"1.1.0","name":"net-a","type":"c"}`), IfName: "third"})
	req := attach(t)
	if err := set.Status(t.Context(), req); err != nil {
		t.Error(err)
	}
	if got := s.said(); got != "a STATUS, b STATUS, c STATUS" {
		t.Error(got)
	}
	wants(t, set.GC(t.Context(), req), 7, "missing")
	for _, c := range []struct {
		living []types.GCAttachment
		a, b   string
	}{
		{[]types.GCAttachment{}, `[]`, `[]`},
		{[]types.GCAttachment{{ContainerID: "c1", IfName: "eth0"}}, `[{"containerID":"c1","ifname":"if-a"},{"containerID":"c1","ifname":"second"},{"containerID":"c1","ifname":"third"},{"containerID":"c1","ifname":"eth0"}]`,
			`[{"containerID":"c1","ifname":"if-b"},{"containerID":"c1","ifname":"eth0"}]`},
		{[]types.GCAttachment{{ContainerID: "c1", IfName: "if-b"}}, `[{"containerID":"c1","ifname":"if-a"},{"containerID":"c1","ifname":"second"},{"containerID":"c1","ifname":"third"},{"containerID":"c1","ifname":"if-b"}]`,
			`[{"containerID":"c1","ifname":"if-b"}]`},
	} {
		req.Network.ValidAttachments = c.living
		if err := set.GC(t.Context(), req); err != nil {
			t.Error(err)
		}
		for _, call := range s.calls {
			same(t, key(t, call.config, "cni.dev/valid-attachments"), map[string]string{"a": c.a, "c": c.a, "b": c.b}[call.plugin])
		}
		if got := s.said(); got != "a GC, b GC, c GC" {
			t.Error(got)
		}
	}
	if err := (delegate.Set{}).Status(t.Context(), req); err != nil {
		t.Error(err)
	}
}

// The request's arguments are not written to, whatever attachments add, also several at once (run with -race).
func TestSetLeavesTheArguments(t *testing.T) {
	t.Parallel()
	s := &spy{}
	set := four(t, s)
	set.Parallel = 4
	for i := range set.Attachments {
		set.Attachments[i].Args = netconf.Args{"A": fmt.Sprint(i), "N": "x"}
	}
	req := attach(t)
	before := maps.Clone(req.Args)
	for range 20 {
		if _, err := set.Add(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	if !maps.Equal(before, req.Args) {
		t.Errorf("%v", req.Args)
	}
	req.Args = nil
	if _, err := set.Add(t.Context(), req); err != nil || req.Args != nil {
		t.Errorf("%v, %v", err, req.Args)
	}
}
