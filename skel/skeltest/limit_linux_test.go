package skeltest

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// waiting is an ADD that waits until there are fewer.
type waiting struct{ keeper }

func (w waiting) Add(ctx context.Context, req *netconf.Request) error {
	if files, err := os.ReadDir(w.dir); err == nil && len(files) > 2 {
		<-ctx.Done()
		return ctx.Err()
	}
	return w.keeper.Add(ctx, req)
}

// The limit of a call holds for calls at the same time too; a plugin made with skel would give up after 90 s only.
func TestLimitHoldsForCallsAtOnce(t *testing.T) {
	NeedRoot(t)
	o := judgedOf(t, func() Target {
		target := keeperTarget("/run/keeper")
		target.State, target.Limit = []string{"/run/keeper"}, 2*time.Second
		plugin := target.Plugin.(skel.Plugin[struct{}])
		plugin.Steps = func(*netconf.Request, *struct{}) skel.Steps { return skel.Steps{waiting{keeper{"/run/keeper"}}} }
		target.Plugin = plugin
		return target
	}, "concurrency/fifty")
	if o.Status != Failed || !strings.Contains(o.Detail, "did not end within 2s") {
		t.Errorf("%s %s", o.Status, o.Detail)
	}
}

// A configuration that is more than a pipe holds is written while the plugin reads.
func TestStdinIsLargerThanAPipe(t *testing.T) {
	NeedRoot(t)
	o := judgedOf(t, func() Target {
		target := shTarget(t, "no ipam", "")
		target.Config = strings.TrimSuffix(target.Config, "}") + `,"args":{"padding":"` + strings.Repeat("x", 100<<10) + `"}}`
		return target
	}, "stdin/never-closed")
	if o.Status != Pass {
		t.Errorf("%s %s", o.Status, o.Detail)
	}
}
