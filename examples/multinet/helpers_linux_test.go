package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// module is this module. The program that go build makes has its last name: another one in a copy.
const module = "github.com/cnikit/cnikit/examples/multinet"

// built builds plugins, and this program, whose path is the second.
func built(t *testing.T, plugins ...string) (dir, program string) {
	t.Helper()
	for i, name := range plugins {
		plugins[i] = "github.com/cnikit/cnikit/examples/plugins/" + name
	}
	dir = skeltest.Build(t, append(plugins, ".")...)
	return dir, filepath.Join(dir, path.Base(module))
}

// spy is a plugin that makes nothing: it notes what it is called with in $DIR, answers $DIR/answer.IFNAME or an interface,
// and fails or hangs where $DIR/fail.VERB.IFNAME or $DIR/hang.VERB.IFNAME is.
const spy = `#!/bin/sh
cd %q || exit 1
mine=$CNI_COMMAND.$CNI_IFNAME
cat > "in.$mine"
env > "env.$mine"
echo "$CNI_COMMAND $CNI_IFNAME" >> log
[ -e "hang.$mine" ] && exec sleep 1000
[ -e "fail.$mine" ] && { echo '{"cniVersion":"1.0.0","code":42,"msg":"told to fail"}'; exit 1; }
[ "$CNI_COMMAND" = VERSION ] && { echo '{"cniVersion":"1.1.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}'; exit 0; }
[ "$CNI_COMMAND" = ADD ] || exit 0
[ -e "answer.$CNI_IFNAME" ] && exec cat "answer.$CNI_IFNAME"
printf '{"cniVersion":"1.0.0","interfaces":[{"name":"%%s","sandbox":"%%s"}]}' "$CNI_IFNAME" "$CNI_NETNS"
`

// world is a node with an API server, and one container on it.
type world struct {
	t    *testing.T
	dir  string
	bin  string // CNI_PATH, with the spy in it
	api  *kubetest.Server
	conf map[string]any // the configuration
	ns   *skeltest.NS
	run  skeltest.Plugin
}

// newWorld makes one; the default network is the spy.
func newWorld(t *testing.T) *world {
	t.Helper()
	skeltest.NeedRoot(t)
	t.Parallel()
	return newQuietWorld(t)
}

// newQuietWorld is newWorld for a test that makes several, or is parallel already.
func newQuietWorld(t *testing.T) *world {
	t.Helper()
	skeltest.NeedRoot(t)
	w := &world{t: t, dir: t.TempDir(), api: kubetest.New(t, kubetest.Options{}), ns: skeltest.NewNS(t)}
	w.bin = filepath.Join(w.dir, "bin")
	if err := os.Mkdir(w.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	w.write("bin/spy", fmt.Sprintf(spy, w.dir))
	w.api.Kubeconfig(t, w.path("kubeconfig"))
	w.conf = map[string]any{
		"cniVersion": "1.1.0", "name": "outer", "type": "multinet", "kubeconfig": w.path("kubeconfig"), "cniDir": w.path("cni"), "confDir": w.path("net.d"), "binDir": w.bin,
		"delegates": []any{json.RawMessage(`{"cniVersion":"1.1.0","name":"defnet","type":"spy","capabilities":{"portMappings":true}}`)},
	}
	p := plugin()
	p.RunDir = w.path("run")
	w.run = p
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	// A program that is open for writing in a process that is just being started cannot be run: it is moved into place.
	if err := os.WriteFile(w.path(name)+".new", []byte(text), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(w.path(name)+".new", w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.path(name))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return string(text)
}

func (w *world) remove(name string) {
	w.t.Helper()
	if err := os.RemoveAll(w.path(name)); err != nil {
		w.t.Fatal(err)
	}
}

// log is what the spy was called with since the last time.
func (w *world) log() string {
	text := strings.ReplaceAll(strings.TrimSpace(w.read("log")), "\n", ", ")
	w.remove("log")
	return text
}

// in is the configuration of the spy's last call, by key.
func (w *world) in(call string) map[string]json.RawMessage {
	w.t.Helper()
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(w.read("in."+call)), &keys); err != nil {
		w.t.Fatalf("%s: %v: %q", call, err, w.read("in."+call))
	}
	return keys
}

// asked is a key of the runtimeConfig of the spy's last call; empty: none.
func (w *world) asked(call, key string) string {
	w.t.Helper()
	var keys map[string]json.RawMessage
	if text := w.in(call)["runtimeConfig"]; text != nil {
		if err := json.Unmarshal(text, &keys); err != nil {
			w.t.Fatal(err)
		}
	}
	return string(keys[key])
}

// pod makes the pod ns1/p with an annotation for its networks; more are further keys and values.
func (w *world) pod(networks string, more ...string) {
	w.t.Helper()
	annotations := map[string]string{}
	if networks != "" {
		annotations["k8s.v1.cni.cncf.io/networks"] = networks
	}
	for i := 0; i < len(more); i += 2 {
		annotations[more[i]] = more[i+1]
	}
	w.apply("Pod", "v1", "ns1", "p", "uid-1", annotations, map[string]any{"spec": map[string]any{"containers": []any{}}})
}

// nad makes a definition. An empty config leaves the spec empty.
func (w *world) nad(namespace, name, config string) {
	w.t.Helper()
	spec := map[string]any{}
	if config != "" {
		spec["config"] = config
	}
	w.apply("NetworkAttachmentDefinition", "k8s.cni.cncf.io/v1", namespace, name, "", nil, map[string]any{"spec": spec})
}

// spies makes definitions that the spy serves, "ns/name" each.
func (w *world) spies(names ...string) {
	w.t.Helper()
	for _, name := range names {
		ns, name, _ := strings.Cut(name, "/")
		w.nad(ns, name, `{"type":"spy","capabilities":{"ips":true,"mac":true,"portMappings":true}}`)
	}
}

func (w *world) apply(kind, version, namespace, name, uid string, annotations map[string]string, more map[string]any) {
	w.t.Helper()
	metadata := map[string]any{"namespace": namespace, "name": name, "annotations": annotations}
	if uid != "" {
		metadata["uid"] = uid
	}
	more["kind"], more["apiVersion"], more["metadata"] = kind, version, metadata
	text, err := json.Marshal(more)
	if err != nil {
		w.t.Fatal(err)
	}
	w.api.Apply(w.t, string(text))
}

// call is a call of the container c1.
func (w *world) call(verb netconf.Command) skeltest.Call {
	w.t.Helper()
	text, err := json.Marshal(w.conf)
	if err != nil {
		w.t.Fatal(err)
	}
	c := skeltest.Call{Command: verb, Config: string(text), Path: w.bin, Env: []string{"PATH=" + os.Getenv("PATH")}}
	if verb != netconf.GC && verb != netconf.Status {
		c.ContainerID, c.Netns, c.IfName = "c1", w.ns.Path, "eth0"
		c.Args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns1;K8S_POD_NAME=p;K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=uid-1"
	}
	return c
}

func (w *world) do(verb netconf.Command) skeltest.Answer {
	w.t.Helper()
	return w.call(verb).Run(w.t.Context(), w.t, w.run)
}

func (w *world) add() skeltest.Answer { w.t.Helper(); return w.do(netconf.Add).OK(w.t) }
func (w *world) del() skeltest.Answer { w.t.Helper(); return w.do(netconf.Del).OK(w.t) }

// entries is the pod's status, "name=interface" each, with a star at the default one.
func (w *world) entries() string {
	w.t.Helper()
	text := w.api.Annotations("ns1", "p")["k8s.v1.cni.cncf.io/network-status"]
	if text == "" {
		return ""
	}
	var list []struct {
		Name, Interface string
		Default         bool
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		w.t.Fatalf("%v: %s", err, text)
	}
	var all []string
	for _, e := range list {
		s := e.Name + "=" + e.Interface
		if e.Default {
			s += "*"
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

// clean fails the test if anything is remembered.
func (w *world) clean() {
	w.t.Helper()
	for _, dir := range []string{"cni", "run"} {
		err := filepath.WalkDir(w.path(dir), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".lock") && filepath.Base(path) != "lock" {
				w.t.Errorf("%s is left", path)
			}
			return nil
		})
		if err != nil {
			w.t.Error(err)
		}
	}
}

// names are the files in a folder.
func (w *world) names(dir string) []string {
	w.t.Helper()
	entries, err := os.ReadDir(w.path(dir))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	all := []string{}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	slices.Sort(all)
	return all
}
