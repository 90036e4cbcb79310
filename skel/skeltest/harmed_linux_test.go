package skeltest

import (
	"context"
	"os"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// sloppy is an ADD that forgets a file when what comes after it fails.
type sloppy struct{ keeper }

func (s sloppy) Add(ctx context.Context, req *netconf.Request) error {
	if err := s.keeper.Add(ctx, req); err != nil {
		return err
	}
	forgotten := s.file(req) + ".new"
	if err := os.WriteFile(forgotten, nil, 0o600); err != nil {
		return err
	}
	if err := netconf.Before(ctx, "rename"); err != nil {
		return err
	}
	return os.Remove(forgotten)
}

// The harm is looked for in the folders of the state too, for plugins of all kinds.
func TestHarmIsSeenInTheState(t *testing.T) {
	NeedRoot(t)
	const dir = "/run/keeper"
	for name, target := range map[string]func(skel.Step) Target{
		"chained": func(step skel.Step) Target { return chainedTarget(t, step) },
		"meta": func(step skel.Step) Target {
			target := keeperTarget(dir)
			plugin := target.Plugin.(skel.Plugin[struct{}])
			plugin.Steps = func(*netconf.Request, *struct{}) skel.Steps { return skel.Steps{step} }
			target.Plugin, target.State = plugin, append(DefaultState(), dir)
			return target
		},
	} {
		for what, test := range map[string]struct {
			step skel.Step
			want Status
		}{"sound": {keeper{dir}, Pass}, "sloppy": {sloppy{keeper{dir}}, Failed}} {
			t.Run(name+"-"+what, func(t *testing.T) {
				if o := judgedOf(t, func() Target { return target(test.step) }, "add/harmed"); o.Status != test.want {
					t.Errorf("%s %s: expected %s", o.Status, o.Detail, test.want)
				}
			})
		}
	}
}
