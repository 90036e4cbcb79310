package skel_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestLogConfigThatIsWrong(t *testing.T) {
	t.Parallel()
	for log, want := range map[string]struct {
		code  uint
		words string
	}{
		`{"level":"loud"}`:               {7, "log.level (line 1, column 65): no such level: expected one of off, error, warn, info, debug"},
		`{"level":3}`:                    {6, "log.level (line 1, column 65): expected a string, got the number 3"},
		`{"file":"relative/log"}`:        {7, "log.file (line 1, column 64): not an absolute path"},
		`{"file":true}`:                  {6, "log.file"},
		`"debug"`:                        {6, "log (line 1, column 56): expected an object, got a string"},
		`{"level":"loud","file":"x"}`:    {7, "not an absolute path"},
		`{"level":"loud"},"mtu":"x"`:     {6, "no such level"},
		`{"level":"info","colour":true}`: {0, "log.colour (line 1, column 81): unknown key: expected level or file"},
	} {
		t.Run(log, func(t *testing.T) {
			t.Parallel()
			p := plugin(t, &step{name: "a", j: &journal{}, add: iface})
			for _, command := range []netconf.Command{netconf.Add, netconf.Check, netconf.Status} {
				if command == netconf.Status && want.code == 0 {
					continue // the step has no good word for it
				}
				c := withLog(command, log)
				if command == netconf.Check {
					c.Prev = prevResult
				}
				a := c.Run(t.Context(), t, p)
				if a.Err.Code != want.code || !strings.Contains(a.Err.Msg+a.Stderr, want.words) {
					t.Errorf("%s: code %d: %s (%s)", command, a.Err.Code, a.Err.Msg, a.Stderr)
				}
			}
			if a := withLog(netconf.Del, log).Run(t.Context(), t, p).OK(t); !strings.Contains(a.Stderr, want.words) {
				t.Errorf("DEL does not warn: %s", a.Stderr)
			}
			p.Strict = true
			if want.code == 0 {
				withLog(netconf.Add, log).Run(t.Context(), t, p).Fails(t, netconf.CodeUnsupportedField, want.words)
			}
		})
	}
	var many strings.Builder // unknown keys: each would cost a walk through the text
	for i := range 100_000 {
		fmt.Fprintf(&many, `"k%05d":0,`, i)
	}
	if a := withLog(netconf.Del, "{"+many.String()+`"level":"off"}`).Run(t.Context(), t, plugin(t)).OK(t); strings.Count(a.Stderr, "unknown key") > 1 {
		t.Errorf("more than one is told of: %.300s", a.Stderr)
	}
	file := filepath.Join(t.TempDir(), "log") // what is right counts, whatever else is wrong
	withLog(netconf.Del, `{"level":"loud","file":"`+file+`"}`).Run(t.Context(), t, plugin(t)).OK(t)
	c := withLog(netconf.Del, `{"file":"`+file+`"}`)
	c.IfName = ""
	c.Run(t.Context(), t, plugin(t)).Fails(t, netconf.CodeInvalidEnvironment)
	if ls := messages(lines(t, logOf(t, file))); !slices.Equal(ls, []string{"WARN ignored: configuration: log.level (line 1, column 65): no such level: expected one of off, error, warn, info, debug", "INFO done", "ERROR failed"}) {
		t.Errorf("%q", ls)
	}
}

// The key is known, so that it is no typo; where the plugin's own configuration has it, it is the plugin's.
func TestLogKeyIsKnown(t *testing.T) {
	t.Parallel()
	p := plugin(t, &step{name: "a", j: &journal{}, add: iface})
	p.Strict = true
	if a := withLog(netconf.Add, `{"level":"warn"}`).Run(t.Context(), t, p).OK(t); a.Stderr != "" {
		t.Errorf("stderr: %s", a.Stderr)
	}
	type inner struct {
		Log string `json:"log"`
	}
	var seen string
	type exported struct {
		inner
		Other int
	}
	r := skel.Plugin[exported]{Name: "test", RunDir: t.TempDir(), Steps: func(_ *netconf.Request, c *exported) skel.Steps {
		seen = c.Log
		return skel.Steps{&step{name: "a", j: &journal{}, add: iface}}
	}}
	withLog(netconf.Add, `"somewhere"`).Run(t.Context(), t, r).OK(t)
	if seen != "somewhere" {
		t.Errorf("the plugin's own key is %q", seen)
	}
}

// Nothing of a configuration's values, nor of CNI_ARGS, gets into the log by itself.
func TestLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	p := plugin(t, &step{name: "a", j: &journal{}, add: iface})
	c := call(netconf.Add)
	c.Args = "TOKEN=s3cret"
	c.Env = append(c.Env, "MY_TOKEN=s3cret")
	c.Config = `{"cniVersion":"1.1.0","name":"net","type":"test","log":{"level":"debug","token":"s3cret"},"mode":"s3cret","token":"s3cret","args":{"k":"s3cret"},"runtimeConfig":{"k":"s3cret"}}`
	if a := c.Run(t.Context(), t, p).OK(t); strings.Contains(a.Stderr, "s3cret") || !strings.Contains(a.Stderr, "log.token") {
		t.Errorf("stderr: %s", a.Stderr)
	}
}

// A plugin that takes the place of another one logs where that one's keys say, unless there is the key log.
func TestLogOfOtherKeys(t *testing.T) {
	t.Parallel()
	other, own := filepath.Join(t.TempDir(), "other"), filepath.Join(t.TempDir(), "own")
	p := plugin(t)
	p.Log = func(config json.RawMessage) json.RawMessage {
		keys, err := netconf.DecodeJSON[struct {
			File  string `json:"logFile"`
			Level string `json:"logLevel"`
		}](config, nil)
		if err != nil {
			return nil
		}
		return json.RawMessage(fmt.Sprintf(`{"file":%q,"level":%q,"colour":1}`, keys.File, keys.Level))
	}
	call := func(log string) skeltest.Call {
		c := withLog(netconf.Del, log)
		c.Config = strings.Replace(c.Config, `"log":`+log, fmt.Sprintf(`"logFile":%q,"logLevel":"info"`, other), 1)
		return c
	}
	done := func(file string) (n int) { // the other lines are of keys that the tests' plugin does not know
		for _, m := range messages(lines(t, logOf(t, file))) {
			if m == "INFO done" {
				n++
			}
		}
		return n
	}
	call("{}").Run(t.Context(), t, p).OK(t)
	if n := done(other); n != 1 {
		t.Errorf("%d calls are in the file", n)
	}
	both := call("{}")
	both.Config = strings.Replace(both.Config, `"logFile"`, fmt.Sprintf(`"log":{"file":%q},"logFile"`, own), 1)
	both.Run(t.Context(), t, p).OK(t)
	if n, m := done(own), done(other); n != 1 || m != 1 {
		t.Errorf("%d and %d calls: the key log was there", n, m)
	}
	wrong := call("{}")
	wrong.Config = strings.Replace(wrong.Config, `"info"`, `"loud"`, 1)
	wrong.Run(t.Context(), t, p).OK(t)
}
