package multinet_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/internal/e2e/cluster"
	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// The tests of an API server share one, which takes longer to start than they do.
func TestAPI(t *testing.T) {
	api := cluster.StartAPI(t, cluster.APIOptions{})
	api.Apply(t, manifest(t, "crd.yaml"))
	api.Apply(t, manifest(t, "rbac.yaml"))
	for _, part := range []struct {
		name string
		test func(*testing.T, *cluster.API)
	}{
		{"definitions", testDefinitions},
		{"pods", testPods},
		{"claims", testClaims},
		{"credentials", testCredentials},
		{"program", testProgram},
		{"rights", testRights},
		{"restart", testRestart},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, api) })
	}
}

// manifest is a file of examples/multinet/deploy.
func manifest(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../examples/multinet/deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// token asks for one of the manifest's account.
func token(t *testing.T, api *cluster.API) string {
	t.Helper()
	var answer struct{ Status struct{ Token string } }
	request := cluster.Object{"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": cluster.Object{}}
	if err := api.Admin.Create(t.Context(), "/api/v1/namespaces/kube-system/serviceaccounts/multinet/token", request, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

// kubeconfig writes the file of a client with a token's file, and returns both paths.
func kubeconfig(t *testing.T, api *cluster.API, token string) (config, file string) {
	t.Helper()
	return kubeconfigFor(t, api.URL, api, token)
}

// kubeconfigFor is kubeconfig with another URL of the server: a node's.
func kubeconfigFor(t *testing.T, url string, api *cluster.API, token string) (config, file string) {
	t.Helper()
	dir := t.TempDir()
	config, file = filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "token")
	text, err := yaml.Marshal(cluster.Object{
		"current-context": "x",
		"clusters":        []cluster.Object{{"name": "c", "cluster": cluster.Object{"server": url, "certificate-authority": api.CA}}},
		"users":           []cluster.Object{{"name": "u", "user": cluster.Object{"tokenFile": "token"}}},
		"contexts":        []cluster.Object{{"name": "x", "context": cluster.Object{"cluster": "c", "user": "u"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{config: text, file: []byte(token)} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config, file
}

// load makes a client of a kubeconfig.
func load(t *testing.T, path string) *kube.Client {
	t.Helper()
	c, err := kube.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// account makes a client of the manifest's account, and waits until the server knows its rights.
func account(t *testing.T, api *cluster.API) *kube.Client {
	t.Helper()
	config, _ := kubeconfig(t, api, token(t, api))
	c := load(t, config)
	createPod(t, api, "default", "knows-rights", nil)
	cluster.Eventually(t, func() error {
		_, err := c.Pod(t.Context(), "default", "knows-rights")
		return err
	})
	deletePod(t, api, "default", "knows-rights")
	return c
}

// object is what of an object a test looks at.
type object struct {
	Metadata struct {
		UID         string
		Annotations map[string]string
	}
	Spec json.RawMessage
}

// createPod makes a pod that no node runs.
func createPod(t *testing.T, api *cluster.API, namespace, name string, annotations map[string]string) (pod object) {
	t.Helper()
	err := api.Admin.Create(t.Context(), "/api/v1/namespaces/"+namespace+"/pods", cluster.Object{
		"metadata": cluster.Object{"name": name, "annotations": annotations},
		"spec": cluster.Object{
			"nodeName": "n1", "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
			"containers": []cluster.Object{{"name": "c", "image": "none"}},
		},
	}, &pod)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// getPod reads what the server has.
func getPod(t *testing.T, api *cluster.API, namespace, name string) (pod object) {
	t.Helper()
	if err := api.Admin.Get(t.Context(), "/api/v1/namespaces/"+namespace+"/pods/"+name, &pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// deletePod takes a pod away at once: there is no kubelet to say that it has ended.
func deletePod(t *testing.T, api *cluster.API, namespace, name string) {
	t.Helper()
	if err := api.Admin.Delete(t.Context(), "/api/v1/namespaces/"+namespace+"/pods/"+name+"?gracePeriodSeconds=0"); err != nil {
		t.Fatal(err)
	}
}

// TestBuild builds the program ahead.
func TestBuild(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command on the PATH: ", err)
	}
	build(t)
}

// build returns the program and the folder of the plugins that it calls.
func build(t *testing.T) (program skeltest.Binary, plugins string) {
	t.Helper()
	program = skeltest.Binary(filepath.Join(testbin.Tools(t, "examples/multinet", nil, "."), "multinet"))
	testbin.Plugin(t, "host-local")
	return program, filepath.Dir(testbin.Plugin(t, "bridge"))
}
