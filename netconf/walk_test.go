package netconf_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// Each member is found with the offsets of its key and value, whatever stands between them.
func TestMembers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		` { "a" : 1 , "b":{"c":[2]},"a":"}" } `: `"a" 3 1; "b" 13 {"c":[2]}; "a" 27 "}"`,
		"[1,\n [2] , \"x\"]":                    `"" 1 1; "" 5 [2]; "" 11 "x"`,
		`{}`:                                    "", `[]`: "", `1`: "", `"{"`: "", ``: "",
	} {
		var got []string
		for _, m := range netconf.Members([]byte(text), 0) {
			got = append(got, fmt.Sprintf("%q %d %s", m.Key, m.At, m.Value([]byte(text))))
		}
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("%s: %s, expected %s", text, got, want)
		}
	}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	known := []string{"0.4.0", "1.0.0", "1.1.0"}
	for _, c := range []struct{ named, want string }{
		{"1.0.0", "1.0.0"}, {"0.4.0 1.1.0 1.0.0", "1.1.0"}, {"1.2.0 0.4.0", "0.4.0"}, {"1.2.0", ""}, {"", ""},
	} {
		if got := netconf.Newest(strings.Fields(c.named), known); got != c.want {
			t.Errorf("%s: %q, expected %q", c.named, got, c.want)
		}
	}
}

func TestSwitch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`true`: "true", `"True"`: "true", `false`: "false", `"FALSE"`: "false", `1`: "expected", `"yes"`: "expected", `[]`: "expected"} {
		var s netconf.Switch
		err := json.Unmarshal([]byte(text), &s)
		if got := fmt.Sprint(s, err); err == nil && got != want+" <nil>" || err != nil && !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// Split is the way back from Join.
func TestSplit(t *testing.T) {
	t.Parallel()
	one, two := netconf.Errorf(1, "one"), netconf.Errorf(2, "two")
	for _, c := range []struct {
		err  error
		want int
	}{{nil, 0}, {one, 1}, {netconf.Join(one, two), 2}, {errors.Join(one, two), 2}, {fmt.Errorf("%w, and %w", one, two), 1}} {
		if got := netconf.Split(c.err); len(got) != c.want {
			t.Errorf("%v: %q", c.err, got)
		}
	}
}
