package delegate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// A DEL may bring any text as a name: there is no record of it, and no file outside of the folder.
func TestRecordOfWhatIsNoName(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	add(t, r, set, attach(t))
	write(t, filepath.Join(r.Dir, "..", file), "outside", 0o600)
	s.said()
	for _, change := range []func(*netconf.Request){
		func(req *netconf.Request) { req.Network.Name = "../outer" }, func(req *netconf.Request) { req.ContainerID = "" },
		func(req *netconf.Request) { req.IfName = "../../x" }, func(req *netconf.Request) { req.Network.Name, req.ContainerID, req.IfName = "outer:c1", "eth0", "" },
	} {
		req := bare(t)
		change(req)
		if err := r.Del(t.Context(), set.Plugins, req); err != nil || s.said() != "" {
			t.Error(err)
		}
	}
	wantNames(t, r, file)
	if read(t, filepath.Join(r.Dir, "..", file)) != "outside" {
		t.Error("a file outside of the folder was touched")
	}
}

// Names that are too long for a file are told apart all the same.
func TestRecordOfALongName(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	set.Attachments = set.Attachments[:1]
	long := strings.Repeat("x", 250)
	for i := range 3 {
		req := attach(t)
		req.ContainerID, req.Network.Name = long+fmt.Sprint(i), long
		add(t, r, set, req)
	}
	all, err := r.List(long)
	if err != nil || len(all) != 3 || all[0].Network != long {
		t.Fatalf("%v, %v", all, err)
	}
	// The record of another under the same hash is nobody's to touch.
	foreign, other := all[0].Path, all[1]
	if err := os.Rename(foreign, other.Path); err != nil {
		t.Fatal(err)
	}
	req := bare(t)
	req.Network.Name, req.ContainerID = long, other.ContainerID
	warnings := heard(req)
	s.said()
	if err := r.Del(t.Context(), set.Plugins, req); err != nil || s.said() != "" || len(*warnings) != 1 {
		t.Errorf("%v, %q", err, *warnings)
	}
	if _, err := os.Stat(other.Path); err != nil {
		t.Errorf("the other's record: %v", err)
	}
}

// A Records whose folder is not set says that, and not that a file without a name is missing.
func TestRecordsWithoutADir(t *testing.T) {
	t.Parallel()
	s := &spy{}
	set, r := four(t, s), delegate.Records{}
	_, err := r.Add(t.Context(), set, attach(t))
	if wants(t, err, 105, "Dir is not set"); !netconf.IsUnchanged(err) {
		t.Errorf("%v: nothing has run", err)
	}
	_, err = r.List("")
	wants(t, err, 105, "Dir is not set")
	wants(t, r.Del(t.Context(), set.Plugins, bare(t)), 105, "Dir is not set")
	wants(t, r.Check(t.Context(), set.Plugins, bare(t)), 105, "Dir is not set")
	wants(t, r.GC(t.Context(), set.Plugins, collect(t)), 105, "Dir is not set")
	if s.said() != "" {
		t.Error("something was run")
	}
}
