package delegate_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// The life of an attachment: each ADD gets the answer of the one before, CHECK and DEL the last one, DEL in reverse.
func TestNetworkVerbs(t *testing.T) {
	t.Parallel()
	s := &spy{}
	r, n, req := s.plugins("a", "b", "c"), abc(t, "1.1.0"), attach(t)
	result, err := n.Add(t.Context(), r, req)
	if err != nil || len(result.Interfaces) != 3 || len(result.IPs) != 3 || *result.IPs[2].Interface != 2 {
		t.Fatalf("%+v, %v", result.Result, err)
	}
	var prevs []string
	for _, c := range s.calls {
		prevs = append(prevs, fmt.Sprint(strings.Count(key(t, c.config, "prevResult"), `"sandbox"`)))
		if key(t, c.config, "name") != `"lan"` || key(t, c.config, "cniVersion") != `"1.1.0"` {
			t.Errorf("%s", c.config)
		}
	}
	if got := s.said() + " " + strings.Join(prevs, " "); got != "a ADD, b ADD, c ADD 0 1 2" {
		t.Error(got)
	}
	if req.Prev != nil || len(req.Result.Interfaces) != 0 || req.Network.Name != "outer" {
		t.Errorf("the request was changed: %+v", req)
	}
	if err := req.SetPrev(result.JSON); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		verb func(context.Context, delegate.Registry, *netconf.Request) error
		want string
		prev bool
	}{
		{n.Check, "a CHECK, b CHECK, c CHECK", true}, {n.Del, "c DEL, b DEL, a DEL", true}, {n.Status, "a STATUS, b STATUS, c STATUS", false},
	} {
		if err := c.verb(t.Context(), r, req); err != nil {
			t.Error(err)
		}
		for _, call := range s.calls {
			prev := key(t, call.config, "prevResult")
			if c.prev {
				same(t, prev, string(result.JSON))
			} else if prev != "" || slices.ContainsFunc(call.env, func(kv string) bool {
				return strings.HasPrefix(kv, "CNI_IFNAME") || strings.HasPrefix(kv, "CNI_NETNS=")
			}) {
				t.Errorf("%s: %q, %q", call, call.env, prev)
			}
		}
		if got := s.said(); got != c.want {
			t.Errorf("%s: expected %s", got, c.want)
		}
	}
}

// At whichever plugin an ADD fails, that one and all before it get a DEL in reverse, with the last good answer.
func TestFailedAddOfANetwork(t *testing.T) {
	t.Parallel()
	full := netconf.Errorf(101, "full")
	for _, c := range []struct {
		name, fails string
		version     string // empty: 1.1.0
		err, del    error
		want        string
		prev        string // how many interfaces the DELs' prevResult has; "" is no prevResult
		code        uint
		unchanged   bool
	}{
		{"the first", "a", "", full, nil, "a ADD, a DEL", "", 101, false},
		{"the second", "b", "", full, nil, "a ADD, b ADD, b DEL, a DEL", "1", 101, false},
		{"the last", "c", "", full, nil, "a ADD, b ADD, c ADD, c DEL, b DEL, a DEL", "2", 101, false},
		{"the DELs fail too", "c", "", full, errors.New("stuck"), "a ADD, b ADD, c ADD, c DEL, b DEL, a DEL", "2", 101, false},
		{"the first is there already", "a", "", netconf.ErrExists, nil, "a ADD", "", 100, true},
		{"the last is there already", "c", "", netconf.ErrExists, nil, "a ADD, b ADD, c ADD, b DEL, a DEL", "2", 100, false},
		{"the last changed nothing", "c", "", netconf.Unchanged(full), nil, "a ADD, b ADD, c ADD, b DEL, a DEL", "2", 101, false},
		{"in a version whose DEL has no prevResult", "c", "0.3.1", full, nil, "a ADD, b ADD, c ADD, c DEL, b DEL, a DEL", "", 101, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := &spy{answer: func(ctx context.Context, name string, req *netconf.Request) error {
				switch {
				case req.Command == netconf.Del:
					if _, limited := ctx.Deadline(); ctx.Err() != nil || !limited {
						t.Errorf("DEL has no time of its own: %v", ctx.Err())
					}
					return c.del
				case name == c.fails:
					cancel() // as if the ADD had failed for that
					return c.err
				}
				return grow(ctx, name, req)
			}}
			_, err := abc(t, cmp.Or(c.version, "1.1.0")).Add(ctx, s.plugins("a", "b", "c"), attach(t))
			wants(t, err, c.code, fmt.Sprintf(`delegate %q ADD, network "lan"`, c.fails))
			for _, call := range s.calls {
				if prev := key(t, call.config, "prevResult"); call.verb == netconf.Del && (prev == "") != (c.prev == "") ||
					call.verb == netconf.Del && prev != "" && fmt.Sprint(strings.Count(prev, `"sandbox"`)) != c.prev {
					t.Errorf("%s: prevResult %s", call, prev)
				}
			}
			if got := s.said(); got != c.want {
				t.Errorf("%s: expected %s", got, c.want)
			}
			if netconf.IsUnchanged(err) != c.unchanged || delegate.NotRun(err) {
				t.Errorf("%v: unchanged %v, not run %v", err, netconf.IsUnchanged(err), delegate.NotRun(err))
			}
			if c.del != nil && strings.Count(err.Error(), "stuck") != 3 {
				t.Errorf("%v: expected all that was stuck", err)
			}
			var own *delegate.Error
			var coded *types.Error
			if !errors.As(err, &own) || own.Plugin != c.fails || !errors.As(err, &coded) || coded.Code != c.code {
				t.Errorf("%+v, %+v", own, coded)
			}
		})
	}
}

// A program that is missing: at ADD what was made before is undone and nothing is said to be untouched; at DEL the
// others do their work, and a second DEL mends it.
func TestMissingProgramOfANetwork(t *testing.T) {
	t.Parallel()
	dir := program(t, `touch "$0.$CNI_COMMAND"; echo {}`)
	s := &spy{}
	n, r := parse(t, `{"cniVersion":"1.1.0","name":"lan","plugins":[{"type":"a"},{"type":"fake"},{"type":"c"}]}`), s.plugins("a", "c")
	_, err := n.Add(t.Context(), r, attach(t, t.TempDir()))
	wants(t, err, 5, `delegate "fake" ADD, network "lan"`, "no such program")
	if got := s.said(); got != "a ADD, a DEL" || delegate.NotRun(err) || !errors.Is(err, delegate.ErrNotFound) {
		t.Errorf("%s; %v: not run %v", got, err, delegate.NotRun(err))
	}
	err = n.Del(t.Context(), r, attach(t, t.TempDir()))
	wants(t, err, 5, `delegate "fake" DEL, network "lan"`, "no such program")
	if got := s.said(); got != "c DEL, a DEL" {
		t.Error(got)
	}
	if err := n.Del(t.Context(), r, attach(t, dir)); err != nil || s.said() != "c DEL, a DEL" {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "fake.DEL")); err != nil {
		t.Error(err)
	}
	first := parse(t, `{"cniVersion":"1.1.0","name":"lan","plugins":[{"type":"fake"}]}`)
	if _, err := first.Add(t.Context(), r, attach(t, t.TempDir())); !delegate.NotRun(err) {
		t.Errorf("%v: expected that nothing has run", err)
	}
}

// All are tried, and each has its part of the time, whatever the others take or answer.
func TestDelOfANetworkTriesAll(t *testing.T) {
	t.Parallel()
	for verb, want := range map[netconf.Command]string{netconf.Del: "c DEL, b DEL, a DEL", netconf.GC: "a GC, b GC, c GC"} {
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour) // so long that the machine's load is nothing
		defer cancel()
		left := 3
		s := &spy{answer: func(ctx context.Context, name string, req *netconf.Request) error {
			end, _ := ctx.Deadline()
			if hours := time.Until(end).Hours(); hours < 5.9/float64(left) || hours > 6.1/float64(left) {
				t.Errorf("%s %s has %v hours, with %d left to do", name, verb, hours, left)
			}
			if left--; name == "b" {
				return netconf.Errorf(105, "store is locked")
			}
			return netconf.Errorf(101, "%s is full", name)
		}}
		req := attach(t)
		req.Network.ValidAttachments = []types.GCAttachment{}
		n := abc(t, "1.1.0")
		run := n.Del
		if verb == netconf.GC {
			run = n.GC
		}
		wants(t, run(ctx, s.plugins("a", "b", "c"), req), 101, `delegate "a" `+string(verb), "a is full", "store is locked", "c is full")
		if got := s.said(); got != want {
			t.Errorf("%s: expected %s", got, want)
		}
	}
}

// CHECK and STATUS end at the first error.
func TestFirstErrorCounts(t *testing.T) {
	t.Parallel()
	s := &spy{answer: func(_ context.Context, name string, _ *netconf.Request) error {
		if name == "b" {
			return netconf.Errorf(51, "half")
		}
		return nil
	}}
	n := abc(t, "1.1.0")
	wants(t, n.Check(t.Context(), s.plugins("a", "b", "c"), attach(t)), 51, `delegate "b" CHECK`)
	wants(t, n.Status(t.Context(), s.plugins("a", "b", "c"), attach(t)), 51, `delegate "b" STATUS`)
	if got := s.said(); got != "a CHECK, b CHECK, a STATUS, b STATUS" {
		t.Error(got)
	}
}

// What is not to be sent is not sent: by the configuration, by the version.
func TestVerbsOfANetworkThatAreNotSent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ keys, want string }{
		{`"cniVersion":"1.1.0"`, "CHECK GC STATUS"}, {`"cniVersion":"1.1.0","disableCheck":true`, "GC STATUS"},
		{`"cniVersion":"1.1.0","disableGC":"true"`, "CHECK STATUS"}, {`"cniVersion":"1.0.0"`, "CHECK"}, {`"cniVersion":"0.3.1"`, ""}, {`"dns":{}`, ""},
	} {
		s := &spy{}
		n := parse(t, `{"name":"lan",`+c.keys+`,"plugins":[{"type":"a"}]}`)
		req := attach(t)
		req.Network.ValidAttachments = []types.GCAttachment{}
		for _, run := range []func(context.Context, delegate.Registry, *netconf.Request) error{n.Check, n.GC, n.Status} {
			if err := run(t.Context(), s.plugins("a"), req); err != nil {
				t.Error(err)
			}
		}
		if got := strings.ReplaceAll(strings.ReplaceAll(s.said(), "a ", ""), ",", ""); got != c.want {
			t.Errorf("%s: %q: expected %q", c.keys, got, c.want)
		}
	}
}

func TestGCOfANetwork(t *testing.T) {
	t.Parallel()
	s := &spy{}
	n, req := abc(t, "1.1.0"), attach(t)
	wants(t, n.GC(t.Context(), s.plugins("a", "b", "c"), req), 7, `network "lan" GC`, "missing")
	if got := s.said(); got != "" {
		t.Errorf("%s: without a list nothing may be run", got)
	}
	for _, list := range [][]types.GCAttachment{{}, {{ContainerID: "c1", IfName: "eth0"}}} {
		req.Network.ValidAttachments = list
		if err := n.GC(t.Context(), s.plugins("a", "b", "c"), req); err != nil {
			t.Error(err)
		}
		want, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.calls {
			same(t, key(t, c.config, "cni.dev/valid-attachments"), string(want))
			same(t, key(t, c.config, "cni.dev/attachments"), string(want))
			if key(t, c.config, "runtimeConfig") != "" || strings.Contains(fmt.Sprint(c.env), "CNI_CONTAINERID") || strings.Contains(fmt.Sprint(c.env), "CNI_ARGS") {
				t.Errorf("%s: the attachment's: %s %q", c, c.config, c.env)
			}
		}
		if got := s.said(); got != "a GC, b GC, c GC" {
			t.Error(got)
		}
	}
}

// What a plugin declares it gets, in ADD, CHECK and DEL alike; and no other byte of its configuration changes.
func TestConfigurationOfAPlugin(t *testing.T) {
	t.Parallel()
	s := &spy{}
	n := parse(t, "{\"cniVersion\":\"1.1.0\",\"name\":\"lan\",\"plugins\":["+
		"{ \"type\":\"a\",\n\t\"z\":9007199254740993, \"e\": 1E21, \"capabilities\":{\"mac\":true,\"x\":true,\"ips\":false,\"none\":true}},"+
		`{"type":"b","name":"other","cniVersion":"0.1.0","prevResult":{"old":1},"runtimeConfig":{"own":1}}]}`)
	r, req := s.plugins("a", "b"), attach(t)
	if _, err := n.Add(t.Context(), r, req); err != nil {
		t.Fatal(err)
	}
	for _, run := range []func(context.Context, delegate.Registry, *netconf.Request) error{n.Check, n.Del, n.Status} {
		if err := run(t.Context(), r, req); err != nil {
			t.Error(err)
		}
	}
	for _, c := range s.calls {
		switch {
		case c.plugin == "a" && !strings.HasPrefix(c.config, "{ \"type\":\"a\",\n\t\"z\":9007199254740993, \"e\": 1E21, \"capabilities\":{"):
			t.Errorf("other bytes have changed: %s", c.config)
		case c.plugin == "a" && c.verb != netconf.Status && key(t, c.config, "runtimeConfig") != `{"mac":"02:00:00:00:00:01","x":9007199254740993}`:
			t.Errorf("%s: %s", c, c.config)
		case c.plugin == "b" && (key(t, c.config, "runtimeConfig") != `{"own":1}` || key(t, c.config, "name") != `"lan"` ||
			key(t, c.config, "cniVersion") != `"1.1.0"` || strings.Contains(c.config, "old")):
			t.Errorf("%s: %s", c, c.config)
		}
	}
}

// Nothing is run for a call that is wrong; DEL takes away what it can.
func TestNetworkThatIsNone(t *testing.T) {
	t.Parallel()
	plugins := func(texts ...string) (all []json.RawMessage) {
		for _, text := range texts {
			all = append(all, json.RawMessage(text))
		}
		return all
	}
	for _, c := range []struct {
		name  string
		n     delegate.Network
		alter func(*netconf.Request)
		code  uint
		words string
		del   string
	}{
		{"no name", delegate.Network{CNIVersion: "1.1.0", Plugins: plugins(`{"type":"a"}`)}, nil, 7, "network name", "a DEL"},
		{"no plugins", delegate.Network{Name: "lan", CNIVersion: "1.1.0"}, nil, 7, "no plugins", ""},
		{"no types", delegate.Network{Name: "lan", CNIVersion: "1.1.0", Plugins: plugins(`{"type":"a"}`, `{}`, `null`, `{`, ``, `{"type":"b/c"}`)}, nil, 7, "plugins[5]: type", "a DEL"},
		{"no version", delegate.Network{Name: "lan", CNIVersion: "1.9.0", Plugins: plugins(`{"type":"a"}`)}, nil, 1, "1.9.0", "a DEL"},
		{"no container", delegate.Network{Name: "lan", CNIVersion: "1.1.0", Plugins: plugins(`{"type":"a"}`)}, func(r *netconf.Request) { r.ContainerID = "" }, 4, "container ID", "a DEL"},
		{"no interface", delegate.Network{Name: "lan", CNIVersion: "1.1.0", Plugins: plugins(`{"type":"a"}`)}, func(r *netconf.Request) { r.IfName = "a/b" }, 4, "interface name", "a DEL"},
		{"a key of the wrong type", delegate.Network{Name: "lan", CNIVersion: "1.1.0", Plugins: plugins(`{"type":"a","ipam":5}`)}, nil, 6, "ipam", "a DEL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &spy{}
			r, req := s.plugins("a"), attach(t)
			if c.alter != nil {
				c.alter(req)
			}
			_, err := c.n.Add(t.Context(), r, req)
			if wants(t, err, c.code, c.words, "ADD"); s.said() != "" {
				t.Error("something was run")
			}
			err = c.n.Check(t.Context(), r, req)
			if wants(t, err, c.code, c.words, "CHECK"); s.said() != "" {
				t.Error("something was run")
			}
			warned := ""
			req.Warn = func(msg string, args ...any) { warned += msg + fmt.Sprintln(args...) }
			if err := c.n.Del(t.Context(), r, req); err != nil {
				t.Error(err)
			}
			for _, call := range s.calls {
				if key(t, call.config, "cniVersion") != `"1.1.0"` {
					t.Errorf("DEL in another version: %s", call.config)
				}
			}
			if got := s.said(); got != c.del || strings.Contains(c.name, "types") && strings.Count(warned, "names no plugin") != 5 {
				t.Errorf("%q, warned %s", got, warned)
			}
		})
	}
}

// What an ADD refuses keeps no DEL from its end.
func TestDelWithRuntimeConfigThatIsNotJSON(t *testing.T) {
	t.Parallel()
	s := &spy{}
	set := four(t, s)
	set.Attachments = set.Attachments[3:]
	set.Attachments[0].RuntimeConfig = map[string]json.RawMessage{"mac": json.RawMessage("02:00"), "x": json.RawMessage("7")}
	set.Attachments[0].Network = parse(t, `{"cniVersion":"1.1.0","name":"net-d","type":"d","capabilities":{"mac":true,"x":true}}`)
	req := attach(t)
	warnings := heard(req)
	if err := set.Del(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if got := key(t, s.calls[0].config, "runtimeConfig"); got != `{"x":7}` || len(*warnings) != 1 || !strings.Contains((*warnings)[0], "mac") {
		t.Errorf("%s, %q", got, *warnings)
	}
	if err := set.Check(t.Context(), req); err == nil {
		t.Error("CHECK with it succeeds")
	}
}
