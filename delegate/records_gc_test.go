package delegate_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// pods adds each container with the attachments of a set that have one of the names, as "c1:ab".
func pods(t *testing.T, r delegate.Records, set delegate.Set, pods ...string) {
	t.Helper()
	for _, pod := range pods {
		id, names, _ := strings.Cut(pod, ":")
		req, own := attach(t), delegate.Set{Plugins: set.Plugins}
		req.ContainerID = id
		for _, a := range set.Attachments {
			if strings.Contains(names, strings.TrimPrefix(a.IfName, "if-")) {
				own.Attachments = append(own.Attachments, a)
			}
		}
		add(t, r, own, req)
	}
}

// collect makes a GC; living are containers.
func collect(t *testing.T, living ...string) *netconf.Request {
	t.Helper()
	req := call(t, netconf.GC, `{"cniVersion":"1.1.0","name":"outer","type":"meta"}`, "/nowhere")
	req.Network.ValidAttachments = []types.GCAttachment{}
	for _, id := range living {
		req.Network.ValidAttachments = append(req.Network.ValidAttachments, types.GCAttachment{ContainerID: id, IfName: "eth0"})
	}
	return req
}

// The stale get their DEL, and each network its GC, once, with all that lives of it: also what only the record knows
// of. The networks of the stale are collected too, and those that the caller names.
func TestRecordsGC(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	pods(t, r, set, "live1:ab", "dead:bc", "live2:b")
	other := attach(t)
	other.Network.Name, other.ContainerID = "elsewhere", "theirs"
	add(t, r, set, other)
	s.said()
	req := collect(t, "live1", "live2", "unknown")
	if err := r.GC(t.Context(), set.Plugins, req, set.Attachments[1].Network, set.Attachments[3].Network); err != nil {
		t.Fatal(err)
	}
	runtime := `{"containerID":"live1","ifname":"eth0"},{"containerID":"live2","ifname":"eth0"},{"containerID":"unknown","ifname":"eth0"}]`
	for _, c := range s.calls {
		list := key(t, c.config, "cni.dev/valid-attachments")
		if c.verb == netconf.Del {
			if c.variable("CNI_CONTAINERID") != "dead" || c.variable("CNI_IFNAME") != "if-"+c.plugin || c.variable("CNI_NETNS") != "/run/netns/none" || list != "" ||
				!strings.Contains(key(t, c.config, "prevResult"), c.plugin) || c.variable("CNI_ARGS") == "" {
				t.Errorf("%s: %q, %s", c, c.env, c.config)
			}
			continue
		}
		want := map[string]string{"a": `[{"containerID":"live1","ifname":"if-a"},`, "b": `[{"containerID":"live1","ifname":"if-b"},{"containerID":"live2","ifname":"if-b"},`, "c": "[", "d": "[", "e": "["}
		same(t, list, want[c.plugin]+runtime)
	}
	if got := s.said(); got != "c DEL, b DEL, b GC, d GC, e GC, c GC, a GC" {
		t.Error(got)
	}
	wantNames(t, r, "elsewhere:theirs:eth0.record", "outer:live1:eth0.record", "outer:live2:eth0.record")
	// An empty list is one; none is an error, and nothing is run.
	none := collect(t)
	none.Network.ValidAttachments = nil
	if wants(t, r.GC(t.Context(), set.Plugins, none), 7, "missing"); s.said() != "" {
		t.Error("something was run")
	}
	if err := r.GC(t.Context(), set.Plugins, collect(t)); err != nil {
		t.Error(err)
	}
	if got := s.said(); got != "b DEL, a DEL, b DEL, a GC, b GC" {
		t.Error(got)
	}
	wantNames(t, r, "elsewhere:theirs:eth0.record")
	if err := r.GC(t.Context(), nil, collect(t)); err != nil || s.said() != "" {
		t.Error(err)
	}
}

// A namespace under /proc is named by a process that may be another one by now.
func TestGCAndTheNamespaceOfAProcess(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	set.Attachments = set.Attachments[:1]
	req := attach(t)
	req.Netns = "/proc/4711/ns/net"
	add(t, r, set, req)
	s.said()
	if err := r.GC(t.Context(), set.Plugins, collect(t)); err != nil {
		t.Fatal(err)
	}
	if s.calls[0].verb != netconf.Del || s.calls[0].variable("CNI_NETNS") != "" {
		t.Errorf("%s: %q", s.calls[0], s.calls[0].env)
	}
}

// One that fails stops no other, and stays.
func TestGCGoesOn(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	pods(t, r, set, "dead1:b", "dead2:a")
	s.said()
	s.answer = func(ctx context.Context, name string, req *netconf.Request) error {
		if name == "b" {
			return errors.New("stuck")
		}
		return nil
	}
	err := r.GC(t.Context(), set.Plugins, collect(t))
	if err == nil || strings.Count(err.Error(), "stuck") != 2 {
		t.Error(err)
	}
	if got := s.said(); got != "b DEL, a DEL, b GC, a GC" {
		t.Error(got)
	}
	wantNames(t, r, "outer:dead1:eth0.record")
}

// While what a living container has cannot be read, no network's GC runs: it would take what lives. The stale go all
// the same. When the container is gone, or has a record again, all is as ever.
func TestGCWithADamagedRecord(t *testing.T) {
	t.Parallel()
	damaged := func(text string) string { return strings.Replace(text, `"type":"b"`, `"typo":"b"`, 1) }
	for name, c := range map[string]struct {
		file   string
		text   func(string) string
		living []string
		said   string
		code   uint
	}{
		"it lives":                {"outer:c1:eth0.record", func(string) string { return "damage" }, []string{"c1"}, "a DEL", 105},
		"one network of it":       {"outer:c1:eth0.record", damaged, []string{"c1"}, "a DEL", 105},
		"moved aside, it lives":   {"outer:c1:eth0.record.bad", func(string) string { return "damage" }, []string{"c1"}, "a DEL", 105},
		"it is gone":              {"outer:c1:eth0.record", func(string) string { return "damage" }, []string{}, "a DEL, a GC", 0},
		"moved aside, it is gone": {"outer:c1:eth0.record.bad", func(string) string { return "damage" }, []string{}, "a DEL, a GC", 0},
		"of an earlier life":      {"outer:c2:eth0.record.bad", func(string) string { return "damage" }, []string{"c2"}, "a GC", 0},
		"nobody's":                {"outer:hash.record", func(string) string { return "damage" }, []string{"c1"}, "a DEL, a GC", 0},
		"nobody's, moved aside":   {"outer:hash.record.bad", func(string) string { return "damage" }, []string{"c1"}, "a DEL, a GC", 0},
		"another network's":       {"elsewhere:c1:eth0.record", func(string) string { return "damage" }, []string{"c1"}, "a DEL, a GC", 0},
		"no file of ours":         {"README", func(string) string { return "damage" }, []string{"c1"}, "a DEL, a GC", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := &spy{}, records(t)
			set := four(t, s)
			pods(t, r, set, "c2:a", "c1:b")
			text := read(t, filepath.Join(r.Dir, "outer:c1:eth0.record"))
			if err := os.Remove(filepath.Join(r.Dir, "outer:c1:eth0.record")); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(r.Dir, c.file), c.text(text), 0o600)
			s.said()
			err := r.GC(t.Context(), set.Plugins, collect(t, c.living...))
			if netconf.Code(err) != c.code || c.code != 0 && !strings.Contains(err.Error(), c.file) {
				t.Error(err)
			}
			if got := s.said(); got != c.said {
				t.Errorf("%s: expected %s", got, c.said)
			}
		})
	}
}

// A long name ends in a hash, which does not tell whose it is: a record that DEL has moved aside kept GC from its work for
// ever, and so did any garbage.
func TestSetAsideRecordOfALongNameBlocksGC(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 230)
	for name, c := range map[string]struct {
		del  bool   // came before
		text string // of the file
		live []string
		code uint
		said string
		bad  bool // it is aside afterwards
	}{
		"a DEL came":               {true, "damage", []string{"other"}, 0, "a GC", true},
		"none came":                {false, "damage", []string{"other"}, 0, "a GC", true},
		"it lives":                 {false, "damage", []string{long}, 105, "", false},
		"a DEL came, and it lives": {true, "damage", []string{long}, 105, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := &spy{}, records(t)
			set := four(t, s)
			pods(t, r, set, long+":a")
			all, err := r.List("outer")
			if err != nil || len(all) != 1 {
				t.Fatalf("%v, %v", all, err)
			}
			path := all[0].Path
			write(t, path, c.text, 0o600)
			if c.del {
				req := bare(t)
				req.ContainerID = long
				if err := r.Del(t.Context(), set.Plugins, req); err != nil {
					t.Fatal(err)
				}
			}
			s.said()
			req := collect(t, c.live...)
			warnings := heard(req)
			if err := r.GC(t.Context(), set.Plugins, req, set.Attachments[0].Network); netconf.Code(err) != c.code {
				t.Error(err)
			}
			if got := s.said(); got != c.said {
				t.Errorf("%q: expected %q", got, c.said)
			}
			if _, err := os.Stat(path + ".bad"); (err == nil) != c.bad {
				t.Errorf("aside: %v", err)
			}
			if said := len(*warnings) == 1; said != (c.bad && !c.del) {
				t.Errorf("%q", *warnings)
			}
		})
	}
}

// What a call is at work on lives, whatever the list says.
func TestGCBesideAnAdd(t *testing.T) {
	t.Parallel()
	r := records(t)
	s := &spy{}
	set := four(t, s)
	set.Attachments = set.Attachments[:1]
	s.answer = func(ctx context.Context, name string, req *netconf.Request) error {
		if req.Command == netconf.Add {
			all, err := r.List("outer")
			if err != nil || len(all) != 1 || !all[0].Busy {
				t.Errorf("%+v, %v", all, err)
			}
			if err := r.GC(context.WithoutCancel(ctx), set.Plugins, collect(t)); err != nil {
				t.Error(err)
			}
		} else if req.Command != netconf.GC || !strings.Contains(string(req.Config), `"ifname":"if-a"`) {
			t.Errorf("%s: %s", req.Command, req.Config)
		}
		return nil
	}
	add(t, r, set, attach(t))
	if got := s.said(); got != "a ADD, a GC" {
		t.Error(got)
	}
	wantNames(t, r, file)
}

func TestListAndStale(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	if all, err := r.List(""); err != nil || len(all) != 0 {
		t.Errorf("no folder: %v, %v", all, err)
	}
	set := four(t, s)
	pods(t, r, set, "c1:a", "c2:ab", "c3:a")
	other := attach(t)
	other.Network.Name = "elsewhere"
	add(t, r, set, other)
	write(t, filepath.Join(r.Dir, "outer:c3:eth0.record"), "damage", 0o600)
	write(t, filepath.Join(r.Dir, "outer:c4:eth0.record.bad"), "damage", 0o600)
	write(t, filepath.Join(r.Dir, "README"), "", 0o600)
	if err := os.Rename(filepath.Join(r.Dir, "outer:c2:eth0.record"), filepath.Join(r.Dir, "outer:c5:eth0.record")); err != nil {
		t.Fatal(err)
	}
	said := func(all []delegate.Record, err error) string {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
		out := ""
		for _, rec := range all {
			out += " " + rec.ContainerID
			if rec.Err != nil {
				out += "!"
			}
			if rec.Path == "" || rec.Busy {
				t.Errorf("%+v", rec)
			}
		}
		return out
	}
	for network, want := range map[string]string{"outer": " c1 c3! c4! c5!", "elsewhere": " c1", "": " c1 c1 c3! c4! c5!", "out": ""} {
		if got := said(r.List(network)); got != want {
			t.Errorf("%q: %s, expected %s", network, got, want)
		}
	}
	if got := said(r.Stale("outer", collect(t, "c3", "c7").Network.ValidAttachments)); got != " c1 c5!" {
		t.Error(got)
	}
	living := collect(t, "c1", "c3", "c5").Network.ValidAttachments
	living[0].IfName = "eth1"
	if got := said(r.Stale("outer", living)); got != " c1" {
		t.Error(got)
	}
}
