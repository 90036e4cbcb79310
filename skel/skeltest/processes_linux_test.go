package skeltest

import (
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
)

// What a plugin leaves in the background is told from what the setup has started, with all that this starts in its turn,
// and from what is about to end.
func TestBackgroundIsThePluginsOwn(t *testing.T) {
	NeedRoot(t)
	if testbin.Guest() {
		t.Skip("hundreds of processes, and no kernel makes a difference")
	}
	const away = " < /dev/null > /dev/null 2>&1 &"
	for _, test := range []struct {
		name, fault, setup string
		want               Status
		detail             string
	}{
		{"nothing", "", "", Pass, ""},
		{"of the plugin", "a process stays", "", Failed, `+ process: "sleep 300"`},
		{"of the plugin, and about to end", "a process stays a moment", "", Pass, ""},
		{"of the setup", "", "setsid sh -c 'while :; do sleep 0.1; done'" + away, Pass, ""},
		{"of both", "a process stays", "setsid sleep 300" + away, Failed, `+ process: "sleep 300"`},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			o := judgedOf(t, func() Target {
				target := shTarget(t, "no ipam", test.fault)
				target.Setup = func(b *Bench) { Host(b, "sh", "-c", test.setup) }
				return target
			}, "del/all")
			if o.Status != test.want || !strings.Contains(o.Detail, test.detail) || strings.Contains(o.Detail, "\n- ") {
				t.Errorf("%s %s: expected %s %q", o.Status, o.Detail, test.want, test.detail)
			}
		})
	}
}
