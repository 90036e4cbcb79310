package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
	"github.com/cnikit/cnikit/netconf"
)

const objects = `
kind: Pod
metadata:
  name: web
  uid: uid-1
  labels: {app: web}
  annotations: {k8s.v1.cni.cncf.io/networks: lan, mine: "1"}
spec:
  nodeName: n1
  resourceClaims: [{name: direct, resourceClaimName: nic}, {name: made, resourceClaimTemplateName: t}, {name: pending, resourceClaimTemplateName: t}]
status:
  resourceClaimStatuses: [{name: made, resourceClaimName: web-made-x7}, {name: pending}]
---
kind: Pod
metadata: {name: mirror, annotations: {kubernetes.io/config.source: file}}
---
kind: Pod
metadata: {name: ordinary, annotations: {kubernetes.io/config.source: api}}
---
kind: NetworkAttachmentDefinition
metadata: {name: lan, namespace: red, annotations: {k8s.v1.cni.cncf.io/resourceName: intel.com/vf}}
spec: {config: '{"type": "macvlan", "n": 9007199254740993}', more: {unknown: [1]}}
other: true
---
kind: NetworkAttachmentDefinition
metadata: {name: bare.dots}
---
kind: ResourceClaim
metadata: {name: nic}
status:
  allocation: {devices: {results: [{request: r/a, driver: d, pool: p, device: x}, {request: r2, driver: d, pool: p, device: z}]}}
  devices: [{driver: d, pool: other, device: z, data: {}}, {driver: d, pool: p, device: z, data: {mac: "1"}}]
---
kind: ResourceClaim
metadata: {name: waiting}
`

// serve makes a server with the objects above and a client of it.
func serve(t *testing.T, options kubetest.Options) (*kubetest.Server, *kube.Client) {
	t.Helper()
	api := kubetest.New(t, options)
	api.Apply(t, objects)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	api.Kubeconfig(t, path)
	client, err := kube.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return api, client
}

// within is long enough for every try that a test wants.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestObjects(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		_, c := serve(t, kubetest.Options{TLS: secure})
		for _, test := range []struct {
			name string
			get  func(context.Context) (any, error)
			want any
		}{
			{"pod", func(ctx context.Context) (any, error) { return c.Pod(ctx, "default", "web") }, &kube.Pod{
				Namespace: "default", Name: "web", UID: "uid-1", Node: "n1", Labels: map[string]string{"app": "web"},
				Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "lan", "mine": "1"},
				Claims:      []kube.PodClaim{{Name: "direct", Claim: "nic"}, {Name: "made", Claim: "web-made-x7"}, {Name: "pending"}},
			}},
			{"static", func(ctx context.Context) (any, error) { return c.Pod(ctx, "default", "mirror") }, &kube.Pod{
				Namespace: "default", Name: "mirror", UID: "uid-mirror", Static: true, Annotations: map[string]string{"kubernetes.io/config.source": "file"},
			}},
			{"from the API", func(ctx context.Context) (any, error) { return c.Pod(ctx, "default", "ordinary") }, &kube.Pod{
				Namespace: "default", Name: "ordinary", UID: "uid-ordinary", Annotations: map[string]string{"kubernetes.io/config.source": "api"},
			}},
			{"definition", func(ctx context.Context) (any, error) { return c.Definition(ctx, "red", "lan") }, &kube.Definition{
				Namespace: "red", Name: "lan", Config: `{"type": "macvlan", "n": 9007199254740993}`,
				Annotations: map[string]string{"k8s.v1.cni.cncf.io/resourceName": "intel.com/vf"},
			}},
			{"definition without a spec", func(ctx context.Context) (any, error) { return c.Definition(ctx, "default", "bare.dots") }, &kube.Definition{
				Namespace: "default", Name: "bare.dots",
			}},
			{"claim", func(ctx context.Context) (any, error) { return c.Claim(ctx, "default", "nic") }, &kube.Claim{
				Namespace: "default", Name: "nic", UID: "uid-nic", Devices: []kube.ClaimDevice{
					{Request: "r/a", Driver: "d", Pool: "p", Device: "x"},
					{Request: "r2", Driver: "d", Pool: "p", Device: "z", Data: json.RawMessage(`{"mac":"1"}`)},
				},
			}},
			{"claim that is not allocated", func(ctx context.Context) (any, error) { return c.Claim(ctx, "default", "waiting") }, &kube.Claim{
				Namespace: "default", Name: "waiting", UID: "uid-waiting",
			}},
		} {
			if got, err := test.get(within(t)); err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("%s: %+v, %v; want %+v", test.name, got, err, test.want)
			}
		}
	}
}

// A name that would lead to another object, or to a list of them, is not sent.
func TestNames(t *testing.T) {
	t.Parallel()
	api, c := serve(t, kubetest.Options{})
	for _, name := range []string{"", ".", "..", "a/b", "web?x=1", "web#", "%2e%2e", `a\b`} {
		_, pod := c.Pod(t.Context(), "default", name)
		_, definition := c.Definition(t.Context(), name, "lan")
		_, claim := c.Claim(t.Context(), "default", name)
		patch := c.PatchStatus(t.Context(), &kube.Pod{Namespace: "default", Name: name}, nil)
		for _, err := range []error{pod, definition, claim, patch} {
			if netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
				t.Errorf("%q: %v, code %d", name, err, netconf.Code(err))
			}
		}
	}
	if got := api.Requests(); len(got) != 0 {
		t.Errorf("sent: %v", got)
	}
}

// Each status is what it is, and asked again only where that can help.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault kubetest.Fault
		is    error
		code  uint
		tries int // 0: several
	}{
		{kubetest.Fault{Status: 400}, nil, 7, 1},
		{kubetest.Fault{Status: 401}, kube.ErrUnauthorized, 11, 1},
		{kubetest.Fault{Status: 403}, kube.ErrForbidden, 11, 1},
		{kubetest.Fault{Status: 404}, kube.ErrNotFound, 11, 1},
		{kubetest.Fault{Status: 409}, kube.ErrConflict, 11, 1},
		{kubetest.Fault{Status: 302}, nil, 7, 1},
		{kubetest.Fault{Status: 501}, kube.ErrUnavailable, 11, 1},
		{kubetest.Fault{Status: 429, RetryAfter: "3600"}, kube.ErrUnavailable, 11, 1}, // beyond the deadline
		{kubetest.Fault{Status: 429, RetryAfter: "9999999999999"}, kube.ErrUnavailable, 11, 1},
		{kubetest.Fault{Status: 429, RetryAfter: "0"}, kube.ErrUnavailable, 11, 0},
		{kubetest.Fault{Status: 500}, kube.ErrUnavailable, 11, 0},
		{kubetest.Fault{Status: 502, Body: "<html>Bad Gateway\xff</html>"}, kube.ErrUnavailable, 11, 0},
		{kubetest.Fault{Status: 503, RetryAfter: "-1"}, kube.ErrUnavailable, 11, 0},
		{kubetest.Fault{Status: 504}, kube.ErrUnavailable, 11, 0},
		{kubetest.Fault{Refuse: true}, kube.ErrUnavailable, 11, 0},
		{kubetest.Fault{Hang: true}, context.DeadlineExceeded, 11, 1},
		{kubetest.Fault{Status: 200, Body: "<html>Log in, please</html>"}, kube.ErrUnavailable, 11, 1},
		{kubetest.Fault{Status: 200, Body: `{"metadata": {"name": "` + strings.Repeat("x", 17<<20) + `"}}`}, kube.ErrUnavailable, 11, 1},
	} {
		api, c := serve(t, kubetest.Options{})
		api.Fail(test.fault)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := c.Pod(ctx, "default", "web")
		cancel()
		name := fmt.Sprintf("%d %q", test.fault.Status, test.fault.RetryAfter)
		if err == nil || test.is != nil && !errors.Is(err, test.is) || netconf.Code(err) != test.code {
			t.Errorf("%s: %v, code %d, want %d and %v", name, err, netconf.Code(err), test.code, test.is)
			continue
		}
		if !strings.Contains(err.Error(), `get pod "default/web"`) || strings.Contains(err.Error(), "\n") || !utf8.ValidString(err.Error()) || len(err.Error()) > 500 {
			t.Errorf("%s: %q", name, err)
		}
		if n := len(api.Requests()); test.tries != 0 && n != test.tries || test.tries == 0 && n < 2 {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
}

// What is missing has its own codes: a pod may come yet, a definition that somebody named is wrong.
func TestNotFound(t *testing.T) {
	t.Parallel()
	_, c := serve(t, kubetest.Options{})
	_, pod := c.Pod(t.Context(), "default", "no")
	_, definition := c.Definition(t.Context(), "default", "no")
	_, claim := c.Claim(t.Context(), "default", "no")
	patch := c.PatchStatus(t.Context(), &kube.Pod{Namespace: "default", Name: "no"}, nil)
	for i, test := range []struct {
		err  error
		code uint
	}{{pod, 11}, {definition, 7}, {claim, 7}, {patch, 11}} {
		if !errors.Is(test.err, kube.ErrNotFound) || netconf.Code(test.err) != test.code {
			t.Errorf("%d: %v, code %d", i, test.err, netconf.Code(test.err))
		}
	}
}

// What fails for a while is done, and once.
func TestTries(t *testing.T) {
	t.Parallel()
	value := "x"
	for _, fault := range []kubetest.Fault{
		{Status: 500, Times: 3}, {Status: 503, Times: 1, RetryAfter: "1"}, {Status: 429, Times: 2},
		{Refuse: true, Times: 2}, {Lose: true, Times: 2},
		{Status: 409, Times: 2}, // of many that write to the pod
	} {
		for _, secure := range []bool{false, true} {
			api, c := serve(t, kubetest.Options{TLS: secure})
			for _, method := range []string{"GET", "PATCH", "POST"} {
				f := fault
				if f.Status == 409 && method != "PATCH" {
					continue
				}
				f.Method = method
				api.Fail(f)
			}
			ctx := within(t)
			pod, err := c.Pod(ctx, "default", "web")
			if err != nil {
				t.Errorf("%+v: %v", fault, err)
				continue
			}
			c.Event(ctx, pod, kube.Normal, "AddedInterface", "eth0")
			if err := c.PatchStatus(ctx, pod, map[string]*string{"status": &value}); err != nil {
				t.Errorf("%+v: %v", fault, err)
			}
			if err := c.Flush(ctx); err != nil {
				t.Errorf("%+v: %v", fault, err)
			}
			if got := api.Events(); len(got) != 1 || got[0] != (kubetest.Event{Type: "Normal", Reason: "AddedInterface", Message: "eth0", Pod: "default/web", UID: "uid-1"}) {
				t.Errorf("%+v: events %+v", fault, got)
			}
			if got := api.Annotations("default", "web")["status"]; got != value {
				t.Errorf("%+v: status %q", fault, got)
			}
		}
	}
}

// A server that is not there yet is waited for.
func TestStart(t *testing.T) {
	t.Parallel()
	first := kubetest.New(t, kubetest.Options{})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	first.Kubeconfig(t, path)
	first.Close()
	c, err := kube.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Pod(ctx, "default", "web"); !errors.Is(err, kube.ErrUnavailable) || netconf.Code(err) != 11 {
		t.Errorf("no server: %v", err)
	}
	if err := c.Ready(within(t)); !errors.Is(err, kube.ErrUnavailable) {
		t.Errorf("ready without a server: %v", err)
	}
	asked := make(chan error)
	go func() {
		_, err := c.Pod(within(t), "default", "web")
		asked <- err
	}()
	second := kubetest.New(t, kubetest.Options{Listen: strings.TrimPrefix(first.URL, "http://")})
	second.Apply(t, objects)
	if err := <-asked; err != nil && !errors.Is(err, kube.ErrNotFound) { // it may come before the objects
		t.Error(err)
	}
	if err := c.Ready(within(t)); err != nil {
		t.Error(err)
	}
}

// The call's end ends the tries, and is told.
func TestCancel(t *testing.T) {
	t.Parallel()
	api, c := serve(t, kubetest.Options{})
	api.Fail(kubetest.Fault{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := c.Pod(ctx, "default", "web")
		ended <- err
	}()
	for len(api.Requests()) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || netconf.Code(err) != 11 {
		t.Errorf("%v", err)
	}
}

// STATUS is answered at once, whatever the server says.
func TestReady(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault kubetest.Fault
		is    error
	}{
		{kubetest.Fault{}, nil},
		{kubetest.Fault{Status: 404}, nil},
		{kubetest.Fault{Status: 500}, kube.ErrUnavailable},
		{kubetest.Fault{Status: 401}, kube.ErrUnauthorized},
	} {
		api, c := serve(t, kubetest.Options{})
		api.Fail(test.fault)
		if err := c.Ready(within(t)); !errors.Is(err, test.is) {
			t.Errorf("%d: %v", test.fault.Status, err)
		}
		if got := fmt.Sprint(api.Requests()); got != "[GET /readyz]" {
			t.Errorf("%d: %v", test.fault.Status, got)
		}
	}
}

// Requests at the same time share a connection.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	api, c := serve(t, kubetest.Options{TLS: true})
	if _, err := c.Pod(within(t), "default", "web"); err != nil {
		t.Fatal(err)
	}
	api.Latency(100 * time.Millisecond)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := c.Definition(within(t), "red", "lan"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	most := 0
	for _, r := range api.Requests() {
		most = max(most, r.AtOnce)
	}
	if most < 4 || api.Connections() != 1 {
		t.Errorf("%d beside another, over %d connections", most, api.Connections())
	}
}

// A token goes to the server of the kubeconfig and to nobody else.
func TestRedirect(t *testing.T) {
	t.Parallel()
	asked := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer first.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfig(first.URL, "", `token: secret`)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := kube.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Pod(within(t), "default", "web"); err == nil || asked {
		t.Errorf("%v, asked: %v", err, asked)
	}
}
