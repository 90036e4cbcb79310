package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A pod with three networks, one of them with a device and the default route.
const explainPodYAML = `
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: ns1
  annotations:
    k8s.v1.cni.cncf.io/networks: |
      [{"name": "storage", "ips": ["10.2.0.9/24"], "mac": "02:00:00:00:00:09"},
       {"name": "fast", "namespace": "nics", "interface": "fast0", "default-route": ["10.3.0.1"]},
       {"name": "fast", "namespace": "nics", "cni-args": {"vrf": "red", "n": 9007199254740993}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
`

const explainNADs = `
kind: List
items:
- kind: NetworkAttachmentDefinition
  metadata: {name: storage, namespace: ns1}
  spec:
    config: '{"cniVersion":"1.0.0","plugins":[{"type":"macvlan","master":"eth1","capabilities":{"ips":true},"ipam":{"type":"static"}},{"type":"tuning","capabilities":{"mac":true}}]}'
- kind: NetworkAttachmentDefinition
  metadata:
    name: fast
    namespace: nics
    annotations: {k8s.v1.cni.cncf.io/resourceName: vendor.example/vf}
  spec:
    config: '{"cniVersion":"1.0.0","type":"sriov","ipam":{"type":"host-local"}}'
`

const explainTable = `pod ns1/web
INTERFACE  NETWORK      PLUGINS                           ASKS FOR                                      DEVICE                DEFAULT ROUTE
eth0       default      (see -config)                     -                                             -                     -
net1       ns1/storage  macvlan on eth1 (static), tuning  ips=10.2.0.9/24 mac=02:00:00:00:00:09         -                     -
fast0      nics/fast    sriov (host-local)                -                                             vendor.example/vf #1  10.3.0.1
net3       nics/fast    sriov (host-local)                cni-args.n=9007199254740993 cni-args.vrf=red  vendor.example/vf #2  -
`

const explainGraph = `graph LR
    pod(["ns1/web"])
    pod -- "eth0" --> n0["default<br/>(see -config)"]
    pod -- "net1<br/>ips=10.2.0.9/24<br/>mac=02:00:00:00:00:09" --> n1["ns1/storage<br/>macvlan + tuning"]
    h0[("eth1<br/>on the host")]
    n1 --> h0
    pod -- "fast0<br/>default route: 10.3.0.1" --> n2["nics/fast<br/>sriov"]
    n2 --> d2{{"vendor.example/vf #35;1"}}
    pod -- "net3<br/>cni-args.n=9007199254740993<br/>cni-args.vrf=red" --> n3["nics/fast<br/>sriov"]
    n3 --> d3{{"vendor.example/vf #35;2"}}
`

func TestExplain(t *testing.T) {
	t.Parallel()
	const isolated = `{"cniVersion":"1.1.0","name":"m","type":"multinet","namespaceIsolation":true,"delegates":[{"name":"pods","type":"bridge","bridge":"br0"}]}`
	for name, c := range map[string]struct {
		args           []string // files are the names below
		status         int
		stdout, stderr string // stderr: a part
	}{
		"both":               {[]string{"pod.yaml", "nads.yaml"}, 0, explainTable + "\n" + explainGraph, "a Service is passed over"},
		"table":              {[]string{"-only", "table", "pod.yaml", "nads.yaml"}, 0, explainTable, ""},
		"mermaid":            {[]string{"-only", "mermaid", "nads.yaml", "pod.yaml"}, 0, explainGraph, ""},
		"the node's network": {[]string{"-config", "node.conf", "-only", "table", "plain.yaml"}, 0, "pod default/plain\nINTERFACE  NETWORK  PLUGINS        ASKS FOR  DEVICE  DEFAULT ROUTE\neth0       pods     bridge on br0  -         -       -\n", ""},
		"its fences":         {[]string{"-config", "node.conf", "pod.yaml", "nads.yaml"}, 1, "", "nics"},
		"no definition":      {[]string{"pod.yaml"}, 1, "", "no manifest has the definition ns1/storage"},
		"no capability":      {[]string{"pod.yaml", "nocaps.yaml"}, 1, "", `asks for "ips"`},
		"no pod":             {[]string{"nads.yaml"}, 1, "", "no manifest has a Pod"},
		"no file":            {[]string{"other.yaml"}, 1, "", "other.yaml"},
		"no YAML":            {[]string{"bad.yaml"}, 1, "", "manifest 1, document 2"},
		"nothing":            {nil, 2, "", "usage:"},
		"another form":       {[]string{"-only", "svg", "pod.yaml"}, 2, "", "usage:"},
		"help":               {[]string{"-h"}, 0, "", "usage:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range map[string]string{
				"pod.yaml": explainPodYAML, "nads.yaml": explainNADs, "bad.yaml": "a: b\n---\na: b: c\n", "node.conf": isolated,
				"nocaps.yaml": strings.ReplaceAll(explainNADs, `"ips":true`, `"ips":false`), "plain.yaml": "kind: Pod\nmetadata: {name: plain}\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var args []string
			for _, arg := range c.args {
				if strings.Contains(arg, ".") {
					arg = filepath.Join(dir, arg)
				}
				args = append(args, arg)
			}
			var stdout, stderr bytes.Buffer
			status := explainMain(args, &stdout, &stderr)
			if status != c.status || stdout.String() != c.stdout || !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("status %d, expected %d\nstdout:\n%s\nexpected:\n%s\nstderr:\n%s\nexpected in it: %s", status, c.status, &stdout, c.stdout, &stderr, c.stderr)
			}
		})
	}
}

// TestExplainCannotWrite: a pipe that was closed is no success.
func TestExplainCannotWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(path, []byte("kind: Pod\nmetadata: {name: plain}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	for _, only := range []string{"table", "mermaid"} {
		if status := explainMain([]string{"-only", only, path}, closedPipe{}, &stderr); status != 1 {
			t.Errorf("%s: status %d", only, status)
		}
	}
}

type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestReadmeExplain: what README.md shows is what the command shows of the demo's pod.
func TestReadmeExplain(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{"-config", filepath.Join(dir, "multinet.conf")}
	for name, text := range map[string]string{
		"multinet.conf": `{"cniVersion":"1.1.0","name":"multinet","type":"multinet","delegates":[{"name":"pods","plugins":[{"type":"bridge","bridge":"pods0","ipam":{"type":"host-local"}}]}]}`,
		"pod.yaml": `{"kind":"Pod","metadata":{"name":"red","namespace":"demo","annotations":{"k8s.v1.cni.cncf.io/networks":
			"[{\"name\":\"storage\",\"ips\":[\"10.2.0.10/24\"],\"mac\":\"02:00:00:00:00:10\"},{\"name\":\"lan\",\"interface\":\"lan\",\"default-route\":[\"10.3.0.1\"]}]"}}}`,
		"storage.yaml": `{"kind":"NetworkAttachmentDefinition","metadata":{"name":"storage","namespace":"demo"},"spec":{"config":
			"{\"type\":\"macvlan\",\"master\":\"uplink\",\"capabilities\":{\"ips\":true,\"mac\":true},\"ipam\":{\"type\":\"static\"}}"}}`,
		"lan.yaml": `{"kind":"NetworkAttachmentDefinition","metadata":{"name":"lan","namespace":"demo"},"spec":{"config":
			"{\"type\":\"bridge\",\"bridge\":\"lan0\",\"ipam\":{\"type\":\"host-local\"}}"}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".yaml") {
			args = append(args, filepath.Join(dir, name))
		}
	}
	for only, fence := range map[string]string{"table": "```console\n$ multinet explain -config multinet.conf pod.yaml definitions.yaml\n", "mermaid": "```mermaid\n"} {
		var stdout, stderr bytes.Buffer
		if status := explainMain(append([]string{"-only", only}, args...), &stdout, &stderr); status != 0 {
			t.Fatalf("status %d: %s", status, &stderr)
		}
		if !strings.Contains(string(readme), fence+stdout.String()+"```") {
			t.Errorf("README.md does not show\n%s", &stdout)
		}
	}
}
