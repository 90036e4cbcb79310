// Command bench times multinet beside multus v4.3 as a runtime sees them: whole processes in turn, with the same API
// server, the same pod with two networks beside its default one, the same plugins below them, in one run.
//
//	./run.sh [-blocks 15] [-each 8]
//
// builds both, runs this in namespaces of its own and prints a table. It judges nothing: on a shared machine a single run
// says little, a ratio more.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
)

// latency is how long the API server takes in the rows that measure what that costs.
const latency = 20 * time.Millisecond

// side is one of what is compared: a meta plugin, or the plugins below it by themselves.
type side struct {
	name, program string
	keys          string // of its own in the configuration
	alone         bool   // without an API server: the configuration has all three networks
}

// sides are what is compared; those that others are compared with come first of their kind.
func sides(multus, multinet string) []side {
	theirs := `"logLevel":"error","logToStderr":false`
	return []side{
		{"multus", multus, theirs, false}, {"multinet", multinet, `"inProcess":[]`, false}, {"multinet, in-process", multinet, `"inProcess":["macvlan"]`, false},
		{"multus, no API", multus, theirs, true}, {"multinet, no API", multinet, `"inProcess":[]`, true},
		{"multinet, no API, in-process", multinet, `"inProcess":["macvlan"]`, true},
		{"the plugins alone", "", "", true},
	}
}

// bench is the host of a run.
type bench struct {
	api     *kubetest.Server
	plugins string // CNI_PATH
	dir     string // for what programs write
}

func main() {
	multus := flag.String("multus", "", "the program multus")
	multinet := flag.String("multinet", "", "the program multinet")
	plugins := flag.String("plugins", "", "folder of the plugins that they call")
	blocks := flag.Int("blocks", 15, "how often the sides take turns")
	each := flag.Int("each", 8, "attachments of a side in a block")
	flag.Parse()
	if err := run(*multus, *multinet, *plugins, *blocks, *each); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(multus, multinet, plugins string, blocks, each int) error {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	api, err := kubetest.Start(kubetest.Options{TLS: true, Lenient: true}) // multus replaces the whole status of a pod
	if err != nil {
		return err
	}
	defer api.Close()
	b := &bench{api: api, plugins: plugins, dir: dir}
	if err := b.prepare(); err != nil {
		return err
	}
	all, figures := sides(multus, multinet), map[string]sample{}
	for range blocks {
		for _, late := range []time.Duration{0, latency} {
			api.Latency(late)
			if err := b.request(late, each, figures); err != nil {
				return err
			}
			for _, s := range all {
				if late > 0 && s.alone {
					continue
				}
				if err := b.block(s, late, each, figures); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
		}
	}
	if err := table(all, figures); err != nil {
		return err
	}
	return targets(all, figures)
}

// prepare makes the parent link, the pod and its networks.
func (b *bench) prepare() error {
	links, err := exec.Command("ip", "-br", "link").Output()
	if err != nil {
		return err
	}
	if strings.Count(string(links), "\n") != 1 {
		return fmt.Errorf("this is to run in a network namespace of its own, with nothing but lo: see run.sh")
	}
	for _, command := range []string{
		"ip link set lo up", "ip link add up0 type veth peer name wire", "ip link set up0 up", "ip link set wire up",
	} {
		if err := shell(command); err != nil {
			return err
		}
	}
	manifest := "kind: Pod\nmetadata: {name: pod, uid: uid-1, annotations: {k8s.v1.cni.cncf.io/networks: 'a,b'}}\n" +
		"spec: {containers: []}\nstatus: {}\napiVersion: v1\n"
	for _, name := range []string{"a", "b"} {
		manifest += fmt.Sprintf("---\nkind: NetworkAttachmentDefinition\napiVersion: k8s.cni.cncf.io/v1\nmetadata: {name: %s}\nspec: {config: '%s'}\n", name, network(name))
	}
	if err := b.api.ApplyManifest(manifest); err != nil {
		return err
	}
	return b.api.WriteKubeconfig(b.file("kubeconfig"))
}

func (b *bench) file(name string) string { return filepath.Join(b.dir, name) }

// network is a network of the plugin macvlan, without addresses: what costs least is where the rest is seen best.
func network(name string) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","name":"net-%s","type":"macvlan","master":"up0"}`, name)
}

func shell(command string) error {
	words := strings.Fields(command)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return nil
}

// request times what one request costs whoever is connected already: what the server's sleep is in truth.
func (b *bench) request(late time.Duration, n int, figures map[string]sample) error {
	client, err := kube.Load(b.file("kubeconfig"), nil)
	if err != nil {
		return err
	}
	for i := range n + 1 {
		begin := time.Now()
		if _, err := client.Pod(context.Background(), "default", "pod"); err != nil {
			return err
		}
		if i > 0 { // the first one connects
			key := fmt.Sprint("request", late)
			figures[key] = append(figures[key], figure{wall: time.Since(begin)})
		}
	}
	return nil
}

// block makes attachments of a side, one after the other, each in a namespace of its own.
func (b *bench) block(s side, late time.Duration, n int, figures map[string]sample) error {
	verbs := []string{"ADD", "CHECK", "DEL", "VERSION"}
	if late > 0 {
		verbs = []string{"ADD", "DEL"}
	}
	for i := range n + 1 {
		if err := shell("ip netns add bench"); err != nil {
			return err
		}
		var prev []string
		for _, verb := range verbs {
			// The first of a block is not timed: its memory is measured, and it warms the caches up.
			b.api.Forget()
			f, err := b.attach(s, verb, i == 0, &prev)
			if err != nil {
				return fmt.Errorf("%s: %w", verb, err)
			}
			for _, r := range b.api.Requests() {
				if strings.Contains(r.Path, "/events") { // multus puts a query behind it
					f.events++
				} else {
					f.requests++
				}
			}
			key := key(s, verb, late)
			figures[key] = append(figures[key], f)
		}
		if err := shell("ip netns del bench"); err != nil {
			return err
		}
	}
	return nil
}

// attach makes a call of a side: of a meta plugin, or of its three plugins one after the other.
func (b *bench) attach(s side, verb string, memory bool, prev *[]string) (f figure, err error) {
	calls := []call{{program: s.program, ifname: "eth0", config: b.config(s)}}
	if s.program == "" {
		calls = nil
		for i, name := range []string{"default", "a", "b"} {
			calls = append(calls, call{filepath.Join(b.plugins, "macvlan"), []string{"eth0", "net1", "net2"}[i], network(name)})
		}
	}
	if verb == "VERSION" {
		calls = calls[:1]
	}
	if verb == "ADD" {
		*prev = nil
	}
	for i, c := range calls {
		if i < len(*prev) {
			c.config = c.config[:len(c.config)-1] + `,"prevResult":` + (*prev)[i] + "}"
		}
		one, out, err := b.call(memory, c, verb)
		if err != nil {
			return f, err
		}
		if verb == "ADD" {
			*prev = append(*prev, out)
		}
		f.wall, f.cpu, f.memory = f.wall+one.wall, f.cpu+one.cpu, max(f.memory, one.memory)
	}
	return f, nil
}

// config is the configuration of a side that is a meta plugin.
func (b *bench) config(s side) string {
	delegates, kubeconfig := network("default"), b.file("kubeconfig")
	if s.alone {
		delegates, kubeconfig = delegates+","+network("a")+","+network("b"), ""
	}
	return fmt.Sprintf(`{"cniVersion":"1.0.0","name":"meta","type":"meta","kubeconfig":%q,"cniDir":%q,"binDir":%q,%s,"delegates":[%s]}`,
		kubeconfig, b.file(s.name), b.plugins, s.keys, delegates)
}
