package skel_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// colour is a type that reads itself, as modes and addresses do.
type colour string

func (c *colour) UnmarshalText(text []byte) error {
	if s := string(text); s != "red" && s != "blue" {
		return fmt.Errorf("unknown colour %q: expected red, blue", text)
	}
	*c = colour(text)
	return nil
}

func (c colour) MarshalText() ([]byte, error) { return []byte(c), nil }

type checked struct {
	MTU    int      `json:"mtu" doc:"in bytes"`
	Colour colour   `json:"colour" doc:"of the cable" example:"blue"`
	Tags   []string `json:"tags" doc:"what it is called" example:"one"`
	Deep   struct {
		Levels []int `json:"levels" doc:"how deep"`
	} `json:"deep"`
}

// validated is a plugin with rules of each sort. None of its steps may be asked.
func validated(t *testing.T) skel.Plugin[checked] {
	refuse := &step{name: "a", j: &journal{}}
	t.Cleanup(func() { refuse.j.want(t) })
	return skel.Plugin[checked]{
		Name: "test", About: "for tests", RunDir: "/nowhere",
		Defaults: func() checked { return checked{MTU: 1500, Colour: "red"} },
		Validate: func(req *netconf.Request, c *checked) error {
			var low, odd error
			if c.MTU < 68 {
				low = req.Invalid("mtu", "%d is too small", c.MTU)
			}
			if len(c.Deep.Levels) > 0 && c.Deep.Levels[0] == 13 {
				odd = req.Invalid("deep.levels[0]", "13 brings bad luck")
			}
			if c.Colour == "blue" && c.MTU == 9000 {
				req.Warn("blue cables are slow")
			}
			if c.MTU == 666 {
				panic("of Validate")
			}
			return netconf.Join(odd, low)
		},
		Steps: func(req *netconf.Request, c *checked) skel.Steps {
			if req.Network.IPAM.Type == "none" {
				req.Reject(req.Invalid("ipam.type", "no addresses, no attachment"))
			}
			return skel.Steps{refuse}
		},
	}
}

// validateList begins a list of plugins: 46 bytes.
const validateList = `{"cniVersion":"1.1.0","name":"net","plugins":[`

var validateTests = []struct {
	name, file, text string // file "" is f.conflist
	exit             int
	want             string // FILE stands for the path
}{
	{"a list", "", validateList + `{"type":"test"},{"type":"tuning","x":1}]}`, 0, "FILE: ok, 1 of 2 plugins are of test\n"},
	{"a configuration", "f.conf", `{"cniVersion":"1.0.0","name":"net","type":"test","mtu":1400}`, 0, "FILE: ok, a configuration of test\n"},
	{"a list under another name", "f.json", validateList + `{"type":"test"}]}`, 0, "FILE: ok, 1 of 1 plugins are of test\n"},
	{"several errors, in order", "", "{\n  \"cniVersion\": \"1.1.0\",\n  \"name\": \"net\",\n  \"plugins\": [\n    {\"type\": \"tuning\"},\n    {\n      \"type\": \"test\",\n" +
		"      \"colour\": \"green\",\n      \"deep\": {\"levels\": [1, \"2\"]},\n      \"mtu\": \"1500\", \"mtuu\": 1\n    }\n  ]\n}\n", 1,
		`FILE:8:17: plugins[1].colour: unknown colour "green": expected red, blue` + "\n" +
			"FILE:9:30: plugins[1].deep.levels[1]: expected an integer of 64 bits, got a string\n" +
			"FILE:10:14: plugins[1].mtu: expected an integer of 64 bits, got a string\n" +
			`FILE:10:22: warning: unknown key "mtuu" is ignored; did you mean "mtu"?` + "\n"},
	{"of Validate and Steps", "", validateList + "\n{\"type\":\"test\",\"mtu\":1,\n\"deep\":{\"levels\":[13]},\"ipam\":{\"type\":\"none\"}}]}", 1,
		"FILE:2:22: plugins[0].mtu: 1 is too small\nFILE:3:19: plugins[0].deep.levels[0]: 13 brings bad luck\n"},
	{"of Steps", "", validateList + "{\"type\":\"test\",\"ipam\":{\"type\":\"none\"}}]}", 1, "FILE:1:77: plugins[0].ipam.type: no addresses, no attachment\n"},
	{"of Validate, a warning", "f.conf", "\n {\"cniVersion\":\"1.1.0\",\"name\":\"net\",\"type\":\"test\",\"mtu\":9000,\"colour\":\"blue\"}", 0,
		"FILE:2:2: warning: blue cables are slow\nFILE: ok, a configuration of test\n"},
	{"a panic", "", validateList + `{"type":"test","mtu":666}]}`, 1, "FILE:1:47: Plugin.Validate or Steps: panic: of Validate\n"},
	{"two of the type", "", validateList + `{"type":"test","mtu":1},{"type":"test","mtu":2}]}`, 1, "FILE:1:68: plugins[0].mtu: 1 is too small\nFILE:1:92: plugins[1].mtu: 2 is too small\n"},

	{"more errors than are told", "f.conf", "{\"name\":\"net\",\"type\":\"test\",\n\"deep\":{\"levels\":[" + strings.Repeat("{},", 24) + "{}]}}", 1, func() (want string) {
		for i := range 20 {
			want += fmt.Sprintf("FILE:2:%d: deep.levels[%d]: expected an integer of 64 bits, got an object\n", 19+3*i, i)
		}
		return want + "FILE:2:76: and 5 more errors\n"
	}()},
	{"the log", "", validateList + `{"type":"test","log":{"level":"loud"}}]}`, 1, "FILE:1:77: plugins[0].log.level: no such level: expected one of off, error, warn, info, debug\n"},

	{"CRLF and tabs", "", "{\r\n\t\"cniVersion\": \"1.1.0\",\r\n\t\"name\": \"net\",\r\n\t\"plugins\": [\r\n\t\t{\"type\": \"test\",\r\n\t\t\"mtu\":\t1}]}", 1, "FILE:6:10: plugins[0].mtu: 1 is too small\n"},
	{"UTF-8 counts bytes", "", validateList + `{"type":"test","tags":["é"],"mtu":1}]}`, 1, "FILE:1:82: plugins[0].mtu: 1 is too small\n"},
	{"one line after another plugin", "", validateList + `{"type":"tuning"},  {"type":"test","mtu":1}]}`, 1, "FILE:1:88: plugins[1].mtu: 1 is too small\n"},
	{"own name and version", "", validateList + "{\"name\": \"x\", \"cniVersion\":\"9\",\"type\":\"test\",\"mtu\":1, \"cniVersion\" : \"8\"}]}", 1,
		"FILE:1:48: warning: plugins[0].name: the list's counts\nFILE:1:61: warning: plugins[0].cniVersion: the list's counts\n" +
			"FILE:1:98: plugins[0].mtu: 1 is too small\nFILE:1:101: warning: plugins[0].cniVersion: the list's counts\n"},

	{"empty", "", "", 1, "FILE:1:1: empty: expected a JSON object\n"},
	{"blanks", "f.conf", " \n ", 1, "FILE:1:1: empty: expected a JSON object\n"},
	{"a byte-order mark", "", "\xef\xbb\xbf" + validateList + `{"type":"test"}]}`, 1, "FILE:1:1: a byte-order mark: JSON is UTF-8 without one\n"},
	{"no JSON", "", "{\n \"name\": net}", 1, "FILE:2:11: not JSON: invalid character 'e' in literal null (expecting 'u')\n"},
	{"not closed", "", "{\n \"name\": \"net\",\n", 1, "FILE:3:1: not JSON: unexpected end of JSON input: a brace, bracket or quote is not closed\n"},
	{"a comment", "", "{\n // no\n}", 1, "FILE:2:2: not JSON: invalid character '/' looking for beginning of object key string: JSON has no comments\n"},
	{"an array", "", "[{}]", 1, "FILE:1:1: expected an object, got an array\n"},
	{"a string with a brace", "", `"{"`, 1, "FILE:1:1: expected an object, got a string\n"},
	{"deep", "", strings.Repeat("[", 100_000), 1, "FILE:1:10001: not JSON: invalid character '[' exceeded max depth\n"},

	{"too much", "f.conf", `{"name":"net","type":"test","x":[` + strings.Repeat("0,", 300_000) + "0]}", 1, "FILE:1:1: more than 262144 values\n"},
	{"too much of a list", "", validateList + strings.Repeat("{},", 300_000) + "{}]}", 1, "FILE:1:1: more than 262144 values\n"},

	{"no plugins", "", `{"cniVersion":"1.1.0","name":"net"}`, 1, "FILE:1:1: plugins: missing: a .conflist is a list of plugins\n"},
	{"plugins null", "", `{"cniVersion":"1.1.0","name":"net","plugins":null}`, 1, "FILE:1:46: plugins: expected an array of plugins\n"},
	{"plugins an object", "", `{"cniVersion":"1.1.0","name":"net","plugins":{}}`, 1, "FILE:1:46: plugins: expected an array of plugins\n"},
	{"plugins empty", "", `{"cniVersion":"1.1.0","name":"net","plugins":[]}`, 1, "FILE:1:46: plugins: empty: expected at least one\n"},
	{"none of the type", "", validateList + `{"type":"bridge"},{"type":"tuning"}]}`, 1, `FILE:1:46: plugins: none is of type "test": they are of "bridge", "tuning"` + "\n"},
	{"another type", "f.conf", `{"cniVersion":"1.1.0","name":"net","type":"bridge"}`, 1, `FILE:1:43: type: this is "bridge": expected "test"` + "\n"},
	{"no type", "f.conf", `{"cniVersion":"1.1.0","name":"net"}`, 1, "FILE:1:1: type: missing\n"},
	{"entries that are none", "", validateList + `null,"x",{"type":7},{"type":"a/b"},{},{"type":"test"}]}`, 1,
		"FILE:1:47: plugins[0]: expected an object\nFILE:1:52: plugins[1]: expected an object\nFILE:1:64: plugins[2].type: expected a string, got the number 7\n" +
			"FILE:1:75: plugins[3].type: \"a/b\" is no name of a program\nFILE:1:82: plugins[4].type: missing\n"},
	{"another's ipam", "", validateList + `{"type":"bridge","ipam":[]},{"type":"test"}]}`, 1, "FILE:1:71: plugins[0].ipam: expected an object, got an array\n"},
	{"too many", "", validateList + strings.Repeat(`{"type":"test"},`, 50) + `{"type":"test","mtu":1}]}`, 1, "FILE:1:847: plugins: 51: those behind the first 50 are not looked at\n"},

	{"no name", "", `{"cniVersion":"1.1.0","plugins":[{"type":"test"}]}`, 1, "FILE:1:1: name: missing\n"},
	{"no name, in a configuration", "f.conf", `{"cniVersion":"1.1.0","type":"test"}`, 1, "FILE:1:1: name: network name: missing\n"},
	{"a name of another type", "", `{"cniVersion":"1.1.0","name":7,"plugins":[{"type":"test"}]}`, 1, "FILE:1:30: name: expected a string, got the number 7\n"},
	{"a bad name", "", `{"cniVersion":"1.1.0","name":"a/b","plugins":[{"type":"test"}]}`, 1,
		`FILE:1:30: name: "a/b" has an invalid character '/' at position 2: expected a letter or digit, then letters, digits, '_', '.' or '-'` + "\n"},
	{"an unknown version", "", `{"cniVersion":"1.2.0","name":"net","plugins":[{"type":"test"},{"type":"test"}]}`, 1,
		"FILE:1:15: plugins[0].cniVersion: version \"1.2.0\" is not supported by test (supported: 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0)\n" +
			"FILE:1:15: plugins[1].cniVersion: version \"1.2.0\" is not supported by test (supported: 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0)\n"},
	{"one known version of several", "", `{"cniVersion":"1.2.0","cniVersions":["0.4.0","1.3.0"],"name":"net","plugins":[{"type":"test"}]}`, 0, "FILE: ok, 1 of 1 plugins are of test\n"},
	{"keys of a list", "", `{"name":"net","disableCheck":"TRUE","disableGC":1,"ipam":{},"pluginz":1,"plugins":[{"type":"test"}]}`, 1,
		"FILE:1:49: disableGC: expected true or false\nFILE:1:51: warning: ipam: a key of a plugin: nobody reads it here, where the list's own keys are\n" +
			`FILE:1:61: warning: unknown key "pluginz" is ignored; did you mean "plugins"?` + "\n"},
	{"plugins twice", "", `{"name":"net","plugins":[{"type":"x"}],"plugins":[{"type":"test","mtu":1}]}`, 1,
		`FILE:1:15: warning: key "plugins" is given again: the last one counts` + "\nFILE:1:72: plugins[0].mtu: 1 is too small\n"},
	{"a key twice", "", validateList + `{"type":"test","mtu":1,"mtu":1500}]}`, 0,
		`FILE:1:62: warning: key "mtu" is given again: the last one counts` + "\nFILE: ok, 1 of 1 plugins are of test\n"},
	{"what a terminal would obey", "", validateList + "{\"type\":\"test\",\"\\u001b[31m\\n\":1}]}", 0,
		`FILE:1:62: warning: unknown key "\x1b[31m\n" is ignored` + "\nFILE: ok, 1 of 1 plugins are of test\n"},
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, test := range validateTests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.file == "" {
				test.file = "f.conflist"
			}
			file := filepath.Join(t.TempDir(), test.file)
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			exit, _, stdout, _ := validated(t).ByHand([]string{"validate", file}, "", false, false)
			if got := strings.ReplaceAll(stdout, file, "FILE"); exit != test.exit || got != test.want {
				t.Errorf("exit status %d, expected %d\n%s\nexpected\n%s", exit, test.exit, got, test.want)
			}
		})
	}
}

// Where the position of each value in a list is, whatever stands around it: as in a file of its own.
func TestValidateFindsThePlaceInAnyFile(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "\n", "\r\n\t", "  \"x\": \"é\\\"{[\",\n \"y\": [1,{}], ", "\"plugin\": {\"plugins\": [{}]},"} {
		for _, after := range []string{"", "\n", ",\"name\":\"b\"", ",\n\"cniVersion\"\n:\n\"0.1.0\"\n"} {
			text := "{" + before + `"name":"net","plugins":[{` + "\n" + `"type":"test"` + after + `, "mtu": 1` + after + "}]}"
			at := strings.Index(text, "1"+after+"}]")
			want := fmt.Sprintf("stdin:%d:%d: plugins[0].mtu: 1 is too small\n", 1+strings.Count(text[:at], "\n"), at-strings.LastIndexByte(text[:at], '\n'))
			if exit, _, stdout, _ := validated(t).ByHand([]string{"validate", "-"}, text, false, false); exit != 1 || !strings.Contains(stdout, want) {
				t.Errorf("%q\nexit status %d: %sexpected %s", text, exit, stdout, want)
			}
		}
	}
}

func TestValidateCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	good := write("good.conf", `{"cniVersion":"1.1.0","name":"net","type":"test"}`)
	warned := write("warned.conf", `{"cniVersion":"1.1.0","name":"net","type":"test","mtuu":1}`)
	bad := write("bad.conf", `{"cniVersion":"1.1.0","name":"net","type":"test","mtu":1}`)
	large := write("large.conf", `{"cniVersion":"1.1.0","name":"net","type":"test","x":"`+strings.Repeat("x", 20<<20)+`"}`)
	odd := write("a\x1b[31m\nb.conf", `{"cniVersion":"1.1.0","name":"net","type":"test"}`)
	fifo := filepath.Join(dir, "fifo")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name           string
		args           []string
		exit           int
		stdout, stderr string // parts
	}{
		{"fine", []string{good, good}, 0, "good.conf: ok", ""},
		{"a name that a terminal would obey", []string{odd}, 0, `a\u001b[31m\u000ab.conf: ok`, ""},
		{"one that is not there", []string{odd + "\x1b"}, 2, "", `b.conf\u001b: no such file`},
		{"stdin", []string{"-"}, 0, "stdin: ok", ""},
		{"a warning", []string{warned}, 0, "warned.conf: ok", ""},
		{"a warning, strict", []string{"-strict", warned}, 1, "warning: unknown key", ""},
		{"a warning, --strict", []string{"--strict", "--", warned}, 1, "warning: unknown key", ""},
		{"an error does not end it", []string{bad, good}, 1, "good.conf: ok", ""},
		{"no file", nil, 2, "", "no file"},
		{"no such option", []string{"-q", good}, 2, "", `no option "-q"`},
		{"no such file", []string{filepath.Join(dir, "none"), bad}, 2, "mtu: 1 is too small", "no such file"},
		{"a folder", []string{dir}, 2, "", "no regular file"},
		{"a FIFO that nobody writes to", []string{fifo}, 2, "", "no regular file"},
		{"20 MB", []string{large}, 1, "larger than 16777216 bytes", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			exit, served, stdout, stderr := validated(t).ByHand(append([]string{"validate"}, test.args...), `{"cniVersion":"1.1.0","name":"net","type":"test"}`, false, false)
			if exit != test.exit || !served || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) || (test.stderr == "") != (stderr == "") {
				t.Errorf("exit status %d, expected %d\nstdout: %.300s\nstderr: %.300s", exit, test.exit, stdout, stderr)
			}
		})
	}
}

// A strict plugin's unknown key is an error; an IPAM plugin is the one of the section; a chained one has
// something before it.
func TestValidateByKind(t *testing.T) {
	t.Parallel()
	const list = `{"cniVersion":"1.1.0","name":"net","plugins":[`
	tests := []struct {
		name   string
		kind   skel.Kind
		strict bool
		text   string
		want   string
	}{
		{"strict", skel.Interface, true, list + `{"type":"test","mtuu":1}]}`, "stdin:1:62: plugins[0].mtuu: unknown key, value 1; did you mean \"mtu\"?\n"},
		{"ipam", skel.IPAM, false, list + `{"type":"bridge","ipam":{"type":"test"},"mtu":1}]}`, "stdin:1:93: plugins[0].mtu: 1 is too small\n"},
		{"ipam of another", skel.IPAM, false, list + `{"type":"bridge","ipam":{"type":"static"}}]}`, "stdin:1:46: plugins: none is of type \"test\": they are of \"bridge\"\n"},
		{"an interface's section", skel.Interface, false, list + `{"type":"bridge","ipam":{"type":"test"}}]}`, "stdin:1:46: plugins: none is of type \"test\": they are of \"bridge\"\n"},
		{"chained", skel.Chained, false, list + `{"type":"bridge"},{"type":"test"}]}`, "stdin: ok, 1 of 2 plugins are of test\n"},
		{"chained to nothing", skel.Chained, false, list + `{"type":"test"}]}`, "stdin:1:47: plugins[0]: test changes what plugins before it have made, and it is the first\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := validated(t)
			p.Kind, p.Strict = test.kind, test.strict
			if _, _, stdout, _ := p.ByHand([]string{"validate", "-"}, test.text, false, false); stdout != test.want {
				t.Errorf("%sexpected %s", stdout, test.want)
			}
		})
	}
}

// An IPAM plugin's unknown keys are those of its section: the others are its caller's.
func TestAnIPAMPluginKnowsItsSectionAlone(t *testing.T) {
	t.Parallel()
	type pool struct {
		IPAM struct {
			Range string `json:"range"`
		} `json:"ipam"`
	}
	p := skel.Plugin[pool]{Name: "test", Kind: skel.IPAM, Strict: true, RunDir: t.TempDir(), Steps: func(*netconf.Request, *pool) skel.Steps { return nil }}
	const text, want = `{"cniVersion":"1.1.0","name":"net","type":"bridge","isGateway":true,"ipam":{"type":"test","rnge":1}}`, "ipam.rnge"
	if exit, _, stdout, _ := p.ByHand([]string{"validate", "-"}, text, false, false); exit != 1 || stdout != "stdin:1:91: ipam.rnge: unknown key, value 1; did you mean \"range\"?\n" {
		t.Errorf("exit status %d: %s", exit, stdout)
	}
	c := call(netconf.Add)
	c.Config = text
	c.Run(t.Context(), t, p).Fails(t, 2, want)
	c.Config = strings.ReplaceAll(text, "rnge", "range")
	c.Config = strings.ReplaceAll(c.Config, ":1}", `:"x"}`)
	if a := c.Run(t.Context(), t, p).OK(t); len(a.Stderr) > 0 {
		t.Errorf("%s", a.Stderr)
	}
}

// What two readers of a configuration find is told once: the section ipam may be the plugin's own too.
func TestValidateTellsEachThingOnce(t *testing.T) {
	t.Parallel()
	type both struct {
		IPAM struct {
			Type string `json:"type"`
		} `json:"ipam"`
	}
	p := skel.Plugin[both]{Name: "test", Steps: func(*netconf.Request, *both) skel.Steps { return nil }}
	const text, want = `{"name":"net","type":"test","ipam":{"type":7}}`, "stdin:1:44: ipam.type: expected a string, got the number 7\n"
	if exit, _, stdout, _ := p.ByHand([]string{"validate", "-"}, text, false, false); exit != 1 || stdout != want {
		t.Errorf("exit status %d: %s", exit, stdout)
	}
}

// A person at a terminal sees the line; colours are for a terminal that takes them; nothing in a file is a
// command to the terminal.
func TestValidateShowsTheLineAtATerminal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		colour     bool
		want       string
	}{
		{"plain", "{\"name\":\"net\",\"type\":\"test\",\n\t\"tags\": [\"\u00e9\x7f\"],\t\"mtu\": 1}\n", false,
			"stdin:2:26: mtu: 1 is too small\n    \t\"tags\": [\"\u00e9?\"],\t\"mtu\": 1}\n    \t               \t       ^\n"},
		{"colour", "{\"name\":\"net\",\"type\":\"test\",\n\"mtu\": 1}", true,
			"\x1b[1mstdin:2:8:\x1b[0m mtu: 1 is too small\n    \"mtu\": 1}\n           \x1b[31m^\x1b[0m\n"},
		{"a long line", `{"name":"net","type":"test","x":"` + strings.Repeat("ä", 300) + `","mtu":1,"y":"` + strings.Repeat("ö", 300) + `"}`, false,
			"    ..." + strings.Repeat("ä", 20) + `","mtu":1,"y":"` + strings.Repeat("ö", 61) + "...\n       " + strings.Repeat(" ", 28) + "^\n"},
		{"the end", "{\"name\":\"net\",", false, "stdin:1:15: not JSON: unexpected end of JSON input: a brace, bracket or quote is not closed\n    {\"name\":\"net\",\n                  ^\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, _, stdout, _ := validated(t).ByHand([]string{"validate", "-"}, test.text, true, test.colour); !strings.Contains(stdout, test.want) {
				t.Errorf("%q\nexpected %q", stdout, test.want)
			}
		})
	}
}

// Of 15 MB of blanks and 1,100 findings each cost walks through all of it, 47 s together: a list of that size has a few of its
// plugins looked at, and says so. At a terminal a line of 15 MB is not copied for each.
func TestAHugeListIsLookedAtInPart(t *testing.T) {
	t.Parallel()
	plugin := `{"type":"test","mtu":1` + strings.Repeat(`,"x":1`, 30) + `},`
	for name, blank := range map[string]string{"lines": "\n", "blanks": " "} {
		text := validateList + strings.Repeat(blank, 15<<20) + strings.Repeat(plugin, 49) + `{"type":"test"}]}`
		exit, _, stdout, _ := validated(t).ByHand([]string{"validate", "-"}, text, true, false)
		if want := "plugins: 50: those behind the first 4 are not looked at\n"; exit != 1 || !strings.Contains(stdout, want) || strings.Count(stdout, "mtu: 1 is too small") != 4 {
			t.Errorf("%s: exit status %d, expected %q\n%.2000s", name, exit, want, stdout)
		}
	}
	exit, _, stdout, _ := validated(t).ByHand([]string{"validate", "-"}, validateList+strings.Repeat(plugin, 49)+`{"type":"test"}]}`, false, false)
	if exit != 1 || strings.Contains(stdout, "not looked at") || strings.Count(stdout, "mtu: 1 is too small") != 49 {
		t.Errorf("a small list: exit status %d\n%.2000s", exit, stdout)
	}
}
