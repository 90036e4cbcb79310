package main

import (
	"os"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// Who renames the network while pods run loses nothing: the DEL comes with the new name.
func TestRenamed(t *testing.T) {
	w := newWorld(t)
	w.spies("ns1/net-a")
	w.pod("net-a")
	a := w.add()
	w.log()
	w.conf["name"] = "renamed"
	w.call(netconf.Check).WithPrev(a).Run(t.Context(), t, w.run).OK(t)
	w.call(netconf.Del).WithPrev(a).Run(t.Context(), t, w.run).OK(t)
	if got := w.log(); got != "CHECK eth0, CHECK net1, DEL net1, DEL eth0" {
		t.Error(got)
	}
	w.clean()
}

// GC under the new name freed what pods from before the renaming had on their further networks, of which the runtime's list
// knows nothing; and never collected such a pod's record when it was dead.
func TestRenamedGC(t *testing.T) {
	w := newWorld(t)
	w.nad("ns1", "net-a", `{"cniVersion":"1.1.0","type":"spy"}`)
	w.pod("net-a")
	old := w.call(netconf.Add)
	old.ContainerID = "old"
	old.Run(t.Context(), t, w.run).OK(t)
	w.conf["name"] = "renamed"
	w.add()
	w.log()
	w.api.Close()

	w.gc("old", "c1").OK(t)
	if got := w.log(); strings.Contains(got, "DEL") {
		t.Errorf("%s: both live", got)
	}
	list := string(w.in("GC.")["cni.dev/valid-attachments"]) // of the last GC: all have the same
	for _, want := range []string{`{"containerID":"old","ifname":"net1"}`, `{"containerID":"old","ifname":"eth0"}`, `{"containerID":"c1","ifname":"net1"}`} {
		if !strings.Contains(list, want) {
			t.Errorf("%s is missing in %s", want, list)
		}
	}

	// It is not in the list, but its namespace is there: it is a pod of another network with this plugin, perhaps.
	w.gc("c1").OK(t)
	if got := w.log(); strings.Contains(got, "DEL") {
		t.Errorf("%s: its namespace is there", got)
	}
	if err := os.Rename(w.path("cni/outer:old:eth0.record"), w.path("whole")); err != nil {
		t.Fatal(err)
	}
	w.write("cni/outer:old:eth0.record", strings.ReplaceAll(w.read("whole"), w.ns.Path, "/run/netns/none"))
	w.gc("c1").OK(t)
	if got := w.log(); !strings.HasPrefix(got, "DEL net1, DEL eth0, GC") {
		t.Errorf("%s: it is dead", got)
	}
	if got := strings.Join(w.names("cni"), " "); got != "renamed:c1:eth0.record" {
		t.Error(got)
	}

	w.write("cni/outer:old:eth0.record", "{")
	w.gc("c1", "old").Fails(t, netconf.CodeBadStore, "outer:old:eth0.record")
	if got := w.log(); got != "" {
		t.Errorf("%q was called though nobody knows what old has", got)
	}
}

// What GC took over from multus said nothing of its namespace, and so counted as living for ever once the network was renamed.
func TestRenamedUpgrade(t *testing.T) {
	w := newWorld(t)
	w.multus("old")
	w.gc("old").OK(t)
	w.conf["name"] = "renamed"
	w.log()
	w.gc().OK(t)
	if got := w.log(); !strings.HasPrefix(got, "DEL foo0, DEL net1, DEL eth0, GC") {
		t.Errorf("%s: it is dead", got)
	}
	w.clean()
}
