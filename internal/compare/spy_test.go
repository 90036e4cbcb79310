package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
)

// script is the spy: a plugin of any name that writes down its environment and its stdin, and answers with what a
// file in its folder says. It starts no process of its own, which would take most of the test's time; so its
// answer is one line.
const script = `#!/bin/sh
dir=${0%/*} name=${0##*/}
read -r n < $dir/n
n=$((n+1))
echo $n > $dir/n
export -p > $dir/calls/$n.env
while IFS= read -r line || [ -n "$line" ]; do printf '%s\n' "$line"; done > $dir/calls/$n.stdin
echo $name > $dir/calls/$n.name
if [ -e $dir/fail.$name.$CNI_COMMAND ]; then
  msg="told to fail"
  if [ $CNI_COMMAND = VERSION ]; then msg="unknown CNI_COMMAND: VERSION"; fi
  echo '{"cniVersion":"1.1.0","code":101,"msg":"'"$msg"'"}'
  exit 1
fi
if [ $CNI_COMMAND = VERSION ]; then IFS= read -r line < $dir/serves; printf '%s\n' "$line"; fi
if [ $CNI_COMMAND = ADD ]; then IFS= read -r line < $dir/answer.$name; printf '%s\n' "$line"; fi
exit 0
`

// spies makes a folder, a CNI_PATH, with spies of the given names.
func spies(t testing.TB, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "calls"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "n"), "0\n")
	for _, name := range names {
		write(t, filepath.Join(dir, name), script)
	}
	return dir
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// call is one call of a plugin.
type call struct {
	during string            // the runtime's verb
	plugin string            // its name
	env    map[string]string // without what the shell sets
	stdin  map[string]any    // numbers are json.Number
}

func (c call) String() string { return c.plugin + " " + c.env["CNI_COMMAND"] }

// record is what one side did.
type record struct {
	calls    []call
	outcomes []string // "ADD ok", "DEL error"
	result   string   // of ADD
}

// did notes the outcome of a verb, and the calls that the spies saw during it.
func (r *record) did(t testing.TB, dir, verb string, err error) {
	t.Helper()
	outcome := " ok"
	if err != nil {
		outcome = " error"
	}
	r.outcomes = append(r.outcomes, verb+outcome)
	for n := 1; ; n++ {
		base := filepath.Join(dir, "calls", strconv.Itoa(n))
		name, err := os.ReadFile(base + ".name")
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		env, err1 := os.ReadFile(base + ".env")
		stdin, err2 := os.ReadFile(base + ".stdin")
		if err := errors.Join(err, err1, err2); err != nil {
			t.Fatal(err)
		}
		c := call{during: verb, plugin: strings.TrimSpace(string(name)), env: map[string]string{}}
		for line := range strings.Lines(string(env)) { // export KEY='value'
			key, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
			if !slices.Contains([]string{"PWD", "OLDPWD", "SHLVL", "_"}, key) {
				c.env[key] = strings.Trim(value, `'"`)
			}
		}
		d := json.NewDecoder(bytes.NewReader(stdin))
		d.UseNumber()
		if err := d.Decode(&c.stdin); err != nil {
			t.Fatalf("%v: %s", err, stdin)
		}
		r.calls = append(r.calls, c)
		for _, ext := range []string{".name", ".env", ".stdin"} {
			if err := os.Remove(base + ext); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(t, filepath.Join(dir, "n"), "0\n")
}

// clone copies a record, so that differences can be taken out of it.
func (r record) clone() record {
	c := record{outcomes: slices.Clone(r.outcomes), result: r.result}
	for _, x := range r.calls {
		x.env, x.stdin = maps.Clone(x.env), maps.Clone(x.stdin)
		c.calls = append(c.calls, x)
	}
	return c
}

// text is a record to be compared and read.
func (r record) text() string {
	var b strings.Builder
	fmt.Fprintln(&b, r.outcomes, r.result)
	for _, c := range r.calls {
		fmt.Fprintf(&b, "%s: %s", c.during, c)
		others := fnv.New64a() // what is not CNI's: there may be anything in it
		for _, key := range slices.Sorted(maps.Keys(c.env)) {
			if strings.HasPrefix(key, "CNI_") {
				fmt.Fprintf(&b, " %s=%s", key, c.env[key])
			} else {
				fmt.Fprintf(others, "%s=%s\x00", key, c.env[key])
			}
		}
		fmt.Fprintf(&b, " others=%x", others.Sum64())
		stdin, err := json.Marshal(c.stdin)
		if err != nil {
			panic(err) // it was decoded from JSON
		}
		fmt.Fprintf(&b, "\n\t%s\n", stdin)
	}
	return b.String()
}

// firstDifference is where two texts part.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := 0; i < max(len(x), len(y)); i++ {
		p, q := "nothing", "nothing"
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			return fmt.Sprintf("line %d\nlibcni: %s\nours:   %s", i+1, p, q)
		}
	}
	return ""
}

// life is one network through all verbs, as a runtime runs them.
type life struct {
	config   string
	answers  map[string]string // of the ADD of each plugin
	fails    []string          // "a.DEL": which call fails
	missing  []string          // plugins without a program
	serves   string            // the answer to VERSION
	runtime  map[string]json.RawMessage
	args     string
	gcNoList bool
	verbs    []string // nil: ADD CHECK GC STATUS DEL
}

func (l life) each(do func(verb string)) {
	verbs := l.verbs
	if verbs == nil {
		verbs = []string{"ADD", "CHECK", "GC", "STATUS", "DEL"}
	}
	for _, verb := range verbs {
		do(verb)
	}
}

// prepare makes the folder for one side. Both sides use the same, one after the other: its path is in CNI_PATH.
func (l life) prepare(t testing.TB) (dir string) {
	t.Helper()
	var names []string
	for _, name := range []string{"a", "b", "c"} {
		if !slices.Contains(l.missing, name) {
			names = append(names, name)
		}
	}
	dir = spies(t, names...)
	for _, name := range names {
		answer := l.answers[name]
		if answer == "" {
			answer = "{}"
		}
		write(t, filepath.Join(dir, "answer."+name), answer+"\n")
	}
	write(t, filepath.Join(dir, "serves"), l.serves+"\n")
	for _, f := range l.fails {
		write(t, filepath.Join(dir, "fail."+f), "")
	}
	return dir
}

const (
	container = "c1"
	netns     = "/run/netns/none"
	ifname    = "eth0"
)

func attachments() []types.GCAttachment {
	return []types.GCAttachment{{ContainerID: container, IfName: ifname}}
}

// canonical writes a result so that only what it says counts.
func canonical(t testing.TB, result, version string) string {
	t.Helper()
	r, err := netconf.ParseResult([]byte(result), version)
	if err != nil {
		return result
	}
	var b bytes.Buffer
	if netconf.EncodeResult(&b, nil, r, "1.1.0") != nil {
		return result
	}
	return b.String()
}

// meaning is what a prevResult says, and its version.
func meaning(prev any) any {
	text, err := json.Marshal(prev)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	r, err := netconf.ParseResult(text, "")
	if err != nil {
		return err.Error()
	}
	keys, _ := prev.(map[string]any) // it is an object: see above
	return []any{keys["cniVersion"], r}
}
