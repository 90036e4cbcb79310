package delegate_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// folder writes files, by their names; a "/" in a name makes folders.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, text, 0o644)
	}
	return dir
}

func conf(name string, types ...string) string {
	plugins := make([]string, len(types))
	for i, typ := range types {
		plugins[i] = fmt.Sprintf(`{"type":%q}`, typ)
	}
	return fmt.Sprintf(`{"cniVersion":"1.1.0","name":%q,"plugins":[%s]}`, name, strings.Join(plugins, ","))
}

// typesOf lists the types of a network's plugins.
func typesOf(t *testing.T, n *delegate.Network) string {
	t.Helper()
	var all []string
	for _, plugin := range n.Plugins {
		all = append(all, strings.Trim(key(t, string(plugin), "type"), `"`))
	}
	return strings.Join(all, " ")
}

func TestListNetworks(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"10-b.conf": `{"name":"b","type":"x","cniVersion":"0.4.0"}`, "10-b.conflist": conf("b", "y"), "10-b.json": `{"name":"b","type":"z"}`,
		"10-b-c.conf": `{"name":"c","type":"x"}`, "00-bad.conflist": `{"name":"bad","plugins":[`, "05-list.conf": conf("list", "a"),
		"20-odd.conflist": `{"name":"odd","plugins":[]}`, "99.conflist.bak": conf("old", "a"), "README": "hello", "b/10.conf": `{"type":"more"}`,
		"b/05.conf": `{"type":"first"}`, "b/20.conflist": conf("no", "no"), "b/sub.conf/x": "", "only/1.conf": `{"type":"x"}`, "30-only.conflist": `{"name":"only","cniVersion":"1.1.0"}`,
		"40-inline.conflist": `{"name":"only","loadOnlyInlinedPlugins":true,"plugins":[{"type":"in"}]}`,
	})
	if err := os.Symlink(filepath.Join(dir, "10-b.conf"), filepath.Join(dir, "50-link.conf")); err != nil { // as kubelet mounts a ConfigMap
		t.Fatal(err)
	}
	files, err := delegate.ListNetworks(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		line := strings.TrimPrefix(f.Path, dir+"/") + ": "
		if f.Err != nil {
			if f.Network != nil || f.Err.Error() == "" {
				t.Errorf("%+v", f)
			}
			line += "-"
		} else {
			line += f.Network.Name + " " + typesOf(t, f.Network)
		}
		got = append(got, line)
	}
	want := []string{
		"00-bad.conflist: -", "05-list.conf: list a", "10-b-c.conf: c x", "10-b.conflist: b y first more", "10-b.conf: b x", "10-b.json: b z",
		"20-odd.conflist: -", "30-only.conflist: only x", "40-inline.conflist: only in", "50-link.conf: b x", "99.conflist.bak: -", "README: -",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := delegate.ListNetworks(filepath.Join(dir, "none")); netconf.Code(err) != 5 || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// Of one name the first list counts, then the first configuration of one plugin.
func TestLoadNetwork(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"00.conf": `{"name":"n","type":"single"}`, "10.conflist": conf("n", "list"), "20.conflist": conf("n", "later"),
		"30.json": `{"name":"s","type":"json"}`, "40.conf": `{"name":"s","type":"conf"}`, "05.conflist": `{"name":`, "50.conflist": `{"name":"odd","plugins":5}`,
		"60.conf": `{"name":"odd","type":"x"}`, "70.conflist": `{"name":"empty"}`, "80.txt": conf("text", "x"),
	})
	for _, c := range []struct {
		name, want string
		code       uint
		words      []string
	}{
		{"n", "list", 0, nil}, {"s", "json", 0, nil},
		{"odd", "", 7, []string{filepath.Join(dir, "50.conflist"), "plugins"}},
		{"empty", "", 7, []string{filepath.Join(dir, "70.conflist"), `folder "empty"`}},
		{"none", "", 7, []string{"no such network", `"none"`, dir, "05.conflist"}},
		{"text", "", 7, []string{"no such network"}},
	} {
		n, err := delegate.LoadNetwork(dir, c.name)
		if c.code != 0 {
			wants(t, err, c.code, c.words...)
			if errors.Is(err, delegate.ErrNoNetwork) != (c.words[0] == "no such network") {
				t.Errorf("%v", err)
			}
			continue
		}
		if err != nil || typesOf(t, n) != c.want {
			t.Errorf("%s: %v, %v", c.name, n, err)
		}
	}
	if _, err := delegate.LoadNetwork(t.TempDir(), "n"); !errors.Is(err, delegate.ErrNoNetwork) {
		t.Errorf("%v", err)
	}
	if _, err := delegate.LoadNetwork(filepath.Join(dir, "none"), "n"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestLoadFile(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"a.conflist": conf("a", "x"), "a/1.conf": `{"type":"y"}`, "bad.conflist": conf("bad", "x"), "bad/1.conf": `{"master":"p0"}`, "bad/2.conf": `{`,
		"up.conflist": `{"name":"../a","plugins":[{"type":"x"}]}`, "a.any": `{"name":"a","type":"x"}`, "d.conf/x": "",
		"big.conf": `{"name":"a","type":"x","fill":"` + strings.Repeat("x", netconf.MaxConfig) + `"}`,
	})
	if out, err := exec.Command("mkfifo", filepath.Join(dir, "fifo.conf")).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v: %s", err, out)
	}
	for _, c := range []struct {
		file, want string
		code       uint
		words      []string
	}{
		{"a.conflist", "x y", 0, nil}, {"a.any", "x", 0, nil},
		{"bad.conflist", "", 7, []string{"bad.conflist", "bad/1.conf", "type", "missing", "bad/2.conf", "not JSON"}},
		{"up.conflist", "", 7, []string{"name"}},
		{"d.conf", "", 5, []string{"not a regular file"}}, {"fifo.conf", "", 5, []string{"not a regular file"}}, {"none.conf", "", 5, []string{"none.conf"}},
		{"big.conf", "", 6, []string{"larger than"}},
	} {
		n, err := delegate.LoadFile(filepath.Join(dir, c.file))
		if c.code != 0 {
			wants(t, err, c.code, c.words...)
			continue
		}
		if err != nil || typesOf(t, n) != c.want {
			t.Errorf("%s: %v, %v", c.file, n, err)
			continue
		}
		kept, err := n.Bytes() // with the plugins of the folder, and none that come later
		if err != nil || typesOf(t, parse(t, string(kept))) != c.want {
			t.Errorf("%s, %v", kept, err)
		}
	}
	files, err := delegate.ListNetworks(dir) // neither waits for ever
	if err != nil || len(files) != 6 {
		t.Errorf("%v, %v", files, err)
	}
}

// Of a list with the key "plugin" it was said that plugins are missing, and nothing of the key that is there.
func TestASlipInTheKeyPluginsIsNamed(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"list": "{\"name\":\"a\",\n \"plugin\":[{\"type\":\"x\"}]}", "one": `{"name":"a","tpye":"x"}`, "none": `{"nam":"a","name":"a","master":"p0","plugin type":1}`,
	})
	for file, want := range map[string]string{
		"list": `; did you mean "plugins", where it has "plugin" (line 2, column 2)?`, "one": `; did you mean "type", where it has "tpye" (line 1, column 13)?`, "none": "",
	} {
		_, err := delegate.LoadFile(filepath.Join(dir, file))
		if netconf.Code(err) != 7 || !strings.HasSuffix(err.Error(), "of one plugin"+want) {
			t.Errorf("%s: %v\nexpected %s", file, err, want)
		}
		data, readErr := os.ReadFile(filepath.Join(dir, file))
		if _, err := delegate.ParseNetwork(data); readErr != nil || !strings.HasSuffix(err.Error(), "of one plugin"+want) {
			t.Errorf("%s: %v, %v", file, err, readErr)
		}
	}
}
