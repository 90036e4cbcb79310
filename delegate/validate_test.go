package delegate_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// A network is valid whose plugins are there and serve its version; what an old plugin answers to VERSION counts as it
// does for libcni.
func TestValidate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	const unknown = `echo '{"code":4,"msg":"unknown CNI_COMMAND: VERSION"}'; exit 1`
	for _, c := range []struct {
		name, version, script string
		code                  uint
		words                 []string
	}{
		{"serves it", "1.1.0", `echo '{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}'`, 0, nil},
		{"does not", "1.1.0", `echo '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0"]}'`, 1, []string{`"1.1.0"`, "0.4.0, 1.0.0"}},
		{"no version is 0.1.0", "", `echo '{"cniVersion":"1.1.0","supportedVersions":["0.1.0"]}'`, 0, nil},
		{"before there were lists", "0.2.0", `echo '{"cniVersion":"0.2.0"}'`, 0, nil},
		{"before there was VERSION", "0.1.0", unknown, 0, nil},
		{"before there was VERSION, now", "1.0.0", unknown, 1, []string{"versions are 0.1.0"}},
		{"without a list", "1.1.0", `echo '{"cniVersion":"1.1.0"}'`, 104, []string{"supportedVersions"}},
		{"a list that is none", "1.1.0", `echo '{"cniVersion":"1.1.0","supportedVersions":"1.1.0"}'`, 104, []string{"versions"}},
		{"empty", "1.1.0", ":", 104, []string{"one JSON document"}},
		{"no JSON", "1.1.0", "echo usage", 104, []string{"usage"}},
		{"two documents", "1.1.0", `echo '{"supportedVersions":["1.1.0"]} {"supportedVersions":["1.1.0"]}'`, 104, nil},
		{"an error", "1.1.0", `echo '{"code":11,"msg":"later"}'; exit 1`, 11, []string{"later"}},
		{"an exit", "1.1.0", `exit 7`, 104, []string{"exit status 7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := program(t, `cat > "$0.stdin"; echo "$CNI_COMMAND $CNI_CONTAINERID" > "$0.env"; `+c.script)
			n := &delegate.Network{Name: "net", CNIVersion: c.version, Plugins: parse(t, plain).Plugins}
			err := n.Validate(t.Context(), nil, attach(t, dir))
			if c.code == 0 && err != nil {
				t.Error(err)
			}
			if c.code != 0 {
				wants(t, err, c.code, append(c.words, `delegate "fake" VERSION, network "net"`)...)
			}
			fake := filepath.Join(dir, "fake")
			if env, stdin := read(t, fake+".env"), read(t, fake+".stdin"); env != "VERSION \n" || stdin != `{"cniVersion":"1.1.0"}` {
				t.Errorf("%q, %q", env, stdin)
			}
		})
	}
}

// Go values answer for themselves, and all that is wrong is told together.
func TestValidateGoValues(t *testing.T) {
	t.Parallel()
	old := skel.Plugin[struct{}]{Name: "old", Versions: []string{"0.4.0", "1.0.0"}, Steps: func(*netconf.Request, *struct{}) skel.Steps { return nil }}
	status := skel.Plugin[struct{}]{Name: "nostatus", Steps: func(*netconf.Request, *struct{}) skel.Steps {
		return skel.Steps{skel.Funcs{}.Step()}
	}}
	busy := func(_ context.Context, req *netconf.Request) error { return fmt.Errorf("%s was run", req.Command) }
	all := skel.Plugin[struct{}]{Name: "all", Strict: true, Steps: func(*netconf.Request, *struct{}) skel.Steps {
		return skel.Steps{skel.Funcs{Add: busy, Check: busy, Del: busy, GC: busy, Status: busy}.Step()}
	}}
	r := delegate.Registry{"all": all.Do, "old": old.Do, "nostatus": status.Do,
		"any":   func(context.Context, *netconf.Request) error { return nil },
		"panic": func(context.Context, *netconf.Request) error { panic("ouch") }}
	list := func(version string, types ...string) *delegate.Network {
		n := &delegate.Network{Name: "lan", CNIVersion: version}
		for _, name := range types {
			n.Plugins = append(n.Plugins, fmt.Appendf(nil, `{"type":%q}`, name))
		}
		return n
	}
	for _, version := range []string{"0.4.0", "1.0.0"} {
		if err := list(version, "any", "old").Validate(t.Context(), r, attach(t)); err != nil {
			t.Error(err)
		}
	}
	if err := list("1.1.0", "all").Validate(t.Context(), r, attach(t)); err != nil {
		t.Error(err)
	}
	err := list("1.1.0", "any", "old", "none", "panic").Validate(t.Context(), r, attach(t, t.TempDir()))
	wants(t, err, 1, `delegate "old" VERSION, network "lan"`, `"1.1.0" is not supported by old`, `delegate "none" VERSION`, "no such program", "ouch")
	wants(t, list("1.1.0", "nostatus").Validate(t.Context(), r, attach(t)), 1, "nostatus")
	wants(t, list("1.2.0", "any").Validate(t.Context(), r, attach(t)), 1, "1.2.0")
	wants(t, list("1.1.0").Validate(t.Context(), r, attach(t)), 7, "no plugins")
}
