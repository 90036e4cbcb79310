package kube_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
)

func ExampleLoad() {
	run := func(dir string) error {
		api, err := kubetest.Start(kubetest.Options{}) // a real one has its kubeconfig somewhere
		if err != nil {
			return err
		}
		defer api.Close()
		if err := api.ApplyManifest("kind: Pod\nmetadata: {name: web-0, annotations: {k8s.v1.cni.cncf.io/networks: lan}}"); err != nil {
			return err
		}
		kubeconfig := filepath.Join(dir, "kubeconfig")
		if err := api.WriteKubeconfig(kubeconfig); err != nil {
			return err
		}

		ctx := context.Background()
		client, err := kube.Load(kubeconfig, os.Environ())
		if err != nil {
			return err
		}
		pod, err := client.Pod(ctx, "default", "web-0")
		if err != nil {
			return err
		}
		fmt.Println("asks for", pod.Annotations["k8s.v1.cni.cncf.io/networks"])
		client.Event(ctx, pod, kube.Normal, "AddedInterface", "Add net1 from default/lan")
		status := `[{"name": "default/lan", "interface": "net1"}]`
		if err := client.PatchStatus(ctx, pod, map[string]*string{"k8s.v1.cni.cncf.io/network-status": &status}); err != nil {
			return err
		}
		return client.Flush(ctx)
	}
	dir, err := os.MkdirTemp("", "kube")
	if err == nil {
		defer os.RemoveAll(dir)
		err = run(dir)
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output: asks for lan
}
