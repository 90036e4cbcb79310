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

// A chained plugin may leave route_localnet on the host's end of a pair that a plugin before it has made, which goes next, and
// on no other link.
func TestRouteLocalnetGoesWithTheLink(t *testing.T) {
	b := &Bench{links: []string{"v0"}}
	for line, want := range map[string]bool{
		"host: sysctl: net.ipv4.conf.v0.route_localnet = 1":      true,
		"host: sysctl: net.ipv4.conf.p0.route_localnet = 1":      false,
		"host: sysctl: net.ipv4.conf.v0.rp_filter = 1":           false,
		"conform-1: sysctl: net.ipv4.conf.v0.route_localnet = 1": false,
	} {
		if b.goesWithLink(line) != want {
			t.Errorf("%s: expected %v", line, want)
		}
	}
	NeedRoot(t)
	if testbin.Guest() {
		t.Skip("hundreds of processes, and no kernel makes a difference")
	}
	// Of two attachments, so that what the first leaves for all would not be seen.
	o := judgedOf(t, func() Target { return shTarget(t, "chained", "the way to 127.0.0.1 stays") }, "env/limits")
	if o.Status != Pass {
		t.Errorf("%s %s", o.Status, o.Detail)
	}
}
