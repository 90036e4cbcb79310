package apitest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
	"github.com/cnikit/cnikit/netconf"
)

// An ADD asks three times, one after the other: for the pod, for all of its definitions at once, and the patch; events go
// beside that. The other verbs work from the record.
func TestRequests(t *testing.T) {
	p := newProgram(t)                    // not beside the others: its GC would take theirs, which the list does not have
	p.api.Latency(300 * time.Millisecond) // long enough that what is sent at once is seen to be
	added := p.run(t, netconf.Add).OK(t)
	var asked []string
	at := map[string]kubetest.Request{}
	for _, r := range p.api.Requests() {
		if strings.HasSuffix(r.Path, "/events") {
			continue
		}
		asked = append(asked, r.String())
		at[r.String()] = r
	}
	const pod = "/api/v1/namespaces/default/pods/web"
	definition := func(name string) string {
		return "GET /apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions/" + name
	}
	want := []string{"GET " + pod, definition("lan"), definition("store"), "PATCH " + pod + "/status"}
	got := slices.Clone(asked)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("asked for\n%s", strings.Join(asked, "\n"))
	}
	if at[definition("lan")].AtOnce+at[definition("store")].AtOnce != 1 {
		t.Errorf("the definitions are not read at once: %+v", at)
	}
	if got := p.api.Connections(); got != 1 {
		t.Errorf("%d connections", got)
	}
	events := p.api.Events()
	slices.SortFunc(events, func(a, b kubetest.Event) int { return strings.Compare(a.Message, b.Message) })
	if len(events) != 3 || !strings.HasPrefix(events[0].Message, "Add eth0 ") || !strings.HasPrefix(events[2].Message, "Add net2 ") || events[0].UID != firstUID {
		t.Errorf("events: %+v", events)
	}

	var status []struct {
		Name, Interface string
		Default         bool
	}
	text := p.api.Annotations("default", "web")["k8s.v1.cni.cncf.io/network-status"]
	if err := json.Unmarshal([]byte(text), &status); err != nil || len(status) != 3 || status[1].Name != "default/lan" || status[2].Interface != "net2" {
		t.Errorf("status: %v\n%s", err, text)
	}

	p.api.Forget()
	p.call(netconf.Check).WithPrev(added).Run(t.Context(), t, p).OK(t)
	gc := p.call(netconf.GC)
	gc.ContainerID, gc.Netns, gc.IfName = "", "", ""
	gc.Config = strings.Replace(p.config, "{", `{"cni.dev/valid-attachments":[{"containerID":"`+p.id+`","ifname":"eth0"}],`, 1)
	gc.Run(t.Context(), t, p).OK(t)
	p.run(t, netconf.Del).OK(t)
	if got := p.api.Requests(); len(got) != 0 {
		t.Errorf("CHECK, GC and DEL ask the API server: %v", got)
	}
	p.clean(t, "after DEL")

	state := p.call(netconf.Status)
	state.ContainerID, state.Netns, state.IfName, state.Args = "", "", "", ""
	state.Run(t.Context(), t, p).OK(t)
	if got := fmt.Sprint(p.api.Requests()); got != "[GET /readyz]" {
		t.Errorf("STATUS: %v", got)
	}
}
