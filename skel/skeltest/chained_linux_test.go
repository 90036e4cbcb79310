package skeltest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// content is a CHECK that does nothing.
type content struct{ keeper }

func (content) Check(context.Context, *netconf.Request) error { return nil }

// greedy is an ADD that does not wait for another's end.
type greedy struct{ keeper }

func (g greedy) Add(ctx context.Context, req *netconf.Request) error {
	if files, err := os.ReadDir(g.dir); err == nil && len(files) > 2 {
		return errors.New("there are two already")
	}
	return g.keeper.Add(ctx, req)
}

// nothing is a step that keeps nothing anywhere.
func nothing() skel.Step {
	do := func(context.Context, *netconf.Request) error { return nil }
	return skel.Funcs{Add: do, Check: do, Del: do, GC: do, Status: do}.Step()
}

// chainedTarget is a plugin of one step behind testdata/sh-plugin.
func chainedTarget(t *testing.T, step skel.Step) Target {
	t.Helper()
	return Target{
		Kind: skel.Chained, Path: []string{filepath.Dir(string(shTarget(t, "no ipam", "").Plugin.(Binary)))}, State: append(DefaultState(), "/run/keeper"),
		Config: `{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"sh-plugin"},{"type":"keeper"}]}`,
		Plugin: skel.Plugin[struct{}]{Name: "keeper", Kind: skel.Chained,
			Steps: func(*netconf.Request, *struct{}) skel.Steps { return skel.Steps{step} }},
	}
}

// A chained plugin is held to what it keeps on the host as any other; one that keeps nothing is not.
func TestChainedPluginIsHeldToWhatItKeeps(t *testing.T) {
	NeedRoot(t)
	if testbin.Guest() {
		t.Skip("hundreds of processes, and no kernel makes a difference")
	}
	t.Parallel()
	const dir = "/run/keeper"
	for _, test := range []struct {
		name string
		step skel.Step
		ids  string
		want Status
	}{
		{"sound", keeper{dir}, "check/after-del gc/stale gc/empty-list gc/both-keys gc/old-key concurrency/fifty concurrency/add-del", Pass},
		{"no GC", struct{ skel.Step }{keeper{dir}}, "gc/stale gc/empty-list gc/both-keys gc/old-key", Failed},
		{"CHECK does nothing", content{keeper{dir}}, "check/after-del", Failed},
		{"two at most", greedy{keeper{dir}}, "concurrency/fifty", Failed},
		{"keeps nothing", nothing(), "gc/stale gc/empty-list concurrency/fifty concurrency/add-del", NotApplicable},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			for _, id := range strings.Fields(test.ids) {
				if o := judgedOf(t, func() Target { return chainedTarget(t, test.step) }, id); o.Status != test.want {
					t.Errorf("%s: %s %s: expected %s", id, o.Status, o.Detail, test.want)
				}
			}
		})
	}
}
