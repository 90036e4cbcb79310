package kube_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
	"github.com/cnikit/cnikit/netconf"
)

func TestPatchStatus(t *testing.T) {
	t.Parallel()
	api, c := serve(t, kubetest.Options{})
	pod, err := c.Pod(within(t), "default", "web")
	if err != nil {
		t.Fatal(err)
	}
	text := `[{"name": "a\u0000"}]`
	if err := c.PatchStatus(within(t), pod, map[string]*string{"new": &text, "mine": nil, "not there": nil}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"new": text, "k8s.v1.cni.cncf.io/networks": "lan"}
	if got := api.Annotations("default", "web"); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	other := *pod
	other.UID = "uid-2"
	if err := c.PatchStatus(within(t), &other, map[string]*string{"new": nil}); !errors.Is(err, kube.ErrConflict) || netconf.Code(err) != 11 {
		t.Errorf("another pod: %v", err)
	}
	if got := api.Annotations("default", "web"); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	api.Fail(kubetest.Fault{Status: 409, Times: 1, Body: `{"reason": "Conflict", "message": "Precondition failed: UID in precondition: a, UID in object meta: b"}`})
	if err := c.PatchStatus(within(t), pod, nil); !errors.Is(err, kube.ErrConflict) {
		t.Errorf("another pod, as another server says it: %v", err)
	}
	other.UID = "" // a pod that nobody read
	if err := c.PatchStatus(within(t), &other, map[string]*string{"new": nil}); err != nil || api.Annotations("default", "web")["new"] != "" {
		t.Errorf("%v, %v", err, api.Annotations("default", "web"))
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	api, c := serve(t, kubetest.Options{})
	pod := &kube.Pod{Namespace: "default", Name: "web", UID: "uid-1", Node: "n1"}
	if err := c.Flush(t.Context()); err != nil {
		t.Errorf("none: %v", err)
	}
	for i := range 20 { // the same text may be meant twice
		c.Event(within(t), pod, kube.Warning, "NoNetworkFound", strings.Repeat("ü", 300*i))
	}
	if err := c.Flush(within(t)); err != nil {
		t.Error(err)
	}
	got := api.Events()
	for _, e := range got {
		if len(e.Message) > 1024 || strings.Contains(e.Message, "\ufffd") {
			t.Errorf("%d bytes: %q", len(e.Message), e.Message)
		}
	}
	if len(got) != 20 {
		t.Errorf("%d events", len(got))
	}

	api.Fail(kubetest.Fault{Method: "POST", Status: 403})
	c.Event(within(t), pod, kube.Normal, "AddedInterface", "x")
	if err := c.Flush(within(t)); !errors.Is(err, kube.ErrForbidden) {
		t.Errorf("not allowed: %v", err)
	}
	if err := c.Flush(within(t)); err != nil {
		t.Errorf("told twice: %v", err)
	}
	api.Heal()
	api.Fail(kubetest.Fault{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	c.Event(ctx, pod, kube.Normal, "AddedInterface", "x")
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.Flush(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("not posted yet: %v", err)
	}
	cancel()
}

// The fault hook is asked before each request that changes something.
func TestHook(t *testing.T) {
	t.Parallel()
	api, c := serve(t, kubetest.Options{})
	pod := &kube.Pod{Namespace: "default", Name: "web"}
	var mu sync.Mutex
	var asked []string
	stop := errors.New("stopped")
	ctx := netconf.WithFault(within(t), func(_ context.Context, op string) error {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, op)
		return stop
	})
	if err := c.PatchStatus(ctx, pod, nil); !errors.Is(err, stop) {
		t.Error(err)
	}
	c.Event(ctx, pod, kube.Normal, "AddedInterface", "x")
	if err := c.Flush(ctx); !errors.Is(err, stop) {
		t.Error(err)
	}
	if len(asked) != 2 || len(api.Requests()) != 0 {
		t.Errorf("asked %v, sent %v", asked, api.Requests())
	}
}
