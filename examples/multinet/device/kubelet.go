package device

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/netconf"
)

// maxAnswer is the largest answer that is taken, in bytes. gRPC's own 4 MiB are 20,000 devices, which a node with virtual ones
// (vhost-user, SR-IOV with many resources) may have.
const maxAnswer = 64 << 20

// patience is how long kubelet may take at most. It gets half of what the call has left, so that there is time for its file.
const patience = 10 * time.Second

// askKubelet asks kubelet's pod-resources service what a pod has: for this pod alone, or, where kubelet does not do that
// (before 1.27, or with the feature gate KubeletPodResourcesGet off), for all.
func askKubelet(ctx context.Context, socket string, pod *kube.Pod) (Allocated, error) {
	ctx, cancel := context.WithTimeout(ctx, share(ctx))
	defer cancel()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, netconf.Errorf(netconf.CodeTryAgainLater, "kubelet's pod-resources socket %q: %w", socket, err)
	}
	one, err := askFor(ctx, podresources.NewPodResourcesListerClient(conn), pod)
	_ = conn.Close() // nothing was written that could be lost
	if err != nil {
		return nil, netconf.Errorf(netconf.CodeTryAgainLater, "kubelet's pod-resources socket %q: %w", socket, err)
	}
	found := Allocated{}
	for _, c := range one.GetContainers() {
		for _, d := range gather(c) {
			found.add(d.resource, d.ids)
		}
	}
	return found, nil
}

// askFor is the question itself. No answer has the pod's UID: two pods of one name, the old one not quite gone, cannot be told
// from each other, and the one may not get the other's devices.
func askFor(ctx context.Context, client podresources.PodResourcesListerClient, pod *kube.Pod) (*podresources.PodResources, error) {
	got, err := client.Get(ctx, &podresources.GetPodResourcesRequest{PodName: pod.Name, PodNamespace: pod.Namespace})
	if err == nil {
		return got.GetPodResources(), nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	// The gate and a pod that is not known are both the code Unknown, so every error but the time is a reason to go on.
	all, err := client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	var one *podresources.PodResources
	for _, p := range all.GetPodResources() {
		if p.GetName() != pod.Name || p.GetNamespace() != pod.Namespace {
			continue
		}
		if one != nil {
			return nil, netconf.Errorf(netconf.CodeTryAgainLater, "kubelet has two pods %s/%s: the old one is not gone yet", pod.Namespace, pod.Name)
		}
		one = p
	}
	return one, nil
}

type devices struct {
	resource string
	ids      []string
}

// gather joins what one container has of each resource: kubelet lists each device by itself, or those of a NUMA node.
func gather(c *podresources.ContainerResources) []devices {
	var list []devices
	at := map[string]int{}
	for _, d := range c.GetDevices() {
		i, ok := at[d.GetResourceName()]
		if !ok {
			i = len(list)
			at[d.GetResourceName()] = i
			list = append(list, devices{resource: d.GetResourceName()})
		}
		list[i].ids = append(list[i].ids, d.GetDeviceIds()...)
	}
	return list
}

// share is half of the time that ctx leaves, at most patience.
func share(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(time.Until(end)/2, patience)
	}
	return patience
}
