package apitest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// What the API server does for a while, or for each answer, an ADD outlives. What events meet, it outlives in any case.
func TestOutlived(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]kubetest.Fault{
		"500 for a while":          {Status: 500, Times: 2},
		"503 for a while":          {Status: 503, Times: 2, RetryAfter: "1"},
		"429":                      {Status: 429, Times: 3},
		"connections that break":   {Refuse: true, Times: 3},
		"answers that are lost":    {Lose: true, Times: 3},
		"300 ms":                   {Delay: 300 * time.Millisecond},
		"2 s":                      {Delay: 2 * time.Second},
		"the patch fails twice":    {Method: "PATCH", Status: 502, Times: 2},
		"others write to the pod":  {Method: "PATCH", Status: 409, Times: 3},
		"the patch's answer lost":  {Method: "PATCH", Lose: true, Times: 1},
		"no right to post events":  {Path: "/events", Status: 403},
		"events are never taken":   {Path: "/events", Hang: true},
		"events fail for a second": {Path: "/events", Status: 500, Times: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(t)
			p.api.Fail(fault)
			p.run(t, netconf.Add).OK(t)
			if links := p.links(); links != "lo eth0 net1 net2" {
				t.Errorf("links %s", links)
			}
			if status := p.api.Annotations("default", "web")["k8s.v1.cni.cncf.io/network-status"]; strings.Count(status, `"interface"`) != 3 {
				t.Errorf("status %s", status)
			}
			p.api.Close() // DEL asks nobody
			p.run(t, netconf.Del).OK(t)
			p.clean(t, "after DEL")
		})
	}
}

// What it answers to each request makes an ADD fail, with the reason, and undone; before a plugin runs, if it is before.
func TestFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault kubetest.Fault
		code  uint
		words []string
		ran   bool // plugins have run
	}{
		{"who asks is not known", kubetest.Fault{Status: 401}, 11, []string{"credentials", "default/web"}, false},
		{"no right to read pods", kubetest.Fault{Path: "/pods/", Status: 403}, 11, []string{"not allowed", "default/web"}, false},
		{"no such pod", kubetest.Fault{Path: "/pods/", Status: 404}, 11, []string{"web", "not found"}, false},
		{"no such definition", kubetest.Fault{Path: "attachment-definitions/store", Status: 404}, 7, []string{"default/store", "not found"}, false},
		{"no right to read definitions", kubetest.Fault{Path: "attachment-definitions", Status: 403}, 11, []string{"default/lan", "default/store"}, false},
		{"something else answers", kubetest.Fault{Status: 200, Body: "<html>"}, 11, []string{"no API server"}, false},
		{"no right to patch", kubetest.Fault{Method: "PATCH", Status: 403}, 11, []string{"not allowed", "network-status"}, true},
		{"the pod is another one at the end", kubetest.Fault{Method: "PATCH", Status: 409, Body: `{"message": "Precondition failed: UID in precondition: a"}`}, 11, []string{"another"}, true},
		{"the pod is gone at the end", kubetest.Fault{Method: "PATCH", Status: 404}, 11, []string{"not found"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(t)
			p.api.Fail(test.fault)
			p.run(t, netconf.Add).Fails(t, test.code, test.words...)
			p.clean(t, "after ADD")
			if ran := len(p.ipam.Calls()) > 0; ran != test.ran {
				t.Errorf("plugins were called: %v", p.ipam.Calls())
			}
			p.api.Close()
			p.run(t, netconf.Del).OK(t)
			p.clean(t, "after DEL")
		})
	}
}

// A server that does not answer holds the ADD until the runtime gives up: then it fails with code 11 and is undone.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]kubetest.Fault{
		"no answer to the first":        {Hang: true},
		"no answer to the definitions":  {Path: "attachment-definitions", Hang: true},
		"no answer to the patch":        {Method: "PATCH", Hang: true},
		"503 for ever":                  {Status: 503},
		"503 for ever to the patch":     {Method: "PATCH", Status: 503},
		"connections break for ever":    {Refuse: true},
		"patches are done and not told": {Method: "PATCH", Lose: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(t)
			p.api.Fail(fault)
			tries := 3
			if fault.Hang {
				tries = 1
			}
			p.interrupted(t, netconf.Add, "the program asks", func() bool {
				n := 0
				for _, r := range p.api.Requests() {
					if (fault.Method == "" || r.Method == fault.Method) && strings.Contains(r.Path, fault.Path) {
						n++
					}
				}
				return n >= tries
			}).Fails(t, netconf.CodeTryAgainLater)
			p.clean(t, "after ADD")
			p.api.Heal()
			p.run(t, netconf.Add).OK(t)
			p.run(t, netconf.Del).OK(t)
			p.clean(t, "after DEL")
		})
	}
}

// A server that is not there at all fails STATUS at once, and no DEL.
func TestGone(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.run(t, netconf.Add).OK(t)
	p.api.Close()
	status := p.call(netconf.Status)
	status.ContainerID, status.Netns, status.IfName, status.Args = "", "", "", ""
	status.Run(t.Context(), t, p).Fails(t, netconf.CodePluginNotAvailable, "API server")
	p.run(t, netconf.Del).OK(t)
	p.clean(t, "after DEL")
	p.run(t, netconf.Del).OK(t)
}

// Two containers of one pod name: each is of its own pod, and the API tells only of the second.
func TestAnotherPod(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.run(t, netconf.Add).OK(t)
	p.api.Apply(t, "kind: Pod\nmetadata: {name: web, uid: "+otherUID+"}")

	late := p.call(netconf.Add) // of the first pod, which is gone
	late.ContainerID = p.id + "-2"
	late.Run(t.Context(), t, p).Fails(t, netconf.CodeTryAgainLater, firstUID, otherUID)

	ns := skeltest.NewNS(t)
	second := p.call(netconf.Add)
	second.ContainerID, second.Netns, second.Args = p.id+"-3", ns.Path, strings.Replace(second.Args, firstUID, otherUID, 1)
	second.Run(t.Context(), t, p).OK(t)
	p.run(t, netconf.Del).OK(t) // of the first
	if out, err := ns.Try("ip", "link", "show", "eth0"); err != nil {
		t.Errorf("the second pod's link is gone: %v\n%s", err, out)
	}
	if got := len(p.ipam.Reserved()); got != 1 {
		t.Errorf("%d addresses", got)
	}
	second.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	p.clean(t, "after both")

	// Of a static pod the API has a mirror with another UID.
	p.api.Apply(t, "kind: Pod\nmetadata: {name: web, uid: "+otherUID+", annotations: {kubernetes.io/config.source: file}}")
	p.run(t, netconf.Add).OK(t)
	p.run(t, netconf.Del).OK(t)
	p.clean(t, "after the static one")
}

// Killed while it waits for the API server, it leaves what a DEL takes away.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "PATCH"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			p := newProgram(t)
			p.api.Fail(kubetest.Fault{Method: method, Hang: true})
			c := p.call(netconf.Add)
			cmd := exec.Command(string(p.Binary))
			cmd.Stdin = strings.NewReader(c.Config)
			cmd.Env = append(c.Env, "CNI_COMMAND=ADD", "CNI_CONTAINERID="+c.ContainerID, "CNI_NETNS="+c.Netns, "CNI_IFNAME="+c.IfName, "CNI_ARGS="+c.Args, "CNI_PATH="+c.Path)
			cmd.Stderr = os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			skeltest.Eventually(t, "the program asks", func() bool {
				requests := p.api.Requests()
				return len(requests) > 0 && (method == "GET" || p.links() == "lo eth0 net1 net2")
			})
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			p.run(t, netconf.Del).OK(t)
			p.clean(t, "after DEL")
		})
	}
}
