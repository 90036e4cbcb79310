package skeltest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/internal/testbin"
)

// shPlugin are the configurations of testdata/sh-plugin, which meets those in the table of faults until it is told not to.
var shPlugin = map[string]string{
	"interface": `{"cniVersion":"1.1.0","name":"net","type":"sh-plugin","parent":"p0","ipam":{"type":"sh-ipam"}}`,
	"no ipam":   `{"cniVersion":"1.1.0","name":"net","type":"sh-plugin"}`,
	"chained":   `{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"sh-plugin"},{"type":"sh-plugin","chained":true}]}`,
	"ipam":      `{"cniVersion":"1.1.0","name":"net","type":"sh-plugin","ipam":{"type":"sh-plugin","first":2}}`,
}

// faults says which requirements each fault of testdata/sh-plugin must make fail.
var faults = []struct{ config, fault, ids string }{
	{"interface", "nothing is made", "add/works"},
	{"no ipam", "the result is not of ours", "add/works protocol/result"},
	{"no ipam", "a taken name is rolled back", "add/taken-name"},
	{"no ipam", "a second ADD is rolled back", "add/twice"},
	{"no ipam", "the container alone is the key", "add/two-interfaces"},
	{"interface", "the address is forgotten", "add/again del/all del/no-netns"},
	{"interface", "dies by SIGTERM", "add/terminated"},
	{"no ipam", "a process stays", "del/all del/twice"},
	{"chained", "a process stays", "del/all"},
	{"chained", "the old MTU is not given back", "del/all"},
	{"chained", "a sysctl stays", "del/all"},
	{"no ipam", "a sysctl of the host stays", "del/all"},
	{"no ipam", "the second DEL fails", "del/twice del/never-added"},
	{"no ipam", "a stale file is an error", "del/stale-netns"},
	{"interface", "DEL takes everything", "del/never-added"},
	{"no ipam", "DEL goes by the name", "del/foreign-link"},
	{"interface", "no namespace is no work", "del/no-netns"},
	{"interface", "a namespace that is gone is no work", "del/gone-netns"},
	{"no ipam", "a namespace that is odd is an error", "del/odd-netns"},
	{"no ipam", "a namespace that is odd is no work", "del/odd-netns"},
	{"no ipam", "what has the name of a namespace goes", "del/odd-netns"},
	{"no ipam", "works in its own namespace", "del/own-netns env/own-netns"},
	{"no ipam", "the prevResult ends DEL", "del/prev-result"},
	{"no ipam", "DEL needs a prevResult that can be read", "del/odd-prev-result"},
	{"interface", "the parent is looked up first", "del/parent-gone"},
	{"interface", "DEL validates like ADD", "del/bad-config"},
	{"ipam", "DEL validates like ADD", "del/bad-config"},
	{"interface", "DEL wants to know its IPAM plugin", "del/bad-config"},
	{"no ipam", "VERSION lists nothing", "protocol/version"},
	{"no ipam", "VERSION knows only itself", "protocol/version-echo"},
	{"no ipam", "the result is always of 1.1.0", "protocol/result"},
	{"no ipam", "an index points nowhere", "protocol/result"},
	{"no ipam", "errors are not reported", "protocol/error"},
	{"no ipam", "errors are not reported", "env/missing env/command env/bad env/netns add/taken-name check/no-prev-result"},
	{"no ipam", "errors of the configuration are not reported", "config/not-json config/wrong-type config/version config/name"},
	{"no ipam", "errors without a version", "protocol/error-version"},
	{"no ipam", "one code for all", "protocol/error-codes"},
	{"no ipam", "prints on stdout", "protocol/stdout"},
	{"no ipam", "two documents", "protocol/stdout"},
	{"no ipam", "DEL answers", "protocol/stdout"},
	{"chained", "the prevResult is dropped", "protocol/prev-result"},
	{"chained", "dns is dropped", "protocol/prev-result"},
	{"chained", "unknown fields are dropped", "protocol/prev-unknown"},
	{"chained", "a second ADD forgets the first", "add/twice"},
	{"chained", "the old MTU is written down last", "kill/add"},
	{"no ipam", "lenient", "config/not-json"},
	{"no ipam", "wrong types are ignored", "config/wrong-type"},
	{"no ipam", "any version will do", "config/version"},
	{"no ipam", "any network name will do", "config/name"},
	{"no ipam", "strange keys are refused", "config/reserved"},
	{"no ipam", "typos are not mentioned", "config/typo"},
	{"ipam", "typos are not mentioned", "config/typo"},
	{"no ipam", "nobody's attachment is fine", "env/missing"},
	{"no ipam", "any verb is ADD", "env/command"},
	{"no ipam", "any id will do", "env/bad"},
	{"ipam", "any id will do", "env/bad"},
	{"no ipam", "the namespace is not looked at", "env/netns"},
	{"no ipam", "arguments are refused", "env/args"},
	{"no ipam", "bare arguments are refused", "env/args-bare"},
	{"no ipam", "names are cut off", "env/limits"},
	{"no ipam", "DEL needs CNI_PATH", "env/path"},
	{"no ipam", "stdin is not checked", "stdin/closed"},
	{"no ipam", "errors are not reported", "stdin/closed"},
	{"no ipam", "crashes on a bad stream", "stdin/closed stdout/closed stdout/full stdout/no-reader"},
	{"no ipam", "hangs on a bad stream", "stdout/full"},
	{"no ipam", "begins before it has read all", "stdin/never-closed"},
	{"no ipam", "large configurations are cut off", "stdin/huge"},
	{"no ipam", "the result's write is not checked", "stdout/closed stdout/full"},
	{"no ipam", "dies by SIGPIPE", "stdout/no-reader"},
	{"no ipam", "one attachment is all", "concurrency/fifty"},
}

// ownTests are the requirements that a program cannot break; TestWalkFindsWhatIsWrong holds the walk to what it finds.
var ownTests = []string{"add/harmed"}

func shTarget(t *testing.T, config, fault string) Target {
	t.Helper()
	script, err := os.ReadFile("testdata/sh-plugin")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"sh-plugin": string(script), "sh-ipam": string(script), "fault": fault} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	kind, err := KindOf(shPlugin[config])
	if err != nil {
		t.Fatal(err)
	}
	// A fault that never ends is known by then: without one the longest call takes a second.
	return Target{Plugin: Binary(filepath.Join(dir, "sh-plugin")), Config: shPlugin[config], Kind: kind, Limit: 20 * time.Second}
}

// judged judges one requirement of testdata/sh-plugin; in a child it does not return.
func judged(t *testing.T, config, fault, id string) Outcome {
	t.Helper()
	return judgedOf(t, func() Target { return shTarget(t, config, fault) }, id)
}

// judgedOf judges one requirement of a plugin; in a child it does not return.
func judgedOf(t *testing.T, target func() Target, id string) Outcome {
	t.Helper()
	if only, here := asked(t.Name()); here {
		os.Exit(serve(target(), Requirements(), only))
	}
	i := slices.IndexFunc(Requirements(), func(r Requirement) bool { return r.ID == id })
	if i < 0 {
		t.Fatalf("no requirement %q", id)
	}
	again := []string{os.Args[0], "-test.run=" + exactly(t.Name()), "-test.count=1"}
	return judge(t.Context(), Requirements()[i], t.Name(), again)
}

// One attachment at a time is no fault where the target says so, or the first one takes the parent away; else it is.
func TestSecondAttachmentIsNeededUnlessSaidOtherwise(t *testing.T) {
	NeedRoot(t)
	if testbin.Guest() {
		t.Skip("hundreds of processes, and no kernel makes a difference")
	}
	for name, set := range map[string]func(*Target){
		"not said":            func(*Target) {},
		"said":                func(target *Target) { target.Single = true },
		"no parent to begin":  func(target *Target) { target.Parent = "none" },
		"the parent is taken": func(target *Target) { target.Parent = "taken" },
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			// One after the other, long ids can be told apart all the same.
			for id, want := range map[string]Status{"concurrency/fifty": NotApplicable, "env/limits": Pass} {
				o := judgedOf(t, func() Target {
					target := shTarget(t, "no ipam", "one attachment is all")
					target.Setup = func(b *Bench) { Host(b, "ip", "link", "add", "taken", "type", "bridge") }
					set(&target)
					return target
				}, id)
				if name == "not said" || name == "no parent to begin" {
					want = Failed
				}
				if o.Status != want {
					t.Errorf("%s: %s %s, expected %s", id, o.Status, o.Detail, want)
				}
			}
		})
	}
}

// Each fault makes the requirements fail that are there to find it, and without it they pass.
func TestFaultsAreCaught(t *testing.T) {
	NeedRoot(t)
	if testbin.Guest() {
		t.Skip("two hundred processes for each requirement: minutes in an emulated guest, and no kernel makes a difference")
	}
	t.Parallel() // so that the waiting of the one and the work of the other are done at once
	for i, f := range faults {
		if testing.Short() && i%10 != 0 {
			continue
		}
		t.Run(strings.ReplaceAll(f.fault+", "+f.config, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for _, id := range strings.Fields(f.ids) {
				o := judged(t, f.config, f.fault, id)
				if o.Status != Failed {
					t.Errorf("%s: %s %s", id, o.Status, o.Detail)
				}
				t.Logf("%s: %s", id, o.Detail)
			}
		})
	}
}

func TestSoundPluginPasses(t *testing.T) {
	NeedRoot(t)
	if testbin.Guest() {
		t.Skip("two hundred processes for each requirement: minutes in an emulated guest, and no kernel makes a difference")
	}
	t.Parallel()
	seen := map[string]bool{}
	for i, f := range faults {
		if testing.Short() && i%10 != 0 {
			continue
		}
		for _, id := range strings.Fields(f.ids) {
			name := f.config + " " + id
			if seen[name] {
				continue
			}
			seen[name] = true
			t.Run(strings.NewReplacer(" ", "-", "/", "-").Replace(name), func(t *testing.T) {
				t.Parallel()
				o := judged(t, f.config, "", id)
				if o.Status != Pass {
					t.Errorf("%s: %s %s", id, o.Status, o.Detail)
				}
			})
		}
	}
}

// Every requirement of these groups has a fault that it is known to find.
func TestEveryRequirementCanFail(t *testing.T) {
	found := slices.Clone(ownTests)
	for _, f := range faults {
		found = append(found, strings.Fields(f.ids)...)
	}
	ids := map[string]bool{}
	for _, r := range Requirements() {
		if ids[r.ID] {
			t.Errorf("%s: there are two of this ID", r.ID)
		}
		ids[r.ID] = true
		if r.Text == "" || r.Explain == "" || r.Section == "" || r.Level == "" || r.Check == nil {
			t.Errorf("%s: something is missing", r.ID)
		}
		switch r.Group() {
		case "add", "del", "protocol", "config", "env", "stdin", "stdout":
			if !slices.Contains(found, r.ID) {
				t.Errorf("%s: no fault in the table makes it fail", r.ID)
			}
		}
	}
}
