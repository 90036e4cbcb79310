package containerd

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/cnikit/cnikit/internal/e2e/image"
)

// Crictl runs crictl in the node and returns what it printed; the test fails if it fails.
func (r *Runtime) Crictl(args ...string) string {
	r.t.Helper()
	out, err := r.TryCrictl(args...)
	if err != nil {
		r.t.Fatalf("crictl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TryCrictl runs crictl in the node and returns what it printed, and its error, with what it printed on stderr.
func (r *Runtime) TryCrictl(args ...string) (string, error) {
	r.t.Helper()
	return r.Node.Try(r.crictl, append([]string{"--config", filepath.Join(r.Node.Dir, "crictl.yaml")}, args...)...)
}

// Network is the runtime's condition NetworkReady, and its message when it is not.
func (r *Runtime) Network() (ready bool, message string) {
	r.t.Helper()
	var info struct {
		Status struct {
			Conditions []struct {
				Type, Reason, Message string
				Status                bool
			}
		}
	}
	r.decode(r.Crictl("info"), &info)
	for _, c := range info.Status.Conditions {
		if c.Type == "NetworkReady" {
			return c.Status, strings.TrimSpace(c.Reason + " " + c.Message)
		}
	}
	r.t.Fatalf("crictl info has no condition NetworkReady: %+v", info)
	return false, ""
}

// WaitNetwork waits until NetworkReady is as wanted, and returns its message then. containerd 2.4 asks STATUS
// of the plugins each time that it is asked.
func (r *Runtime) WaitNetwork(ready bool) string {
	r.t.Helper()
	message := ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var is bool
		if is, message = r.Network(); is == ready {
			return message
		}
	}
	r.t.Fatalf("NetworkReady does not become %v: %s", ready, message)
	return ""
}

// PodSpec says what a pod is like. The zero value is a pod of the name "pod" and a number.
type PodSpec struct {
	Name        string // default: "pod" and a number. A pod's name is free again when it has been removed
	Namespace   string // default: "default"
	Annotations map[string]string
}

// Pod is a pod that was started: a sandbox with a network, and what runs in it.
type Pod struct {
	ID    string       // the sandbox's, and so CNI's container id
	Netns string       // the network namespace's path, in the node
	IPs   []netip.Addr // of the main interface, as the runtime reports them

	r      *Runtime
	config string
}

// RunPod starts a pod.
func (r *Runtime) RunPod(spec PodSpec) *Pod {
	r.t.Helper()
	p, err := r.TryRunPod(spec)
	if err != nil {
		r.t.Fatalf("run a pod: %v", err)
	}
	return p
}

// PodFile writes the file that crictl runp makes a pod of, and returns its path. The test that uses it looks
// after the pod itself.
func (r *Runtime) PodFile(spec PodSpec) string {
	r.t.Helper()
	r.number++
	if spec.Name == "" {
		spec.Name = fmt.Sprintf("pod%d", r.number)
	}
	if spec.Namespace == "" {
		spec.Namespace = "default"
	}
	return r.json(fmt.Sprintf("pod-%d.json", r.number), map[string]any{
		"metadata":      map[string]any{"name": spec.Name, "namespace": spec.Namespace, "uid": fmt.Sprintf("uid-%s-%d", r.Node.Name, r.number)},
		"annotations":   spec.Annotations,
		"log_directory": r.Node.Dir,
		"linux":         map[string]any{"cgroup_parent": "/pods"}, // below the node's
	})
}

// TryRunPod starts a pod, or returns the runtime's error.
func (r *Runtime) TryRunPod(spec PodSpec) (*Pod, error) {
	r.t.Helper()
	p := &Pod{r: r, config: r.PodFile(spec)}
	out, err := r.TryCrictl("runp", p.config)
	if err != nil {
		return nil, err
	}
	p.ID = strings.TrimSpace(out)
	p.inspect()
	return p, nil
}

// inspect asks the runtime for what only it knows of the pod.
func (p *Pod) inspect() {
	p.r.t.Helper()
	type ip struct{ IP netip.Addr }
	var pod struct {
		Status struct {
			Network struct {
				IP            netip.Addr
				AdditionalIPs []ip
			}
		}
		Info struct {
			RuntimeSpec struct {
				Linux struct{ Namespaces []struct{ Type, Path string } }
			}
		}
	}
	p.r.decode(p.r.Crictl("inspectp", "--output", "json", p.ID), &pod)
	if pod.Status.Network.IP.IsValid() { // a network of layer 2 has none
		p.IPs = append(p.IPs, pod.Status.Network.IP)
	}
	for _, more := range pod.Status.Network.AdditionalIPs {
		p.IPs = append(p.IPs, more.IP)
	}
	for _, n := range pod.Info.RuntimeSpec.Linux.Namespaces {
		if n.Type == "network" {
			p.Netns = n.Path
		}
	}
}

// Exec runs a program of the node in the pod's network namespace and returns what it printed.
func (p *Pod) Exec(name string, args ...string) string {
	p.r.t.Helper()
	return p.r.Node.Run("nsenter", append([]string{"--net=" + p.Netns, name}, args...)...)
}

// Stop stops the pod: containers end, the network is taken away.
func (p *Pod) Stop() { p.r.t.Helper(); p.r.Crictl("stopp", p.ID) }

// Remove stops the pod if it runs, and removes it.
func (p *Pod) Remove() { p.r.t.Helper(); p.r.Crictl("rmp", "--force", p.ID) }

// Container is a container of a pod, of the image of package image.
type Container struct {
	ID string

	r *Runtime
}

// Run starts a container in the pod; the arguments are those of the image's program.
func (p *Pod) Run(args ...string) *Container {
	p.r.t.Helper()
	p.r.number++
	name := fmt.Sprintf("container-%d", p.r.number)
	config := p.r.json(name+".json", map[string]any{
		"metadata": map[string]any{"name": name},
		"image":    map[string]any{"image": image.Name},
		"args":     args,
		"log_path": name + ".log",
		"linux":    map[string]any{},
	})
	c := &Container{ID: strings.TrimSpace(p.r.Crictl("create", p.ID, config, p.config)), r: p.r}
	p.r.Crictl("start", c.ID)
	return c
}

// Exec runs the image's program once more in the container, with other arguments, and returns what it printed.
func (c *Container) Exec(args ...string) string {
	c.r.t.Helper()
	return c.r.Crictl(append([]string{"exec", "--sync", c.ID, image.Entrypoint}, args...)...)
}

// json writes a file for crictl and returns its path.
func (r *Runtime) json(name string, content map[string]any) string {
	r.t.Helper()
	data, err := json.Marshal(content)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.write(name, string(data))
}

func (r *Runtime) decode(data string, into any) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(data), into); err != nil {
		r.t.Fatalf("what crictl printed: %v\n%s", err, data)
	}
}
