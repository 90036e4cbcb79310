package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/image"
)

// PodSpec says what a pod with one container of package image is like. The zero value is a pod that waits.
type PodSpec struct {
	Name        string // default: "pod" and a number
	Namespace   string // default: "default"
	Annotations map[string]string
	Args        []string // of the image's program
	// Spec changes keys of the pod's spec, as a manifest has them. It may be nil.
	Spec Object
}

// Pod is a pod that runs, or did.
type Pod struct {
	Namespace, Name string
	UID             string
	Sandbox         string       // the id of its sandbox: CNI's container id
	Netns           string       // its network namespace, a path of the node
	IPs             []netip.Addr // as the API has them

	node *Node
}

// RunPod creates a pod on the node and waits until it runs.
func (n *Node) RunPod(t testing.TB, spec PodSpec) *Pod {
	t.Helper()
	p := n.CreatePod(t, spec)
	return n.WaitPod(t, p.Namespace, p.Name)
}

// CreatePod creates a pod on the node, and does not wait: only the names of it are known then.
func (n *Node) CreatePod(t testing.TB, spec PodSpec) *Pod {
	t.Helper()
	if spec.Name == "" {
		n.api.mu.Lock()
		n.api.pods++
		spec.Name = fmt.Sprintf("pod%d", n.api.pods)
		n.api.mu.Unlock()
	}
	if spec.Namespace == "" {
		spec.Namespace = "default"
	}
	content := Object{
		"nodeName":                      n.Name, // there is no scheduler
		"tolerations":                   []Object{{"operator": "Exists"}},
		"automountServiceAccountToken":  false,
		"enableServiceLinks":            false,
		"terminationGracePeriodSeconds": 2,
		"containers":                    []Object{{"name": "main", "image": image.Name, "imagePullPolicy": "Never", "args": spec.Args}},
	}
	for key, value := range spec.Spec {
		content[key] = value
	}
	metadata := Object{"name": spec.Name, "annotations": spec.Annotations}
	if err := n.api.Admin.Create(t.Context(), "/api/v1/namespaces/"+spec.Namespace+"/pods", Object{"metadata": metadata, "spec": content}, nil); err != nil {
		t.Fatal(err)
	}
	return &Pod{Namespace: spec.Namespace, Name: spec.Name, node: n}
}

// WaitPod waits until a pod of the node runs, by whomever it was created.
func (n *Node) WaitPod(t testing.TB, namespace, name string) *Pod {
	t.Helper()
	p := &Pod{Namespace: namespace, Name: name, node: n}
	if err := eventually(t.Context(), func() error { return p.running(t.Context()) }); err != nil {
		t.Fatalf("pod %s/%s: %v", namespace, name, err)
	}
	if err := p.inspect(); err != nil {
		t.Fatalf("pod %s/%s: %v", namespace, name, err)
	}
	return p
}

func (p *Pod) path() string { return "/api/v1/namespaces/" + p.Namespace + "/pods/" + p.Name }

// running reads the pod; the error says how far it is until it runs.
func (p *Pod) running(ctx context.Context) error {
	var object struct {
		Metadata struct{ UID string }
		Status   struct {
			Phase, Message    string
			PodIPs            []struct{ IP netip.Addr }
			ContainerStatuses []struct{ State json.RawMessage }
		}
	}
	if err := p.node.api.Admin.Get(ctx, p.path(), &object); err != nil {
		return err
	}
	p.UID, p.IPs = object.Metadata.UID, nil
	for _, ip := range object.Status.PodIPs {
		p.IPs = append(p.IPs, ip.IP)
	}
	switch status := object.Status; status.Phase {
	case "Running":
		return nil
	case "Failed", "Succeeded":
		return fmt.Errorf("it is %s %s %v: %w", status.Phase, status.Message, status.ContainerStatuses, errFinal)
	default:
		return fmt.Errorf("it is %s, %v", status.Phase, status.ContainerStatuses)
	}
}

// inspect asks the runtime for what only it knows.
func (p *Pod) inspect() error {
	runtime := p.node.Runtime
	id, err := runtime.TryCrictl("pods", "--quiet", "--state=ready", "--label=io.kubernetes.pod.uid="+p.UID)
	if err != nil {
		return err
	}
	p.Sandbox = strings.TrimSpace(id)
	text, err := runtime.TryCrictl("inspectp", "--output=json", p.Sandbox)
	if err != nil {
		return err
	}
	var sandbox struct {
		Info struct {
			RuntimeSpec struct {
				Linux struct{ Namespaces []struct{ Type, Path string } }
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &sandbox); err != nil {
		return err
	}
	for _, namespace := range sandbox.Info.RuntimeSpec.Linux.Namespaces {
		if namespace.Type == "network" {
			p.Netns = namespace.Path
		}
	}
	return nil
}

// Run runs a program of the node in the pod's network and returns what it printed; the test fails if it fails.
func (p *Pod) Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := p.Try(name, args...)
	if err != nil {
		t.Fatalf("in pod %s/%s: %s %s: %v\n%s", p.Namespace, p.Name, name, strings.Join(args, " "), err, out)
	}
	return out
}

// Try runs a program of the node in the pod's network and returns what it printed, and its error, with what it
// printed on stderr. It sees the node's files. A pod of the node's own network has no other.
func (p *Pod) Try(name string, args ...string) (string, error) {
	if p.Netns == "" {
		return p.node.Try(name, args...)
	}
	return p.node.Try("nsenter", append([]string{"--net=" + p.Netns, name}, args...)...)
}

// Delete deletes the pod and waits until it is gone: its containers have ended, and CNI's DEL has succeeded.
func (p *Pod) Delete(t testing.TB) {
	t.Helper()
	api := p.node.api
	err := api.Admin.Delete(t.Context(), p.path())
	if err == nil {
		err = eventually(t.Context(), func() error {
			switch err := api.Admin.Get(t.Context(), p.path(), nil); {
			case Code(err) == 404:
				return nil
			case err != nil:
				return err
			}
			return errors.New("it is still there")
		})
	}
	if err != nil {
		t.Fatalf("delete pod %s/%s: %v", p.Namespace, p.Name, err)
	}
}

// Log is what the pod's containers have printed.
func (p *Pod) Log(t testing.TB) string {
	t.Helper()
	return p.node.api.Kubectl(t, "logs", "--namespace="+p.Namespace, p.Name, "--all-containers")
}

// explain prints what happened to pods, when the test has failed.
func (n *Node) explain(t testing.TB) {
	if !t.Failed() {
		return
	}
	for _, args := range [][]string{{"get", "pods", "-A", "-o", "wide"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"}} {
		cmd := exec.Command(n.api.programs.kubectl, append([]string{"--kubeconfig=" + n.api.Kubeconfig, "--cache-dir=" + n.api.file("kubectl"), "--request-timeout=5s"}, args...)...)
		out, err := output(cmd, nil)
		t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
