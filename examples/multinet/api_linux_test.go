package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
	"github.com/cnikit/cnikit/netconf"
)

// An API server that stumbles is asked again; one that says no is believed. In each case nothing is left where the ADD fails.
func TestAPIFaults(t *testing.T) {
	t.Parallel()
	const nads = "network-attachment-definitions"
	for name, c := range map[string]struct {
		fault kubetest.Fault
		code  uint // 0: the ADD succeeds
	}{
		"pod 500 twice":         {kubetest.Fault{Method: "GET", Path: "/pods/", Times: 2, Status: 500}, 0},
		"pod 503":               {kubetest.Fault{Method: "GET", Path: "/pods/", Times: 1, Status: 503, RetryAfter: "0"}, 0},
		"pod refused once":      {kubetest.Fault{Method: "GET", Path: "/pods/", Times: 1, Refuse: true}, 0},
		"definition 429":        {kubetest.Fault{Path: nads, Times: 1, Status: 429}, 0},
		"definition slow":       {kubetest.Fault{Path: nads, Times: 1, Delay: 300 * time.Millisecond}, 0},
		"pod after two seconds": {kubetest.Fault{Method: "GET", Path: "/pods/", Times: 1, Delay: 2 * time.Second}, 0},
		"patch 500":             {kubetest.Fault{Method: "PATCH", Times: 1, Status: 500}, 0},
		"patch lost":            {kubetest.Fault{Method: "PATCH", Times: 1, Lose: true}, 0},
		"events fail":           {kubetest.Fault{Path: "/events", Status: 403}, 0},
		"pod forbidden":         {kubetest.Fault{Method: "GET", Path: "/pods/", Status: 403}, netconf.CodeTryAgainLater},
		"pod not authorised":    {kubetest.Fault{Method: "GET", Path: "/pods/", Status: 401}, netconf.CodeTryAgainLater},
		"definition forbidden":  {kubetest.Fault{Path: nads, Status: 403}, netconf.CodeTryAgainLater},
		"patch forbidden":       {kubetest.Fault{Method: "PATCH", Status: 403}, netconf.CodeTryAgainLater},
		"patch not found":       {kubetest.Fault{Method: "PATCH", Status: 404}, netconf.CodeTryAgainLater},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spies("ns1/net-a")
			w.pod("net-a")
			w.api.Fail(c.fault)
			if c.code == 0 {
				w.add()
				if got := w.entries(); got != "defnet=eth0* ns1/net-a=net1" {
					t.Errorf("status %q", got)
				}
				return
			}
			w.do(netconf.Add).Fails(t, c.code)
			if log := w.log(); strings.Count(log, "ADD") != strings.Count(log, "DEL") {
				t.Errorf("%q: expected a DEL for each ADD", log)
			}
			w.clean()
			w.del()
		})
	}
}

// Within the call's deadline a server that never answers is code 11, and nothing is left.
func TestAPIHangs(t *testing.T) {
	t.Parallel()
	for _, fault := range []kubetest.Fault{{Hang: true}, {Method: "PATCH", Hang: true}, {Refuse: true}, {Status: http.StatusInternalServerError}} {
		w := newQuietWorld(t)
		p := plugin()
		p.RunDir, p.Timeout = w.path("run"), time.Second
		w.run = p
		w.spies("ns1/net-a")
		w.pod("net-a")
		w.api.Fail(fault)
		w.do(netconf.Add).Fails(t, netconf.CodeTryAgainLater)
		if log := w.log(); strings.Count(log, "ADD") != strings.Count(log, "DEL") {
			t.Errorf("%q: expected a DEL for each ADD", log)
		}
		w.clean()
		w.del() // asks nobody
	}
}

// One ADD with two networks: the pod once, the definitions, one patch; never a PUT; the events beside it, and all there.
func TestAPIRequests(t *testing.T) {
	w := newWorld(t)
	w.spies("ns1/net-a", "ns1/net-b")
	w.pod("net-a,net-b", "other", "stays")
	w.api.Forget()
	w.add()
	var all []string
	for _, r := range w.api.Requests() {
		if !strings.Contains(r.Path, "/events") {
			all = append(all, r.Method+r.Path[strings.LastIndex(r.Path, "/"):])
		}
		if r.Method == "PATCH" && (!strings.HasSuffix(r.Path, "/pods/p/status") || !strings.HasPrefix(r.Media, "application/merge-patch+json")) {
			t.Errorf("%v, %s", r, r.Media)
		}
	}
	if got := strings.Join(all, " "); got != "GET/p GET/net-a GET/net-b PATCH/status" && got != "GET/p GET/net-b GET/net-a PATCH/status" {
		t.Error(got)
	}
	if got := w.api.Annotations("ns1", "p")["other"]; got != "stays" {
		t.Errorf("other annotations %q", got)
	}
	var said []string
	for _, e := range w.api.Events() {
		said = append(said, e.Type+" "+e.Reason+" "+e.Message)
		if e.Pod != "ns1/p" || e.UID != "uid-1" {
			t.Errorf("%+v", e)
		}
	}
	if len(said) != 3 {
		t.Errorf("%q: expected an event for each network", said)
	}
	w.api.Forget()
	w.del()
	if got := w.api.Requests(); len(got) != 0 {
		t.Errorf("DEL asked for %v", got)
	}
}

// A network that is missing is told where people look: at the pod.
func TestNoNetworkFound(t *testing.T) {
	w := newWorld(t)
	w.pod("missing")
	w.do(netconf.Add).Fails(t, netconf.CodeInvalidNetworkConfig, "missing")
	if e := w.api.Events(); len(e) != 1 || e[0].Type != "Warning" || e[0].Reason != "NoNetworkFound" || !strings.Contains(e[0].Message, "ns1/missing") {
		t.Errorf("%+v", e)
	}
}

// The container must be of the pod that the API server has: not of the one before it in a stateful set.
func TestPod(t *testing.T) {
	t.Parallel()
	t.Run("not there", func(t *testing.T) {
		w := newWorld(t)
		w.do(netconf.Add).Fails(t, netconf.CodeTryAgainLater, `"ns1/p"`)
		w.del()
	})
	t.Run("another one", func(t *testing.T) {
		w := newWorld(t)
		w.apply("Pod", "v1", "ns1", "p", "uid-2", nil, map[string]any{})
		w.do(netconf.Add).Fails(t, netconf.CodeTryAgainLater, "uid-1", "uid-2")
	})
	t.Run("a static one", func(t *testing.T) {
		w := newWorld(t)
		w.apply("Pod", "v1", "ns1", "p", "uid-2", map[string]string{"kubernetes.io/config.source": "file"}, map[string]any{})
		w.add()
	})
	t.Run("gone before DEL, and another one in its place", func(t *testing.T) {
		w := newWorld(t)
		w.spies("ns1/net-a")
		w.pod("net-a")
		w.add()
		w.api.Delete("Pod", "ns1", "p")
		w.api.Delete("NetworkAttachmentDefinition", "ns1", "net-a")
		w.apply("Pod", "v1", "ns1", "p", "uid-2", nil, map[string]any{})
		w.api.Close()
		w.log()
		w.del()
		if got := w.log(); got != "DEL net1, DEL eth0" {
			t.Error(got)
		}
		w.clean()
	})
	t.Run("two containers of one name", func(t *testing.T) {
		w := newWorld(t)
		w.spies("ns1/net-a")
		w.pod("net-a")
		w.add()
		c := w.call(netconf.Add)
		w.apply("Pod", "v1", "ns1", "p", "uid-2", map[string]string{"k8s.v1.cni.cncf.io/networks": "net-a,net-a"}, map[string]any{})
		c.ContainerID, c.Args = "c2", strings.ReplaceAll(c.Args, "uid-1", "uid-2")
		c.Run(t.Context(), t, w.run).OK(t)
		w.log()
		w.del()
		if got := w.log(); got != "DEL net1, DEL eth0" {
			t.Errorf("%q: expected the first container's networks", got)
		}
		c.With(netconf.Del).Run(t.Context(), t, w.run).OK(t)
		if got := w.log(); got != "DEL net2, DEL net1, DEL eth0" {
			t.Error(got)
		}
		w.clean()
	})
	t.Run("none", func(t *testing.T) { // a container without a pod, and a node without an API server
		w := newWorld(t)
		c := w.call(netconf.Add)
		c.Args = ""
		c.Run(t.Context(), t, w.run).OK(t)
		w.del()
		delete(w.conf, "kubeconfig")
		w.add()
		w.del()
		w.conf["kubeconfig"] = w.path("not-yet")
		w.do(netconf.Add).Fails(t, netconf.CodeTryAgainLater, "not-yet")
		w.clean()
	})
}
