package skel_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type base struct {
	Inherited bool `json:"inherited" doc:"from an embedded struct"`
}

type unseen struct {
	Lost bool `json:"lost" doc:"nothing can be set behind a nil pointer to an unexported struct"`
}

type tree struct {
	Name  string `json:"name" doc:"of the branch" example:"oak"`
	Below []tree `json:"below" doc:"more of them"`
}

// picky panics at what it does not know, as no type should.
type picky struct{}

func (*picky) UnmarshalText([]byte) error { panic("what is this?") }

// free takes everything.
type free struct{}

func (*free) UnmarshalJSON([]byte) error { return nil }

// everything has a key of each sort.
type everything struct {
	base
	checked
	*unseen
	MTU    *int              `json:"mtu" doc:"hides the embedded one's" example:"9000"`
	Ratio  float64           `json:"ratio" doc:"a fraction" example:"0.5"`
	Queue  uint8             `json:"queue"`
	MAC    netconf.MAC       `json:"mac" doc:"hardware address"`
	Nets   []netconf.Prefix  `json:"nets" doc:"which are reached" example:"10.0.0.0/8"`
	Wait   netconf.Duration  `json:"wait" doc:"at most"`
	Labels map[string]string `json:"labels" doc:"of the pod" example:"{\"a\":\"b\"}"`
	Ports  [2][]struct {
		Number uint16 `json:"number" doc:"from 1" example:"80"`
		Name   string `json:"name" example:"80"`
	} `json:"ports" doc:"what is open"`
	Rules  map[string]struct{ On bool } `json:"rules" doc:"by name"`
	Forest tree                         `json:"forest" doc:"a tree"`
	Raw    json.RawMessage              `json:"raw" doc:"as it is"`
	Any    any                          `json:"any"`
	Bytes  []byte                       `json:"bytes"`
	Picky  picky                        `json:"picky"`
	Free   free                         `json:"free"`
	Masq   netconf.Unserved             `json:"ipMasq" doc:"not served"`
	Vlan   netconf.Unserved             `json:"vlan"`
	NoTag  string                       `doc:"has the name of its field, and an explanation that is so long that it does not fit into one line of a hundred columns, whatever is done"`
	Hidden string                       `json:"-" doc:"nobody sees it"`
	hidden string
}

func helpful() skel.Plugin[everything] {
	return skel.Plugin[everything]{
		Name: "test", About: "for tests", RunDir: "/nowhere",
		Defaults: func() everything {
			n := 1500
			return everything{MTU: &n, Ratio: 1.5, Labels: map[string]string{"x": "y"}, checked: checked{Colour: "red"}, hidden: "x"}
		},
		Steps: func(_ *netconf.Request, c *everything) skel.Steps { return nil },
	}
}

// What the help says of keys of each sort, in testdata/help.txt; go test ./skel -run TestHelp -update
func TestHelp(t *testing.T) {
	t.Parallel()
	exit, served, stdout, stderr := helpful().ByHand(nil, "", true, false)
	if exit != 0 || !served || stderr != "" {
		t.Errorf("exit status %d, %s", exit, stderr)
	}
	compareGolden(t, filepath.Join("testdata", "help.txt"), stdout)
	for line := range strings.Lines(stdout) {
		if n := utf8.RuneCountInString(line) - 1; n > 100 || strings.HasSuffix(line, " \n") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, args := range [][]string{{"help"}, {"-h"}, {"-help"}, {"--help"}} {
		if exit, _, again, _ := helpful().ByHand(args, "", false, false); exit != 0 || again != stdout {
			t.Errorf("%v: exit status %d, or another text", args, exit)
		}
	}
	if _, _, coloured, _ := helpful().ByHand(nil, "", true, true); strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "").Replace(coloured) != stdout || coloured == stdout {
		t.Error("with colours it is another text, or has none")
	}
}

// pace is an enumeration as those of links are: its zero value has a name.
type pace string

func (pace) Expects() string                    { return netconf.Choice("slow", "fast") }
func (s pace) MarshalText() ([]byte, error)     { return []byte(cmp.Or(string(s), "fast")), nil }
func (s *pace) UnmarshalText(text []byte) error { *s = pace(text); return nil }

// An enumeration told its words, and not which of them it is where the key is left out.
func TestHelpNamesTheDefaultOfAnEnumeration(t *testing.T) {
	t.Parallel()
	type config struct {
		Speed pace             `json:"speed" doc:"of the cable"`
		Wait  netconf.Duration `json:"wait"`
		MAC   netconf.MAC      `json:"mac"`
	}
	p := skel.Plugin[config]{Name: "test", Steps: func(*netconf.Request, *config) skel.Steps { return nil }}
	_, _, stdout, _ := p.ByHand(nil, "", true, false)
	if !strings.Contains(stdout, `slow or fast: of the cable (default "fast")`) || strings.Count(stdout, "(default") != 1 {
		t.Errorf("%s", stdout)
	}
}

// The example is a list that validate finds nothing wrong with, for each kind; where there is none, there is
// no wrong one.
func TestExampleOfTheHelpIsValid(t *testing.T) {
	t.Parallel()
	type pool struct {
		IPAM struct {
			Range string `json:"range" example:"10.0.0.0/8"`
		} `json:"ipam"`
	}
	ownIPAM := skel.Plugin[pool]{Name: "test", Kind: skel.IPAM, Steps: func(*netconf.Request, *pool) skel.Steps { return nil }}
	tests := []struct {
		name string
		run  func(args []string, stdin string, terminal, colour bool) (int, bool, string, string)
		want []string // the types of the plugins, and what must be in it
	}{
		{"interface", kindOf(skel.Interface).ByHand, []string{"test", `"tags":["one"]`, `"colour":"blue"`, `"ipam":{"type":"host-local"`}},
		{"chained", kindOf(skel.Chained).ByHand, []string{"bridge", "test", `"tags":["one"]`}},
		{"ipam", kindOf(skel.IPAM).ByHand, []string{"bridge", `"ipam":{"type":"test"}`}},
		{"ipam with a section of its own", ownIPAM.ByHand, []string{"bridge", `"ipam":{"type":"test","range":"10.0.0.0/8"}`}},
		{"meta", kindOf(skel.Meta).ByHand, []string{"test"}},
		{"everything", helpful().ByHand, []string{"test", `"mtu":9000,`, `"labels":{"a":"b"}`, `"nets":["10.0.0.0/8"]`, `"ports":[[{"number":80,"name":"80"}]]`, `"forest":{"name":"oak"}`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, _, help, _ := test.run([]string{"help"}, "", false, false)
			_, example, found := strings.Cut(help, "\nExample: /etc/cni/net.d/10-test.conflist\n")
			if !found {
				t.Fatalf("no example:\n%s", help)
			}
			if exit, _, stdout, _ := test.run([]string{"validate", "-strict", "-"}, example, false, false); exit != 0 {
				t.Errorf("%s%s", stdout, example)
			}
			var list struct {
				CNIVersion string
				Plugins    []struct{ Type string }
			}
			if err := json.Unmarshal([]byte(example), &list); err != nil || list.CNIVersion != "1.1.0" {
				t.Fatalf("%v: %s", err, example)
			}
			for i, p := range list.Plugins {
				if p.Type != test.want[i] {
					t.Errorf("plugin %d is of type %q, expected %q", i, p.Type, test.want[i])
				}
			}
			compact := strings.Join(strings.Fields(example), "")
			for _, want := range test.want[len(list.Plugins):] {
				if !strings.Contains(compact, want) {
					t.Errorf("%s is not in %s", want, compact)
				}
			}
		})
	}
	p := kindOf(skel.Interface)
	p.Validate = func(*netconf.Request, *checked) error { return errors.New("something else is needed") }
	if exit, _, help, _ := p.ByHand([]string{"help"}, "", false, false); exit != 0 || strings.Contains(help, "Example") || !strings.Contains(help, "colour") {
		t.Errorf("exit status %d, an example that is not valid: %s", exit, help)
	}
}

func kindOf(kind skel.Kind) skel.Plugin[checked] {
	return skel.Plugin[checked]{Name: "test", Kind: kind, Steps: func(*netconf.Request, *checked) skel.Steps { return nil }}
}

func TestByHand(t *testing.T) {
	t.Parallel()
	funcs := skel.Funcs{Check: func(context.Context, *netconf.Request) error { return nil }}
	p := plugin(t, funcs.Step())
	for _, args := range [][]string{{"version"}, {"-version"}, {"--version"}} {
		exit, _, stdout, _ := p.ByHand(args, "", false, false)
		if exit != 0 || !strings.HasPrefix(stdout, "test (") || !strings.HasSuffix(stdout, "\nCNI 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0\n") { // it has no GC
			t.Errorf("%v: exit status %d, %s", args, exit, stdout)
		}
	}
	if exit, served, stdout, stderr := p.ByHand([]string{"hlep"}, "", true, false); exit != 2 || !served || stdout != "" || !strings.Contains(stderr, `unknown command "hlep": test help, version, or validate FILE...`) {
		t.Errorf("exit status %d, %s%s", exit, stdout, stderr)
	}
	if _, served, stdout, stderr := p.ByHand(nil, "", false, false); served || stdout != "" || stderr != "test is a CNI plugin, for a container runtime to start; \"test help\" explains it\n" {
		t.Errorf("without a terminal: served %v, %s%s", served, stdout, stderr)
	}
	p.Steps = func(*netconf.Request, *config) skel.Steps { panic("not pure") }
	if exit, _, stdout, _ := p.ByHand([]string{"help"}, "", true, false); exit != 0 || !strings.Contains(stdout, "1.1.0") {
		t.Errorf("Steps that panic: exit status %d, %s", exit, stdout)
	}
	p.Steps = nil
	if exit, served, stdout, stderr := p.ByHand([]string{"help"}, "", true, false); exit != 2 || !served || stdout != "" || !strings.Contains(stderr, "Name and Steps are needed") {
		t.Errorf("a Plugin that is none: exit status %d, %s%s", exit, stdout, stderr)
	}
}
