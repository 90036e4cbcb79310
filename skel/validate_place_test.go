package skel_test

import (
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// What is missing in a section was told of line 1, column 1 of the plugin, whatever stood before the section.
func TestValidateTellsWhereSomethingIsMissing(t *testing.T) {
	t.Parallel()
	p := validated(t)
	p.Validate = func(req *netconf.Request, _ *checked) error {
		return netconf.Join(req.Invalid("ipam.ranges", "missing"), req.Invalid("ipam.routes[0].dst", "missing"), req.Invalid("cable.length", "missing"))
	}
	const text = "{\"name\":\"net\",\"plugins\":[\n{\"type\":\"test\",\n \"ipam\":{\"type\":\"x\",\n  \"routes\":[{}]}}]}"
	const want = "stdin:2:1: plugins[0].cable.length: missing\nstdin:3:9: plugins[0].ipam.ranges: missing\nstdin:4:13: plugins[0].ipam.routes[0].dst: missing\n"
	if exit, _, stdout, _ := p.ByHand([]string{"validate", "-"}, text, false, false); exit != 1 || stdout != want {
		t.Errorf("exit status %d\n%s\nexpected\n%s", exit, stdout, want)
	}
}

// opaque is a step that does not know what its part of the configuration has to be like.
type opaque struct {
	step
	part string
}

func (o *opaque) Unchecked() string { return o.part }

// An "ok" was said of all, also of a section that only a program can read.
func TestValidateTellsWhatItDoesNotLookAt(t *testing.T) {
	t.Parallel()
	p := validated(t)
	p.Steps = func(*netconf.Request, *checked) skel.Steps {
		return skel.Steps{nil, &opaque{}, (*opaque)(nil), skel.Steps{&opaque{part: "ipam, which \"x\" checks"}}}
	}
	for text, want := range map[string]string{
		`{"name":"net","type":"test"}`:               "stdin: ok, a configuration of test; not looked at: ipam, which \"x\" checks\n",
		`{"name":"net","plugins":[{"type":"test"}]}`: "stdin: ok, 1 of 1 plugins are of test; not looked at: plugins[0].ipam, which \"x\" checks\n",
	} {
		if exit, _, stdout, _ := p.ByHand([]string{"validate", "-"}, text, false, false); exit != 0 || stdout != want {
			t.Errorf("exit status %d: %s", exit, stdout)
		}
	}
}

// An "ok" was said of lists that no runtime loads, and of keys that none reads.
func TestValidateHoldsAListAgainstWhatARuntimeLoads(t *testing.T) {
	t.Parallel()
	const ok = "stdin: ok, 1 of 1 plugins are of test\n"
	for keys, want := range map[string]string{
		`"cniVersions":["new"]`:          "stdin:2:16: cniVersions[0]: \"new\" is no version: expected three numbers as in 1.1.0\n",
		`"cniVersions":["1.1.0",""]`:     "stdin:2:24: cniVersions[1]: \"\" is no version: expected three numbers as in 1.1.0\n",
		`"cniVersions":["1.1.0",null]`:   "stdin:2:24: cniVersions[1]: expected a string, got null\n",
		`"cniVersions":["1.1.0","9.0"]`:  ok,
		`"cniVersions":null`:             "stdin:2:15: cniVersions: null: expected a value, or no such key\n",
		`"cniVersion":null`:              "stdin:2:14: cniVersion: null: expected a value, or no such key\n",
		`"disableCheck":null`:            "stdin:2:16: disableCheck: null: expected a value, or no such key\n",
		`"disableGC":null`:               "stdin:2:13: disableGC: null: expected a value, or no such key\n",
		`"loadOnlyInlinedPlugins":null`:  "stdin:2:26: loadOnlyInlinedPlugins: null: expected a value, or no such key\n",
		`"DisableCheck":true`:            "stdin:2:1: warning: key \"DisableCheck\" is ignored: runtimes read \"disableCheck\", in that case alone\n" + ok,
		`"cniversion":"9.9.9"`:           "stdin:2:1: warning: key \"cniversion\" is ignored: runtimes read \"cniVersion\", in that case alone\n" + ok,
		`"disableGC":"FALSE"`:            ok,
		`"disableGC":null,"disableGC":1`: "stdin:2:1: warning: key \"disableGC\" is given again: the last one counts\nstdin:2:30: disableGC: expected true or false\n",
	} {
		text := "{\"name\":\"net\",\n" + keys + ",\n\"plugins\":[{\"type\":\"test\"}]}"
		if _, _, stdout, _ := validated(t).ByHand([]string{"validate", "-"}, text, false, false); stdout != want {
			t.Errorf("%s:\n%s\nexpected\n%s", keys, stdout, want)
		}
	}
}

// What is warned of with a path stands at its place, with the plugin's path before its own; an error about a list's version
// stands at the version, wherever that is.
func TestValidateTellsThePlaceOfTheLogAndOfTheVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{\"name\":\"net\",\"type\":\"test\",\n \"log\":{\"fille\":1}}": "stdin:2:17: warning: log.fille: unknown key: expected level or file\nstdin: ok, a configuration of test\n",
		"{\"name\":\"net\",\"plugins\":[{\"type\":\"x\"},\n{\"type\":\"test\",\"log\":{\"fille\":1}}]}": "stdin:2:31: warning: plugins[1].log.fille: unknown key: expected level or file\n" +
			"stdin: ok, 1 of 2 plugins are of test\n",
		"{\"name\":\"net\",\"plugins\":[{\"type\":\"test\"}],\n\"cniVersion\":1.1}": "stdin:2:14: cniVersion: expected a string, got the number 1.1\n",
	} {
		if _, _, stdout, _ := validated(t).ByHand([]string{"validate", "-"}, text, false, false); stdout != want {
			t.Errorf("%s:\n%s\nexpected\n%s", text, stdout, want)
		}
	}
}
