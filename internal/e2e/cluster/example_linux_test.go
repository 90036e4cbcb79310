package cluster_test

import (
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/cluster"
)

// A test of what only speaks to the API server needs no node.
func ExampleStartAPI() {
	test := func(t *testing.T) {
		api := cluster.StartAPI(t, cluster.APIOptions{})
		api.NetworkAttachments(t)
		api.Apply(t, `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: storage}
spec: {config: '{"cniVersion": "1.1.0", "type": "macvlan"}'}
`)
		// What is tested speaks as an account of its own.
		account := api.Account(t, "kube-system", "daemon", cluster.Rule{APIGroups: []string{"k8s.cni.cncf.io"}, Resources: []string{"*"}, Verbs: []string{"get"}})
		account.Kubeconfig(t, t.TempDir()+"/kubeconfig")

		api.Kill() // it gets no answers now
		api.Start(t)
	}
	_ = test // it is run by go test
}

// A test of a plugin has it called by containerd for the pods of a node.
func ExampleStartNode() {
	test := func(t *testing.T) {
		api := cluster.StartAPI(t, cluster.APIOptions{})
		n := cluster.StartNode(t, api, cluster.NodeOptions{BinDirs: []string{"/folder/of/plugins"}})
		n.Runtime.Conf("10-pods.conflist", `{"cniVersion": "1.1.0", "name": "pods", "plugins": [{"type": "bridge"}]}`)
		n.WaitReady(t, true, "")

		pod := n.RunPod(t, cluster.PodSpec{Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "storage"}})
		pod.Run(t, "ip", "address")
		pod.Delete(t)
	}
	_ = test // it is run by go test
}
