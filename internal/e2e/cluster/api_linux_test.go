package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/cluster"
)

const attachments = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions"

type attachment struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion,omitempty"`
		Annotations     map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Config string `json:"config"`
	} `json:"spec"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func newAttachment(name, config string) *attachment {
	a := &attachment{APIVersion: "k8s.cni.cncf.io/v1", Kind: "NetworkAttachmentDefinition"}
	a.Metadata.Name, a.Spec.Config = name, config
	return a
}

// The tests of an API server share one, which takes longer to start than they do.
func TestAPI(t *testing.T) {
	t.Parallel()
	api := cluster.StartAPI(t, cluster.APIOptions{Args: []string{"--max-requests-inflight=50"}})
	api.NetworkAttachments(t)
	for _, part := range []struct {
		name string
		test func(*testing.T, *cluster.API)
	}{
		{"objects", testObjects},
		{"rights", testRights},
		{"another", testAnother},
		{"release", testRelease},
		{"restart", testRestart},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, api) })
	}
}

// An object lives its life; a watch sees each step.
func testObjects(t *testing.T, api *cluster.API) {
	ctx, admin := t.Context(), api.Admin

	seen := make(chan string, 10)
	var ended error // of the watch, when seen is closed
	watching, stop := context.WithCancel(ctx)
	go func() {
		defer close(seen)
		ended = admin.Watch(watching, attachments, func(event string, object json.RawMessage) bool {
			var a attachment
			if err := json.Unmarshal(object, &a); err != nil {
				event = err.Error()
			}
			seen <- event + " " + a.Metadata.Name + " " + a.Metadata.Annotations["mark"]
			return event != "DELETED"
		})
	}()
	defer stop()
	see := func(want string) {
		t.Helper()
		if got, open := <-seen; !open {
			t.Fatalf("the watch ended before %q: %v", want, ended)
		} else if got != want {
			t.Errorf("watch: %q, want %q", got, want)
		}
	}

	if err := admin.Create(ctx, attachments, newAttachment("red", `{"type":"macvlan"}`), nil); err != nil {
		t.Fatal(err)
	}
	see("ADDED red ")
	if err := admin.Create(ctx, attachments, newAttachment("red", ""), nil); cluster.Code(err) != 409 {
		t.Errorf("created twice: %v, want 409", err)
	}
	var got attachment
	if err := admin.Patch(ctx, attachments+"/red", map[string]any{"metadata": map[string]any{"annotations": map[string]string{"mark": "x"}}}, &got); err != nil {
		t.Fatal(err)
	}
	see("MODIFIED red x")
	old := got
	got.Metadata.Annotations["mark"] = "y"
	if err := admin.Update(ctx, attachments+"/red", got, nil); err != nil {
		t.Fatal(err)
	}
	see("MODIFIED red y")
	if err := admin.Update(ctx, attachments+"/red", old, nil); cluster.Code(err) != 409 {
		t.Errorf("update of an old version: %v, want 409", err)
	}
	if text := api.Kubectl(t, "get", "net-attach-def", "red", "-o", "jsonpath={.spec.config}"); text != `{"type":"macvlan"}` {
		t.Errorf("kubectl says %q", text)
	}
	if err := admin.Delete(ctx, attachments+"/red"); err != nil {
		t.Fatal(err)
	}
	see("DELETED red y")
	if err := admin.Get(ctx, attachments+"/red", &got); cluster.Code(err) != 404 {
		t.Errorf("get after delete: %v, want 404", err)
	}
	if event, open := <-seen; open || ended != nil {
		t.Errorf("the watch ended with %q, %v", event, ended)
	}
}

// An account may do what its rules say and nothing more, with a token in the header and with a kubeconfig.
func testRights(t *testing.T, api *cluster.API) {
	api.Namespace(t, "tools")
	account := api.Account(t, "tools", "reader", cluster.Rule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}})
	none := api.Account(t, "tools", "nobody")
	config := "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"

	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"get", account.Client.Get(t.Context(), config, nil), 0},
		{"get what is not granted", account.Client.Get(t.Context(), "/api/v1/namespaces/default/pods", nil), 403},
		{"change what may be read", account.Client.Patch(t.Context(), config, map[string]any{}, nil), 403},
		{"delete", account.Client.Delete(t.Context(), config), 403},
		{"get without rules", none.Client.Get(t.Context(), config, nil), 403},
	} {
		if cluster.Code(c.err) != c.want || c.want == 0 && c.err != nil {
			t.Errorf("%s: %v, want code %d", c.name, c.err, c.want)
		}
	}

	// The file of the node's side leads to the bridge's address: it is another one than the administrator's.
	path := filepath.Join(t.TempDir(), "kubeconfig")
	account.Kubeconfig(t, path)
	if who := api.Kubectl(t, "--kubeconfig="+path, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"); who != "system:serviceaccount:tools:reader" {
		t.Errorf("kubectl is %q", who)
	}
}

// What was written is there after a crash, and so are the port and the keys; meanwhile there is no server.
func testRestart(t *testing.T, api *cluster.API) {
	account := api.Account(t, "default", "afterwards", cluster.Rule{APIGroups: []string{"k8s.cni.cncf.io"}, Resources: []string{"*"}, Verbs: []string{"get"}})
	url := api.URL
	for i, end := range []func(){api.Kill, api.Stop} {
		name := fmt.Sprint("net", i)
		if err := api.Admin.Create(t.Context(), attachments, newAttachment(name, "{}"), nil); err != nil {
			t.Fatal(err)
		}
		end()
		address := strings.TrimPrefix(url, "https://")
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			t.Error("something listens where the API server was")
		}
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			t.Error("another may take the API server's port")
		}
		api.Start(t)
		if err := account.Client.Get(t.Context(), attachments+"/"+name, nil); err != nil {
			t.Errorf("after the restart: %v", err)
		}
		if api.URL != url {
			t.Errorf("it is at %s, was at %s", api.URL, url)
		}
	}
}

// Another cluster in the same test knows nothing of this one.
func testAnother(t *testing.T, api *cluster.API) {
	other := cluster.StartAPI(t, cluster.APIOptions{})
	api.Namespace(t, "only-here")
	if err := other.Admin.Get(t.Context(), "/api/v1/namespaces/only-here", nil); cluster.Code(err) != 404 {
		t.Errorf("the other cluster's namespace: %v, want 404", err)
	}
	if other.URL == api.URL || other.NodeURL == api.NodeURL {
		t.Errorf("both are at %s, %s", api.URL, api.NodeURL)
	}
	if text, err := os.ReadFile(other.CA); err != nil || !strings.Contains(string(text), "BEGIN CERTIFICATE") {
		t.Errorf("CA: %v\n%s", err, text)
	}
}

// The programs say the version that is built: the number stands in two places.
func testRelease(t *testing.T, api *cluster.API) {
	text, err := os.ReadFile("../tools/kubernetes/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`(?m)^require k8s.io/kubernetes (v\S+)`).FindSubmatch(text)
	if pinned == nil {
		t.Fatal("go.mod requires no k8s.io/kubernetes")
	}
	var version struct{ GitVersion string }
	if err := api.Admin.Get(t.Context(), "/version", &version); err != nil {
		t.Fatal(err)
	}
	if version.GitVersion != string(pinned[1]) {
		t.Errorf("the API server says %s, go.mod %s", version.GitVersion, pinned[1])
	}
}
