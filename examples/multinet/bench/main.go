// Command bench times multinet beside multus v4.3 as a runtime sees them: whole processes in turn, with the same API
// server, the same pod with two networks beside its default one, the same plugins below them, in one run.
//
//	./run.sh [-blocks 15] [-each 8]
//
// builds both, runs this in namespaces of its own and prints a table. It judges nothing: on a shared machine a single run
// says little, a ratio more.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
)

// latency is how long the API server takes in the rows that measure what that costs.
const latency = 20 * time.Millisecond

// side is one of what is compared: a meta plugin, or the plugins below it by themselves.
type side struct {
	name, program string
	keys          string // of its own in the configuration
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
	sides := []side{
		{"multus", multus, `"logLevel":"error","logToStderr":false`},
		{"multinet", multinet, `"inProcess":[]`},
		{"multinet, in-process", multinet, `"inProcess":["macvlan"]`},
		{"the plugins alone", "", ""},
	}
	figures := map[string]sample{}
	for range blocks {
		for _, late := range []time.Duration{0, latency} {
			api.Latency(late)
			for _, s := range sides {
				if err := b.block(s, late, each, figures); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
		}
	}
	return b.print(sides, figures)
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
		prev := ""
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
			key := fmt.Sprint(s.name, verb, late)
			figures[key] = append(figures[key], f)
		}
		if err := shell("ip netns del bench"); err != nil {
			return err
		}
	}
	return nil
}

// attach makes a call of a side: of a meta plugin, or of its three plugins one after the other.
func (b *bench) attach(s side, verb string, memory bool, prev *string) (f figure, err error) {
	if s.program != "" {
		config := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"meta","type":"meta","kubeconfig":%q,"cniDir":%q,"binDir":%q,%s,"delegates":[%s]`,
			b.file("kubeconfig"), b.file(s.name), b.plugins, s.keys, network("default"))
		if *prev != "" {
			config += `,"prevResult":` + *prev
		}
		f, out, err := b.call(memory, s.program, verb, "eth0", config+"}")
		if verb == "ADD" {
			*prev = out
		}
		return f, err
	}
	for i, name := range []string{"default", "a", "b"} {
		config := network(name)
		if verb == "CHECK" {
			return f, nil // each would need its own prevResult
		}
		one, _, err := b.call(memory, filepath.Join(b.plugins, "macvlan"), verb, []string{"eth0", "net1", "net2"}[i], config)
		if err != nil {
			return f, err
		}
		f.wall, f.cpu, f.memory = f.wall+one.wall, f.cpu+one.cpu, max(f.memory, one.memory)
		if verb == "VERSION" {
			break
		}
	}
	return f, nil
}

// print prints the table: a row for each verb and side, and what a millisecond of latency costs.
func (b *bench) print(sides []side, figures map[string]sample) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "verb\tof\tms\tp95\tcpu ms\tMiB\tover multus\tover its plugins, ms\trequests\tevents")
	for _, verb := range []string{"ADD", "CHECK", "DEL", "VERSION"} {
		base, alone := figures[fmt.Sprint(sides[0].name, verb, time.Duration(0))], figures[fmt.Sprint("the plugins alone", verb, time.Duration(0))]
		for _, s := range sides {
			all := figures[fmt.Sprint(s.name, verb, time.Duration(0))]
			if all.wall(50) == 0 {
				continue
			}
			fmt.Fprintf(out, "%s\t%s\t%s\t%.2f\t%.2f\t%d\t%d\n", verb, s.name, all, float64(all.wall(50))/float64(base.wall(50)), ms(all.wall(50)-alone.wall(50)),
				all[0].requests, all[0].events)
		}
	}
	fmt.Fprintln(out, "\nADD, for each ms of the API server's latency")
	for _, s := range sides[:3] {
		slow, fast := figures[fmt.Sprint(s.name, "ADD", latency)], figures[fmt.Sprint(s.name, "ADD", time.Duration(0))]
		fmt.Fprintf(out, "\t%s\t%.2f ms\n", s.name, float64(slow.wall(50)-fast.wall(50))/float64(latency))
	}
	for _, s := range sides[:2] {
		info, err := os.Stat(s.program)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\t%s\t%.1f MB, stripped\n", s.name, float64(info.Size())/1e6)
	}
	return out.Flush()
}
