package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// gc is a GC with the runtime's list of living containers, all with eth0.
func (w *world) gc(living ...string) skeltest.Answer {
	w.t.Helper()
	list := []map[string]string{}
	for _, id := range living {
		list = append(list, map[string]string{"containerID": id, "ifname": "eth0"})
	}
	w.conf["cni.dev/valid-attachments"] = list
	defer delete(w.conf, "cni.dev/valid-attachments")
	return w.do(netconf.GC)
}

// All networks are tried; what succeeds is not done again, what fails is kept for the next DEL, and named.
func TestDELGoesOn(t *testing.T) {
	w := newWorld(t)
	w.spies("ns1/net-a", "ns1/net-b")
	w.pod("net-a,net-b")
	w.add()
	w.log()
	w.write("fail.DEL.net1", "")
	w.do(netconf.Del).Fails(t, 42, "net-a", "net1")
	if got := w.log(); got != "DEL net2, DEL net1, DEL eth0" {
		t.Error(got)
	}
	w.remove("fail.DEL.net1")
	w.del()
	if got := w.log(); got != "DEL net1" {
		t.Errorf("%q: the others are detached", got)
	}
	w.clean()
}

// A program that is missing keeps its own network alone from its DEL.
func TestDELWithoutProgram(t *testing.T) {
	w := newWorld(t)
	w.write("bin/other", w.read("bin/spy"))
	w.nad("ns1", "net-o", `{"type":"other"}`)
	w.spies("ns1/net-a")
	w.pod("net-a,net-o,net-a")
	w.add()
	w.log()
	text := w.read("bin/other")
	w.remove("bin/other")
	w.do(netconf.Del).Fails(t, netconf.CodeIOFailure, "net-o", "other")
	if got := w.log(); got != "DEL net3, DEL net1, DEL eth0" {
		t.Error(got)
	}
	w.write("bin/other", text)
	w.del()
	if got := w.log(); got != "DEL net2" {
		t.Error(got)
	}
	w.clean()
}

// CHECK runs all networks of the record, each with its own result, and names the one that is not well.
func TestCHECK(t *testing.T) {
	w := newWorld(t)
	w.spies("ns1/net-a")
	w.nad("ns1", "old", `{"cniVersion":"0.3.1","type":"spy"}`)
	w.pod("net-a,old")
	a := w.add()
	w.log()
	check := w.call(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, w.run).OK(t)
	if got := w.log(); got != "CHECK eth0, CHECK net1" {
		t.Errorf("%q: version 0.3.1 has no CHECK", got)
	}
	if got := string(w.in("CHECK.net1")["prevResult"]); !strings.Contains(got, `"net1"`) {
		t.Error(got)
	}
	w.write("fail.CHECK.net1", "")
	check.Run(t.Context(), t, w.run).Fails(t, 42, "net1")
}

// GC: the runtime's list decides, for all networks; what it does not know of, net1 say, lives as long as its container.
func TestGC(t *testing.T) {
	w := newWorld(t)
	w.nad("ns1", "net-a", `{"cniVersion":"1.1.0","type":"spy"}`)
	w.pod("net-a")
	w.add()
	dead := w.call(netconf.Add)
	dead.ContainerID = "c2"
	dead.Run(t.Context(), t, w.run).OK(t)
	w.log()
	w.api.Close()
	w.gc("c1").OK(t)
	if got := w.log(); !strings.HasPrefix(got, "DEL net1, DEL eth0, GC") || strings.Count(got, "GC") != 2 {
		t.Errorf("%q: expected the DELs of c2, and a GC of each network", got)
	}
	// The spy's last GC is that of one of the two networks; both lists have c1 with all that it has there.
	in := w.in("GC.")
	if got := string(in["cni.dev/valid-attachments"]); !strings.Contains(got, `"c1"`) || strings.Contains(got, `"c2"`) {
		t.Errorf("%s: %s", in["name"], got)
	}
	if len(w.names("cni")) != 1 {
		t.Errorf("%q", w.names("cni"))
	}
	w.do(netconf.GC).Fails(t, netconf.CodeInvalidNetworkConfig)
	if got := w.log(); got != "" {
		t.Errorf("%q was called without a list", got)
	}
	w.gc().OK(t)
	w.clean()
	w.log()
	w.gc().OK(t)
	if got := w.log(); got != "GC" {
		t.Errorf("%q: expected the default network's, of which there is no record", got)
	}
}

// STATUS: the default network's, and whether the API server can be asked.
func TestSTATUS(t *testing.T) {
	w := newWorld(t)
	w.do(netconf.Status).OK(t)
	if got := w.log(); got != "STATUS" {
		t.Error(got)
	}
	w.write("fail.STATUS.", "")
	if a := w.do(netconf.Status); a.Exit == 0 || !strings.Contains(a.Err.Msg, "defnet") {
		t.Errorf("%+v", a.Err)
	}
	w.remove("fail.STATUS.")
	w.conf["clusterNetwork"] = "missing"
	w.do(netconf.Status).Fails(t, netconf.CodePluginNotAvailable, "missing")
	delete(w.conf, "clusterNetwork")
	w.remove("bin/spy")
	w.do(netconf.Status).Fails(t, netconf.CodePluginNotAvailable, "spy")
	w.write("bin/spy", fmt.Sprintf(spy, w.dir))
	w.api.Close()
	w.do(netconf.Status).Fails(t, netconf.CodePluginNotAvailable)
	w.conf["kubeconfig"] = w.path("none")
	w.do(netconf.Status).Fails(t, netconf.CodePluginNotAvailable, "none")
}

// multus writes its record of a container, and libcni's of the results, as multus 4.3 does.
func (w *world) multus(id string) {
	w.t.Helper()
	config := func(name string) string {
		return fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"type":"spy","capabilities":{"ips":true,"portMappings":true}}`, name)
	}
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	w.write("cni/"+id, fmt.Sprintf(`[{"Conf":{"cniVersion":"1.0.0","name":"defnet","type":"spy","ipam":{},"dns":{}},"ConfList":{"dns":{}},"Name":"defnet","IsFilterV4Gateway":false,"IsFilterV6Gateway":false,"Bytes":%q},
		{"Conf":{"name":"net-a","type":"spy","ipam":{},"dns":{}},"ConfList":{"dns":{}},"Name":"ns1/net-a","ipRequest":["10.0.0.5/24"],"IsFilterV4Gateway":false,"IsFilterV6Gateway":false,"Bytes":%q},
		{"Conf":{"dns":{}},"ConfList":{"name":"net-b","plugins":[{"type":"spy"}],"dns":{}},"Name":"ns1/net-b","ifnameRequest":"foo0","IsFilterV4Gateway":false,"IsFilterV6Gateway":false,"Bytes":%q}]`,
		encode(config("defnet")), encode(`{"type":"spy","capabilities":{"ips":true}}`), encode(`{"name":"net-b","plugins":[{"type":"spy"}]}`)))
	for name, ifname := range map[string]string{"defnet": "eth0", "net-a": "net1", "net-b": "foo0"} {
		w.write(fmt.Sprintf("cni/results/%s-%s-%s", name, id, ifname), fmt.Sprintf(
			`{"kind":"cniCacheV1","containerId":%q,"config":%q,"ifName":%q,"networkName":%q,"cniArgs":[["IgnoreUnknown","true"],["K8S_POD_NAME","p"]],"capabilityArgs":{"ips":["10.0.0.5/24"]},"result":{"cniVersion":"1.0.0","interfaces":[{"name":%q,"sandbox":"/n"}]}}`,
			id, encode(config(name)), ifname, name, ifname))
	}
}

// An upgrade in place loses nothing: what multus attached is checked, collected and detached, with the results it had.
func TestUpgrade(t *testing.T) {
	w := newWorld(t)
	w.multus("c1")
	w.do(netconf.Add).Fails(t, netconf.CodeExists)
	w.api.Close()
	w.del()
	if got := w.log(); got != "DEL foo0, DEL net1, DEL eth0" {
		t.Error(got)
	}
	for ifname, name := range map[string]string{"eth0": "defnet", "net1": "net-a", "foo0": "net-b"} {
		in := w.in("DEL." + ifname)
		if string(in["name"]) != fmt.Sprintf("%q", name) || !strings.Contains(string(in["prevResult"]), ifname) {
			t.Errorf("%s: %s", ifname, in)
		}
	}
	if got := w.asked("DEL.net1", "ips"); got != `["10.0.0.5/24"]` {
		t.Errorf("ips %s", got)
	}
	if env := w.read("env.DEL.net1"); !strings.Contains(env, "IP=10.0.0.5/24") {
		t.Error(env)
	}
	w.clean()
	w.del()
	if got := w.log(); got != "" {
		t.Errorf("a second DEL called %q", got)
	}
	w.multus("c1")
	a := w.call(netconf.Check)
	a.Prev = `{"cniVersion":"1.1.0"}`
	a.Run(t.Context(), t, w.run).OK(t)
	if got := w.log(); got != "CHECK eth0, CHECK net1, CHECK foo0" {
		t.Error(got)
	}
	if names := w.names("cni"); strings.Join(names, " ") != "outer:c1:eth0.record results" {
		t.Errorf("%q", names)
	}
}

// Of a network from a file multus keeps two forms: the one that has all keys is taken.
func TestUpgradeFile(t *testing.T) {
	w := newWorld(t)
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	w.write("cni/c1", fmt.Sprintf(`[{"Conf":{"dns":{}},"ConfList":{"cniVersion":"1.0.0","name":"lan","plugins":[{"type":"spy","ipam":{},"dns":{}}],"dns":{}},"Name":"lan","Bytes":%q,
		"CNINetworkConfigList":{"Name":"lan","CNIVersion":"1.0.0","DisableCheck":true,"DisableGC":false,"LoadOnlyInlinedPlugins":false,"Plugins":[{"Network":{"type":"spy"},"Bytes":%q},{"Network":{"type":"spy"},"Bytes":%q}],"Bytes":%q}}]`,
		encode(`{"cniVersion":"1.0.0","name":"lan","plugins":[{"type":"spy","ipam":{},"dns":{}}]}`),
		encode(`{"type":"spy","big":9007199254740993}`), encode(`{"type":"spy"}`), encode(`{"cniVersion":"1.0.0","name":"lan","plugins":[]}`)))
	w.del()
	if got := w.log(); got != "DEL eth0, DEL eth0" || string(w.in("DEL.eth0")["big"]) != "9007199254740993" || string(w.in("DEL.eth0")["name"]) != `"lan"` {
		t.Errorf("%q, %s", got, w.in("DEL.eth0"))
	}
	w.clean()
}

// GC after an upgrade knows what lives: net1 too, which the runtime's list does not have.
func TestUpgradeGC(t *testing.T) {
	w := newWorld(t)
	w.multus("c1")
	w.multus("c2")
	w.write("cni/c3", "[]")
	w.write("cni/README", "of whoever looks after this node") // it was moved aside
	w.write("cni/c4", `[{"Bytes":"eyJuYW1lIjoiYSIsInR5cGUiOiJzcHkifQ==","macRequest":"x;y"}]`)
	w.gc("c1").Fails(t, netconf.CodeBadStore, `container "c3"`, `container "c4"`, "may still have addresses")
	if got := w.log(); strings.Count(got, "DEL foo0, DEL net1, DEL eth0") != 1 || strings.Count(got, "DEL") != 5 || strings.Count(got, "DEL eth0") != 3 {
		t.Errorf("%q: expected the DELs of c2, and those of the default networks of c3 and c4", got)
	}
	if names := w.names("cni"); strings.Join(names, " ") != "README c3.bad c4.bad outer:c1:eth0.record results" {
		t.Errorf("%q", names)
	}
	w.gc("c1").OK(t) // it is said once
	w.write("cni/c1", "[")
	w.remove("cni/outer:c1:eth0.record")
	w.log()
	w.gc("c1").Fails(t, netconf.CodeBadStore, "c1")
	if got := w.log(); got != "" {
		t.Errorf("%q was called though nobody knows what c1 has", got)
	}
}

// A container from before this plugin was installed has no record; the runtime knows a result, so its default network is
// detached. Without either there is nothing to do.
func TestDELWithoutRecord(t *testing.T) {
	w := newWorld(t)
	w.del()
	if got := w.log(); got != "" {
		t.Error(got)
	}
	c := w.call(netconf.Del)
	c.Prev = `{"cniVersion":"1.1.0","ips":[{"address":"10.9.9.9/24"}]}`
	c.Run(t.Context(), t, w.run).OK(t)
	if got := w.log(); got != "DEL eth0" || !strings.Contains(string(w.in("DEL.eth0")["prevResult"]), "10.9.9.9") {
		t.Errorf("%q, %s", got, w.in("DEL.eth0"))
	}
	w.write("fail.DEL.eth0", "")
	c.Run(t.Context(), t, w.run).Fails(t, 42)
	w.remove("fail.DEL.eth0")
	c.Prev = "" // what failed is not forgotten
	w.log()
	c.Run(t.Context(), t, w.run).OK(t)
	if got := w.log(); got != "DEL eth0" {
		t.Error(got)
	}
	w.clean()
}

// What the runtime remembers of its own networks is not ours to detach: containerd's loopback, say. Its result of this
// plugin is the default network's.
func TestLostAndTheRuntimesCache(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(runtimeCache, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, ifname := range map[string]string{"cni-loopback": "lo", "outer": "eth0", "other": "net7"} {
		text := fmt.Sprintf(`{"kind":"cniCacheV1","containerId":"lost1","config":%q,"ifName":%q,"networkName":%q,"result":{"cniVersion":"1.0.0","ips":[{"address":"10.9.9.9/24"}]}}`,
			base64.StdEncoding.EncodeToString([]byte(`{"cniVersion":"1.0.0","name":"x","type":"spy"}`)), ifname, name)
		if err := os.WriteFile(filepath.Join(runtimeCache, name+"-lost1-"+ifname), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.write("cni/lost1", "")
	c := w.call(netconf.Del)
	c.ContainerID = "lost1"
	c.Run(t.Context(), t, w.run).Fails(t, netconf.CodeBadStore, "networks beside the default one")
	if got := w.log(); got != "DEL eth0" || !strings.Contains(string(w.in("DEL.eth0")["prevResult"]), "10.9.9.9") {
		t.Errorf("%q, %s", got, w.in("DEL.eth0"))
	}
	c.Run(t.Context(), t, w.run).OK(t)
}

// A disk that takes no record is a failed ADD with code 105, and no plugin has run.
func TestFullDisk(t *testing.T) {
	w := newWorld(t)
	if err := os.Mkdir(w.path("cni"), 0o755); err != nil {
		t.Fatal(err)
	}
	skeltest.Host(t, "mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=10", "tmpfs", w.path("cni"))
	t.Cleanup(func() { skeltest.Host(t, "umount", w.path("cni")) })
	w.write("cni/full", strings.Repeat("x", 4096))
	w.pod("")
	w.do(netconf.Add).Fails(t, netconf.CodeBadStore)
	if got := w.log(); got != "" {
		t.Errorf("%q was called", got)
	}
	w.del()
	if err := os.Remove(filepath.Join(w.path("cni"), "full")); err != nil {
		t.Fatal(err)
	}
	w.add()
	w.del()
	w.clean()
}

// A disk that is full keeps what multus has left from being taken over, and nothing else: the DEL is made when there is room.
// A damaged record has its DEL all the same.
func TestUpgradeFullDisk(t *testing.T) {
	w := newWorld(t)
	if err := os.Mkdir(w.path("cni"), 0o755); err != nil {
		t.Fatal(err)
	}
	skeltest.Host(t, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", w.path("cni"))
	t.Cleanup(func() { skeltest.Host(t, "umount", w.path("cni")) })
	w.multus("c1")
	w.fill("cni/full")
	w.do(netconf.Del).Fails(t, netconf.CodeBadStore)
	if got := w.log(); got != "" {
		t.Errorf("%q was called", got)
	}
	w.remove("cni/full")
	w.del()
	if got := w.log(); got != "DEL foo0, DEL net1, DEL eth0" {
		t.Error(got)
	}
	w.write("cni/c1", "[")
	w.fill("cni/full")
	w.do(netconf.Del).Fails(t, netconf.CodeBadStore)
	if got := w.log(); got != "DEL eth0" {
		t.Error(got)
	}
}

// fill writes a file until the disk is full.
func (w *world) fill(name string) {
	w.t.Helper()
	f, err := os.Create(w.path(name))
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close() // the disk is full
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
}
