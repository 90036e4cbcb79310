package compare

import (
	"fmt"
	"testing"

	"github.com/containernetworking/cni/libcni"

	"github.com/cnikit/cnikit/delegate"
)

// What libcni takes for a list is one, and what it refuses is refused, but for what stands here with a reason.
func TestTextsAsLibcni(t *testing.T) {
	t.Parallel()
	const a = `"plugins":[{"type":"a"}]`
	for text, reason := range map[string]string{
		`{"name":"n",` + a + `}`:                                         "",
		`{"name":"n","cniVersion":"1.1.0",` + a + `}`:                    "",
		`{"name":"n","cniVersion":"0.4.0","cniVersions":[],` + a + `}`:   "",
		`{"name":"n","cniVersions":["0.3.1","0.4.0"],` + a + `}`:         "",
		`{"name":"n","cniVersions":["1.0.0","9.0.0"],` + a + `}`:         "",
		`{"name":"n","cniVersions":["new"],` + a + `}`:                   "",
		`{"name":"n","cniVersions":"1.0.0",` + a + `}`:                   "",
		`{"name":"n","cniVersions":[1],` + a + `}`:                       "",
		`{"name":"n","cniVersions":null,` + a + `}`:                      "",
		`{"name":"n","cniVersions":["1.0"],` + a + `}`:                   "",
		`{"name":"n","cniVersions":["1.0.0.0"],` + a + `}`:               "",
		`{"name":"n","cniVersion":1,` + a + `}`:                          "",
		`{"name":"n","cniVersion":null,` + a + `}`:                       "",
		`{"name":"n","disableCheck":true,"disableGC":"FALSE",` + a + `}`: "",
		`{"name":"n","disableCheck":"yes",` + a + `}`:                    "",
		`{"name":"n","disableGC":1,` + a + `}`:                           "",
		`{"name":"n","disableGC":null,` + a + `}`:                        "",
		`{"name":"n","loadOnlyInlinedPlugins":true,` + a + `}`:           "",
		`{"name":"n","loadOnlyInlinedPlugins":true}`:                     "",
		`{"name":"n","plugins":[]}`:                                      "",
		`{"name":"n","plugins":null}`:                                    "",
		`{"name":"n","plugins":{}}`:                                      "",
		`{"name":"n","plugins":["a"]}`:                                   "",
		`{"name":"n","plugins":[null]}`:                                  "",
		`{"name":"n","plugins":[{}]}`:                                    "",
		`{"name":"n","plugins":[{"type":1}]}`:                            "",
		`{"name":"n","plugins":[{"type":"a","ipam":1}]}`:                 "",
		`{"name":"n","plugins":[{"type":"a","capabilities":{"x":1}}]}`:   "",
		`{"name":"n","plugins":[{"type":"a","dns":[]}]}`:                 "",
		`{` + a + `}`:               "",
		`{"name":1,` + a + `}`:      "",
		`{}`:                        "",
		`null`:                      "",
		`[]`:                        "",
		`{"name":"n",` + a:          "",
		``:                          "",
		`{"name":"n",` + a + `}x`:   "",
		`{"name":"../n",` + a + `}`: "a name is a part of paths: of the folder beside the file, of records; libcni finds that out at the first ADD",
		`{"name":"",` + a + `}`:     "as above",
		`{"name":"n","plugins":[{"type":"a/b"}]}`: "no program can have that name; libcni finds that out when the plugins before it have run",
		`{"name":"n"}`: "a list without plugins; libcni leaves it to each caller to notice, and one panicked",
		`{"name":"n","plugins":[{"type":"a","ipMasq":"yes"}]}`: "a key of the specification with a value of another type, which the plugin would refuse",
	} {
		_, theirs := libcni.NetworkConfFromBytes([]byte(text))
		_, ours := delegate.ParseNetwork([]byte(text))
		switch {
		case reason == "" && (theirs == nil) != (ours == nil):
			t.Errorf("%s\nlibcni: %v\nours:   %v", text, theirs, ours)
		case reason != "" && (theirs != nil || ours == nil):
			t.Errorf("%s: there is no such difference\nlibcni: %v\nours:   %v", text, theirs, ours)
		}
	}
}

// The version is the one that libcni chooses.
func TestVersionAsLibcni(t *testing.T) {
	t.Parallel()
	all := []string{"", "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0", "1.2.0", "2.0.0"}
	for _, one := range all {
		for i := range all {
			for j := range all {
				keys := ""
				if one != "" {
					keys += fmt.Sprintf(`"cniVersion":%q,`, one)
				}
				if i > 0 && j > 0 {
					keys += fmt.Sprintf(`"cniVersions":[%q,%q],`, all[i], all[j])
				}
				text := `{` + keys + `"name":"n","plugins":[{"type":"a"}]}`
				theirs, err := libcni.NetworkConfFromBytes([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				ours, err := delegate.ParseNetwork([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				if theirs.CNIVersion == "" && len(ours.CNIVersions) > 0 {
					// All that it names is newer. libcni runs such a network as one of 0.1.0.
					if ours.CNIVersion != all[i] {
						t.Errorf("%s: %q", text, ours.CNIVersion)
					}
				} else if theirs.CNIVersion != ours.CNIVersion {
					t.Errorf("%s\nlibcni: %q\nours:   %q", text, theirs.CNIVersion, ours.CNIVersion)
				}
			}
		}
	}
}
