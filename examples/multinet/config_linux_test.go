package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// clusterNetwork is a definition, a network of confDir, a file or a folder; with a path no API server is asked.
func TestClusterNetwork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ network, want string }{
		"definition":    {"net-k", "kube-system/net-k=eth0*"},
		"confDir":       {"on-disk", "on-disk=eth0*"},
		"file":          {"DIR/lan/20-b.conf", "b=eth0*"},
		"folder":        {"DIR/lan", "a=eth0*"},
		"folder, slash": {"DIR/lan/", "a=eth0*"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spies("kube-system/net-k")
			w.write("net.d/10.conf", `{"cniVersion":"1.0.0","name":"on-disk","type":"spy"}`)
			w.write("lan/00-multus.conf", `{"cniVersion":"1.0.0","name":"outer","type":"multinet"}`) // itself
			w.write("lan/05-broken.conflist", `{`)
			w.write("lan/10-a.conf", `{"cniVersion":"1.0.0","name":"not","type":"spy"}`)
			w.write("lan/10-a.conflist", `{"cniVersion":"1.0.0","name":"a","plugins":[{"type":"spy"}]}`)
			w.write("lan/20-b.conf", `{"cniVersion":"1.0.0","name":"b","type":"spy"}`)
			w.conf["clusterNetwork"] = strings.ReplaceAll(c.network, "DIR", w.dir)
			w.pod("")
			w.add()
			if got := w.entries(); got != c.want {
				t.Errorf("%q: expected %q", got, c.want)
			}
			w.del()
			if strings.Contains(c.network, "/") {
				delete(w.conf, "kubeconfig")
				w.add()
				w.del()
			}
			w.clean()
		})
	}
}

// A default network that cannot be had says why.
func TestClusterNetworkMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code  uint
		words []string
	}{
		"nowhere":            {7, []string{"nowhere", "kube-system", "not found", "net.d"}},
		"DIR/none.conf":      {11, []string{"none.conf", "no such file"}},
		"DIR/empty":          {11, []string{"empty", "no network yet", "cut.conf"}},
		"DIR/empty/cut.conf": {7, []string{"cut.conf", "line 2, column 8"}}, // not 6: the call's own configuration is JSON
		"DIR/new.conf":       {7, []string{`network "new"`, "9.9.9"}},
		"new":                {7, []string{`network "new"`, "9.9.9"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write("net.d/x.conf", `{"name":"x","type":"spy"}`)
			w.write("empty/cut.conf", "{\n\"name\":")
			for _, path := range []string{"new.conf", "net.d/new.conf"} {
				w.write(path, `{"cniVersion":"9.9.9","name":"new","type":"spy"}`)
			}
			w.conf["clusterNetwork"] = strings.ReplaceAll(name, "DIR", w.dir)
			w.pod("")
			w.do(netconf.Add).Fails(t, c.code, c.words...)
			w.clean()
		})
	}
}

// defaultNetworks are for every pod but those of the system's namespaces; the pod's own come behind them, numbered on.
func TestDefaultNetworks(t *testing.T) {
	t.Parallel()
	for _, system := range []bool{false, true} {
		w := newQuietWorld(t)
		w.spies("kube-system/net-k", "ns1/net-a")
		w.conf["defaultNetworks"] = []string{"net-k"}
		want := "defnet=eth0* kube-system/net-k=net1 ns1/net-a=net2"
		if system {
			w.conf["systemNamespaces"] = []string{"x", "ns1"}
			want = "defnet=eth0* ns1/net-a=net1"
		}
		w.pod("net-a")
		w.add()
		if got := w.entries(); got != want {
			t.Errorf("%q: expected %q", got, want)
		}
	}
}

// The bytes of what is defined reach the plugin as they are.
func TestBytes(t *testing.T) {
	w := newWorld(t)
	w.nad("ns1", "net-a", `{"type":"spy","big":9007199254740993,"z":1.10,"a":{"y":1,"x":[ 1e2 ]},"html":"<&>"}`)
	w.conf["delegates"] = []any{json.RawMessage(`{"cniVersion":"1.0.0","name":"defnet","plugins":[{"type":"spy","big":18446744073709551615}]}`)}
	w.pod("net-a")
	w.add()
	if got := w.read("in.ADD.net1"); !strings.HasPrefix(got, `{"type":"spy","big":9007199254740993,"z":1.10,"a":{"y":1,"x":[ 1e2 ]},"html":"<&>"`) {
		t.Error(got)
	}
	if got := string(w.in("ADD.net1")["cniVersion"]) + string(w.in("ADD.net1")["name"]); got != `"1.1.0""net-a"` {
		t.Errorf("%s: expected the outer version and the definition's name", got)
	}
	if got := w.entries(); got != "defnet=eth0* ns1/net-a=net1" {
		t.Errorf("%q: a definition without a version keeps its interfaces", got)
	}
	if got := string(w.in("ADD.eth0")["big"]); got != "18446744073709551615" {
		t.Error(got)
	}
	w.del()
	if got := string(w.in("DEL.net1")["big"]); got != "9007199254740993" {
		t.Error(got)
	}
}

// A file without a version is of the caller's, as a definition is: one of a definition without a config, and the default network's.
func TestFileWithoutVersion(t *testing.T) {
	w := newWorld(t)
	w.write("net.d/a.conf", `{"name":"net-a","type":"spy"}`)
	w.write("lan.conflist", `{"name":"lan","plugins":[{"type":"spy"}]}`)
	w.conf["clusterNetwork"] = w.path("lan.conflist")
	w.nad("ns1", "net-a", "")
	w.pod("net-a")
	w.add()
	for _, call := range []string{"ADD.eth0", "ADD.net1"} {
		if got := string(w.in(call)["cniVersion"]); got != `"1.1.0"` {
			t.Errorf("%s: %s", call, got)
		}
	}
	if got := w.entries(); got != "lan=eth0* ns1/net-a=net1" {
		t.Error(got)
	}
}

// binDir goes before CNI_PATH, and no folder is passed on twice.
func TestBinDir(t *testing.T) {
	w := newWorld(t)
	other := filepath.Join(w.dir, "other")
	w.write("other/spy", "#!/bin/sh\nexit 1\n")
	w.conf["binDir"] = w.bin
	w.pod("")
	c := w.call(netconf.Add)
	c.Path = other + ":" + w.bin + "/:" + other
	c.Run(t.Context(), t, w.run).OK(t)
	if env := w.read("env.ADD.eth0"); !strings.Contains(env, "CNI_PATH="+w.bin+":"+other+"\n") {
		t.Error(env)
	}
}

// ADD and GC wait for the default network's file; STATUS says at once that it is not there; DEL and CHECK do not look.
func TestReadiness(t *testing.T) {
	w := newWorld(t)
	w.pod("")
	a := w.add()
	w.conf["readinessindicatorfile"] = w.path("ready")
	w.do(netconf.Status).Fails(t, netconf.CodePluginNotAvailable, "ready")
	w.call(netconf.Check).WithPrev(a).Run(t.Context(), t, w.run).OK(t)
	w.del()
	p := plugin()
	p.RunDir, p.Timeout = w.path("run"), 300*time.Millisecond
	w.call(netconf.Add).Run(t.Context(), t, p).Fails(t, netconf.CodeTryAgainLater, "readinessindicatorfile")
	gc := w.call(netconf.GC)
	gc.Config = strings.Replace(gc.Config, "{", `{"cni.dev/valid-attachments":[],`, 1)
	gc.Run(t.Context(), t, p).Fails(t, netconf.CodeTryAgainLater, "readinessindicatorfile")
	added := make(chan struct{})
	go func() {
		defer close(added)
		w.do(netconf.Add)
	}()
	w.write("ready", "")
	<-added
	if got := w.log(); !strings.HasSuffix(got, "ADD eth0") {
		t.Error(got)
	}
	w.do(netconf.Status).OK(t)
}

// The auxiliary chain runs last, for every pod, behind a plugin that makes nothing, and is taken back first.
func TestAuxiliaryChain(t *testing.T) {
	w := newWorld(t)
	w.write("lan/10-a.conf", `{"cniVersion":"1.0.0","name":"a","type":"spy"}`)
	w.conf["clusterNetwork"], w.conf["auxiliaryCNIChainName"] = w.path("lan/10-a.conf"), "chain"
	w.spies("ns1/net-a")
	w.pod("net-a")
	w.add()
	if got := w.log(); got != "ADD eth0, ADD net1" {
		t.Errorf("%q: there is no folder yet", got)
	}
	w.del()
	w.log()
	w.write("lan/chain/20-y.conf", `{"type":"spy","second":true}`)
	w.write("lan/chain/10-x.conf", `{"type":"spy"}`)
	w.write("lan/chain/README", `x`)
	w.add()
	if got := w.log(); got != "ADD eth0, ADD net1, ADD net2, ADD net2" {
		t.Error(got)
	}
	if in := w.in("ADD.net2"); string(in["second"]) != "true" || in["prevResult"] == nil || string(in["name"]) != `"chain"` {
		t.Errorf("%s", in)
	}
	w.remove("lan/chain")
	w.del()
	if got := w.log(); got != "DEL net2, DEL net2, DEL net1, DEL eth0" {
		t.Error(got)
	}
	w.write("lan/chain/10-x.conf", `{`)
	w.do(netconf.Add).Fails(t, netconf.CodeInvalidNetworkConfig, "10-x.conf")
	w.clean()
}

// A mounted ConfigMap has symbolic links alone, and folders beside them: neither is a plugin that is no JSON.
func TestAuxiliaryChainOfAConfigMap(t *testing.T) {
	w := newWorld(t)
	w.write("lan/10-a.conf", `{"cniVersion":"1.0.0","name":"a","type":"spy"}`)
	w.conf["clusterNetwork"], w.conf["auxiliaryCNIChainName"] = w.path("lan/10-a.conf"), "chain"
	w.write("lan/chain/..data/10-x.conf", `{"type":"spy"}`)
	w.write("lan/chain/folder.conf/x", "")
	if err := os.Symlink("..data/10-x.conf", w.path("lan/chain/10-x.conf")); err != nil {
		t.Fatal(err)
	}
	w.pod("")
	w.add()
	if got := w.log(); got != "ADD eth0, ADD net1" {
		t.Error(got)
	}
	w.del()
	skeltest.Host(t, "mkfifo", w.path("lan/chain/20-y.conf"))
	w.do(netconf.Add).Fails(t, netconf.CodeInvalidNetworkConfig, "20-y.conf", "not a regular file")
	w.clean()
}

// What is wrong with the configuration is told with its key, before any work; DEL goes on.
func TestConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key   string
		value any
		word  string
	}{
		"no network":  {"delegates", []any{}, "clusterNetwork"},
		"empty list":  {"delegates", []any{map[string]any{"name": "a", "plugins": []any{}}}, "delegates[0]"},
		"no type":     {"delegates", []any{map[string]any{"name": "a"}}, "delegates[0]"},
		"no name":     {"delegates", []any{map[string]any{"type": "spy"}}, "name"},
		"relative":    {"cniDir", "var", "cniDir"},
		"chain":       {"auxiliaryCNIChainName", "../x", "auxiliaryCNIChainName"},
		"parallel":    {"parallel", -1, "parallel"},
		"parallel 2^": {"parallel", "x", "parallel"},
		"inProcess":   {"inProcess", []string{"bridge"}, "macvlan or passthru"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.conf[c.key] = c.value
			if a := w.do(netconf.Add); (a.Err.Code != 6 && a.Err.Code != 7) || !strings.Contains(a.Err.Msg, c.word) {
				t.Errorf("%+v", a.Err)
			}
			if got := w.log(); got != "" {
				t.Errorf("%q was called", got)
			}
			w.del()
		})
	}
}

// multus' keys for its log lead the SDK's log there.
func TestLogKeys(t *testing.T) {
	w := newWorld(t)
	w.conf["logFile"], w.conf["logLevel"], w.conf["logToStderr"] = w.path("log.txt"), "verbose", false
	w.conf["logOptions"] = map[string]any{"maxAge": 5}
	w.pod("")
	w.add()
	w.conf["logLevel"] = "loud"
	w.del()
	if text := w.read("log.txt"); !strings.Contains(text, "verb=ADD") || !strings.Contains(text, "msg=done") {
		t.Errorf("%q", text)
	}
	if info, err := os.Stat(w.path("log.txt")); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

// Several secondary networks at once, but the default one before all.
func TestParallel(t *testing.T) {
	w := newWorld(t)
	w.conf["parallel"] = 4
	w.spies("ns1/net-a")
	w.pod("net-a,net-a,net-a,net-a,net-a")
	w.add()
	log := w.log()
	if !strings.HasPrefix(log, "ADD eth0") || strings.Count(log, "ADD") != 6 {
		t.Error(log)
	}
	if got := w.entries(); got != "defnet=eth0* ns1/net-a=net1 ns1/net-a=net2 ns1/net-a=net3 ns1/net-a=net4 ns1/net-a=net5" {
		t.Errorf("%q: the order is the pod's", got)
	}
	w.del()
	w.log()
	w.write("fail.ADD.net3", "")
	w.do(netconf.Add).Fails(t, 42, "net3")
	log = w.log()
	for _, name := range []string{"eth0", "net1", "net2", "net3", "net4", "net5"} { // what was cancelled may not have come to its line
		if strings.Contains(log, "ADD "+name) && !strings.Contains(log, "DEL "+name) {
			t.Error(log)
		}
	}
	w.clean()
}
