package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// lan is a network with addresses, on p0.
func lan(name string, subnet int) string {
	return fmt.Sprintf(`{"cniVersion":"1.1.0","name":%q,"type":"macvlan","master":"p0","ipam":{"type":"host-local","subnet":"10.%d.0.0/16"}}`, name, subnet)
}

// A hundred pods with three networks each are attached at once and detached at once: none fails, and nothing is left.
func TestManyPods(t *testing.T) {
	const pods = 100
	w := newQuietWorld(t) // not parallel: it looks at the host
	skeltest.Host(t, "ip", "link", "add", "p0", "type", "veth", "peer", "name", "p1")
	t.Cleanup(func() { skeltest.Host(t, "ip", "link", "del", "p0") })
	skeltest.Host(t, "ip", "link", "set", "p0", "up")
	w.conf["clusterNetwork"] = "lan-0"
	w.conf["binDir"] = skeltest.Build(t, "github.com/cnikit/cnikit/examples/plugins/macvlan", "github.com/cnikit/cnikit/examples/plugins/host-local")
	w.nad("kube-system", "lan-0", lan("lan-0", 1))
	w.nad("ns1", "lan-1", lan("lan-1", 2))
	w.nad("ns1", "lan-2", lan("lan-2", 3))
	calls := make([]skeltest.Call, pods)
	for i := range calls {
		name := fmt.Sprintf("p%d", i)
		w.apply("Pod", "v1", "ns1", name, "uid-1", map[string]string{"k8s.v1.cni.cncf.io/networks": "lan-1,lan-2"}, map[string]any{})
		c := w.call(netconf.Add)
		c.ContainerID, c.Netns = name, skeltest.NewNS(t).Path
		c.Args = strings.ReplaceAll(c.Args, "POD_NAME=p;", "POD_NAME="+name+";")
		calls[i] = c
	}
	before := skeltest.HostSnapshot(t)
	var all [pods]skeltest.Answer
	at := func(verb netconf.Command) {
		var running sync.WaitGroup
		for i, c := range calls {
			running.Go(func() { all[i] = c.With(verb).Run(t.Context(), t, w.run) })
		}
		running.Wait()
		for i, a := range all {
			if a.Exit != 0 {
				t.Errorf("%s of pod %d: %+v", verb, i, a.Err)
			}
		}
	}
	at(netconf.Add)
	have := map[string]bool{}
	for i, a := range all {
		if a.Result == nil || len(a.Result.IPs) != 1 || have[a.Result.IPs[0].Address.String()] {
			t.Fatalf("pod %d: %+v", i, a.Result)
		}
		have[a.Result.IPs[0].Address.String()] = true
		if text := w.api.Annotations("ns1", fmt.Sprintf("p%d", i))["k8s.v1.cni.cncf.io/network-status"]; strings.Count(text, `"interface"`) != 3 {
			t.Errorf("pod %d: %s", i, text)
		}
	}
	at(netconf.Del)
	if diff := before.Diff(skeltest.HostSnapshot(t)); diff != "" {
		t.Error(diff)
	}
	w.clean()
	for _, name := range []string{"lan-0", "lan-1", "lan-2"} {
		leases, err := filepath.Glob("/var/lib/cni/networks/" + name + "/10.*")
		if err != nil || len(leases) != 0 {
			t.Errorf("%q, %v", leases, err)
		}
	}
}

// Killed at any system call, with an API server and three networks: the DEL after it leaves all as before.
func TestKilled(t *testing.T) {
	skeltest.NeedRoot(t)
	path, own := built(t, "macvlan", "host-local")
	const listen, kubeconfig = "127.0.0.1:18443", "/run/kubeconfig"
	program := filepath.Join(t.TempDir(), "multinet")
	script := "#!/bin/sh\n" + `[ -z "$CNI_CONTAINERID" ] || export CNI_ARGS="K8S_POD_NAMESPACE=ns1;K8S_POD_NAME=p"` + "\nexec " + own + "\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	skeltest.Conform(t, skeltest.Target{
		Plugin: skeltest.Binary(program), Kind: skel.Meta, Path: []string{path},
		Only: regexp.MustCompile("^kill/"),
		Setup: func(b *skeltest.Bench) {
			api, err := kubetest.Start(kubetest.Options{Listen: listen})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(api.Close)
			manifest := `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"ns1","name":"p","annotations":{"k8s.v1.cni.cncf.io/networks":"lan-1,lan-2"}}}`
			for i, namespace := range []string{"kube-system", "ns1", "ns1"} {
				name := fmt.Sprintf("lan-%d", i)
				manifest += fmt.Sprintf("\n---\n"+`{"kind":"NetworkAttachmentDefinition","apiVersion":"k8s.cni.cncf.io/v1","metadata":{"namespace":%q,"name":%q},"spec":{"config":%q}}`, namespace, name, lan(name, i))
			}
			if err := api.ApplyManifest(manifest); err != nil {
				b.Fatal(err)
			}
			if err := api.WriteKubeconfig(kubeconfig); err != nil {
				b.Fatal(err)
			}
		},
		Config: `{"cniVersion":"1.1.0","name":"outer","type":"multinet","binDir":"` + path + `","kubeconfig":"` + kubeconfig + `","clusterNetwork":"lan-0","inProcess":[]}`,
	})
}
