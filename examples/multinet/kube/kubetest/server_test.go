package kubetest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
)

const (
	pod    = "/api/v1/namespaces/default/pods/web"
	events = "/api/v1/namespaces/default/events"
	merge  = "application/merge-patch+json"
	event  = `{"apiVersion":"v1","kind":"Event","metadata":{"name":"%s","namespace":"%s"},"involvedObject":{"namespace":"default","name":"web"},"type":"%s","reason":"R"}`
)

// It refuses what a real server refuses, with the same status. What is right for one is not right by chance.
func TestStrict(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t, kubetest.Options{TLS: true})
	s.Apply(t, "kind: Pod\nmetadata: {name: web, uid: u1}")
	for _, test := range []struct {
		method, path, token, media, body string
		status                           int
	}{
		{"GET", pod, "token", "", "", 200},
		{"GET", pod, "", "", "", 401},
		{"GET", pod, "other", "", "", 401},
		{"GET", "/readyz", "token", "", "", 200},
		{"GET", pod + "x", "token", "", "", 404},
		{"GET", "/api/v1/namespaces/other/pods/web", "token", "", "", 404},
		{"GET", "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions/web", "token", "", "", 404},
		{"GET", "/api/v1/pods", "token", "", "", 404},
		{"PATCH", pod + "/status", "token", merge, `{"metadata":{"annotations":{"a":"b"}}}`, 200},
		{"PATCH", pod + "/status", "token", merge, `{"metadata":{"uid":"u1","annotations":{"a":null}}}`, 200},
		{"PATCH", pod + "/status", "token", merge, `{"metadata":{"uid":"u2","annotations":{"a":"b"}}}`, 422},
		{"PATCH", pod + "/status", "token", merge, `{"metadata":{"annotations":{"a":1}}}`, 422},
		{"PATCH", pod + "/status", "token", merge, `{"metadata":{"name":"x"}}`, 422},
		{"PATCH", pod + "/status", "token", merge, `{"spec":{}}`, 422},
		{"PATCH", pod + "/status", "token", merge, `{`, 422},
		{"PATCH", pod + "/status", "token", "application/json", `{}`, 415},
		{"PATCH", pod + "/status", "token", "", `{}`, 415},
		{"PATCH", pod, "token", merge, `{}`, 405},
		{"PUT", pod + "/status", "token", "application/json", `{}`, 405},
		{"DELETE", pod, "token", "", "", 405},
		{"POST", events, "token", "application/json", fmt.Sprintf(event, "e", "default", "Normal"), 201},
		{"POST", events, "token", "application/json", fmt.Sprintf(event, "e", "default", "Normal"), 409},
		{"POST", events, "token", "application/json", fmt.Sprintf(event, "f", "other", "Normal"), 422},
		{"POST", events, "token", "application/json", fmt.Sprintf(event, "f", "default", "Bad"), 422},
		{"POST", events, "token", "application/json", `{"unknown":1}`, 422},
		{"POST", events, "token", "text/plain", fmt.Sprintf(event, "g", "default", "Normal"), 415},
		{"GET", events, "token", "", "", 404},
	} {
		status, body := ask(t, s, test.method, test.path, test.token, test.media, test.body)
		if status != test.status {
			t.Errorf("%s %s as %q, %s %s: %d %s, want %d", test.method, test.path, test.token, test.media, test.body, status, body, test.status)
		}
		if status >= 400 && !strings.Contains(body, `"kind":"Status"`) {
			t.Errorf("%s %s: %s", test.method, test.path, body)
		}
	}
	if got := s.Events(); len(got) != 1 {
		t.Errorf("events: %v", got)
	}
	if got := s.Annotations("default", "web"); len(got) != 0 {
		t.Errorf("annotations: %v", got)
	}
	if got := s.Annotations("default", "none"); got != nil {
		t.Errorf("annotations of no pod: %v", got)
	}
	s.Delete("Pod", "default", "web")
	if status, _ := ask(t, s, "GET", pod, "token", "", ""); status != 404 {
		t.Errorf("deleted: %d", status)
	}
}

func ask(t *testing.T, s *kubetest.Server, method, path, token, media, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	answer, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// What is compared with ours may do more.
func TestLenient(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t, kubetest.Options{Lenient: true})
	s.Apply(t, "kind: Pod\nmetadata: {name: web}")
	if status, body := ask(t, s, "PUT", pod+"/status", "token", "application/json", `{"metadata":{"annotations":{"a":"b"}}}`); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if got := s.Annotations("default", "web")["a"]; got != "b" {
		t.Errorf("annotation %q", got)
	}
}

// A manifest that is none is told.
func TestApplyManifest(t *testing.T) {
	t.Parallel()
	s := kubetest.New(t, kubetest.Options{})
	for _, manifest := range []string{"kind: Pod", "kind: Deployment\nmetadata: {name: x}", "kind: [", "metadata: {name: x}", "- a"} {
		if err := s.ApplyManifest(manifest); err == nil {
			t.Errorf("%q is taken", manifest)
		}
	}
	if err := s.ApplyManifest("---\n---\nkind: Pod\nmetadata: {name: a}\n---\n"); err != nil || s.Annotations("default", "a") == nil {
		t.Errorf("%v", err)
	}
}
