package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// soak is the environment variable that asks for all seeded faults, whatever its value; without it the quick ones are
// tried. Each costs a build of an example, and seconds.
const soak = "CNIKIT_SOAK"

// ipamSection has the reference host-local as a program, under a name of its own: what is
// handed on to a program is what some of the faults are about.
const ipamSection = `"ipam":{"type":"reference-host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}`

// examples are the configurations of the examples that faults are put into, and of onePlace.
var examples = map[string]string{
	"macvlan": `{"cniVersion":"1.1.0","name":"net","type":"macvlan","master":"p0","mtu":1400,` + ipamSection + `}`,
	"layer 2": `{"cniVersion":"1.1.0","name":"net","type":"macvlan","master":"p0"}`,
	"shaped":  `{"cniVersion":"1.1.0","name":"net","type":"macvlan","master":"p0","mtu":1400,` + ipamSection + `}`,
	"bridge":  `{"cniVersion":"1.1.0","name":"net","type":"bridge","bridge":"br0","isGateway":true,` + ipamSection + `}`,
	"tuning": `{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"ptp",` + ipamSection + `},
		{"type":"tuning","sysctl":{"net.ipv4.conf.IFNAME.arp_filter":"1"}}]}`,
	"one": `{"cniVersion":"1.1.0","name":"net","type":"one","ipam":{"type":"one","ranges":[]}}`,
}

// setups are what the host has besides, for some of them.
var setups = map[string]string{
	"shaped": "#!/bin/sh\ntc qdisc add dev p0 root handle 1: htb && tc class add dev p0 parent 1: classid 1:1 htb rate 1gbit\n",
}

// Faults that hand-written plugins have, put into an example: the command must find each, by the requirements that are
// there for it, and these pass without it.
func TestSeeded(t *testing.T) {
	skeltest.NeedRoot(t)
	_, all := os.LookupEnv(soak)
	command := command(t)
	path := t.TempDir()
	if err := os.Symlink(filepath.Join(testbin.Reference(t, testbin.HostLocal), "host-local"), filepath.Join(path, "reference-host-local")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(testbin.Plugin(t, "ptp"), filepath.Join(path, "ptp")); err != nil {
		t.Fatal(err)
	}
	ids, of := map[string][]string{}, map[string]string{}
	for _, s := range seeded {
		if !s.quick && !all {
			continue
		}
		conf := cmp.Or(s.conf, s.plugin)
		of[conf], ids[conf] = s.plugin, append(ids[conf], strings.Fields(s.ids)...)
		t.Run(strings.ReplaceAll(s.fault, " ", "-"), func(t *testing.T) {
			outcomes := conformance(t, command, path, conf, s.build(t), strings.Fields(s.ids))
			for _, id := range strings.Fields(s.ids) {
				if o := outcomes[id]; o.Status != skeltest.Failed {
					t.Errorf("%s: %q %s: expected it to fail", id, o.Status, o.Detail)
				}
			}
		})
	}
	for conf, which := range ids {
		t.Run("none-in-"+strings.ReplaceAll(conf, " ", "-"), func(t *testing.T) {
			for id, o := range conformance(t, command, path, conf, testbin.Plugin(t, of[conf]), which) {
				if o.Status != skeltest.Pass {
					t.Errorf("%s: %q %s", id, o.Status, o.Detail)
				}
			}
		})
	}
}

// Every requirement of these groups has a fault in the table that it is known to find; skeltest's own table has the
// others, and TestExhausted the one for IPAM plugins.
func TestSeededFindEachRequirement(t *testing.T) {
	t.Parallel()
	found := map[string]bool{"status/exhausted": true}
	for _, s := range seeded {
		for _, id := range strings.Fields(s.ids) {
			found[id] = true
		}
	}
	for _, r := range skeltest.Requirements() {
		switch r.Group() {
		case "env", "stdin", "stdout", "check", "gc", "status", "ipam", "concurrency", "kill":
			if !found[r.ID] {
				t.Errorf("%s: no fault in the table makes it fail", r.ID)
			}
		}
	}
}

// onePlace is an IPAM plugin with one address. ADD and STATUS have what stands in the place of their words.
const onePlace = `#!/bin/sh
cat > /dev/null
lease=/var/lib/cni/one
full() { echo '{"cniVersion":"1.1.0","code":50,"msg":"no address is left"}'; exit 1; }
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}' ;;
ADD) [ GIVE ! -e $lease ] || full; echo "$CNI_CONTAINERID" > $lease; echo '{"cniVersion":"1.1.0","ips":[{"address":"10.99.0.2/30"}]}' ;;
DEL) [ "$(cat $lease 2> /dev/null)" != "$CNI_CONTAINERID" ] || rm $lease ;;
STATUS) [ READY ! -e $lease ] || full ;;
esac
`

func TestExhausted(t *testing.T) {
	skeltest.NeedRoot(t)
	command := command(t)
	const always = "0 = 0 -o"
	for name, test := range map[string]struct {
		give, ready string
		want        skeltest.Status
		detail      string
	}{
		"sound":                      {"", "", skeltest.Pass, ""},
		"ready without an address":   {"", always, skeltest.Failed, "no address is left"},
		"one address given twice":    {always, "", skeltest.Failed, "10.99.0.2 was given twice"},
		"given twice, and ready too": {always, always, skeltest.Failed, "10.99.0.2 was given twice"},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := filepath.Join(t.TempDir(), "one")
			if err := os.WriteFile(plugin, []byte(strings.NewReplacer("GIVE", test.give, "READY", test.ready).Replace(onePlace)), 0o755); err != nil {
				t.Fatal(err)
			}
			o := conformance(t, command, "", "one", plugin, []string{"status/exhausted"})["status/exhausted"]
			if o.Status != test.want || !strings.Contains(o.Detail, test.detail) {
				t.Errorf("%s %s: expected %s %s", o.Status, o.Detail, test.want, test.detail)
			}
		})
	}
}

// conformance runs the command and returns what it says of some requirements.
func conformance(t *testing.T, command, path, name, plugin string, ids []string) map[string]skeltest.Outcome {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(conf, []byte(examples[name]), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-json", "-plugin", plugin, "-conf", conf, "-path", path, "-run", "^(" + strings.Join(ids, "|") + ")$"}
	if text := setups[name]; text != "" {
		args = append(args, "-setup", write(t, "setup", text))
	}
	cmd := exec.CommandContext(t.Context(), command, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	outcomes := map[string]skeltest.Outcome{}
	for documents := json.NewDecoder(bytes.NewReader(out)); documents.More(); {
		var o skeltest.Outcome
		if err := documents.Decode(&o); err != nil {
			t.Fatal(err)
		}
		outcomes[o.ID] = o
	}
	return outcomes
}

// The faults are in the soak: that a text is no longer what it was must not be found there, hours later.
func TestSeededTextsAreWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, s := range seeded {
		source, err := os.ReadFile(filepath.Join("..", "..", s.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(source), s.old); n != 1 {
			t.Errorf("%s: %s has this %d times, expected once: say the fault anew:\n%s", s.fault, s.file, n, s.old)
		}
	}
}

// build builds the example with the fault in it, from a copy of the file, and returns the program.
func (s seed) build(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	file, dir := filepath.Join(root, s.file), t.TempDir()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), s.old); n != 1 {
		t.Fatalf("%s has this %d times, expected once: say the fault anew:\n%s", s.file, n, s.old)
	}
	text := strings.Replace(string(source), s.old, s.new, 1)
	if s.imports != "" {
		text = strings.Replace(text, "\nimport (", "\nimport \""+s.imports+"\"\nimport (", 1)
	}
	broken, overlay, program := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay"), filepath.Join(dir, s.plugin)
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: broken}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{broken: text, overlay: string(replace)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-C", root, "-overlay", overlay, "-o", program, "./examples/plugins/"+s.plugin)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}
