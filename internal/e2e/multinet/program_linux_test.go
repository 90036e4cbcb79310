package multinet_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/cluster"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// entry is one of a pod's network-status.
type entry struct {
	Name      string
	Interface string
	IPs       []string
	MAC       string
	Default   bool
	Gateway   []string
}

// The program, as a runtime calls it, for a pod that is really there, with the rights of the manifest.
func testProgram(t *testing.T, api *cluster.API) {
	account(t, api) // the rights are known
	config, _ := kubeconfig(t, api, token(t, api))
	program, plugins := build(t)
	state := t.TempDir()
	conf := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"multinet","type":"multinet","kubeconfig":%q,"cniDir":%q,"binDir":%q,"namespaceIsolation":true,
		"delegates":[{"cniVersion":"1.1.0","name":"default","type":"bridge","bridge":"br-default","isGateway":true,
			"ipam":{"type":"host-local","subnet":"10.60.0.0/24","routes":[{"dst":"0.0.0.0/0"}]}}]}`, config, state, plugins)
	api.Namespace(t, "blue")
	for _, definition := range []struct{ namespace, name, config string }{
		{"default", "lan.a", `{"cniVersion":"1.1.0","type":"bridge","bridge":"br-lan","isGateway":true,"ipam":{"type":"host-local","subnet":"10.61.0.0/24"}}`},
		{"default", "lan-b", `{"plugins":[{"type":"bridge","bridge":"br-b"}]}`},
		{"blue", "theirs", `{"type":"bridge","bridge":"br-theirs"}`},
	} {
		text, err := json.Marshal(cluster.Object{
			"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
			"metadata": cluster.Object{"namespace": definition.namespace, "name": definition.name},
			"spec":     cluster.Object{"config": definition.config},
		})
		if err != nil {
			t.Fatal(err)
		}
		api.Apply(t, string(text))
	}
	call := func(ns *skeltest.NS, name, uid string) skeltest.Call {
		return skeltest.Call{
			Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0", Path: plugins, Config: conf,
			Args: fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=%s;K8S_POD_INFRA_CONTAINER_ID=%s;K8S_POD_UID=%s", name, ns.Name, uid),
			Env:  []string{"PATH=" + os.Getenv("PATH")},
		}
	}
	clean := func(ns *skeltest.NS) {
		t.Helper()
		if links := ns.Run("ip", "-br", "link"); strings.Count(links, "\n") != 1 {
			t.Errorf("left:\n%s", links)
		}
		for _, pattern := range []string{state + "/*", "/var/lib/cni/networks/*/10.6*"} {
			if files, err := filepath.Glob(pattern); err != nil || len(files) != 0 {
				t.Errorf("left: %v, %v", files, err)
			}
		}
	}

	ns := skeltest.NewNS(t)
	pod := createPod(t, api, "default", "attached", map[string]string{
		"k8s.v1.cni.cncf.io/networks": `[{"name": "lan.a", "interface": "lan", "default-route": ["10.61.0.1"]}, {"name": "lan-b"}]`, "mine": "1",
	})
	add := call(ns, "attached", pod.Metadata.UID)
	added := add.Run(t.Context(), t, program).OK(t)
	if len(added.Result.IPs) != 1 || added.Result.IPs[0].Address.IP.String() != "10.60.0.2" {
		t.Errorf("result: %s", added.Stdout)
	}
	got := getPod(t, api, "default", "attached")
	var status []entry
	text := got.Metadata.Annotations["k8s.v1.cni.cncf.io/network-status"]
	if err := json.Unmarshal([]byte(text), &status); err != nil || len(status) != 3 {
		t.Fatalf("status: %v\n%s", err, text)
	}
	for i, want := range []struct {
		name, ifname, ip string
		isDefault        bool
	}{{"default", "eth0", "10.60.0.2", false}, {"default/lan.a", "lan", "10.61.0.2", true}, {"default/lan-b", "net2", "", false}} {
		e := status[i]
		if e.Name != want.name || e.Interface != want.ifname || strings.Join(e.IPs, " ") != want.ip || e.Default != want.isDefault {
			t.Errorf("status %d: %+v, want %+v", i, e, want)
		}
		if link := ns.Run("ip", "-o", "link", "show", "dev", e.Interface); e.MAC == "" || !strings.Contains(link, "link/ether "+e.MAC+" ") {
			t.Errorf("%s in the status, in truth %s", e.MAC, link)
		}
	}
	if routes := strings.TrimSpace(ns.Run("ip", "-4", "route", "show", "default")); !strings.HasPrefix(routes, "default via 10.61.0.1 dev lan") || strings.Contains(routes, "\n") {
		t.Errorf("default routes: %s", routes)
	}
	if got.Metadata.Annotations["mine"] != "1" {
		t.Errorf("annotations: %v", got.Metadata.Annotations)
	}
	if events := api.Kubectl(t, "get", "events", "-o", "jsonpath={range .items[*]}{.reason} {.message}{'\\n'}{end}"); !strings.Contains(events, "AddedInterface Add lan [10.61.0.2/24] from default/lan.a") {
		t.Errorf("events:\n%s", events)
	}
	add.With(netconf.Check).WithPrev(added).Run(t.Context(), t, program).OK(t)
	deletePod(t, api, "default", "attached") // as it is when its containers end
	add.With(netconf.Del).Run(t.Context(), t, program).OK(t)
	clean(ns)

	for _, test := range []struct {
		name, annotation, uid string
		code                  uint
		words                 []string
	}{
		{"not-there", "", "", 11, []string{"not-there", "not found"}},
		{"of-another", "lan-b", "00000000-0000-0000-0000-000000000000", 11, []string{"00000000-0000-0000-0000-000000000000"}},
		{"asks-for-none", "gone", "", 7, []string{"default/gone", "not found"}},
		{"asks-over-the-fence", "blue/theirs", "", 7, []string{"blue"}},
	} {
		if test.annotation != "" {
			made := createPod(t, api, "default", test.name, map[string]string{"k8s.v1.cni.cncf.io/networks": test.annotation})
			if test.uid == "" {
				test.uid = made.Metadata.UID
			}
		}
		c := call(ns, test.name, test.uid)
		c.Run(t.Context(), t, program).Fails(t, test.code, test.words...)
		clean(ns)
		c.With(netconf.Del).Run(t.Context(), t, program).OK(t)
	}
	if events := api.Kubectl(t, "get", "events", "-o", "jsonpath={range .items[*]}{.involvedObject.name} {.reason}{'\\n'}{end}"); !strings.Contains(events, "asks-for-none NoNetworkFound") {
		t.Errorf("events:\n%s", events)
	}
	ready := skeltest.Call{Command: netconf.Status, Path: plugins, Config: conf, Env: add.Env}
	ready.Run(t.Context(), t, program).OK(t)
}
