package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/node"
)

// StartKubelet starts kubelet, unless it runs, and waits until it has told the API server how the node is.
func (n *Node) StartKubelet(t testing.TB) {
	t.Helper()
	before, err := n.condition(t.Context())
	if err != nil && Code(err) != 404 {
		t.Fatal(err)
	}
	if n.kubelet == nil || ended(n.kubelet) {
		n.kubelet = n.Daemon("kubelet", n.api.programs.kubelet, n.args...)
	}
	err = eventually(t.Context(), func() error {
		if ended(n.kubelet) {
			return fmt.Errorf("it has ended: %w", errFinal)
		}
		now, err := n.condition(t.Context())
		if err == nil && now.LastHeartbeatTime == before.LastHeartbeatTime {
			err = fmt.Errorf("no word since %q", before.LastHeartbeatTime)
		}
		return err
	})
	if err != nil {
		t.Fatalf("kubelet of %q: %v", n.Name, err) // its log follows
	}
}

// StopKubelet ends kubelet by SIGTERM. Pods live on.
func (n *Node) StopKubelet() { n.kubelet.Stop() }

// KillKubelet kills kubelet. Pods live on.
func (n *Node) KillKubelet() { n.kubelet.Kill() }

// KubeletLog is what kubelet has logged since the node's start.
func (n *Node) KubeletLog() string { return n.kubelet.Log() }

// PodResources is the path of kubelet's socket for pod resources, as the test sees it; in the node it
// is /var/lib/kubelet/pod-resources/kubelet.sock.
func (n *Node) PodResources() string { return n.Path("/var/lib/kubelet/pod-resources/kubelet.sock") }

// WaitReady waits until the node's condition Ready is as wanted and its message contains the text; it returns
// the message. kubelet asks the runtime every five seconds, and the runtime asks the plugins' STATUS.
func (n *Node) WaitReady(t testing.TB, ready bool, text string) string {
	t.Helper()
	want := map[bool]string{true: "True", false: "False"}[ready]
	var now Condition
	err := eventually(t.Context(), func() (err error) {
		now, err = n.condition(t.Context())
		if err == nil && (now.Status != want || !strings.Contains(now.Message, text)) {
			err = fmt.Errorf("condition Ready is %s: %s", now.Status, now.Message)
		}
		return err
	})
	if err != nil {
		t.Fatalf("node %q: %v", n.Name, err)
	}
	return now.Message
}

// Condition is one of an object's status.
type Condition struct {
	Type              string // Ready, Established, ...
	Status            string // True, False, Unknown
	Reason            string
	Message           string
	LastHeartbeatTime string // of a node's; seconds
}

// condition is the node's condition Ready; an error has code 404 while the API server does not know the node.
func (n *Node) condition(ctx context.Context) (Condition, error) {
	var object struct {
		Status struct{ Conditions []Condition }
	}
	if err := n.api.Admin.Get(ctx, "/api/v1/nodes/"+n.Name, &object); err != nil {
		return Condition{}, err
	}
	for _, c := range object.Status.Conditions {
		if c.Type == "Ready" {
			return c, nil
		}
	}
	return Condition{}, fmt.Errorf("node %q has no condition Ready", n.Name)
}

func ended(d *node.Daemon) bool {
	select {
	case <-d.Ended():
		return true
	default:
		return false
	}
}
