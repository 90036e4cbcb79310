package netconf_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

func TestParseArgs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want netconf.Args
		bad  string // what the error says
	}{
		{"", netconf.Args{}, ""},
		{"IgnoreUnknown=1;K8S_POD_NAME=x", netconf.Args{"IgnoreUnknown": "1", "K8S_POD_NAME": "x"}, ""},
		{"IgnoreUnknown=TRUE;K8S_POD_NAME=x", netconf.Args{"IgnoreUnknown": "TRUE", "K8S_POD_NAME": "x"}, ""},
		{"IgnoreUnknown=1;", netconf.Args{"IgnoreUnknown": "1"}, ""},
		{";IgnoreUnknown=1", netconf.Args{"IgnoreUnknown": "1"}, ""},
		{"IgnoreUnknown=1;;X=1", netconf.Args{"IgnoreUnknown": "1", "X": "1"}, ""},
		{"IgnoreUnknown=1;K8S_POD_UID=", netconf.Args{"IgnoreUnknown": "1", "K8S_POD_UID": ""}, ""},
		{"IgnoreUnknown=1;LABEL=YWJj==", netconf.Args{"IgnoreUnknown": "1", "LABEL": "YWJj=="}, ""},
		{"X=1", netconf.Args{"X": "1"}, ""}, // unknown keys are nobody's fault
		{"X=1;X=2", netconf.Args{"X": "2"}, ""},
		{"x=1;X=2", netconf.Args{"x": "1", "X": "2"}, ""},
		{"A= b ;C=\n", netconf.Args{"A": " b ", "C": "\n"}, ""},
		{"X", netconf.Args{}, "pair 1 has no '='"},
		{"=v", netconf.Args{}, "pair 1 has no key"},
		{"A=1;X;B=2", netconf.Args{"A": "1", "B": "2"}, `pair 2 (behind "A") has no '='`},
		{"A=1;;B=tok;en", netconf.Args{"A": "1", "B": "tok"}, `pair 4 (behind "B") has no '='`},
		{"IgnoreUnknown=maybe;X=1", netconf.Args{"X": "1"}, "pair 1, IgnoreUnknown: expected 1, true, 0 or false"},
		{"IgnoreUnknown=", netconf.Args{}, "pair 1, IgnoreUnknown"},
	} {
		got, err := netconf.ParseArgs(c.text)
		if !maps.Equal(got, c.want) {
			t.Errorf("%q: %v, expected %v", c.text, got, c.want)
		}
		if c.bad == "" {
			check(t, err, 0)
		} else {
			check(t, err, 4, "environment: CNI_ARGS: ", c.bad)
		}
		if err != nil {
			continue
		}
		if again, err := netconf.ParseArgs(got.String()); err != nil || !maps.Equal(again, got) {
			t.Errorf("%q: written as %q and read as %v (%v)", c.text, got, again, err)
		}
	}
	_, err := netconf.ParseArgs("X;=v;Y")
	check(t, err, 4, "pair 1 has no '='", "pair 2 has no key", "pair 3 has no '='")
}

// A delegate made with upstream's library gives up at the first key it does not know, unless
// IgnoreUnknown came before it.
func TestArgsStringBeginsWithIgnoreUnknown(t *testing.T) {
	t.Parallel()
	args := netconf.Args{"Z": "1", "A": "2", "IgnoreUnknown": "1"}
	if got, want := args.String(), "IgnoreUnknown=1;A=2;Z=1"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	if got := netconf.Args(nil).String(); got != "" {
		t.Errorf("no arguments: %q", got)
	}
}

func TestCheckIfName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"abcdefghijklmno", "a", "lo", "eth0", "eth0.100", "...", "a@b", "-", "ü", "\"", "\\", "日本語", "alle", "All", "default0"} {
		if err := netconf.CheckIfName(name); err != nil {
			t.Errorf("%q is a link name: %v", name, err)
		}
	}
	for name, word := range map[string]string{
		"": "missing", "abcdefghijklmnop": "at most 15", "日本語日本語": "at most 15",
		".": "not a link name", "..": "not a link name", "all": "not a link name", "default": "not a link name",
		"a/b": `'/'`, "/": `'/'`, "a:b": `':'`, "a b": `' '`, " ": `' '`, "a\tb": `'\t'`, "a\n": `'\n'`, "\x00": `'\x00'`,
		"a\x7f": `'\x7f'`, "%d": `'%'`, "eth%d": `'%'`, "net%": `'%'`, "100%": `'%'`, "caf\u00e0": "invalid character",
		"a\u00a0b": "invalid character", "a\u2003b": "invalid character", "a\xff": "not UTF-8",
	} {
		err := netconf.CheckIfName(name)
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: error %v, expected %q in it", name, err, word)
		}
	}
}

// A delegate gets the pairs that came, in their order, byte for byte: to sort them was to change what the runtime said.
func TestArgsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		change func(netconf.Args)
		want   string
	}{
		{"Z=1;IgnoreUnknown=1;A= b=c;K8S_POD_UID=", nil, "Z=1;IgnoreUnknown=1;A= b=c;K8S_POD_UID="},
		{"Z=1;;A=2;", nil, "Z=1;A=2"},   // upstream's library refuses an empty pair
		{"Z=1;A=2;Z=3", nil, "Z=3;A=2"}, // no duplicates; the last value counts
		{"Z=1;X;A=2", nil, "Z=1;A=2"},   // a DEL that goes on
		{"", nil, ""},
		{"Z=1;A=2", func(a netconf.Args) { a["Z"] = "new" }, "Z=new;A=2"},
		{"Z=1;A=2", func(a netconf.Args) { delete(a, "Z") }, "A=2"},
		{"Z=1;A=2", func(a netconf.Args) { clear(a) }, ""},
		{"Z=1;A=2", func(a netconf.Args) { a["Y"], a["B"] = "3", "4" }, "Z=1;A=2;B=4;Y=3"},
		{"Z=1;A=2", func(a netconf.Args) { a["IgnoreUnknown"] = "1" }, "IgnoreUnknown=1;Z=1;A=2"},
		{"", func(a netconf.Args) { a["Y"], a["IgnoreUnknown"] = "3", "1" }, "IgnoreUnknown=1;Y=3"},
	} {
		req := &netconf.Request{Command: netconf.Del}
		_ = req.SetArgs(c.text) // what could be read counts
		if c.change != nil {
			c.change(req.Args)
		}
		for name, r := range map[string]*netconf.Request{"itself": req, "a delegate's": req.For(req.Network, "net1").As(netconf.Del)} {
			if got := r.ArgsText(); got != c.want {
				t.Errorf("%q, %s: %q, expected %q", c.text, name, got, c.want)
			}
			if env := strings.Join(r.Env(), " "); c.want != "" && !strings.Contains(env+" ", "CNI_ARGS="+c.want+" ") || c.want == "" && strings.Contains(env, "CNI_ARGS") {
				t.Errorf("%q, %s: %q", c.text, name, env)
			}
		}
	}
	req, err := netconf.Parse(func(key string) string {
		return map[string]string{"CNI_COMMAND": "DEL", "CNI_CONTAINERID": "c", "CNI_IFNAME": "e", "CNI_ARGS": "Z=1;A=2"}[key]
	}, strings.NewReader(`{"name":"n"}`))
	if err != nil || req.ArgsText() != "Z=1;A=2" {
		t.Errorf("%v, %q", err, req.ArgsText())
	}
}

// The kernel would refuse these names late, and steps would write the sysctls of all interfaces before it.
func TestIfNameOfAllInterfacesIsRefused(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"ADD", "CHECK", "DEL"} {
		for _, name := range []string{"all", "default"} {
			env := map[string]string{"CNI_COMMAND": command, "CNI_CONTAINERID": "c", "CNI_NETNS": "/run/netns/c", "CNI_IFNAME": name}
			_, err := netconf.Parse(func(key string) string { return env[key] }, strings.NewReader(`{"cniVersion":"1.0.0","name":"n","type":"t"}`))
			check(t, err, 4, "CNI_IFNAME", name)
		}
	}
}

// What CheckArg finds good is read as it was written, and nothing else.
func TestCheckArg(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, value string
		ok         bool
	}{
		{"A", "b", true}, {"A", "", true}, {"A", "b=c", true}, {"A b", "c d", true}, {"IgnoreUnknown", "1", true},
		{"", "b", false}, {"A=", "b", false}, {"A;B", "b", false}, {"A", "b;C=d", false}, {"A", ";", false},
		{"A\x00", "b", false}, {"A", "\x00", false}, {"IgnoreUnknown", "maybe", false},
	} {
		err := netconf.CheckArg(c.key, c.value)
		if (err == nil) != c.ok {
			t.Errorf("%q=%q: %v", c.key, c.value, err)
		}
		args, parsed := netconf.ParseArgs(c.key + "=" + c.value)
		if same := parsed == nil && maps.Equal(args, netconf.Args{c.key: c.value}); c.ok != same && !strings.Contains(c.key+c.value, "\x00") {
			t.Errorf("%q=%q is read as %v", c.key, c.value, args)
		}
	}
}
