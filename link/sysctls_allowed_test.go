package link_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

func TestAllowedSysctls(t *testing.T) {
	t.Parallel()
	tests := []struct {
		list    string
		allowed []string
		refused []string
	}{
		{"^net.ipv4.conf.IFNAME.[a-z_]*$\n\n  ^net.core.somaxconn$  \n",
			[]string{"net.ipv4.conf.IFNAME.rp_filter", "net/ipv4/conf/IFNAME/rp_filter", "net.core.somaxconn"},
			[]string{"net.ipv4.conf.eth0.rp_filter", "net.ipv4.conf.IFNAME.RP", "net.core.somaxconn2", "net.ipv4.ip_forward"}},
		{`^net\.ipv4\.conf\.(all|default|IFNAME)\.(rp_filter|log_martians)$`,
			[]string{"net.ipv4.conf.all.rp_filter", "net/ipv4/conf/all/rp_filter", "net.ipv4.conf.IFNAME.log_martians"},
			[]string{"net.ipv4.conf.eth0.rp_filter", "net.ipv4.conf.all.rp_filterx", "net.ipv4.conf.all/rp_filter"}},
		{"somaxconn", []string{"net.core.somaxconn", "net.core.somaxconn_more"}, []string{"net.core.optmem_max"}},
		{"", nil, []string{"net.core.somaxconn"}},
		{`^net\.ipv4\.conf\.[^.]+\.rp_filter$`, []string{"net.ipv4.conf.x.rp_filter"}, []string{"net.ipv4.conf.x.y.rp_filter"}},
	}
	for _, test := range tests {
		list, err := link.ParseAllowedSysctls(test.list)
		if err != nil {
			t.Fatal(err)
		}
		for want, names := range map[bool][]string{true: test.allowed, false: test.refused} {
			for _, name := range names {
				if list.Allows(name) != want {
					t.Errorf("%q with %q: expected %v", name, test.list, want)
				}
				err := list.Check(link.Sysctls{Values: map[string]string{name: "1"}})
				if (err == nil) != want || err != nil && (netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), name)) {
					t.Errorf("%q with %q: %v", name, test.list, err)
				}
			}
		}
	}
}

func TestAllowedSysctlsThatAreNoExpression(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"a{2}", "(a", "a)", "[a", "[", "*a", `a\`, `\pL`, "(?i)a", "[[:alpha:]]", "[z-a]", "a]", "+"} {
		_, err := link.ParseAllowedSysctls("^net.core.somaxconn$\n" + line)
		if netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), strings.ReplaceAll(line, `\`, `\\`)) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// TestAllowedSysctlsEnd: an expression with very many ways to fail does not hold up who is asked.
func TestAllowedSysctlsEnd(t *testing.T) {
	t.Parallel()
	list, err := link.ParseAllowedSysctls("^net.(a+)+$")
	if err != nil {
		t.Fatal(err)
	}
	if list.Allows("net." + strings.Repeat("a", 200) + ".") {
		t.Error("it matched")
	}
	if !list.Allows("net." + strings.Repeat("a", 200)) {
		t.Error("it did not match")
	}
}

// FuzzAllowedSysctls: what is taken means the same as in package regexp.
func FuzzAllowedSysctls(f *testing.F) {
	for _, seed := range [][2]string{
		{"^net.ipv4.conf.[a-z]*$", "net.ipv4.conf.all"}, {"(a|b)*c?", "abac"}, {`\d+\.\w`, "12.x"}, {"[^.a-c]+$", "xyz"}, {"(a*)*b", "aaab"},
		{"a||b", "b"}, {"()", ""}, {"[]a]", "]"}, {"[a-]", "-"}, {"^^a$$", "a"}, {"(?:a|ab)(c|bcd)", "abcd"}, {"a|*", "a"}, {"[^]]", "x"}, {"a**", "a"}, {`[\d-x]`, "-"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, line, name string) {
		if len(line) > 24 || len(name) > 24 || strings.ContainsFunc(line+name, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return // one line without blanks; bytes and runes differ
		}
		list, err := link.ParseAllowedSysctls(line)
		if err != nil || line == "" {
			return
		}
		known, err := regexp.Compile(line)
		if err != nil {
			t.Fatalf("%q is taken, and by regexp not: %v", line, err)
		}
		if strings.ContainsAny(name, "/") { // is looked for with dots too
			return
		}
		if got := list.Allows(name); got != known.MatchString(name) {
			t.Errorf("%q in %q: %v", line, name, got)
		}
	})
}
