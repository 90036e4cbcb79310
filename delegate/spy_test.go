package delegate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// spy is what some plugins are called with, and answers for them.
type spy struct {
	mu    sync.Mutex
	calls []seen
	// answer makes a call's answer; nil is what chained plugins do: an interface of the plugin's name is added.
	answer func(ctx context.Context, name string, req *netconf.Request) error
}

// seen is one call of a plugin.
type seen struct {
	plugin string
	verb   netconf.Command
	env    []string
	config string
}

func (s seen) String() string { return s.plugin + " " + string(s.verb) }

// plugins is a registry of Go values that the spy stands behind.
func (s *spy) plugins(names ...string) delegate.Registry {
	r := delegate.Registry{}
	for _, name := range names {
		r[name] = func(ctx context.Context, req *netconf.Request) error {
			s.mu.Lock()
			s.calls = append(s.calls, seen{name, req.Command, req.Env(), string(req.Config)})
			s.mu.Unlock()
			if s.answer != nil {
				return s.answer(ctx, name, req)
			}
			return grow(ctx, name, req)
		}
	}
	return r
}

// grow adds an interface with an address.
func grow(_ context.Context, name string, req *netconf.Request) error {
	if req.Command == netconf.Add {
		i := req.AddInterface(&types100.Interface{Name: name, Sandbox: req.Netns})
		req.AddIP(i, net.IPNet{IP: net.IPv4(10, 0, 0, name[0]), Mask: net.CIDRMask(24, 32)}, nil)
	}
	return nil
}

// said lists the calls, "a ADD" say, and forgets them.
func (s *spy) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]string, len(s.calls))
	for i, c := range s.calls {
		all[i] = c.String()
	}
	s.calls = nil
	return strings.Join(all, ", ")
}

// key is a key of a configuration, as it stands there; "" where it is not.
func key(t *testing.T, config, name string) string {
	t.Helper()
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(config), &keys); err != nil {
		t.Fatalf("%v: %s", err, config)
	}
	return string(keys[name])
}

// parse reads a network.
func parse(t *testing.T, text string) *delegate.Network {
	t.Helper()
	n, err := delegate.ParseNetwork([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// abc is a list of three plugins.
func abc(t *testing.T, version string) *delegate.Network {
	t.Helper()
	return parse(t, fmt.Sprintf(`{"cniVersion":%q,"name":"lan","plugins":[{"type":"a"},{"type":"b"},{"type":"c"}]}`, version))
}

// attach makes a request for a network: what stands in its configuration is the caller's own, and not the plugins'.
func attach(t *testing.T, dirs ...string) *netconf.Request {
	t.Helper()
	return call(t, netconf.Add, `{"cniVersion":"1.0.0","name":"outer","type":"meta","runtimeConfig":{"mac":"02:00:00:00:00:01","ips":["10.0.0.9/24"],"x":9007199254740993}}`, dirs...)
}

// same compares two JSON texts.
func same(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%v: %s", err, want)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
