package main

import (
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// A pod's annotation becomes interfaces, in order, the default network first, and one status entry each; DEL goes back.
func TestNetworks(t *testing.T) {
	t.Parallel()
	for annotation, want := range map[string]string{
		"":                 "eth0",
		"net-a,net-b":      "eth0 net1 net2",
		" net-a , net-b ":  "eth0 net1 net2",
		"net-a@foo0,net-b": "eth0 foo0 net2",
		"net-a@net2,net-b": "eth0 net2 net3",
		"ns2/net-a":        "eth0 net1",
		"net-a,net-a":      "eth0 net1 net2",
		`[{"name":"net-a","unknown":{"x":1}},{"name":"net-a","namespace":"ns2","interface":"x0"}]`: "eth0 net1 x0",
	} {
		t.Run(annotation, func(t *testing.T) {
			w := newWorld(t)
			w.spies("ns1/net-a", "ns1/net-b", "ns2/net-a")
			w.pod(annotation)
			if a := w.add(); len(a.Result.Interfaces) != 1 || a.Result.Interfaces[0].Name != "eth0" {
				t.Errorf("%+v: expected the default network's result", a.Result)
			}
			if got, all := w.log(), "ADD "+strings.ReplaceAll(want, " ", ", ADD "); got != all {
				t.Errorf("%q: expected %q", got, all)
			}
			var entries []string
			for _, e := range strings.Fields(w.entries()) {
				entries = append(entries, e[strings.Index(e, "=")+1:])
			}
			if got := strings.Join(entries, " "); got != strings.Replace(want, "eth0", "eth0*", 1) || !strings.HasPrefix(w.entries(), "defnet=") {
				t.Errorf("status %q: expected %q", w.entries(), want)
			}
			w.del()
			names := strings.Fields(want)
			for i, name := range strings.Split(w.log(), ", ") {
				if name != "DEL "+names[len(names)-1-i] {
					t.Errorf("%q: expected the reverse of %q", name, want)
				}
			}
			w.clean()
			w.del()
			if got := w.log(); got != "" {
				t.Errorf("a second DEL called %q", got)
			}
		})
	}
}

// What is wrong with a pod is found before anything is attached, with code 7, and nothing is left.
func TestRefused(t *testing.T) {
	t.Parallel()
	for annotation, word := range map[string]string{
		"net-a,":                       "item 2",
		"net-a,/b":                     "nothing before the slash",
		"net-a,missing":                "not found",
		"net-a@eth0":                   `"eth0"`,
		"net-a@x1,net-a@x1":            `"x1"`,
		`{"name":"net-a"}`:             "expected a list",
		`[{"name":"net-a","ips":"x"}]`: "ips",
		`[{"name":"plain","ips":["10.0.0.1/8"]}]`:                                                       `"ns1/plain"`,
		`[{"name":"net-a","default-route":["10.0.0.1"]},{"name":"net-a","default-route":["10.0.0.2"]}]`: "default route of IPv4",
		"net-a,empty-list": "plugins",
		"net-a,wrong-type": "expected",
		"net-a,no-file":    "no such network",
		"net-a,itself":     "this plugin itself",
	} {
		t.Run(annotation, func(t *testing.T) {
			w := newWorld(t)
			w.spies("ns1/net-a")
			w.nad("ns1", "plain", `{"type":"spy"}`)
			w.nad("ns1", "empty-list", `{"plugins":[]}`)
			w.nad("ns1", "wrong-type", `{"type":7}`)
			w.nad("ns1", "no-file", "")
			w.nad("ns1", "itself", `{"plugins":[{"type":"spy"},{"type":"multinet","delegates":[]}]}`)
			w.write("net.d/other.conf", `{"name":"other","type":"spy"}`)
			w.pod(annotation)
			w.do(netconf.Add).Fails(t, netconf.CodeInvalidNetworkConfig, word)
			if got := w.log(); got != "" {
				t.Errorf("%q was called", got)
			}
			w.clean()
			w.del()
			if got := w.log(); got != "" {
				t.Errorf("DEL called %q", got)
			}
		})
	}
}

// What the pod asks for by capability reaches the network's plugins as it is, on DEL too; the runtime's own reaches the
// default network alone; CNI_ARGS come through as they are.
func TestRequests(t *testing.T) {
	w := newWorld(t)
	w.spies("ns1/net-a")
	w.conf["runtimeConfig"] = map[string]any{"portMappings": []any{map[string]any{"hostPort": 8080, "containerPort": 80}}}
	w.pod(`[{"name":"net-a","ips":["10.0.0.5/24", "fd00::5"],"cni-args":{"big":9007199254740993}}]`)
	w.add()
	for _, verb := range []string{"ADD", "DEL"} {
		if verb == "DEL" {
			delete(w.conf, "runtimeConfig")
			w.del()
		}
		if got := w.asked(verb+".net1", "ips"); got != `["10.0.0.5/24","fd00::5"]` && got != `["10.0.0.5/24", "fd00::5"]` {
			t.Errorf("%s: ips %s", verb, got)
		}
		if got := w.asked(verb+".net1", "portMappings"); got != "" {
			t.Errorf("%s: portMappings %s: they are the default network's", verb, got)
		}
		if got := w.asked(verb+".eth0", "portMappings"); !strings.Contains(got, "8080") {
			t.Errorf("%s: portMappings %s", verb, got)
		}
		if got := string(w.in(verb + ".net1")["args"]); got != `{"cni":{"big":9007199254740993,"defaultMetric":4097}}` {
			t.Errorf("%s: args %s", verb, got)
		}
		if env := w.read("env." + verb + ".net1"); !strings.Contains(env, "CNI_ARGS="+w.call(netconf.Add).Args+"\n") {
			t.Errorf("%s: %s", verb, env)
		}
	}
}

// legacyRequests passes on ips and mac in CNI_ARGS, in ADD, CHECK and DEL alike, once each.
func TestLegacyRequests(t *testing.T) {
	w := newWorld(t)
	w.nad("ns1", "plain", `{"cniVersion":"1.0.0","type":"spy"}`)
	w.pod(`[{"name":"plain","ips":["10.0.0.5/24","fd00::5"],"mac":"02:00:00:00:00:05"}]`)
	w.do(netconf.Add).Fails(t, netconf.CodeInvalidNetworkConfig, "ips", "mac")
	w.conf["legacyRequests"] = true
	a := w.add()
	w.call(netconf.Check).WithPrev(a).Run(t.Context(), t, w.run).OK(t)
	w.del()
	for _, verb := range []string{"ADD", "CHECK", "DEL"} {
		if env := w.read("env." + verb + ".net1"); strings.Count(env, "IP=10.0.0.5/24,fd00::5") != 1 || strings.Count(env, "MAC=02:00:00:00:00:05") != 1 {
			t.Errorf("%s: %s", verb, env)
		}
		if env := w.read("env." + verb + ".eth0"); strings.Contains(env, ";IP=") || strings.Contains(env, "MAC=") {
			t.Errorf("%s: %s", verb, env)
		}
	}
}

// Isolation holds for both annotations and both forms; the shared namespaces, and multusNamespace for the default network, may be used.
func TestIsolation(t *testing.T) {
	t.Parallel()
	const other = "v1.multus-cni.io/default-network"
	for _, c := range []struct {
		networks, chosen string
		ok               bool
	}{
		{"net-a", "", true}, {"shared/net-s", "", true}, {"default/net-d", "", false}, {"ns2/net-c", "", false}, {"net-a,ns2/net-c", "", false},
		{`[{"name":"net-c","namespace":"ns2"}]`, "", false}, {"kube-system/net-k", "", false},
		{"", "net-k", true}, {"", "kube-system/net-k", true}, {"", "ns1/net-a", true}, {"", "ns2/net-c", false}, {"", "shared/net-s", true},
	} {
		t.Run(c.networks+" "+c.chosen, func(t *testing.T) {
			w := newWorld(t)
			w.conf["namespaceIsolation"], w.conf["globalNamespaces"] = true, "shared, tenants"
			w.spies("ns1/net-a", "ns2/net-c", "default/net-d", "shared/net-s", "kube-system/net-k")
			w.pod(c.networks, other, c.chosen)
			if c.ok {
				w.add()
				return
			}
			w.do(netconf.Add).Fails(t, netconf.CodeInvalidNetworkConfig, `"ns1"`, "namespaceIsolation")
			if got := w.log(); got != "" {
				t.Errorf("%q was called", got)
			}
			w.clean()
		})
	}
}

// The pod's own default network takes the place of the configured one, under its interface's name and with what the pod
// asks of it.
func TestChosenDefault(t *testing.T) {
	w := newWorld(t)
	w.spies("kube-system/net-k", "ns1/net-a")
	w.pod("net-a", "v1.multus-cni.io/default-network", `[{"name":"net-k","interface":"foo0","mac":"02:00:00:00:00:01"}]`)
	w.add()
	if got := w.entries(); got != "kube-system/net-k=eth0* ns1/net-a=net1" || w.log() != "ADD eth0, ADD net1" {
		t.Error(got)
	}
	if got := w.asked("ADD.eth0", "mac"); got != `"02:00:00:00:00:01"` {
		t.Errorf("mac %s", got)
	}
	w.del()
	w.pod("", "v1.multus-cni.io/default-network", "net-k,net-k")
	w.do(netconf.Add).Fails(t, netconf.CodeInvalidNetworkConfig, "2 networks")
	w.pod(`[{"name":"net-a","default-route":["10.0.0.1"]}]`, "v1.multus-cni.io/default-network", `[{"name":"net-k","default-route":["10.0.0.2"]}]`)
	w.do(netconf.Add).Fails(t, netconf.CodeInvalidNetworkConfig, "default route of IPv4")
}

// A second ADD of what lives is refused, and changes nothing.
func TestSecondADD(t *testing.T) {
	w := newWorld(t)
	w.spies("ns1/net-a")
	w.pod("net-a")
	w.add()
	w.log()
	before := w.names("cni")
	w.do(netconf.Add).Fails(t, netconf.CodeExists)
	if got := w.log(); got != "" {
		t.Errorf("%q was called", got)
	}
	if now := w.names("cni"); len(before) != 1 || len(now) != 1 {
		t.Errorf("records %q, %q", before, now)
	}
	w.del()
	w.clean()
}

// The order of a rollback: those before the one that failed are deleted, in reverse, and that one too.
func TestRollback(t *testing.T) {
	w := newWorld(t)
	w.spies("ns1/net-a")
	w.pod("net-a,net-a,net-a")
	w.write("fail.ADD.net2", "")
	w.do(netconf.Add).Fails(t, 42, "told to fail", "net2", "net-a")
	if got := w.log(); got != "ADD eth0, ADD net1, ADD net2, DEL net2, DEL net1, DEL eth0" {
		t.Error(got)
	}
	w.clean()
	if got := w.entries(); got != "" {
		t.Errorf("status %q", got)
	}
	w.del()
	if got := w.log(); got != "" {
		t.Errorf("DEL called %q", got)
	}
}
