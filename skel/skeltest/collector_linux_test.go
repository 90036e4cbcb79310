package skeltest

import (
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// A step that keeps something and has no GC makes a plugin whose GC succeeds and takes nothing: what the author reads
// then names the method.
func TestStepWithoutGCIsToldOfCollector(t *testing.T) {
	NeedRoot(t)
	o := judgedOf(t, func() Target {
		target := keeperTarget("/run/keeper")
		target.State = []string{"/run/keeper"}
		plugin := target.Plugin.(skel.Plugin[struct{}])
		plugin.Steps = func(*netconf.Request, *struct{}) skel.Steps {
			return skel.Steps{struct{ skel.Step }{keeper{"/run/keeper"}}} // the methods of a Step only
		}
		target.Plugin = plugin
		return target
	}, "gc/stale")
	if o.Status != Failed || !strings.Contains(o.Detail, "+ file: /run/keeper/") {
		t.Errorf("%s %s", o.Status, o.Detail)
	}
	for id, method := range map[string]string{"gc/stale": "skel.Collector", "status/parent-gone": "skel.Prober"} {
		i := slices.IndexFunc(Requirements(), func(r Requirement) bool { return r.ID == id })
		if i < 0 || !strings.Contains(Requirements()[i].Explain, method) {
			t.Errorf("%s does not explain %s", id, method)
		}
	}
}
