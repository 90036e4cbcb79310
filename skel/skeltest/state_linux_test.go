package skeltest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// keeper is a step that keeps a file for each attachment in a folder of its own.
type keeper struct{ dir string }

func (k keeper) file(req *netconf.Request) string {
	return filepath.Join(k.dir, req.ContainerID+"@"+req.IfName)
}

func (k keeper) Add(ctx context.Context, req *netconf.Request) error {
	if _, err := os.Stat(k.file(req)); err == nil {
		return fmt.Errorf("%q: %w", k.file(req), netconf.ErrExists)
	}
	if err := netconf.Before(ctx, "write "+k.file(req)); err != nil {
		return err
	}
	if err := os.MkdirAll(k.dir, 0o755); err != nil {
		return err
	}
	req.AddInterface(&types100.Interface{Name: req.IfName, Sandbox: req.Netns})
	return os.WriteFile(k.file(req), nil, 0o600)
}

func (k keeper) Check(_ context.Context, req *netconf.Request) error {
	if _, err := os.Stat(k.file(req)); err != nil {
		return fmt.Errorf("%w: %w", netconf.ErrDifferent, err)
	}
	return nil
}

func (k keeper) Del(ctx context.Context, req *netconf.Request) error {
	if err := netconf.Before(ctx, "remove "+k.file(req)); err != nil {
		return err
	}
	if err := os.Remove(k.file(req)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func (k keeper) GC(ctx context.Context, req *netconf.Request) error {
	files, err := filepath.Glob(filepath.Join(k.dir, "*@*"))
	lives := map[string]bool{}
	for _, a := range req.Network.ValidAttachments {
		lives[filepath.Join(k.dir, a.ContainerID+"@"+a.IfName)] = true
	}
	for _, file := range files {
		if lives[file] {
			continue
		}
		if err := netconf.Before(ctx, "remove "+file); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return err
}

// keeperTarget is a plugin of that step, in this process.
func keeperTarget(dir string) Target {
	return Target{
		Kind: skel.Meta, Config: `{"cniVersion":"1.1.0","name":"net","type":"keeper"}`,
		Plugin: skel.Plugin[struct{}]{Name: "keeper", Kind: skel.Meta,
			Steps: func(*netconf.Request, *struct{}) skel.Steps { return skel.Steps{keeper{dir}} }},
	}
}

// State in a folder that the target does not name is not seen, and in /run it is new for each requirement all the same:
// what the one leaves is not there for the next, which uses the same container ids.
func TestStateThatIsNotNamedIsAskedFor(t *testing.T) {
	NeedRoot(t)
	o := judgedOf(t, func() Target { return keeperTarget("/run/keeper") }, "add/again")
	if o.Status != Failed || !strings.Contains(o.Detail, "Target.State") {
		t.Errorf("%s %s", o.Status, o.Detail)
	}
	if left, err := filepath.Glob("/run/keeper/*"); err != nil || len(left) > 0 {
		t.Errorf("the requirement's plugin has written %q outside of its host: %v", left, err)
	}
}

// State that an earlier requirement has left is met as "exists already", which says nothing about the plugin.
func TestStateThatOutlivesTheHostIsExplained(t *testing.T) {
	NeedRoot(t)
	const variable = "SKELTEST_KEEPER"
	dir, here := os.LookupEnv(variable)
	if !here {
		dir = t.TempDir()
		t.Setenv(variable, dir)
	}
	for _, file := range []string{"conform-1@eth0", "settle@eth0"} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := judgedOf(t, func() Target { return keeperTarget(dir) }, "add/again")
	if o.Status != Failed || !strings.Contains(o.Detail, "Target.State") {
		t.Errorf("%s %s", o.Status, o.Detail)
	}
}

// A plugin in this process, whose folder of delegates nobody has named, is called with a CNI_PATH, in which there is
// nothing: that of the machine is not what the test is about.
func TestPathOfAPluginInProcessIsAnEmptyFolder(t *testing.T) {
	NeedRoot(t)
	target := func() Target {
		target := keeperTarget("/run/keeper")
		target.State = []string{"/run/keeper"}
		plugin := target.Plugin.(skel.Plugin[struct{}])
		plugin.Validate = func(req *netconf.Request, _ *struct{}) error {
			if files, err := os.ReadDir(strings.Join(req.Path, ":")); err != nil || len(files) > 0 {
				return fmt.Errorf("CNI_PATH is %q: %v, %w", req.Path, files, err)
			}
			return nil
		}
		target.Plugin = plugin
		return target
	}
	for _, id := range []string{"add/works", "gc/live", "gc/stale", "gc/empty-host"} {
		t.Run(strings.ReplaceAll(id, "/", "-"), func(t *testing.T) {
			if o := judgedOf(t, target, id); o.Status != Pass {
				t.Errorf("%s: %s %s", id, o.Status, o.Detail)
			}
		})
	}
}

// An IPAM plugin that keeps nothing is told from one that has forgotten to: the target says so, and is held to it.
func TestIPAMThatKeepsNothing(t *testing.T) {
	NeedRoot(t)
	static := func() Target {
		return Target{Kind: skel.IPAM, Plugin: Binary(filepath.Join(Build(t, staticPackage), "static")),
			Config: `{"cniVersion":"1.1.0","name":"net","type":"static","ipam":{"type":"static","addresses":[{"address":"10.1.0.5/24"}]}}`}
	}
	said := func(target Target) Target { target.Stateless = true; return target }
	for _, test := range []struct {
		name, id string
		target   func() Target
		status   Status
		detail   string
	}{
		{"not said", "add/works", static, Failed, "Target.Stateless"},
		{"said", "add/works", func() Target { return said(static()) }, Pass, ""},
		{"its addresses are the same", "concurrency/fifty", func() Target { return said(static()) }, Pass, ""},
		{"its CHECK has nothing to miss", "check/after-del", func() Target { return said(static()) }, NotApplicable, "keeps nothing"},
		{"its GC has nothing to take", "gc/stale", func() Target { return said(static()) }, NotApplicable, "keeps nothing"},
		{"said of one that keeps", "add/works", func() Target { return said(shTarget(t, "ipam", "")) }, Failed, "is said to keep nothing"},
		{"said of one that makes links", "add/works", func() Target { return said(shTarget(t, "no ipam", "")) }, NotJudged, "the kind is interface"},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			if o := judgedOf(t, test.target, test.id); o.Status != test.status || !strings.Contains(o.Detail, test.detail) {
				t.Errorf("%s %s: expected %s and %q", o.Status, o.Detail, test.status, test.detail)
			}
		})
	}
}
