package apitest

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// program is multinet with a default network and an API server that knows the pod default/web, which asks for two more.
type program struct {
	skeltest.Binary
	api    *kubetest.Server
	ipam   *skeltest.IPAM
	ns     *skeltest.NS
	id     string // of the container: the tests run side by side on one host
	config string
	path   string // CNI_PATH
	dir    string // of the program's own state
}

const (
	firstUID = "11111111-1111-1111-1111-111111111111"
	otherUID = "22222222-2222-2222-2222-222222222222"
)

// module is the module of the program, which has its last name: another one in a copy.
const module = "github.com/cnikit/cnikit/examples/multinet"

var (
	building sync.Once
	folder   string
)

// built is the folder of the programs. To see that nothing has changed takes the go command longer than a test.
func built(t *testing.T) string {
	t.Helper()
	building.Do(func() {
		folder = skeltest.Build(t, module, "github.com/cnikit/cnikit/examples/plugins/bridge")
	})
	return folder
}

func newProgram(t *testing.T) *program {
	t.Helper()
	skeltest.NeedRoot(t)
	bin := built(t)
	p := &program{
		Binary: skeltest.Binary(filepath.Join(bin, path.Base(module))), api: kubetest.New(t, kubetest.Options{TLS: true}),
		ipam: skeltest.NewIPAM(t), ns: skeltest.NewNS(t), dir: t.TempDir(),
	}
	p.id = p.ns.Name
	p.path = bin + ":" + p.ipam.Path
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	p.api.Kubeconfig(t, kubeconfig)
	bridge := func(name, more string) string { // one for all tests, which run side by side
		return fmt.Sprintf(`{"cniVersion":"1.1.0","name":"%s","type":"bridge","bridge":"br-%s"%s}`, name, name, more)
	}
	p.api.Apply(t, fmt.Sprintf(`
kind: Pod
metadata: {name: web, uid: %s, annotations: {k8s.v1.cni.cncf.io/networks: "lan,store"}}
---
kind: NetworkAttachmentDefinition
metadata: {name: lan}
spec: {config: %q}
---
kind: NetworkAttachmentDefinition
metadata: {name: store}
spec: {config: %q}
`, firstUID, bridge("lan", ""), bridge("store", "")))
	p.config = fmt.Sprintf(`{"cniVersion":"1.1.0","name":"multinet","type":"multinet","kubeconfig":%q,"cniDir":%q,"binDir":%q,"delegates":[%s]}`,
		kubeconfig, p.dir, bin, bridge("default", `,"ipam":{"type":"test-ipam"}`))
	return p
}

// call is a call for the pod's container.
func (p *program) call(command netconf.Command) skeltest.Call {
	return skeltest.Call{
		Command: command, ContainerID: p.id, Netns: p.ns.Path, IfName: "eth0", Path: p.path, Config: p.config,
		Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=" + p.id + ";K8S_POD_UID=" + firstUID,
		Env:  []string{"PATH=" + os.Getenv("PATH")},
	}
}

func (p *program) run(t *testing.T, command netconf.Command) skeltest.Answer {
	t.Helper()
	return p.call(command).Run(t.Context(), t, p)
}

// clean fails the test if anything is left of the pod.
func (p *program) clean(t *testing.T, when string) {
	t.Helper()
	if links := p.links(); links != "lo" {
		t.Errorf("%s: links %s", when, links)
	}
	if got := p.ipam.Reserved(); len(got) != 0 {
		t.Errorf("%s: addresses %v", when, got)
	}
	files, err := filepath.Glob(p.dir + "/*")
	if err != nil || len(files) != 0 {
		t.Errorf("%s: records %v, %v", when, files, err)
	}
}

// links names the links of the namespace.
func (p *program) links() string {
	var names []string
	for line := range strings.Lines(p.ns.Run("ip", "-br", "link")) {
		name, _, _ := strings.Cut(strings.Fields(line)[0], "@")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// interrupted makes a call and ends it, as a runtime does that gives up, when holds says so.
func (p *program) interrupted(t *testing.T, command netconf.Command, what string, holds func() bool) skeltest.Answer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answer := make(chan skeltest.Answer, 1)
	go func() { answer <- p.call(command).Run(ctx, t, p) }()
	skeltest.Eventually(t, what, holds)
	cancel()
	return <-answer
}
