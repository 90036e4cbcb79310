package selection_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/examples/multinet/selection"
	"github.com/cnikit/cnikit/netconf"
)

func network(t *testing.T, config string) *delegate.Network {
	t.Helper()
	n, err := selection.Network([]byte(config), "net-a", "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A definition that lacks its name or its version has the definition's and the caller's; no other byte changes.
func TestNetwork(t *testing.T) {
	t.Parallel()
	for config, want := range map[string][3]string{
		`{"type":"p","big":9007199254740993}`:                                      {"net-a", "1.0.0", `"type":"p","big":9007199254740993,`},
		`{"cniVersion":"0.3.1","name":"own","type":"p"}`:                           {"own", "0.3.1", `{"cniVersion":"0.3.1","name":"own","type":"p"}`},
		`{"cniVersion":"","name":"","type":"p"}`:                                   {"net-a", "1.0.0", `"type":"p","name"`},
		` {"plugins":[{"type":"p","big":9007199254740993}]}`:                       {"net-a", "1.0.0", `{"type":"p","big":9007199254740993}`},
		`{"cniVersions":["0.4.0","1.1.0"],"name":"l","plugins":[ {"type": "p"} ]}`: {"l", "1.1.0", `{"type": "p"}`},
	} {
		n, err := selection.Network([]byte(config), "net-a", "1.0.0")
		if err != nil {
			t.Errorf("%s: %v", config, err)
			continue
		}
		if got := [3]string{n.Name, n.CNIVersion, string(n.Plugins[0])}; got[0] != want[0] || got[1] != want[1] || !strings.Contains(got[2], want[2]) {
			t.Errorf("%s: %q: expected %q", config, got, want)
		}
	}
}

// A wrong definition is code 7, whatever is wrong with it: it is not the runtime's JSON, nor its version.
func TestNetworkRefuses(t *testing.T) {
	t.Parallel()
	for _, config := range []string{
		"", "null", "[]", "{", `"x"`, "{}", `{"plugins":[]}`, `{"plugins":null}`, `{"plugins":{}}`, `{"plugins":["p"]}`, `{"plugins":[{"master":"p0"}]}`, `{"plugins":[null]}`,
		`{"type":7}`, `{"type":"p","args":[]}`, `{"type":"../p"}`, `{"type":"p","name":7}`, `{"type":"p","name":"a/b"}`, `{"type":"p","cniVersion":1}`, `{"type":"p","cniVersion":"9.9.9"}`,
		`{"plugins":[{"type":"p"}],"cniVersions":"1.0.0"}`, `{"type":"p"} x`,
	} {
		n, err := selection.Network([]byte(config), "net-a", "1.0.0")
		if netconf.Code(err) != netconf.CodeInvalidNetworkConfig || n != nil {
			t.Errorf("%s: %v, code %d, %v", config, n, netconf.Code(err), err)
		}
	}
}

func element(t *testing.T, keys string) selection.Element {
	t.Helper()
	e, err := selection.ParseOne(`[{"name":"net-a"`+keys+`}]`, "ns1")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const every = `,"ips":["10.0.0.5/24"],"mac":"02:00:00:00:00:01","infiniband-guid":"c2:11:22:33:44:55:66:77","portMappings":[{"hostPort":80,"containerPort":80}],"bandwidth":{"ingressRate":1000}`

// What a network has no plugin for fails, and says what and where; a capability that is false is none.
func TestAttachCapabilities(t *testing.T) {
	t.Parallel()
	able := `,"capabilities":{"ips":true,"mac":true,"infinibandGUID":true,"portMappings":true,"bandwidth":true}`
	for _, config := range []string{`{"type":"p"` + able + `}`, `{"plugins":[{"type":"p"},{"type":"q"` + able + `}]}`} {
		a, err := element(t, every).Attach(network(t, config), "net1", selection.Options{})
		if err != nil || len(a.RuntimeConfig) != 5 || a.IfName != "net1" || len(a.Args) != 0 {
			t.Errorf("%s: %+v, %v", config, a, err)
		}
	}
	for _, config := range []string{`{"type":"p"}`, `{"type":"p","capabilities":{"ips":false}}`, `{"plugins":[{"type":"p"},{"type":"q","capabilities":{"dns":true}}]}`} {
		_, err := element(t, every).Attach(network(t, config), "net1", selection.Options{})
		if netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
			t.Errorf("%s: %v", config, err)
			continue
		}
		for _, word := range []string{"ips", "mac", "infinibandGUID", "portMappings", "bandwidth", "ns1/net-a"} {
			if !strings.Contains(err.Error(), `"`+word+`"`) {
				t.Errorf("%s: %v: expected %q", config, err, word)
			}
		}
	}
}

// legacyRequests passes on in CNI_ARGS what multus does, where no plugin has the capability, and nothing else.
func TestAttachLegacy(t *testing.T) {
	t.Parallel()
	e := element(t, `,"ips":["10.0.0.5/24","fd00::5"],"mac":"02:00:00:00:00:01"`)
	a, err := e.Attach(network(t, `{"type":"p","capabilities":{"mac":true}}`), "net1", selection.Options{Legacy: true})
	if err != nil || a.Args["IP"] != "10.0.0.5/24,fd00::5" || a.Args["MAC"] != "" || len(a.RuntimeConfig) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err = e.Attach(network(t, `{"type":"p"}`), "net1", selection.Options{Legacy: true}); err != nil || a.Args["MAC"] != "02:00:00:00:00:01" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := element(t, every).Attach(network(t, `{"type":"p"}`), "net1", selection.Options{Legacy: true}); err == nil {
		t.Error("there is no variable for port mappings")
	}
}

// cni-args go into args.cni of every plugin, over what is there, and no other byte changes.
func TestAttachArgs(t *testing.T) {
	t.Parallel()
	e := element(t, `,"cni-args":{"a":9007199254740993,"b":{"x":[]}}`)
	n := network(t, `{"plugins":[{"type":"p","z":1.10}, {"type":"q","args":{"other":1,"cni":{"a":1,"c":2}}},{"type":"r","args":null}]}`)
	before := slices.Clone(n.Plugins)
	a, err := e.Attach(n, "net1", selection.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		`{"type":"p","z":1.10,"args":{"cni":{"a":9007199254740993,"b":{"x":[]}}}}`,
		`{"type":"q","args":{"other":1,"cni":{"c":2,"a":9007199254740993,"b":{"x":[]}}}}`,
		`{"type":"r","args":{"cni":{"a":9007199254740993,"b":{"x":[]}}}}`,
	} {
		if got := string(a.Network.Plugins[i]); got != want {
			t.Errorf("%s\nexpected\n%s", got, want)
		}
		if string(n.Plugins[i]) != string(before[i]) {
			t.Errorf("the definition was changed: %s", n.Plugins[i])
		}
	}
	for _, args := range []string{`{"cni":"x"}`, `{"cni":[]}`, `{"cni":7}`} {
		if _, err := e.Attach(network(t, `{"type":"p","args":`+args+`}`), "net1", selection.Options{}); netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
			t.Errorf("args %s: %v", args, err)
		}
	}
}

// The node's device goes before one that the pod names; without a resource the pod's goes by the capability alone.
func TestAttachDevice(t *testing.T) {
	t.Parallel()
	e := element(t, `,"deviceID":"mine"`)
	a, err := e.Attach(network(t, `{"type":"p","deviceID":"given","capabilities":{"deviceID":true}}`), "net1", selection.Options{Device: "given", DeviceInfoFile: "/f"})
	if err != nil || string(a.RuntimeConfig["deviceID"]) != `"given"` || string(a.RuntimeConfig["CNIDeviceInfoFile"]) != `"/f"` {
		t.Errorf("%s, %v", a.RuntimeConfig, err)
	}
	if a, err = e.Attach(network(t, `{"type":"p","capabilities":{"deviceID":true}}`), "net1", selection.Options{}); err != nil || string(a.RuntimeConfig["deviceID"]) != `"mine"` {
		t.Errorf("%s, %v", a.RuntimeConfig, err)
	}
	if _, err = e.Attach(network(t, `{"type":"p"}`), "net1", selection.Options{}); err == nil {
		t.Error("a device that no plugin is told of")
	}
}

// Whatever a definition holds: an error with code 7, or a network that can be written down and read again.
func FuzzNetwork(f *testing.F) {
	for _, seed := range []string{`{"type":"p"}`, `{"plugins":[{"type":"p","args":{"cni":{}}}]}`, `{"name":null,"type":"p"}`, "null", `{"plugins":[]}`, `{"type":"p","args":[]}`} {
		f.Add(seed, `,"cni-args":{"a":1}`)
	}
	f.Fuzz(func(t *testing.T, config, keys string) {
		n, err := selection.Network([]byte(config), "net-a", "1.0.0")
		if err != nil {
			if netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
				t.Fatal(err)
			}
			return
		}
		e, err := selection.ParseOne(`[{"name":"net-a"`+keys+`}]`, "ns1")
		if err != nil {
			return
		}
		a, err := e.Attach(n, "net1", selection.Options{})
		if err != nil {
			if netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
				t.Fatal(err)
			}
			return
		}
		text, err := a.Network.Bytes()
		if err != nil || !json.Valid(text) {
			t.Fatalf("%s, %v", text, err)
		}
		if _, err := delegate.ParseNetwork(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	})
}

// The place of a network's default routes is told to all its plugins, unless the definition says it itself, or has args that
// take none; no other byte is changed, and the definition is none.
func TestAttachDefaultMetric(t *testing.T) {
	t.Parallel()
	for plugin, want := range map[string]string{
		`{"type":"a", "big":9007199254740993}`:             `"args":{"cni":{"defaultMetric":4098}}`,
		`{"type":"a","args":{"cni":{"ips":["10.0.0.1"]}}}`: `"args":{"cni":{"ips":["10.0.0.1"],"defaultMetric":4098}}`,
		`{"type":"a","args":{"cni":{"defaultMetric":7}}}`:  `"args":{"cni":{"defaultMetric":7}}`,
		`{"type":"a","args":{"cni":"text"}}`:               `"args":{"cni":"text"}`,
		`{"type":"a","args":{"x":{"y":1}}}`:                `"x":{"y":1}`,
	} {
		n, err := selection.Network([]byte(`{"cniVersion":"1.0.0","name":"n","plugins":[`+plugin+`]}`), "", "1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		before := string(n.Plugins[0])
		a, err := selection.Element{Name: "n"}.Attach(n, "net2", selection.Options{DefaultMetric: 4098})
		if err != nil {
			t.Errorf("%s: %v", plugin, err)
		}
		if got := string(a.Network.Plugins[0]); !strings.Contains(got, want) || strings.Contains(plugin, "big") && !strings.Contains(got, " \"big\":9007199254740993") {
			t.Errorf("%s: %s", plugin, got)
		}
		if string(n.Plugins[0]) != before {
			t.Errorf("%s: the definition is changed: %s", plugin, n.Plugins[0])
		}
	}
}
