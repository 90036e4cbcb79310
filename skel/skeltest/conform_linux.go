package skeltest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/skel"
)

// Target is a plugin that is held against the requirements. The zero value of each field but Plugin and Config is
// useful.
type Target struct {
	// Plugin is a skel.Plugin, or a Binary.
	Plugin Plugin
	// Config is what a runtime sends on stdin; or a list of plugins (a conflist), of which the last one is
	// judged, and those before it run for real, as programs from Path.
	Config string
	// Kind says what the plugin does, and so which of the requirements apply.
	Kind skel.Kind
	// Path is CNI_PATH: the folders of the delegates, and that of the program itself last. Default, for a plugin in the
	// same process: an empty folder, since every runtime sends one, and what the machine has installed is not the test's.
	Path []string
	// Setup prepares the host. It has lo, and p0 and p1, the ends of a veth pair, which stand for the network card
	// and its cable, up and without addresses. The Path of b is the CNI_PATH that the plugin gets.
	Setup func(b *Bench)
	// Parent is the link of the host that the attachment needs; default "p0".
	Parent string
	// Single says that the configuration is for one attachment at a time, as where it names a device that is moved; it
	// need not be said where the first one takes the Parent away. Otherwise a second one that fails is a failure.
	Single bool
	// Stateless says that an IPAM plugin keeps nothing: what it gives follows from the call alone, and may be the same for
	// all. What is about leases does not apply to it, and an ADD that does leave something is a failure.
	Stateless bool
	// State are the folders in which the plugin and its delegates keep what they know: each requirement begins with
	// them empty, and what is left there is seen. One that is not there is made, and removed at the end. Default [DefaultState], which it replaces: append to that what is the
	// plugin's own. All of /run and /var/lib/cni is empty at first in any case; every other folder is the machine's.
	State []string
	// Volatile are the files of State that may differ when nothing is left; nil means [DefaultVolatile].
	Volatile *regexp.Regexp
	// Only are the requirements that are judged, by their IDs, besides the first; nil means all.
	Only *regexp.Regexp
	// Limit is how long a call may take before the requirement fails; default a minute, since runtimes give up after
	// two to four.
	Limit time.Duration
}

// DefaultState lists the folders that plugins are known to keep their state in: /var/lib/cni (the reference plugins, and
// runtimes), /run/cni (the reference dhcp and tuning) and /run/cnikit (skel).
func DefaultState() []string { return []string{"/var/lib/cni", "/run/cni", "/run/cnikit"} }

// DefaultVolatile matches what host-local leaves, and locks.
const DefaultVolatile = `(^|/)(lock|[^/]*\.lock|last_reserved_ip[^/]*)$`

// Level says who wants a requirement.
type Level string

// The levels.
const (
	Must   Level = "MUST"   // the specification, by this word or by saying what a plugin does
	Should Level = "SHOULD" // the specification, by this word
	Ours   Level = "ours"   // runtimes rely on it, or clusters broke without it; the specification does not say it
)

// Requirement is one thing that a plugin is held to.
type Requirement struct {
	ID      string      // "group/name"; it stays the same
	Level   Level       // who wants it
	Section string      // where it is said
	Text    string      // what must hold, a sentence
	Explain string      // what went wrong elsewhere, and what to do, for an author who breaks it
	Kinds   []skel.Kind // which plugins it is for; nil: all
	Check   func(b *Bench)
}

// Group is the part of the ID before the slash.
func (r Requirement) Group() string { group, _, _ := strings.Cut(r.ID, "/"); return group }

// Requirements lists all of them, in the order in which they are judged. The first says that ADD works: without it
// nothing can be said of the others.
func Requirements() []Requirement {
	return slices.Concat(
		addRequirements(), deleteRequirements(), protocolRequirements(), configRequirements(), envRequirements(), streamRequirements(),
		checkRequirements(), gcRequirements(), statusRequirements(), ipamRequirements(), concurrencyRequirements(), killRequirements(),
	)
}

// Status is what became of a requirement.
type Status string

// The outcomes. What is not pass and not not-applicable counts as a failure.
const (
	Pass          Status = "pass"
	Failed        Status = "FAIL"
	NotApplicable Status = "n/a"      // Detail says why
	NotJudged     Status = "unjudged" // something broke that is not the plugin's; Detail says what
)

// Outcome is what became of one requirement.
type Outcome struct {
	ID     string        `json:"id"`
	Status Status        `json:"status"`
	Detail string        `json:"detail,omitempty"` // the difference seen, or the reason
	Took   time.Duration `json:"nanoseconds"`
}

// OK tells whether the outcome is no failure.
func (o Outcome) OK() bool { return o.Status == Pass || o.Status == NotApplicable }

// Conform holds a plugin against all [Requirements], each in a subtest of its own and on a host of its own: the test
// binary is started again, in new network, mount and process namespaces, for each, and runs the test up to this call.
// A test calls it once, and last: the subtests run in parallel. What does not apply passes, and its log says why. Where a
// plugin in this process says that the kernel lacks what it needs, the test is skipped.
//
// A plugin that keeps state in a folder of its own names it in Target.State. Otherwise what it leaves there is not seen,
// and outside of /run and /var/lib/cni it is the machine's folder: what one requirement leaves is there for the next.
func Conform(t *testing.T, target Target) {
	t.Helper()
	NeedRoot(t)
	name := t.Name()
	if id, here := asked(name); here {
		os.Exit(serve(target, Requirements(), id))
	} else if id != "" {
		t.Skip("another test's requirement is being judged")
	}
	if target.Only == nil && testbin.Guest() {
		t.Skip("thousands of calls: many minutes in an emulated guest")
	}
	t.Cleanup(stateFolders(target.state())) // after all subtests
	again := []string{os.Args[0], "-test.run=" + exactly(name), "-test.count=1", "-test.timeout=10m"}
	for i, r := range Requirements() {
		if i > 0 && target.Only != nil && !target.Only.MatchString(r.ID) {
			continue
		}
		lacks := ""
		t.Run(r.ID, func(t *testing.T) {
			if t.Name() != name+"/"+r.ID {
				t.Fatal("Conform is called twice in one test: in the process of each requirement only the first call is reached")
			}
			if i > 0 {
				t.Parallel() // each has processes and namespaces of its own
			}
			o := judge(t.Context(), r, name, again)
			switch {
			case o.Status == NotApplicable && i == 0:
				lacks = o.Detail
				t.Skip(lacks)
			case o.Status == NotApplicable:
				t.Logf("not applicable: %s", o.Detail)
			case o.Status != Pass:
				t.Errorf("%s (%s, %s)\n%s\n%s", r.Text, r.Level, r.Section, o.Detail, r.Explain)
			}
		})
		if lacks != "" {
			t.Skip(lacks)
		}
		if i == 0 && t.Failed() {
			t.Fatal("the other requirements are not judged: they need an ADD that works")
		}
	}
}

// exactly is the pattern for -test.run that selects one test.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// Judge holds a plugin against the requirements, which may be the caller's own too, in order, each on a host of its own, and reports each outcome; it
// goes on while report says so, and until ctx ends: what is being judged then is killed, and not reported. The program is started again for each with the same arguments, and must come to
// the same call again: that one does not return. It needs root.
//
// It is for commands; a test has [Conform].
func Judge(ctx context.Context, target Target, requirements []Requirement, report func(Requirement, Outcome) bool) {
	const name = "command"
	if id, here := asked(name); here {
		os.Exit(serve(target, requirements, id))
	}
	defer stateFolders(target.state())()
	for _, r := range requirements {
		o := judge(ctx, r, name, os.Args)
		if ctx.Err() != nil || !report(r, o) {
			return
		}
	}
}

// Kinds are the kinds of plugins by the names that a command line has for them.
func Kinds() map[string]skel.Kind {
	return map[string]skel.Kind{"interface": skel.Interface, "chained": skel.Chained, "ipam": skel.IPAM, "meta": skel.Meta}
}

func kindName(kind skel.Kind) string {
	for name, k := range Kinds() {
		if k == kind {
			return name
		}
	}
	return "?"
}

// KindOf tells the kind of plugin that a configuration is for: a list of several is for a chained one, one whose ipam
// section names the plugin itself for an IPAM plugin, and any other for one that makes an interface.
func KindOf(config string) (skel.Kind, error) {
	var c struct {
		Type    string
		IPAM    struct{ Type string }
		Plugins []json.RawMessage
	}
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return 0, fmt.Errorf("the configuration: %w", err)
	}
	switch {
	case len(c.Plugins) > 1:
		return skel.Chained, nil
	case c.Type != "" && c.Type == c.IPAM.Type:
		return skel.IPAM, nil
	}
	return skel.Interface, nil
}
