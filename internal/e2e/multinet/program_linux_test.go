package multinet_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// subject is the program, as a runtime calls it, with the rights of the manifest.
type subject struct {
	skeltest.Binary
	api                  *cluster.API
	ns                   *skeltest.NS
	config, plugins, dir string // dir is of its records
}

// call is an ADD for a pod of the namespace default.
func (s *subject) call(pod, uid string) skeltest.Call {
	return skeltest.Call{
		Command: netconf.Add, ContainerID: s.ns.Name, Netns: s.ns.Path, IfName: "eth0", Path: s.plugins, Config: s.config,
		Args: fmt.Sprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=%s;K8S_POD_INFRA_CONTAINER_ID=%s;K8S_POD_UID=%s", pod, s.ns.Name, uid),
		Env:  []string{"PATH=" + os.Getenv("PATH")},
	}
}

// clean fails the test if anything is left.
func (s *subject) clean(t *testing.T) {
	t.Helper()
	if links := s.ns.Run("ip", "-br", "link"); strings.Count(links, "\n") != 1 {
		t.Errorf("left:\n%s", links)
	}
	for _, pattern := range []string{s.dir + "/*", "/var/lib/cni/networks/*/10.6*"} {
		if files, err := filepath.Glob(pattern); err != nil || len(files) != 0 {
			t.Errorf("left: %v, %v", files, err)
		}
	}
}

// The program, for pods and definitions that are really there.
func testProgram(t *testing.T, api *cluster.API) {
	account(t, api) // the rights are known
	kubeconfig, _ := kubeconfig(t, api, token(t, api))
	s := &subject{api: api, ns: skeltest.NewNS(t), dir: t.TempDir()}
	s.Binary, s.plugins = build(t)
	s.config = fmt.Sprintf(`{"cniVersion":"1.1.0","name":"multinet","type":"multinet","kubeconfig":%q,"cniDir":%q,"binDir":%q,"namespaceIsolation":true,
		"delegates":[{"cniVersion":"1.1.0","name":"default","type":"bridge","bridge":"br-default","isGateway":true,
			"ipam":{"type":"host-local","subnet":"10.60.0.0/24","routes":[{"dst":"0.0.0.0/0"}]}}]}`, kubeconfig, s.dir, s.plugins)
	api.Namespace(t, "blue")
	define(t, api, "default", "lan.a", `{"cniVersion":"1.1.0","type":"bridge","bridge":"br-lan","isGateway":true,"ipam":{"type":"host-local","subnet":"10.61.0.0/24"}}`)
	define(t, api, "default", "lan-b", `{"plugins":[{"type":"bridge","bridge":"br-b"}]}`)
	define(t, api, "blue", "theirs", `{"type":"bridge","bridge":"br-theirs"}`)
	s.attached(t)
	s.refused(t)
	ready := skeltest.Call{Command: netconf.Status, Path: s.plugins, Config: s.config, Env: []string{"PATH=" + os.Getenv("PATH")}}
	ready.Run(t.Context(), t, s).OK(t)
}

// define makes a definition.
func define(t *testing.T, api *cluster.API, namespace, name, config string) {
	t.Helper()
	text, err := json.Marshal(cluster.Object{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
		"metadata": cluster.Object{"namespace": namespace, "name": name}, "spec": cluster.Object{"config": config},
	})
	if err != nil {
		t.Fatal(err)
	}
	api.Apply(t, string(text))
}

// attached is the life of a pod with three networks, one of which has the default route.
func (s *subject) attached(t *testing.T) {
	pod := createPod(t, s.api, "default", "attached", map[string]string{
		wanted: `[{"name": "lan.a", "interface": "lan", "default-route": ["10.61.0.1"]}, {"name": "lan-b"}]`, "mine": "1",
	})
	add := s.call("attached", pod.Metadata.UID)
	added := add.Run(t.Context(), t, s).OK(t)
	if len(added.Result.IPs) != 1 || added.Result.IPs[0].Address.IP.String() != "10.60.0.2" {
		t.Errorf("result: %s", added.Stdout)
	}
	s.told(t)
	if routes := strings.TrimSpace(s.ns.Run("ip", "-4", "route", "show", "default")); !strings.HasPrefix(routes, "default via 10.61.0.1 dev lan") || strings.Contains(routes, "\n") {
		t.Errorf("default routes: %s", routes)
	}
	if events := s.api.Kubectl(t, "get", "events", "-o", "jsonpath={range .items[*]}{.reason} {.message}{'\\n'}{end}"); !strings.Contains(events, "AddedInterface Add lan [10.61.0.2/24] from default/lan.a") {
		t.Errorf("events:\n%s", events)
	}
	add.With(netconf.Check).WithPrev(added).Run(t.Context(), t, s).OK(t)
	deletePod(t, s.api, "default", "attached") // as it is when its containers end
	add.With(netconf.Del).Run(t.Context(), t, s).OK(t)
	s.clean(t)
}

// told holds the pod's status in the API against the kernel.
func (s *subject) told(t *testing.T) {
	t.Helper()
	all := status(t, s.api, "attached")
	want := []entry{
		{Name: "default", Interface: "eth0", IPs: []string{"10.60.0.2"}},
		{Name: "default/lan.a", Interface: "lan", IPs: []string{"10.61.0.2"}, Default: true},
		{Name: "default/lan-b", Interface: "net2"},
	}
	if len(all) != len(want) {
		t.Fatalf("status: %+v", all)
	}
	for i, e := range all {
		if e.Name != want[i].Name || e.Interface != want[i].Interface || !slices.Equal(e.IPs, want[i].IPs) || e.Default != want[i].Default {
			t.Errorf("status %d: %+v, want %+v", i, e, want[i])
		}
		if link := s.ns.Run("ip", "-o", "link", "show", "dev", e.Interface); e.MAC == "" || !strings.Contains(link, "link/ether "+e.MAC+" ") {
			t.Errorf("%s in the status, in truth %s", e.MAC, link)
		}
	}
	if mine := getPod(t, s.api, "default", "attached").Metadata.Annotations["mine"]; mine != "1" {
		t.Errorf("the pod's own annotation is %q", mine)
	}
}

// refused are pods that get nothing, with the reason.
func (s *subject) refused(t *testing.T) {
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
			made := createPod(t, s.api, "default", test.name, map[string]string{wanted: test.annotation})
			if test.uid == "" {
				test.uid = made.Metadata.UID
			}
		}
		c := s.call(test.name, test.uid)
		c.Run(t.Context(), t, s).Fails(t, test.code, test.words...)
		s.clean(t)
		c.With(netconf.Del).Run(t.Context(), t, s).OK(t)
	}
	if events := s.api.Kubectl(t, "get", "events", "-o", "jsonpath={range .items[*]}{.involvedObject.name} {.reason}{'\\n'}{end}"); !strings.Contains(events, "asks-for-none NoNetworkFound") {
		t.Errorf("events:\n%s", events)
	}
}
