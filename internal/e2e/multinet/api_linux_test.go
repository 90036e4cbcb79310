package multinet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/internal/e2e/cluster"
	"github.com/cnikit/cnikit/netconf"
)

const definitions = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions"

// The manifest's kind takes what the standard allows, and refuses what is none.
func testDefinitions(t *testing.T, api *cluster.API) {
	c := account(t, api)
	api.Apply(t, `{"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"name": "first.lan"}}`)
	for _, test := range []struct {
		name string
		spec any
		want string // the client's config
		code int    // of the server, 0 for success
	}{
		{"list", cluster.Object{"config": `{"plugins": [{"type": "macvlan", "n": 9007199254740993}]}`}, `{"plugins": [{"type": "macvlan", "n": 9007199254740993}]}`, 0},
		{"empty", cluster.Object{}, "", 0},
		{"absent", nil, "", 0},
		{"more", cluster.Object{"config": "{}", "unknown": cluster.Object{"key": 1}}, "{}", 0},
		{"object", cluster.Object{"config": cluster.Object{"type": "macvlan"}}, "", 422},
		{"number", cluster.Object{"config": 1}, "", 422},
		{"text", "x", "", 422},
	} {
		o := cluster.Object{
			"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
			"metadata": cluster.Object{"name": test.name, "annotations": cluster.Object{"k8s.v1.cni.cncf.io/resourceName": "a/b"}},
		}
		if test.spec != nil {
			o["spec"] = test.spec
		}
		err := api.Admin.Create(t.Context(), definitions, o, nil)
		if cluster.Code(err) != test.code || test.code == 0 && err != nil {
			t.Errorf("%s: %v, want %d", test.name, err, test.code)
		}
		if err != nil {
			continue
		}
		got, err := c.Definition(t.Context(), "default", test.name)
		if err != nil || got.Config != test.want || got.Annotations["k8s.v1.cni.cncf.io/resourceName"] != "a/b" {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
	}
	if _, err := c.Definition(t.Context(), "default", "object"); !errors.Is(err, kube.ErrNotFound) || netconf.Code(err) != 7 {
		t.Errorf("none: %v", err)
	}
	if text := api.Kubectl(t, "get", "nad", "first.lan", "-o", "name"); strings.TrimSpace(text) != "networkattachmentdefinition.k8s.cni.cncf.io/first.lan" {
		t.Errorf("kubectl: %q", text)
	}
}

// A pod is read; its annotations change by the patch, and nothing else; another pod's do not.
func testPods(t *testing.T, api *cluster.API) {
	c := account(t, api)
	api.Namespace(t, "red")
	made := createPod(t, api, "red", "web.1", map[string]string{"k8s.v1.cni.cncf.io/networks": "lan", "old": "1", "keep": "2"})
	pod, err := c.Pod(t.Context(), "red", "web.1")
	want := &kube.Pod{Namespace: "red", Name: "web.1", UID: made.Metadata.UID, Node: "n1", Annotations: made.Metadata.Annotations}
	if err != nil || !reflect.DeepEqual(pod, want) {
		t.Fatalf("%+v, %v; want %+v", pod, err, want)
	}
	status := "[{\n    \"name\": \"default/lan\",\n    \"interface\": \"net1\"\n}]"
	if err := c.PatchStatus(t.Context(), pod, map[string]*string{"k8s.v1.cni.cncf.io/network-status": &status, "old": nil, "gone already": nil}); err != nil {
		t.Fatal(err)
	}
	got := getPod(t, api, "red", "web.1")
	if want := map[string]string{"k8s.v1.cni.cncf.io/networks": "lan", "keep": "2", "k8s.v1.cni.cncf.io/network-status": status}; !reflect.DeepEqual(got.Metadata.Annotations, want) {
		t.Errorf("%v, want %v", got.Metadata.Annotations, want)
	}
	if !reflect.DeepEqual(got.Spec, made.Spec) {
		t.Errorf("spec: %s", got.Spec)
	}

	c.Event(t.Context(), pod, kube.Normal, "AddedInterface", "Add net1 [10.0.0.1/24] from default/lan")
	c.Event(t.Context(), pod, kube.Warning, "NoNetworkFound", strings.Repeat("x", 2000))
	if err := c.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	text := api.Kubectl(t, "describe", "pod", "-n", "red", "web.1")
	for _, part := range []string{"AddedInterface", "Add net1 [10.0.0.1/24] from default/lan", "NoNetworkFound", "multinet"} {
		if !strings.Contains(text, part) {
			t.Errorf("kubectl describe: no %q in\n%s", part, text)
		}
	}
	many(t, api, c, pod)
	another(t, api, c, pod)
}

// many write to the pod at once: nobody's annotation is lost.
func many(t *testing.T, api *cluster.API, c *kube.Client, pod *kube.Pod) {
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for j := range 5 {
				value := fmt.Sprint(j)
				if err := c.PatchStatus(t.Context(), pod, map[string]*string{fmt.Sprint("writer", i): &value}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	for i := range 8 {
		if got := getPod(t, api, "red", "web.1").Metadata.Annotations[fmt.Sprint("writer", i)]; got != "4" {
			t.Errorf("writer %d: %q", i, got)
		}
	}
}

// another is the next pod of the name: what is known of the one before is not written to it.
func another(t *testing.T, api *cluster.API, c *kube.Client, pod *kube.Pod) {
	status := "[]"
	deletePod(t, api, "red", "web.1")
	if err := c.PatchStatus(t.Context(), pod, map[string]*string{"k8s.v1.cni.cncf.io/network-status": &status}); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("a pod that is gone: %v", err)
	}
	next := createPod(t, api, "red", "web.1", nil)
	if err := c.PatchStatus(t.Context(), pod, map[string]*string{"k8s.v1.cni.cncf.io/network-status": &status}); !errors.Is(err, kube.ErrConflict) {
		t.Errorf("another pod: %v", err)
	}
	if got := getPod(t, api, "red", "web.1"); len(got.Metadata.Annotations) != 0 || got.Metadata.UID != next.Metadata.UID {
		t.Errorf("%+v", got.Metadata)
	}

	mirror := createPod(t, api, "red", "mirror", map[string]string{"kubernetes.io/config.source": "file"})
	if pod, err := c.Pod(t.Context(), "red", "mirror"); err != nil || !pod.Static || pod.UID != mirror.Metadata.UID {
		t.Errorf("%+v, %v", pod, err)
	}
	if _, err := c.Pod(t.Context(), "no-such-namespace", "web"); !errors.Is(err, kube.ErrNotFound) || netconf.Code(err) != 11 {
		t.Errorf("no namespace: %v", err)
	}
}

// Devices of dynamic resource allocation, by the real API.
func testClaims(t *testing.T, api *cluster.API) {
	c := account(t, api)
	const claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
	requests := cluster.Object{"requests": []cluster.Object{{"name": "nic", "exactly": cluster.Object{"deviceClassName": "nics"}}}}
	claim := cluster.Object{"metadata": cluster.Object{"name": "two"}, "spec": cluster.Object{"devices": requests}}
	if err := api.Admin.Create(t.Context(), claims, claim, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Claim(t.Context(), "default", "two"); err != nil || len(got.Devices) != 0 || got.UID == "" {
		t.Errorf("before it is allocated: %+v, %v", got, err)
	}
	result := func(device string) cluster.Object {
		return cluster.Object{"request": "nic", "driver": "nic.example.com", "pool": "n1", "device": device}
	}
	status := cluster.Object{"status": cluster.Object{
		"allocation": cluster.Object{"devices": cluster.Object{"results": []cluster.Object{result("b"), result("a")}}},
	}}
	if err := api.Admin.Patch(t.Context(), claims+"/two/status", status, nil); err != nil {
		t.Fatal(err)
	}
	got, err := c.Claim(t.Context(), "default", "two")
	device := kube.ClaimDevice{Request: "nic", Driver: "nic.example.com", Pool: "n1", Device: "b"}
	second := device
	second.Device = "a"
	if err != nil || !reflect.DeepEqual(got.Devices, []kube.ClaimDevice{device, second}) {
		t.Errorf("%+v, %v", got, err)
	}

	slice := cluster.Object{"metadata": cluster.Object{"name": "n1"}, "spec": cluster.Object{
		"driver": "nic.example.com", "nodeName": "n1", "pool": cluster.Object{"name": "n1", "generation": 1, "resourceSliceCount": 1},
		"devices": []cluster.Object{{"name": "a", "attributes": cluster.Object{
			"k8s.cni.cncf.io/deviceID": cluster.Object{"string": "0000:00:01.1"}, "queues": cluster.Object{"int": 4}, "model": cluster.Object{"string": "x"},
		}}},
	}}
	if err := api.Admin.Create(t.Context(), "/apis/resource.k8s.io/v1/resourceslices", slice, nil); err != nil {
		t.Fatal(err)
	}
	attributes, err := c.DeviceAttributes(t.Context(), "nic.example.com", "n1", "a")
	if want := map[string]string{"k8s.cni.cncf.io/deviceID": "0000:00:01.1", "nic.example.com/model": "x"}; err != nil || !reflect.DeepEqual(attributes, want) {
		t.Errorf("%v, %v; want %v", attributes, err, want)
	}
	if _, err := c.DeviceAttributes(t.Context(), "nic.example.com", "n1", "b"); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("a device that no slice has: %v", err)
	}
}

// Who asks is told by a token that rotates, or by a certificate.
func testCredentials(t *testing.T, api *cluster.API) {
	if err := load(t, api.Kubeconfig).Ready(t.Context()); err != nil {
		t.Errorf("certificate: %v", err)
	}
	createPod(t, api, "default", "asked", nil)
	if _, err := load(t, api.Kubeconfig).Pod(t.Context(), "default", "asked"); err != nil {
		t.Errorf("certificate: %v", err)
	}
	config, file := kubeconfig(t, api, token(t, api))
	c := load(t, config)
	if err := c.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	for _, step := range []struct {
		token string
		want  error
	}{{token(t, api), nil}, {"expired", kube.ErrUnauthorized}, {token(t, api) + "\n", nil}} {
		if err := os.WriteFile(file, []byte(step.token), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Pod(t.Context(), "default", "asked"); !errors.Is(err, step.want) {
			t.Errorf("%.10s: %v, want %v", step.token, err, step.want)
		}
	}
	if err := os.WriteFile(api.CA+".other", []byte(otherAuthority(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(strings.Replace(string(text), api.CA, api.CA+".other", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, config).Pod(t.Context(), "default", "asked"); !errors.Is(err, kube.ErrUnavailable) || netconf.Code(err) != 7 {
		t.Errorf("a server of another authority: %v", err)
	}
}

// otherAuthority is the certificate of another cluster's.
func otherAuthority(t *testing.T) string {
	t.Helper()
	other := cluster.StartAPI(t, cluster.APIOptions{})
	text, err := os.ReadFile(other.CA)
	if err != nil {
		t.Fatal(err)
	}
	other.Kill()
	return string(text)
}

// A server that is away for a moment is waited for.
func testRestart(t *testing.T, api *cluster.API) {
	c := account(t, api)
	createPod(t, api, "default", "waits", nil)
	api.Kill()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.Ready(ended); !errors.Is(err, kube.ErrUnavailable) || netconf.Code(err) != 11 {
		t.Errorf("no server: %v", err)
	}
	asked := make(chan error)
	go func() {
		_, err := c.Pod(t.Context(), "default", "waits")
		asked <- err
	}()
	api.Start(t)
	// A server that has just started may not know all rights yet: that is no error that is asked again, but one with
	// code 11.
	if err := <-asked; err != nil && netconf.Code(err) != 11 {
		t.Error(err)
	}
	cluster.Eventually(t, func() error {
		_, err := c.Pod(t.Context(), "default", "waits")
		return err
	})
}
