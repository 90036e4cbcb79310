package delegate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// The shapes of case C-CONF-05, and more of their kind: an error that names the key and its place, never a panic.
func TestOddNetworks(t *testing.T) {
	t.Parallel()
	const head = `{"cniVersion":"1.1.0","name":"n",`
	for _, c := range []struct {
		text  string
		code  uint
		words []string
	}{
		{head + `"plugins":[]}`, 7, []string{"plugins (line 1, column 44)", "empty"}},
		{head + `"plugins":null}`, 7, []string{"plugins (line 1", "expected a list of plugins"}},
		{head + `"plugins":{}}`, 7, []string{"plugins (line 1", "expected a list of plugins"}},
		{head + `"plugins":"x"}`, 7, []string{"expected a list of plugins"}},
		{head + `"plugins":1}`, 7, []string{"expected a list of plugins"}},
		{head + `"plugins":["macvlan"]}`, 7, []string{"plugins[0] (line 1, column 45)", "expected an object, got a string"}},
		{head + `"plugins":[null]}`, 7, []string{"plugins[0]", "expected an object, got null"}},
		{head + `"plugins":[[]]}`, 7, []string{"plugins[0]", "expected an object"}},
		{head + `"plugins":[{"type":"a"},{"master":"p0"}]}`, 7, []string{"plugins[1].type", "missing"}},
		{head + `"plugins":[{"type":5}]}`, 7, []string{"plugins[0].type (line 1, column 53)", "string"}},
		{head + `"plugins":[{"type":"a/b"}]}`, 7, []string{"plugins[0].type", "not the name of a plugin"}},
		{head + `"plugins":[{"type":null}]}`, 7, []string{"plugins[0].type", "missing"}},
		{head + `"plugins":[{"type":"a","capabilities":["mac"]}]}`, 6, []string{"plugins[0].capabilities (line 1, column 72)"}},
		{head + `"plugins":[{"type":"a","ipam":5}]}`, 6, []string{"plugins[0].ipam"}},
		{head + `"loadOnlyInlinedPlugins":true,"plugins":[]}`, 7, []string{"plugins", "empty"}},
		{head + `"loadOnlyInlinedPlugins":true}`, 7, []string{"loadOnlyInlinedPlugins", "plugins"}},
		{head + `"disableCheck":"yes","disableGC":1,"plugins":[{"type":"a"}]}`, 6, []string{"disableCheck", "disableGC", "true or false"}},
		{head + `"disableCheck":null,"plugins":[{"type":"a"}]}`, 6, []string{"disableCheck"}},
		{`{"cniVersion":"1.1.0","name":"n"}`, 7, []string{"plugins", "missing"}},
		{`{"name":"n","plugins":[{"type":"a"}],"cniVersions":"1.1.0"}`, 6, []string{"cniVersions", "list of strings"}},
		{`{"name":"n","plugins":[{"type":"a"}],"cniVersions":null}`, 6, []string{"cniVersions"}},
		{`{"name":"n","plugins":[{"type":"a"}],"cniVersions":["1.1.0",null]}`, 6, []string{"cniVersions[1]"}},
		{`{"name":"n","plugins":[{"type":"a"}],"cniVersions":["1.1.0","new"]}`, 7, []string{"cniVersions[1]", `"new"`}},
		{`{"name":"n","plugins":[{"type":"a"}],"cniVersion":1}`, 6, []string{"cniVersion", "string"}},
		{`{"name":"n","plugins":[{"type":"a"}],"cniVersion":null}`, 6, []string{"cniVersion", "string"}},
		{`{"plugins":[{"type":"a"}]}`, 7, []string{"name", "missing"}},
		{`{"name":"../up","plugins":[{"type":"a"}]}`, 7, []string{"name", "../up"}},
		{`{"name":5,"plugins":[{"type":"a"}]}`, 6, []string{"name", "string"}},
		{`{"type":5,"name":"n"}`, 7, []string{"type", "string"}},
		{" {\n\"type\":\"\",\"name\":\"n\"}", 7, []string{"type (line 2, column 8)", "missing"}},
		{`{"type":"a"}`, 7, []string{"name", "missing"}},
		{`{"type":"a","name":"n","dns":4}`, 6, []string{"dns"}},
		{`{"type":"a","name":4}`, 6, []string{"name"}},
		{`{"type":4,"name":4}`, 6, []string{"name", "type"}},
		{`{}`, 7, []string{"name", "missing"}},
		{`null`, 7, []string{"expected an object, got null"}},
		{`[]`, 7, []string{"expected an object"}},
		{`"x"`, 7, []string{"expected an object"}},
		{``, 6, []string{"empty"}},
		{`{"name":"n","plugins":[`, 6, []string{"line 1"}},
		{head + `"plugins":[{"type":"a"}]} x`, 6, []string{"nothing after it"}},
		{"\xef\xbb\xbf{}", 6, []string{"byte-order mark"}},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			n, err := delegate.ParseNetwork([]byte(c.text))
			if n != nil {
				t.Errorf("a network: %+v", n)
			}
			wants(t, err, c.code, c.words...)
		})
	}
}

// Whatever is wrong is told at once.
func TestAllErrorsOfANetwork(t *testing.T) {
	t.Parallel()
	_, err := delegate.ParseNetwork([]byte(`{"name":"-","disableGC":"no","plugins":[{"type":"a","ipam":1,"dns":2},3,{}]}`))
	wants(t, err, 7, "network name", "disableGC", "plugins[0].ipam", "plugins[0].dns", "plugins[1]", "plugins[2].type")
}

// Each error costs a walk through the text: of very many the first are told, or 260 kB would take minutes.
func TestVeryManyErrorsOfANetwork(t *testing.T) {
	t.Parallel()
	_, err := delegate.ParseNetwork([]byte(`{"name":"n","plugins":[1` + strings.Repeat(",1", 100_000) + `]}`))
	wants(t, err, 7, "plugins[0]")
	if n := strings.Count(err.Error(), "plugins["); n != 20 {
		t.Errorf("%d errors: expected 20", n)
	}
}

// The bytes of a plugin's configuration are those of the text.
func TestPluginBytes(t *testing.T) {
	t.Parallel()
	one := "{ \"type\" : \"a\",\n\t\"n\":9007199254740993, \"e\": 1E21, \"s\":\"<\\u0041&>\", \"n\":1 }"
	n := parse(t, "{\"name\":\"lan\",\n \"plugins\" : [ "+one+" ,\n"+one+"]}")
	if len(n.Plugins) != 2 || string(n.Plugins[0]) != one || string(n.Plugins[1]) != one {
		t.Errorf("%q", n.Plugins)
	}
	single := " " + strings.Replace(one, "{", `{"name":"lan","cniVersion":"0.4.0",`, 1) + "\n"
	n = parse(t, single)
	if len(n.Plugins) != 1 || string(n.Plugins[0]) != single || n.CNIVersion != "0.4.0" || n.Name != "lan" {
		t.Errorf("%+v", n)
	}
	text := []byte(`{"name":"lan","plugins":[{"type":"a"}]}`)
	if n = parse(t, string(text)); n.CNIVersion != "" || len(n.CNIVersions) != 0 || n.DisableCheck || n.DisableGC {
		t.Errorf("%+v", n)
	}
}

func TestVersionsOfANetwork(t *testing.T) {
	t.Parallel()
	const all = `"cniVersions":["0.3.1","1.1.0","0.4.0"]`
	for _, c := range []struct {
		keys      string
		supported []string // of another choice; nil: as ParseNetwork chose
		want      string   // "": an error of code 1
	}{
		{`"cniVersion":"0.4.0"`, nil, "0.4.0"},
		{`"cniVersion":"0.4.0",` + all, nil, "1.1.0"},
		{all, nil, "1.1.0"},
		{`"cniVersion":"1.0.0","cniVersions":["0.4.0"]`, nil, "1.0.0"},
		{`"cniVersion":"1.0.0","cniVersions":[]`, nil, "1.0.0"},
		{`"cniVersion":"1.2.0","cniVersions":["0.4.0","2.0.0"]`, nil, "0.4.0"},
		{`"cniVersions":["1.1.0","0.5.0","0.4.7"]`, nil, "1.1.0"},
		{`"cniVersion":"1.2.0"`, nil, "1.2.0"},
		{`"cniVersions":["1.2.0"]`, nil, "1.2.0"},
		{`"cniVersions":["0.10.0"],"cniVersion":"0.4.0"`, nil, "0.4.0"},
		{`"cniVersion":"0.4.0",` + all, []string{"0.3.1", "0.4.0", "1.0.0"}, "0.4.0"},
		{all, []string{"0.3.1"}, "0.3.1"},
		{all, []string{"1.0.0"}, ""},
		{`"cniVersion":"0.4.0"`, []string{"1.0.0"}, ""},
		{`"dns":{}`, []string{"0.1.0"}, "0.1.0"},
		{`"dns":{}`, []string{"1.0.0"}, ""},
	} {
		t.Run(c.keys+fmt.Sprint(c.supported), func(t *testing.T) {
			t.Parallel()
			n := parse(t, `{"name":"lan",`+c.keys+`,"plugins":[{"type":"a"}]}`)
			before := n.CNIVersion
			if c.supported != nil {
				err := n.Choose(c.supported...)
				if c.want == "" {
					if wants(t, err, 1, "lan"); n.CNIVersion != before {
						t.Errorf("version %q after an error", n.CNIVersion)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if n.CNIVersion != c.want {
				t.Errorf("version %q: expected %q", n.CNIVersion, c.want)
			}
		})
	}
	single := parse(t, `{"name":"lan","type":"a","cniVersion":"0.4.0","cniVersions":["1.1.0"]}`)
	if single.CNIVersion != "0.4.0" {
		t.Errorf("%q: the key is the plugin's own", single.CNIVersion)
	}
}

// A record needs nothing but the bytes.
func TestBytesOfANetwork(t *testing.T) {
	t.Parallel()
	const plugin = `{"type":"a", "n":9007199254740993, "s":"<&>"}`
	for _, text := range []string{
		`{"name":"lan","cniVersion":"0.4.0","cniVersions":["1.0.0","0.3.1"],"more":9007199254740993,"disableCheck":"TRUE","disableGC":true,"plugins":[` + plugin + `,` + plugin + `]}`,
		`{"name":"lan","cniVersion":"0.4.0",` + plugin[1:],
		`{"name":"lan","plugins":[` + plugin + `]}`,
		`{"name":"lan","cniVersions":["7.0.0"],"loadOnlyInlinedPlugins":true,"plugins":[` + plugin + `]}`,
	} {
		n := parse(t, text)
		kept, err := n.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		again := parse(t, string(kept))
		if n.CNIVersion == "" {
			n.CNIVersion = "0.1.0" // the same, said
		}
		if again.Name != n.Name || again.CNIVersion != n.CNIVersion || again.DisableCheck != n.DisableCheck || again.DisableGC != n.DisableGC ||
			!slices.EqualFunc(again.Plugins, n.Plugins, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			t.Errorf("%s\n%+v\n%+v", kept, again, n)
		}
		if strings.Contains(text, `"more"`) != strings.Contains(string(kept), `"more":9007199254740993`) || len(again.CNIVersions) != 1 {
			t.Errorf("%s", kept)
		}
	}
	made := &delegate.Network{Name: "lan", CNIVersion: "1.0.0", Plugins: []json.RawMessage{json.RawMessage(plugin)}, DisableGC: true}
	kept, err := made.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	same(t, string(kept), `{"cniVersion":"1.0.0","name":"lan","disableGC":true,"loadOnlyInlinedPlugins":true,"plugins":[`+plugin+`]}`)
	for _, bad := range []string{``, `null`, `{`, `{}`, `{"type":"a"},{"type":"b"}`} {
		made.Plugins = []json.RawMessage{json.RawMessage(plugin), json.RawMessage(bad)}
		kept, err := made.Bytes()
		if wants(t, err, 7, "plugins[1]"); kept != nil {
			t.Errorf("%s", kept)
		}
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	n := parse(t, `{"name":"lan","plugins":[{"type":"a","capabilities":{"mac":true,"ips":false}},{"type":"b"},{"type":"c","capabilities":{"mac":true,"aliases":true}}]}`)
	if got := fmt.Sprint(n.Capabilities()); got != "[aliases mac]" {
		t.Error(got)
	}
}

func FuzzParseNetwork(f *testing.F) {
	for _, seed := range []string{
		`{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"a","n":9007199254740993},{"type":"b","capabilities":{"mac":true}}]}`,
		`{"cniVersions":["0.4.0","1.1.0"],"name":"n","disableGC":"true","loadOnlyInlinedPlugins":true,"plugins":[{"type":"a"}]}`,
		`{"cniVersion":"0.4.0","name":"n","type":"a","prevResult":{}}`,
		`{"name":"n","plugins":null}`, `{"name":"n","plugins":[],"plugins":[{"type":"a"}]}`, `null`, `{"name":"n","plugins":[{"type":"a"},null]}`,
		"{\"name\":\"n\",\"plugins\":[{\"type\":\"a\xff\"}]}", `{"name":"n","plugins":[{"Type":"a","type":"b"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		n, err := delegate.ParseNetwork(text)
		if !bytes.Equal(text, before) {
			t.Fatal("the text was changed")
		}
		if err != nil {
			if code := netconf.Code(err); n != nil || code != 6 && code != 7 {
				t.Fatalf("network %v, code %d: %v", n, code, err)
			}
			return
		}
		if len(n.Plugins) == 0 || netconf.CheckName(n.Name) != nil {
			t.Fatalf("%+v", n)
		}
		for _, plugin := range n.Plugins {
			if !json.Valid(plugin) || !bytes.Contains(text, plugin) {
				t.Fatalf("%q is not in the text", plugin)
			}
		}
		kept, err := n.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		again, err := delegate.ParseNetwork(kept)
		if err != nil {
			t.Fatalf("%v: %s", err, kept)
		}
		if again.Name != n.Name || !slices.EqualFunc(again.Plugins, n.Plugins, func(a, b json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b)) }) {
			t.Fatalf("%s\n%q\n%q", kept, again.Plugins, n.Plugins)
		}
	})
}
