package kube_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/kube"
)

// slices are those of two pools and two drivers; of node1's there are an old one and, in two parts, a new one.
const slices = `{"items":[
	{"spec":{"driver":"d","pool":{"name":"node1","generation":1},"devices":[{"name":"a","attributes":{"k8s.cni.cncf.io/deviceID":{"string":"old"}}},{"name":"gone","attributes":{}}]}},
	{"spec":{"driver":"d","pool":{"name":"node1","generation":2},"devices":[{"name":"b","attributes":{}}]}},
	{"spec":{"driver":"d","pool":{"name":"node1","generation":2},"devices":[{"name":"a","attributes":{"k8s.cni.cncf.io/deviceID":{"string":"0000:01:00.1"},"model":{"string":"m"},"speed":{"int":9}}}]}},
	{"spec":{"driver":"d","pool":{"name":"node2","generation":9},"devices":[{"name":"a","attributes":{"k8s.cni.cncf.io/deviceID":{"string":"node2"}}}]}},
	{"spec":{"driver":"e","pool":{"name":"node1","generation":9},"devices":[{"name":"a","attributes":{"k8s.cni.cncf.io/deviceID":{"string":"of e"}}}]}}]}`

func TestDeviceAttributes(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} { // a server that cannot select by pool
		t.Run(fmt.Sprint("old ", old), func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				selector := r.URL.Query().Get("fieldSelector")
				if r.Method != http.MethodGet || r.URL.Path != "/apis/resource.k8s.io/v1/resourceslices" || !strings.HasPrefix(selector, "spec.driver=d") {
					http.Error(w, "unexpected", http.StatusNotFound)
					return
				}
				if old && strings.Contains(selector, "spec.pool.name") {
					w.WriteHeader(http.StatusBadRequest)
					_, _ = fmt.Fprint(w, `{"kind":"Status","reason":"BadRequest","code":400,"message":"field label not supported: spec.pool.name"}`) // the client sees it
					return
				}
				_, _ = fmt.Fprint(w, slices) // the client sees it
			}))
			t.Cleanup(server.Close)
			client := clientOf(t, server.URL)
			got, err := client.DeviceAttributes(t.Context(), "d", "node1", "a")
			want := map[string]string{"k8s.cni.cncf.io/deviceID": "0000:01:00.1", "d/model": "m"}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%v, %v; expected %v", got, err, want)
			}
			if got, err := client.DeviceAttributes(t.Context(), "d", "node1", "b"); err != nil || got == nil || len(got) != 0 {
				t.Fatalf("a device without attributes: %v, %v", got, err)
			}
			for _, device := range []string{"gone", "never"} {
				if got, err := client.DeviceAttributes(t.Context(), "d", "node1", device); !errors.Is(err, kube.ErrNotFound) {
					t.Fatalf("%v, %v; expected %v", got, err, kube.ErrNotFound)
				}
			}
		})
	}
}

// clientOf is a client of a server without credentials.
func clientOf(t *testing.T, url string) *kube.Client {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []any{map[string]any{"name": "l", "cluster": map[string]string{"server": url}}},
		"contexts": []any{map[string]any{"name": "c", "context": map[string]string{"cluster": "l", "user": "u"}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]string{}}},
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	client, err := kube.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
