package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

func TestHelpsExample(t *testing.T) {
	t.Parallel()
	if err := plugin().CheckExample(); err != nil {
		t.Error(err)
	}
}

func TestGlobalNamespaces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{"": {}, "default": {"default"}, " a, b ,,c ": {"a", "b", "c"}, ",": {}} {
		n := names{"before"}
		if err := n.UnmarshalText([]byte(text)); err != nil || !slices.Equal(n, want) {
			t.Errorf("%q: %q, %v: expected %q", text, n, err, want)
		}
	}
}

// multus' keys become the SDK's; what is no level is none, so that it is not said twice.
func TestLogConfig(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		`{}`: `{}`,
		`{"logFile":"/var/log/multus.log","logLevel":"verbose"}`: `{"file":"/var/log/multus.log","level":"info"}`,
		`{"logLevel":"panic"}`: `{"level":"error"}`,
		`{"logLevel":"debug"}`: `{"level":"debug"}`,
		`{"logFile":7}`:        ``,
		`{`:                    ``,
	} {
		if got := string(logConfig(json.RawMessage(config))); got != want {
			t.Errorf("%s: %s: expected %s", config, got, want)
		}
	}
}

// Whatever stands in multus' record: an error, or networks that can be detached.
func FuzzFromMultus(f *testing.F) {
	for _, seed := range []string{`[{"Name":"ns1/a","Bytes":"eyJ0eXBlIjoicCJ9","ipRequest":["10.0.0.1/8"],"macRequest":"x;y=z"},{"Bytes":"eyJ0eXBlIjoicCJ9"}]`, "[]", "null", "[null]", "", `[{"Bytes":7}]`, `[{"CNINetworkConfigList":{"Name":"a","Plugins":[{"Bytes":"eyJ0eXBlIjoicCJ9"},{}]}}]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		req := &netconf.Request{Command: netconf.Del, ContainerID: "c1", IfName: "eth0", Network: netconf.Network{Name: "outer", CNIVersion: "1.0.0"}}
		all, err := fromMultus([]byte(text), req)
		if err != nil {
			return
		}
		if len(all) == 0 || all[0].IfName != "eth0" {
			t.Fatalf("%+v", all)
		}
		for _, a := range all {
			if a.Network == nil || a.IfName == "" || strings.TrimSpace(a.Network.Name) == "" {
				t.Fatalf("%+v", a)
			}
		}
	})
}
