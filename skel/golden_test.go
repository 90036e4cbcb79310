package skel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// The golden table: what every call answers, by verb, by what is wrong with it, by the kind of the plugin,
// with and without a prevResult, in every version. The files under testdata/golden are what the code
// answers; TestGolden also holds each case against the rules of goldenRules, which come from the
// specification and know nothing of the code.
//
//	go test ./skel -run TestGolden -update

var update = flag.Bool("update", false, "write the golden files of TestGolden anew")

// goldenCase is one call.
type goldenCase struct {
	verb, version string // CNI_COMMAND; the cniVersion of the configuration: "none" is no such key
	wrong         string // the name of one of goldenWrongs
	kind          skel.Kind
	prev          bool
}

// goldenOutcome is what came of it.
type goldenOutcome struct {
	exit   int
	stdout string
	worked bool // a step was asked to do something
}

// goldenVerbs are the values of CNI_COMMAND, each with the name of its file: two that differ in case would
// be one file on some systems.
var goldenVerbs = [][2]string{
	{"ADD", "ADD"}, {"CHECK", "CHECK"}, {"DEL", "DEL"}, {"GC", "GC"}, {"STATUS", "STATUS"}, {"VERSION", "VERSION"},
	{"", "no-verb"}, {"UPDATE", "unknown-verb"}, {"add", "lower-case-verb"},
}

var (
	goldenVersions = []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0", "none", "1.2.0", "x.y.z"}
	goldenKinds    = []string{"interface", "chained", "ipam", "meta"} // by skel.Kind
)

// goldenCall is a call while it is put together: nothing is wrong with it at first.
type goldenCall struct {
	env    map[string]string
	config map[string]any
	stdin  *string // instead of config
}

var goldenWrongs = []struct {
	name   string
	change func(c *goldenCall)
}{
	{"nothing", func(*goldenCall) {}},
	{"CNI_CONTAINERID missing", unset("CNI_CONTAINERID")},
	{"CNI_CONTAINERID a/b", set("CNI_CONTAINERID", "a/b")},
	{"CNI_NETNS missing", unset("CNI_NETNS")},
	{"CNI_NETNS gone", set("CNI_NETNS", "/nowhere/netns")},
	{"CNI_NETNS no namespace", set("CNI_NETNS", "/etc/passwd")},
	{"CNI_NETNS our own", set("CNI_NETNS_OVERRIDE", "0")},
	{"CNI_IFNAME missing", unset("CNI_IFNAME")},
	{"CNI_IFNAME a/b", set("CNI_IFNAME", "a/b")},
	{"CNI_CONTAINERID and CNI_IFNAME missing", func(c *goldenCall) { unset("CNI_CONTAINERID")(c); unset("CNI_IFNAME")(c) }},
	{"CNI_ARGS missing", unset("CNI_ARGS")},
	{"CNI_ARGS X", set("CNI_ARGS", "X")},
	{"CNI_PATH missing", unset("CNI_PATH")},
	{"CNI_PATH :", set("CNI_PATH", ":")},
	{"stdin empty", func(c *goldenCall) { c.stdin = new(string) }},
	{"stdin no JSON", func(c *goldenCall) { s := "{"; c.stdin = &s }},
	{"stdin a list", func(c *goldenCall) { s := "[]"; c.stdin = &s }},
	{"name missing", func(c *goldenCall) { delete(c.config, "name") }},
	{"name a/b", func(c *goldenCall) { c.config["name"] = "a/b" }},
	{"mtu a string", func(c *goldenCall) { c.config["mtu"] = "1500" }},
	{"mtuu unknown", func(c *goldenCall) { c.config["mtuu"] = 1500 }},
	{"valid-attachments missing", func(c *goldenCall) { delete(c.config, "cni.dev/valid-attachments") }},
}

func set(variable, value string) func(c *goldenCall) {
	return func(c *goldenCall) { c.env[variable] = value }
}
func unset(variable string) func(c *goldenCall) {
	return func(c *goldenCall) { delete(c.env, variable) }
}

// run makes the call in a plugin whose steps succeed.
func (c goldenCase) run(ctx context.Context, t *testing.T, dir string) goldenOutcome {
	worked := false
	do := func(context.Context, *netconf.Request) error { worked = true; return nil }
	add := func(ctx context.Context, req *netconf.Request) error {
		index := -1
		if c.kind == skel.Interface || c.kind == skel.Meta {
			index = req.AddInterface(&types100.Interface{Name: req.IfName, Sandbox: req.Netns})
		}
		if c.kind != skel.Chained {
			req.AddIP(index, net.IPNet{IP: net.IP{10, 0, 0, 2}, Mask: net.CIDRMask(24, 32)}, nil)
		}
		return do(ctx, req)
	}
	p := skel.Plugin[config]{Name: "test", Kind: c.kind, RunDir: dir, Steps: func(*netconf.Request, *config) skel.Steps {
		return skel.Steps{skel.Funcs{Add: add, Check: do, Del: do, GC: do, Status: do}.Step()}
	}}
	var stdout, stderr bytes.Buffer
	env, stdin := c.call(t)
	exit := p.Run(ctx, skel.IO{Env: env, Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr})
	return goldenOutcome{exit, stdout.String(), worked}
}

// call is the environment and stdin.
func (c goldenCase) call(t *testing.T) (env []string, stdin string) {
	call := goldenCall{
		env: map[string]string{
			"CNI_COMMAND": c.verb, "CNI_CONTAINERID": "c1", "CNI_NETNS": "/proc/self/ns/net", "CNI_IFNAME": "eth0",
			"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=p", "CNI_PATH": "/opt/cni/bin", "CNI_NETNS_OVERRIDE": "1",
		},
		config: map[string]any{"name": "net", "type": "test"},
	}
	if c.verb == "GC" {
		call.config["cni.dev/valid-attachments"] = []any{}
	}
	if c.version != "none" {
		call.config["cniVersion"] = c.version
	}
	if c.prev {
		call.config["prevResult"] = goldenPrev(c.version)
	}
	i := slices.IndexFunc(goldenWrongs, func(w struct {
		name   string
		change func(c *goldenCall)
	}) bool {
		return w.name == c.wrong
	})
	goldenWrongs[i].change(&call)
	for k, v := range call.env {
		env = append(env, k+"="+v)
	}
	if call.stdin != nil {
		return env, *call.stdin
	}
	data, err := json.Marshal(call.config)
	if err != nil {
		t.Fatal(err)
	}
	return env, string(data)
}

// goldenPrev is a prevResult in the form of its version.
func goldenPrev(version string) map[string]any {
	ip := map[string]any{"address": "10.0.0.9/24"}
	switch version {
	case "none":
		return map[string]any{"ip4": map[string]any{"ip": "10.0.0.9/24"}}
	case "0.1.0", "0.2.0":
		return map[string]any{"cniVersion": version, "ip4": map[string]any{"ip": "10.0.0.9/24"}}
	case "0.3.0", "0.3.1", "0.4.0":
		ip["version"] = "4"
	}
	return map[string]any{"cniVersion": version, "ips": []any{ip}}
}

// It is not parallel to other tests, some of which have deadlines: it takes all processors for a second.
func TestGolden(t *testing.T) {
	for _, verb := range goldenVerbs {
		t.Run(verb[1], func(t *testing.T) {
			t.Parallel()
			dir, broken := t.TempDir(), 0
			table := goldenTable{}
			for _, wrong := range goldenWrongs {
				for kind := range goldenKinds {
					for _, prev := range []bool{false, true} {
						for _, version := range goldenVersions {
							c := goldenCase{verb[0], version, wrong.name, skel.Kind(kind), prev}
							outcome := c.run(t.Context(), t, dir)
							if err := c.judge(outcome); err != nil && broken < 10 {
								broken++
								t.Errorf("%+v: %v\nexit status %d, stdout %s", c, err, outcome.exit, outcome.stdout)
							}
							table.add(c, outcome)
						}
					}
				}
			}
			compareGolden(t, filepath.Join("testdata", "golden", verb[1]+".txt"), table.text())
		})
	}
}

// compareGolden compares a text with the file that holds what is expected, or writes the file.
func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := string(data)
	only := func(mark, a, b string) (out string) {
		have := map[string]bool{}
		for line := range strings.Lines(b) {
			have[line] = true
		}
		for line := range strings.Lines(a) {
			if !have[line] {
				out += mark + line
			}
		}
		return out
	}
	if got != want {
		t.Errorf("the answers are not those of %s (- expected, + got). If they are right, write it anew: go test ./skel -run TestGolden -update\n%s%s",
			file, only("- ", want, got), only("+ ", got, want))
	}
}

// goldenTable gathers outcomes: cases that differ only in their kind, prevResult or version and answer the
// same share a line.
type goldenTable struct {
	wrongs []string                     // in order
	cases  map[string][]goldenAnswerers // by what is wrong
}

// goldenAnswerers are the kinds, with or without a prevResult, that answer the same in each version.
type goldenAnswerers struct {
	who     map[bool][]skel.Kind // by whether there is a prevResult
	answers []string             // by version
}

func (table *goldenTable) add(c goldenCase, o goldenOutcome) {
	if table.cases == nil {
		table.cases = map[string][]goldenAnswerers{}
	}
	if !slices.Contains(table.wrongs, c.wrong) {
		table.wrongs = append(table.wrongs, c.wrong)
	}
	groups := table.cases[c.wrong]
	if c.version == goldenVersions[0] {
		groups = append(groups, goldenAnswerers{who: map[bool][]skel.Kind{c.prev: {c.kind}}})
	}
	last := &groups[len(groups)-1]
	last.answers = append(last.answers, o.line(c.version))
	if len(last.answers) == len(goldenVersions) { // the kind is complete: with those before that answer the same?
		for i := range groups[:len(groups)-1] {
			if slices.Equal(groups[i].answers, last.answers) {
				groups[i].who[c.prev] = append(groups[i].who[c.prev], c.kind)
				groups = groups[:len(groups)-1]
				break
			}
		}
	}
	table.cases[c.wrong] = groups
}

// line is an outcome on one line; $V stands for the version asked with.
func (o goldenOutcome) line(version string) string {
	if version == "none" {
		version = "0.1.0"
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(o.stdout)); err != nil {
		compact.WriteString("-") // nothing: goldenDocument has seen to it that it is no garbage
	}
	return fmt.Sprintf("%d\t%s", o.exit, strings.NewReplacer(fmt.Sprintf(`"cniVersion":%q`, version), `"cniVersion":"$V"`,
		"in version "+version, "in version $V", fmt.Sprintf(`version \"%s\"`, version), `version \"$V\"`,
		"cniVersion: "+version+" has", "cniVersion: $V has").Replace(compact.String()))
}

func (g goldenAnswerers) equal(h goldenAnswerers) bool {
	return slices.Equal(g.answers, h.answers) && slices.Equal(g.who[true], h.who[true]) && slices.Equal(g.who[false], h.who[false])
}

// String names the kinds: "interface+ipam,meta/prev" is two whatever they got, and one with a prevResult.
func (g goldenAnswerers) String() string {
	var both, with, without []string
	for kind, name := range goldenKinds {
		k := skel.Kind(kind)
		switch w, wo := slices.Contains(g.who[true], k), slices.Contains(g.who[false], k); {
		case w && wo:
			both = append(both, name)
		case w:
			with = append(with, name)
		case wo:
			without = append(without, name)
		}
	}
	list := func(names []string, suffix string) string {
		if len(names) == len(goldenKinds) {
			names = []string{"all"}
		}
		if len(names) == 0 {
			return ""
		}
		return strings.Join(names, "+") + suffix
	}
	return strings.Join(strings.Fields(list(both, "")+" "+list(with, "/prev")+" "+list(without, "/no-prev")), ",")
}

// text is the file.
func (table *goldenTable) text() string {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "wrong\tkind\tversion\texit\tstdout, on one line")
	for _, wrong := range table.wrongs {
		groups := table.cases[wrong]
		if wrong != "nothing" && slices.EqualFunc(groups, table.cases["nothing"], goldenAnswerers.equal) {
			fmt.Fprintf(w, "%s\tall\tall\t\tas with nothing wrong\n", wrong)
			continue
		}
		for _, g := range groups {
			for i, answer := range g.answers {
				if slices.Index(g.answers, answer) != i {
					continue
				}
				var versions []string
				for j, v := range goldenVersions {
					if g.answers[j] == answer {
						versions = append(versions, v)
					}
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", wrong, g, span(versions), answer)
			}
		}
	}
	if err := w.Flush(); err != nil {
		panic(err) // into memory
	}
	lines := strings.Split(out.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// span writes versions that follow one another as "0.1.0..0.4.0".
func span(versions []string) string {
	var out []string
	for i := 0; i < len(versions); {
		at, j := slices.Index(goldenVersions, versions[i]), i
		for j+1 < len(versions) && versions[j+1] == goldenVersions[at+j+1-i] && slices.Contains(goldenKnown, versions[j+1]) {
			j++
		}
		if j > i {
			out = append(out, versions[i]+".."+versions[j])
		} else {
			out = append(out, versions[i])
		}
		i = j + 1
	}
	return strings.Join(out, ",")
}
