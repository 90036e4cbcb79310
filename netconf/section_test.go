package netconf_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// An IPAM plugin gets its caller's configuration whole: it was warned of the caller's keys, and not of its own.
func TestAnIPAMPluginIsWarnedOfItsOwnKeysAlone(t *testing.T) {
	t.Parallel()
	type conf struct {
		Any  string `json:"anything"` // of a caller that we share a key with
		IPAM struct {
			Pool   string                          `json:"pool"`
			Ranges [][]struct{ Subnet, Gw string } `json:"ranges"`
			Free   map[string]string               `json:"free"`
		} `json:"ipam"`
	}
	const caller = `"master":"eth0","mtuu":1,"sub":{"x":1},"args":{"x":1},"runtimeConfig":{"x":1},"cni.dev/future":1`
	for _, c := range []struct {
		config, want string // the one warning; "" for none
	}{
		{caller, `"master"`}, // no section: a configuration of its own
		{caller + `,"ipam":null`, `"master"`},
		{caller + `,"ipam":{}`, ""},
		{caller + `,"ipam":{"type":"x","pool":"a","ranges":[[{"Subnet":"10.0.0.0/8"}]],"free":{"a":"b"}}`, ""},
		{caller + `,"ipam":{"type":"x","pol":"a"}`, `unknown key "ipam.pol" is ignored; did you mean "pool"?`},
		{caller + `,"ipam":{"ranges":[[{"Subnt":"a"}]]}`, `unknown key "ipam.ranges[0][0].Subnt" is ignored; did you mean "Subnet"?`},
		{caller + `,"IPAM":{"type":"x","pol":"a"}`, `unknown key "ipam.pol"`},
		{caller + `,"ipam":{"tpye":"x"}`, `unknown key "ipam.tpye" is ignored; did you mean "type"?`},
	} {
		for _, strict := range []bool{false, true} {
			var warnings []string
			req, err := netconf.Parse(with("ADD").get, strings.NewReader(strings.TrimSuffix(minimal, "}")+","+c.config+"}"))
			check(t, err, 0)
			req.Section, req.Strict = "ipam", strict
			req.Warn = func(msg string, _ ...any) { warnings = append(warnings, msg) }
			_, err = netconf.Decode[conf](req, nil)
			_, key, unknown := strings.Cut(c.want, "unknown key ")
			switch {
			case strict && c.want != "":
				if key, _, _ = strings.Cut(key, " "); err == nil {
					t.Errorf("%s: strict, and not refused", c.config)
				} else {
					check(t, err, 2, strings.Trim(key, `"`))
				}
			case !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, c.want) }) && c.want != "",
				c.want == "" && len(warnings) > 0, unknown && !strict && len(warnings) != 1 && !strings.Contains(c.config, "IPAM"):
				t.Errorf("%s: warnings %q, expected %q", c.config, warnings, c.want)
			}
			if err != nil && !strict {
				t.Errorf("%s: %v", c.config, err)
			}
		}
	}
}
