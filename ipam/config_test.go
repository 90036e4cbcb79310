package ipam_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

func TestSection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, version, keys string
		step                bool
		code                uint // of what ADD is rejected with
		word                string
	}{
		{"none", "1.1.0", ``, false, 0, ""},
		{"null", "1.1.0", `,"ipam":null`, false, 0, ""},
		{"empty", "1.1.0", `,"ipam":{}`, false, 0, ""},
		{"empty type", "1.1.0", `,"ipam":{"type":""}`, false, 0, ""},
		{"oldest that can be without addresses", "0.3.0", ``, false, 0, ""},
		{"none in 0.2.0", "0.2.0", ``, false, 7, "cniVersion"},
		{"none in 0.1.0", "0.1.0", `,"ipam":{}`, false, 7, "cniVersion"},
		{"one in 0.1.0", "0.1.0", `,"ipam":{"type":"fake"}`, true, 0, ""},
		{"one", "1.1.0", `,"ipam":{"type":"fake"}`, true, 0, ""},
		{"keys without a type", "1.1.0", `,"ipam":{"subnet":"10.0.0.0/24"}`, false, 7, "ipam.type"},
		{"keys and an empty type", "1.1.0", `,"ipam":{"subnet":"10.0.0.0/24","type":""}`, false, 7, "ipam.type"},
		{"a path", "1.1.0", `,"ipam":{"type":"../fake"}`, false, 7, "ipam.type"},
		{"the plugin itself", "1.1.0", `,"ipam":{"type":"main"}`, false, 7, "ipam.type"},
		{"dots", "1.1.0", `,"ipam":{"type":".."}`, false, 7, "ipam.type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config := `{"cniVersion":"` + c.version + `","name":"net","type":"main"` + c.keys + `}`
			for _, command := range []netconf.Command{netconf.Add, netconf.Del} {
				req, log := call(t, command, config)
				step := ipam.FromConfig(req)
				if (step != nil) != c.step || len(skel.Steps{step}) != 1 {
					t.Errorf("step %v", step)
				}
				if step == nil && skel.Step(step) != nil {
					t.Error("none is not nil as a skel.Step")
				}
				err := req.Rejected()
				switch {
				case command == netconf.Del || c.code == 0:
					if err != nil {
						t.Errorf("%s is rejected: %v", command, err)
					}
				case netconf.Code(err) != c.code || !strings.Contains(err.Error(), c.word):
					t.Errorf("rejected with code %d: %v", netconf.Code(err), err)
				}
				if warned := command == netconf.Del && c.word == "ipam.type"; (log.Len() > 0) != warned {
					t.Errorf("%s: warned %q", command, log)
				}
			}
		})
	}
}

// A DEL whose configuration cannot be read has nothing to release, says so, and goes on.
func TestUnreadableConfigurationOnDel(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"", "garbage", `{"cniVersion":"1.1.0","name":"net","ipam":{"type":5,"a":1}}`, `{"ipam":[]}`} {
		req, log := call(t, netconf.Del, config)
		if step := ipam.FromConfig(req); step != nil || !strings.Contains(log.String(), "no addresses are released") || req.Rejected() != nil {
			t.Errorf("%q: step %v, warned %q, rejected %v", config, step, log, req.Rejected())
		}
		req.Warn = nil // made by hand
		ipam.FromConfig(req)
	}
	env := map[string]string{"CNI_COMMAND": "VERSION"}
	req, err := netconf.Parse(func(key string) string { return env[key] }, strings.NewReader(""))
	if err != nil || ipam.FromConfig(req) != nil || req.Rejected() != nil {
		t.Errorf("VERSION: %v, rejected %v", err, req.Rejected())
	}
}

// A slip in the type of a compiled-in plugin is a program's name like any other, and was told of by the ADD, when the link was
// made; validate said "ok".
func TestATypeNearlyCompiledInIsWarnedOf(t *testing.T) {
	t.Parallel()
	fake := delegate.InProcess{Type: "fake"}
	for typ, want := range map[string]string{"fke": `configuration: line 1, column 88: ipam.type: "fke" is not compiled in, and looked for in CNI_PATH; did you mean "fake"?`, "fake": "", "dhcp": ""} {
		req, log := call(t, netconf.Add, strings.Replace(withIPAM, `"fake"`, strconv.Quote(typ), 1))
		step := ipam.FromConfig(req, fake)
		if err := req.Rejected(); step == nil || err != nil || strings.TrimSpace(log.String()) != want {
			t.Errorf("%s: rejected %v, warned %q, expected %q", typ, err, log, want)
		}
	}
}

// PLUGIN validate said "ok" of a section that only a program can read.
func TestASectionThatNobodyHereChecks(t *testing.T) {
	t.Parallel()
	checked := func(*netconf.Request) error { return nil }
	for want, inProcess := range map[string]delegate.InProcess{
		`ipam, which the program "fake" checks`:       {Type: "other", Validate: checked},
		`ipam, which "fake" checks when it is called`: {Type: "fake"},
		"": {Type: "fake", Validate: checked},
	} {
		req, _ := call(t, netconf.Add, withIPAM)
		step, ok := ipam.FromConfig(req, inProcess).(skel.Unchecked)
		if !ok || step.Unchecked() != want {
			t.Errorf("%v, %v, expected %q", ok, step, want)
		}
	}
}
