package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// programs are the plugins that the tests with real interfaces run.
func programs(t *testing.T) string {
	var all []string
	for _, name := range []string{"bridge", "macvlan", "tuning", "portmap", "host-local"} {
		all = append(all, "github.com/cnikit/cnikit/examples/plugins/"+name)
	}
	return skeltest.Build(t, all...)
}

// A definition may be a list: of bridge, tuning and portmap, say. What the pod asks for reaches the one that can do it,
// and the rules are gone after DEL, as all else is.
func TestListOfPlugins(t *testing.T) {
	w := newQuietWorld(t) // not parallel: it looks at the host
	w.conf["binDir"] = programs(t)
	w.conf["clusterNetwork"] = w.path("lan.conflist")
	w.write("lan.conflist", `{"cniVersion":"1.1.0","name":"many-a","plugins":[{"type":"bridge","bridge":"many0","isGateway":true,"ipam":{"type":"host-local","subnet":"10.61.0.0/24","routes":[{"dst":"0.0.0.0/0"}]}}]}`)
	w.nad("ns1", "list", `{"cniVersion":"1.0.0","plugins":[
		{"type":"bridge","bridge":"many1","isGateway":true,"ipam":{"type":"host-local","subnet":"10.62.0.0/24"}},
		{"type":"tuning","mtu":1400,"capabilities":{"mac":true}},
		{"type":"portmap","capabilities":{"portMappings":true}}]}`)
	w.pod(`[{"name":"list","mac":"02:00:00:00:62:02","portMappings":[{"hostPort":18062,"containerPort":80,"protocol":"tcp"}]}]`)
	w.add() // bridges stay
	w.del()
	before, inside := skeltest.HostSnapshot(t), w.ns.Snapshot()
	a := w.add()
	if text := w.ns.Run("ip", "link", "show", "net1"); !strings.Contains(text, "mtu 1400") || !strings.Contains(text, "02:00:00:00:62:02") {
		t.Error(text)
	}
	if text := skeltest.Host(t, "nft", "list", "ruleset"); !strings.Contains(text, "18062") {
		t.Error(text)
	}
	w.call(netconf.Check).WithPrev(a).Run(t.Context(), t, w.run).OK(t)
	w.ns.Run("ip", "link", "del", "net1")
	w.call(netconf.Check).WithPrev(a).Run(t.Context(), t, w.run).Fails(t, netconf.CodeDifferent, "net1")
	w.del()
	if diff := before.Diff(skeltest.HostSnapshot(t)) + inside.Diff(w.ns.Snapshot()); diff != "" {
		t.Error(diff)
	}
	w.clean()
}

// Whatever operation of ADD or DEL fails, panics or is cancelled, nothing is left on host and in the pod, no lease, no record;
// with an API server, three networks of which one takes the default route.
func TestHarmed(t *testing.T) {
	w := newQuietWorld(t) // not parallel: it looks at the host
	skeltest.Host(t, "ip", "link", "add", "h0", "type", "veth", "peer", "name", "h1")
	t.Cleanup(func() { skeltest.Host(t, "ip", "link", "del", "h0") })
	skeltest.Host(t, "ip", "link", "set", "h0", "up")
	harmed := func(name string, subnet int) string {
		return fmt.Sprintf(`{"cniVersion":"1.1.0","name":%q,"type":"macvlan","master":"h0","ipam":{"type":"host-local","subnet":"10.%d.0.0/24","routes":[{"dst":"0.0.0.0/0"}],"dataDir":%q}}`, name, subnet, w.path("leases"))
	}
	w.conf["clusterNetwork"] = "lan-0"
	w.nad("kube-system", "lan-0", harmed("lan-0", 1))
	w.nad("ns1", "lan-1", harmed("lan-1", 2))
	w.pod(`[{"name":"lan-1","default-route":["10.2.0.1"]}]`)
	left := func() []string {
		var all []string
		for _, dir := range []string{"leases", "cni"} {
			err := filepath.WalkDir(w.path(dir), func(path string, d os.DirEntry, err error) error {
				if err == nil && !d.IsDir() && !slices.Contains([]string{"lock", "last_reserved_ip.0"}, d.Name()) {
					all = append(all, path)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		return all
	}
	n := skeltest.Walk(t, w.run, w.call(netconf.Add), w.ns, left)
	t.Logf("%d operations", n)
	if n < 30 {
		t.Errorf("only %d operations were harmed", n)
	}
}

// A delegate that hangs is ended with the call's time, and its DEL runs.
func TestDelegateHangs(t *testing.T) {
	w := newWorld(t)
	p := plugin()
	p.RunDir, p.Timeout = w.path("run"), 2*time.Second
	w.run = p
	w.spies("ns1/net-a")
	w.pod("net-a,net-a")
	w.write("hang.ADD.net1", "")
	w.do(netconf.Add).Fails(t, netconf.CodeTryAgainLater, "net1")
	if got := w.log(); got != "ADD eth0, ADD net1, DEL net1, DEL eth0" {
		t.Error(got)
	}
	w.clean()
	w.remove("hang.ADD.net1")
	w.add()
	w.log()
	w.write("hang.DEL.net2", "")
	w.do(netconf.Del).Fails(t, netconf.CodeTryAgainLater, "net2")
	if got := w.log(); got != "DEL net2, DEL net1, DEL eth0" {
		t.Errorf("%q: one that hangs keeps the others from nothing", got)
	}
	w.remove("hang.DEL.net2")
	w.del()
	if got := w.log(); got != "DEL net2" {
		t.Error(got)
	}
	w.clean()
}

// A delegate that is killed, or answers nonsense, fails the ADD with code 104, and its DEL runs.
func TestDelegateDies(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"killed": "kill -9 $$", "nothing": "exit 0", "half": `printf '{"cniVersion":'; exit 0`, "two": "echo '{}{}'; exit 0"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.nad("ns1", "odd", `{"type":"odd"}`)
			w.write("bin/odd", "#!/bin/sh\necho \"$CNI_COMMAND $CNI_IFNAME\" >> "+w.path("log")+"\n[ $CNI_COMMAND = ADD ] || exit 0\n"+last+"\n")
			w.pod("odd")
			w.do(netconf.Add).Fails(t, netconf.CodeBadDelegate, "odd", "net1")
			if got := w.log(); got != "ADD eth0, ADD net1, DEL net1, DEL eth0" {
				t.Error(got)
			}
			w.clean()
		})
	}
}

// A result of an old version, or of nothing but a version, is a success, and has its entry.
func TestOddResults(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"cniVersion":"1.0.0"}`:                            "ns1/net-a=",
		`{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.9/24"}}`: "ns1/net-a=",
		`{"cniVersion":"1.0.0","interfaces":[{"name":"br0"},{"name":"a","sandbox":"/n"},{"name":"b","sandbox":"/n"}]}`:                  "ns1/net-a=a",
		`{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.9/24"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"10.0.0.0/8"}],"vendor":{"x":1}}`: "ns1/net-a=*",
	} {
		t.Run(answer, func(t *testing.T) {
			w := newWorld(t)
			w.spies("ns1/net-a")
			var version struct{ CNIVersion string }
			if err := json.Unmarshal([]byte(answer), &version); err != nil {
				t.Fatal(err)
			}
			w.nad("ns1", "net-a", fmt.Sprintf(`{"cniVersion":%q,"type":"spy"}`, version.CNIVersion))
			w.write("answer.net1", answer)
			w.pod("net-a")
			w.add()
			if got := strings.Fields(w.entries()); len(got) != 2 || got[1] != want {
				t.Errorf("%q: expected %q", got, want)
			}
			if text := w.api.Annotations("ns1", "p")["k8s.v1.cni.cncf.io/network-status"]; strings.Contains(text, "nil") {
				t.Error(text)
			}
			w.del()
			w.clean()
		})
	}
}
