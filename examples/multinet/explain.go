package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/examples/multinet/device"
	"github.com/cnikit/cnikit/examples/multinet/explain"
	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/netconf"
)

const explainUsage = `usage: multinet explain [-config FILE] [-only table|mermaid] POD.yaml NAD.yaml...

Shows what the pods of the manifests would be attached to, and why they would not be, without a cluster. It is found
out by the same code as an ADD; only devices are given by number, for no node has given any. A manifest without a
namespace belongs to "default".

`

// noConfig stands in for the node's configuration: all that it says is that there is a default network.
const noConfig = `{"cniVersion":"1.1.0","name":"multinet","type":"multinet","delegates":[{"name":"default","type":"(see -config)"}]}`

// explainMain is `multinet explain`: it returns the exit status.
func explainMain(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("explain", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, explainUsage)
		flags.PrintDefaults()
	}
	configFile := flags.String("config", "", "the `FILE` of the plugin's configuration on the node; default: one of which nothing is known")
	only := flags.String("only", "", "the `FORM` to show: table or mermaid; default: both")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() == 0 || *only != "" && *only != "table" && *only != "mermaid" {
		flags.Usage()
		return 2
	}
	if err := explainFiles(stdout, stderr, *configFile, *only, flags.Args()); err != nil {
		for _, one := range netconf.Split(err) {
			fmt.Fprintln(stderr, "multinet explain:", one)
		}
		return 1
	}
	return 0
}

func explainFiles(stdout, stderr io.Writer, configFile, only string, files []string) error {
	config := []byte(noConfig)
	var texts [][]byte
	var errs []error
	for _, file := range files {
		text, err := os.ReadFile(file)
		texts, errs = append(texts, text), append(errs, err)
	}
	if configFile != "" {
		var err error
		config, err = os.ReadFile(configFile)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	manifests, err := explain.Read(texts...)
	if err != nil {
		return err
	}
	for _, kind := range manifests.Others {
		fmt.Fprintf(stderr, "a %s is passed over\n", kind)
	}
	if len(manifests.Pods) == 0 {
		return errors.New("no manifest has a Pod")
	}
	for i, pod := range manifests.Pods {
		if i > 0 {
			fmt.Fprintln(stdout)
		}
		if err := explainPod(stdout, stderr, config, only, manifests, pod); err != nil {
			for _, one := range netconf.Split(err) {
				errs = append(errs, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, one))
			}
		}
	}
	return errors.Join(errs...)
}

// explainPod does what an ADD of the pod does before it changes anything, and shows the outcome.
func explainPod(stdout, stderr io.Writer, config []byte, only string, from definitions, pod *kube.Pod) error {
	req, err := netconf.Parse(func(key string) string {
		return map[string]string{
			"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "explain", "CNI_NETNS": "/proc/self/ns/net", "CNI_IFNAME": "eth0",
			"CNI_ARGS": "K8S_POD_NAMESPACE=" + pod.Namespace + ";K8S_POD_NAME=" + pod.Name,
		}[key]
	}, strings.NewReader(string(config)))
	if err != nil {
		return err
	}
	req.Warn = func(msg string, args ...any) { fmt.Fprintln(stderr, append([]any{"warning:", msg}, args...)...) }
	c, err := netconf.Decode(req, defaults)
	if err == nil {
		err = validate(req, c)
	}
	if err != nil {
		return fmt.Errorf("the node's configuration: %w", err)
	}
	ctx := context.Background()
	a := &adding{multinet: multinet{config: c, Devices: numbered}, req: req, pod: pod}
	if a.networks, err = c.networks(ctx, req, pod, from); err == nil {
		err = a.attach(ctx)
	}
	if err != nil {
		return err
	}
	return a.show(stdout, only)
}

// numbered gives devices by their number, as many as are wanted.
func numbered(_ context.Context, _ device.API, _ *kube.Pod, wants []device.Want) ([]string, error) {
	has, count := device.Allocated{}, map[string]int{}
	for _, w := range wants {
		count[w.Resource]++
		has[w.Resource] = append(has[w.Resource], fmt.Sprintf("%s #%d", w.Resource, count[w.Resource]))
		if w.ID != "" {
			has[w.Resource] = append(has[w.Resource], w.ID)
		}
	}
	return has.Assign(wants)
}

func (a *adding) show(w io.Writer, only string) error {
	lines := make([]explain.Line, len(a.networks))
	for i, n := range a.networks {
		lines[i] = explain.Line{Interface: a.attachments[i].IfName, Network: n.Name, Plugins: n.Network.Plugins, Device: a.device(i)}
		for _, key := range slices.Sorted(maps.Keys(n.Asked.Requests)) {
			lines[i].Asks = append(lines[i].Asks, key+"="+plain(n.Asked.Requests[key]))
		}
		for _, key := range slices.Sorted(maps.Keys(n.Asked.Args)) {
			lines[i].Asks = append(lines[i].Asks, "cni-args."+key+"="+plain(n.Asked.Args[key]))
		}
		switch gateways := n.Asked.Gateways; {
		case len(gateways) > 0:
			lines[i].Route = strings.Trim(fmt.Sprint(gateways), "[]")
		case gateways != nil:
			lines[i].Route = "its own"
		}
	}
	name := a.pod.Namespace + "/" + a.pod.Name
	if only != "mermaid" {
		fmt.Fprintf(w, "pod %s\n", name)
		if err := explain.Table(w, lines); err != nil {
			return err
		}
	}
	if only == "" {
		fmt.Fprintln(w)
	}
	if only != "table" {
		return explain.Graph(w, name, lines)
	}
	return nil
}

// plain is a value without the signs of JSON that a reader does not need.
func plain(value json.RawMessage) string {
	var text string
	var list []string
	switch {
	case json.Unmarshal(value, &text) == nil:
		return text
	case json.Unmarshal(value, &list) == nil:
		return strings.Join(list, ",")
	}
	return string(value)
}
