package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containernetworking/cni/libcni"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// theirs runs a life through libcni.
func (l life) theirs(t testing.TB, dir string) (r record) {
	t.Helper()
	list, err := libcni.NetworkConfFromBytes([]byte(l.config))
	if err != nil {
		t.Fatal(err)
	}
	cni := libcni.NewCNIConfigWithCacheDir([]string{dir, "/opt"}, t.TempDir(), nil)
	rt := &libcni.RuntimeConf{ContainerID: container, NetNS: netns, IfName: ifname, CapabilityArgs: map[string]any{}}
	for key, value := range l.runtime {
		rt.CapabilityArgs[key] = value
	}
	for pair := range strings.SplitSeq(l.args, ";") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			rt.Args = append(rt.Args, [2]string{key, value})
		}
	}
	l.each(func(verb string) {
		var err error
		switch verb {
		case "ADD":
			result, addErr := cni.AddNetworkList(t.Context(), list, rt)
			if err = addErr; err == nil {
				text, err := json.Marshal(result)
				if err != nil {
					t.Fatal(err)
				}
				r.result = canonical(t, string(text), list.CNIVersion)
			}
		case "CHECK":
			err = cni.CheckNetworkList(t.Context(), list, rt)
		case "DEL":
			err = cni.DelNetworkList(t.Context(), list, rt)
		case "GC":
			args := &libcni.GCArgs{ValidAttachments: attachments()}
			if l.gcNoList {
				args = nil
			}
			err = cni.GCNetworkList(t.Context(), list, args)
		case "STATUS":
			err = cni.GetStatusNetworkList(t.Context(), list)
		case "VALIDATE":
			_, err = cni.ValidateNetworkList(t.Context(), list)
		}
		r.did(t, dir, verb, err)
	})
	return r
}

// ours runs a life through package delegate.
func (l life) ours(t testing.TB, dir string) (r record) {
	t.Helper()
	n, err := delegate.ParseNetwork([]byte(l.config))
	if err != nil {
		t.Fatal(err)
	}
	req := &netconf.Request{ContainerID: container, Netns: netns, IfName: ifname, Path: []string{dir, "/opt"}, Environ: os.Environ(),
		Network: netconf.Network{RuntimeConfig: l.runtime}}
	if err := req.SetArgs(l.args); err != nil {
		t.Fatal(err)
	}
	l.each(func(verb string) {
		var err error
		switch verb {
		case "ADD":
			result, addErr := n.Add(t.Context(), nil, req)
			if err = addErr; err == nil {
				r.result = canonical(t, string(result.JSON), n.CNIVersion)
				if err := req.SetPrev(result.JSON); err != nil {
					t.Fatal(err)
				}
			}
		case "CHECK":
			err = n.Check(t.Context(), nil, req)
		case "DEL":
			err = n.Del(t.Context(), nil, req)
		case "GC":
			if !l.gcNoList {
				req.Network.ValidAttachments = attachments()
			}
			err = n.GC(t.Context(), nil, req)
		case "STATUS":
			err = n.Status(t.Context(), nil, req)
		case "VALIDATE":
			err = n.Validate(t.Context(), nil, req)
		}
		r.did(t, dir, verb, err)
	})
	return r
}

// answer is a result in the form of a version.
func answer(version, name string) string {
	last := int(name[0]) - 'a' + 3
	switch version {
	case "", "0.1.0", "0.2.0":
		return fmt.Sprintf(`{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.%d/24","gateway":"10.0.0.1"}}`, last)
	case "0.3.0", "0.3.1", "0.4.0":
		return fmt.Sprintf(`{"cniVersion":%q,"interfaces":[{"name":"eth0","sandbox":"/n"}],"ips":[{"version":"4","address":"10.0.0.%d/24","interface":0}],"x":1}`, version, last)
	}
	return fmt.Sprintf(`{"cniVersion":%q,"interfaces":[{"name":"eth0","sandbox":"/n","mtu":1400}],"ips":[{"address":"10.0.0.%d/24","interface":0}],"routes":[{"dst":"10.8.0.0/16"}],"x":1}`, version, last)
}

// entry is a life, and the differences of behaviour that may be taken out of it; those of form always are.
type entry struct {
	life
	differ []string
}

// lives are what goes through both.
func lives() map[string]entry {
	out := map[string]entry{}
	for _, part := range []map[string]entry{livesOfVersions(), livesOfAList(), livesOfVERSION()} {
		maps.Copy(out, part)
	}
	return out
}

// livesOfVersions are lists of every version and length.
func livesOfVersions() map[string]entry {
	out := map[string]entry{}
	runtime := map[string]json.RawMessage{"mac": json.RawMessage(`"02:00:00:00:00:01"`), "portMappings": json.RawMessage(`[{"hostPort":80,"containerPort":9007199254740993}]`), "own": json.RawMessage(`{"a":"<b>"}`)}
	for _, version := range []string{"", "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		for length := 1; length <= 3; length++ {
			for caps, declared := range map[string][]string{"none": {"", "", ""}, "some": {`,"capabilities":{"mac":true,"portMappings":false,"none":true}`, `,"capabilities":{"portMappings":true,"own":true}`, ``}} {
				answers, plugins := map[string]string{}, []string{}
				for i, name := range []string{"a", "b", "c"}[:length] {
					answers[name] = answer(version, name)
					plugins = append(plugins, fmt.Sprintf(`{"type":%q,"n":9007199254740993,"name":"x","deep":{"z":[1,2.50,1e3],"a":"<&>"}%s}`, name, declared[i]))
				}
				key := ""
				if version != "" {
					key = fmt.Sprintf(`"cniVersion":%q,`, version)
				}
				l := life{config: fmt.Sprintf(`{%s"name":"lan","plugins":[%s]}`, key, strings.Join(plugins, ",")), answers: answers, runtime: runtime, args: "Z=1;IgnoreUnknown=1;A=b"}
				differ := []string(nil)
				if !(netconf.Network{CNIVersion: version}).Is("0.4.0") {
					differ = append(differ, "CHECK before 0.4.0")
				}
				if version == "" {
					differ = append(differ, "no version")
				}
				out[fmt.Sprintf("version %s, %d plugins, capabilities %s", version, length, caps)] = entry{l, differ}
			}
		}
	}
	return out
}

const three = `{"cniVersion":"1.1.0","name":"lan"%s,"plugins":[{"type":"a"},{"type":"b"},{"type":"c"}]}`

// ofThree is a life of a list of three, with further keys.
func ofThree(keys string, l life) life {
	l.config = fmt.Sprintf(three, keys)
	l.answers = map[string]string{"a": answer("1.1.0", "a"), "b": answer("1.1.0", "b"), "c": answer("1.1.0", "c")}
	return l
}

// livesOfAList are what else may be in a list, and what may go wrong with it.
func livesOfAList() map[string]entry {
	out := map[string]entry{}
	out["chosen of several versions"] = entry{ofThree(`,"cniVersions":["0.4.0","1.0.0","2.0.0"]`, life{}), nil}
	out["CHECK disabled"] = entry{ofThree(`,"disableCheck":true`, life{}), nil}
	out["GC disabled"] = entry{ofThree(`,"disableGC":"true"`, life{}), nil}
	out["nothing from the runtime"] = entry{ofThree("", life{}), nil}
	out["answers of an older version"] = entry{life{config: fmt.Sprintf(three, ""), answers: map[string]string{"a": answer("0.4.0", "a"), "b": `{"ips":[]}`, "c": answer("1.0.0", "c")}}, nil}
	for _, name := range []string{"a", "b", "c"} {
		out["ADD fails at "+name] = entry{ofThree("", life{fails: []string{name + ".ADD"}}), []string{"a failed ADD is undone"}}
		out["CHECK fails at "+name] = entry{ofThree("", life{fails: []string{name + ".CHECK"}}), nil}
		out["STATUS fails at "+name] = entry{ofThree("", life{fails: []string{name + ".STATUS"}}), nil}
		out["GC fails at "+name] = entry{ofThree("", life{fails: []string{name + ".GC"}}), nil}
		del := []string{"DEL tries all"}
		if name == "a" {
			del = nil // the last of all
		}
		out["DEL fails at "+name] = entry{ofThree("", life{fails: []string{name + ".DEL"}}), del}
		out["no program at DEL: "+name] = entry{ofThree("", life{missing: []string{name}, verbs: []string{"DEL"}}), del}
		undone := []string{"a failed ADD is undone"}
		if name == "a" {
			undone = nil
		}
		out["no program at ADD: "+name] = entry{ofThree("", life{missing: []string{name}, verbs: []string{"ADD"}}), undone}
	}
	out["DEL without an ADD"] = entry{ofThree("", life{verbs: []string{"DEL", "DEL"}}), nil}
	out["CHECK without an ADD"] = entry{ofThree("", life{verbs: []string{"CHECK"}}), nil}
	out["GC without a list"] = entry{ofThree("", life{gcNoList: true, verbs: []string{"GC"}}), []string{"GC without a list"}}
	out["a prevResult in the file"] = entry{life{config: `{"cniVersion":"1.1.0","name":"lan","plugins":[{"type":"a","prevResult":{"cniVersion":"1.1.0"},"runtimeConfig":{"x":1}}]}`, answers: map[string]string{"a": answer("1.1.0", "a")}}, []string{"a prevResult in the file"}}
	out["a version that is none yet"] = entry{life{config: `{"cniVersion":"1.2.0","name":"lan","plugins":[{"type":"a"}]}`, verbs: []string{"ADD", "CHECK", "STATUS", "GC"}}, []string{"an unknown version is refused"}}
	out["DEL in a version that is none yet"] = entry{life{config: `{"cniVersion":"1.2.0","name":"lan","plugins":[{"type":"a"}]}`, verbs: []string{"DEL"}}, []string{"DEL in a known version"}}
	out["DEL in a version that is none"] = entry{life{config: `{"cniVersion":"new","name":"lan","plugins":[{"type":"a"}]}`, verbs: []string{"DEL"}}, []string{"DEL in a known version"}}
	return out
}

// livesOfVERSION are what plugins may answer to VERSION.
func livesOfVERSION() map[string]entry {
	out := map[string]entry{}
	for name, serves := range map[string]string{"both": `{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}`, "older ones": `{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}`,
		"0.2.0, without a list": `{"cniVersion":"0.2.0"}`, "no list": `{"cniVersion":"1.1.0"}`, "no document": "usage", "nothing": ""} {
		for _, version := range []string{"", "0.2.0", "1.0.0", "1.1.0"} {
			text := fmt.Sprintf(`{"cniVersion":%q,"name":"lan","plugins":[{"type":"a"},{"type":"b"}]}`, version)
			out[fmt.Sprintf("VERSION %q: %s", version, name)] = entry{life{config: text, serves: serves, verbs: []string{"VALIDATE"}}, nil}
		}
	}
	out["VERSION fails at b"] = entry{ofThree("", life{serves: `{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}`, fails: []string{"b.VERSION"}, verbs: []string{"VALIDATE"}}), nil}
	out["VERSION is not known"] = entry{life{config: `{"cniVersion":"0.1.0","name":"lan","plugins":[{"type":"a"}]}`, fails: []string{"a.VERSION"}, verbs: []string{"VALIDATE"}}, nil}
	out["VERSION without a program"] = entry{ofThree("", life{serves: `{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}`, missing: []string{"a"}, verbs: []string{"VALIDATE"}}), nil}
	return out
}

// What libcni does with a network, ours does: the same plugins, in the same order, with the same environment and
// stdin, but for the table of differences.
func TestAsLibcni(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	needed := map[string]int{}
	t.Run("lives", func(t *testing.T) {
		for name, c := range lives() {
			t.Run(name, func(t *testing.T) {
				// All programs are written before any is run: libcni does not get over one that another thread's fork
				// holds open for writing.
				dir := c.prepare(t)
				t.Parallel()
				theirs, ours := c.theirs(t, dir), c.ours(t, dir)
				if len(theirs.calls)+len(ours.calls) == 0 && len(c.missing) == 0 {
					t.Error("no plugin was called by either")
				}
				mu.Lock()
				defer mu.Unlock()
				reconcile(t, theirs, ours, c.differ, needed)
			})
		}
	})
	for _, d := range differences {
		if needed[d.name] == 0 {
			t.Errorf("nothing differs by %q: the table says more than is true", d.name)
		}
	}
	t.Logf("how many of %d lives differ: %v", len(lives()), needed)
}

// reconcile fails the test unless the named differences, and those of form, are all that the two records
// differ by; it counts what was needed for that.
func reconcile(t *testing.T, theirs, ours record, named []string, needed map[string]int) {
	t.Helper()
	without := func(but string) string {
		a, b := theirs.clone(), ours.clone()
		for _, d := range differences {
			if d.name != but && (d.form || slices.Contains(named, d.name)) {
				d.takeOut(&a, &b)
			}
		}
		return firstDifference(a.text(), b.text())
	}
	if at := without(""); at != "" {
		t.Error(at)
		return
	}
	for _, d := range differences {
		if !d.form && !slices.Contains(named, d.name) {
			continue
		}
		if without(d.name) != "" {
			needed[d.name]++
		} else if !d.form {
			t.Errorf("there is no difference %q", d.name)
		}
	}
}

// The files of a folder are read as libcni reads them; where libcni stops at a broken file, or reads none,
// the table says so.
func TestFoldersAsLibcni(t *testing.T) {
	t.Parallel()
	list := func(name string, types ...string) string {
		plugins := make([]string, len(types))
		for i, typ := range types {
			plugins[i] = fmt.Sprintf(`{"type":%q}`, typ)
		}
		return fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"plugins":[%s]}`, name, strings.Join(plugins, ","))
	}
	for name, c := range map[string]struct {
		files  map[string]string
		differ string // why the two do not agree; then ours finds a network and libcni does not
	}{
		"a list":                              {map[string]string{"10.conflist": list("n", "a", "b")}, ""},
		"the first list of the name":          {map[string]string{"20.conflist": list("n", "later"), "10.conflist": list("n", "first")}, ""},
		"one plugin":                          {map[string]string{"10.conf": `{"name":"n","type":"a","cniVersion":"0.3.1"}`}, ""},
		"JSON":                                {map[string]string{"10.json": `{"name":"n","type":"a"}`}, ""},
		"a list before one plugin":            {map[string]string{"10.conf": `{"name":"n","type":"a"}`, "20.conflist": list("n", "b")}, ""},
		"conf and json by their names":        {map[string]string{"10.json": `{"name":"n","type":"a"}`, "20.conf": `{"name":"n","type":"b"}`}, ""},
		"with a folder":                       {map[string]string{"10.conflist": list("n", "a"), "n/20.conf": `{"type":"c"}`, "n/10.conf": `{"type":"b"}`, "n/30.json": `{"type":"x"}`}, ""},
		"a folder alone":                      {map[string]string{"10.conflist": `{"name":"n","cniVersion":"1.1.0"}`, "n/1.conf": `{"type":"b"}`}, ""},
		"only what is inline":                 {map[string]string{"10.conflist": `{"name":"n","loadOnlyInlinedPlugins":true,"plugins":[{"type":"a"}]}`, "n/1.conf": `{"type":"b"}`}, ""},
		"a folder is not for one plugin":      {map[string]string{"10.conf": `{"name":"n","type":"a"}`, "n/1.conf": `{"type":"b"}`}, ""},
		"switches":                            {map[string]string{"10.conflist": `{"name":"n","cniVersions":["0.4.0","1.1.0"],"disableCheck":true,"disableGC":"True","plugins":[{"type":"a"}]}`}, ""},
		"none of the name":                    {map[string]string{"10.conflist": list("m", "a")}, ""},
		"none at all":                         {map[string]string{"README": ""}, ""},
		"another ending":                      {map[string]string{"10.conflist.bak": list("n", "a")}, ""},
		"the one of the name is broken":       {map[string]string{"10.conflist": `{"name":"n","plugins":[]}`, "20.conflist": list("n", "b")}, ""},
		"a plugin of the folder is broken":    {map[string]string{"10.conflist": list("n", "a"), "n/1.conf": `{"x":1}`}, ""},
		"another one is broken":               {map[string]string{"05.conflist": `{"name":`, "10.conflist": list("n", "a")}, "a half-written file of another network is no reason that this one does not work"},
		"a list in a file for one plugin":     {map[string]string{"10.conf": list("n", "a", "b")}, "the commonest mistake of a first day; it can only mean a list"},
		"one plugin in a file for a list":     {map[string]string{"10.conflist": `{"name":"n","type":"a"}`}, "it can only mean one plugin"},
		"a name that leads out of the folder": {map[string]string{"net.d/10.conflist": `{"name":"../out","plugins":[{"type":"a"}]}`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range c.files {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				write(t, path, text)
			}
			theirs, theirErr := libcni.LoadNetworkConf(dir, "n")
			ours, ourErr := delegate.LoadNetwork(dir, "n")
			switch {
			case c.differ != "":
				if theirErr == nil || ourErr != nil {
					t.Errorf("libcni: %v; ours: %v", theirErr, ourErr)
				}
			case (theirErr == nil) != (ourErr == nil):
				t.Errorf("libcni: %v; ours: %v", theirErr, ourErr)
			case ourErr == nil:
				a := fmt.Sprint(theirs.Name, theirs.CNIVersion, theirs.DisableCheck, theirs.DisableGC, len(theirs.Plugins))
				b := fmt.Sprint(ours.Name, ours.CNIVersion, ours.DisableCheck, ours.DisableGC, len(ours.Plugins))
				for _, p := range theirs.Plugins {
					a += " " + p.Network.Type
				}
				for _, p := range ours.Plugins {
					n, err := netconf.ParseNetwork(p)
					if err != nil {
						t.Error(err)
					}
					b += " " + n.Type
				}
				if a != b {
					t.Errorf("libcni: %s; ours: %s", a, b)
				}
			}
		})
	}
}
