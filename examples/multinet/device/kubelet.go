package device

import (
	"context"
	"time"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/netconf"
)

// maxAnswer is the largest answer that is taken, in bytes. 4 MiB, gRPC's own, are 20,000 devices, which a node with virtual ones
// (vhost-user, SR-IOV with many resources) may have.
const maxAnswer = 64 << 20

// patience is how long kubelet may take at most. It gets half of what the call has left, so that there is time for its file.
const patience = 10 * time.Second

// askKubelet asks kubelet's pod-resources service what a pod has: for this pod alone, or, where kubelet does not do that
// (before 1.27, or with the feature gate KubeletPodResourcesGet off), for all.
func askKubelet(ctx context.Context, socket string, pod *kube.Pod) (Allocated, error) {
	ctx, cancel := context.WithTimeout(ctx, share(ctx))
	defer cancel()
	kubelet := dial(socket)
	defer kubelet.close()
	one, err := askFor(ctx, kubelet, pod)
	if err != nil {
		return nil, netconf.Errorf(netconf.CodeTryAgainLater, "kubelet's pod-resources socket %q: %w", socket, err)
	}
	found := Allocated{}
	if one == nil {
		return found, nil
	}
	for _, c := range one.containers {
		for _, d := range gather(c) {
			found.add(d.resource, d.ids)
		}
	}
	return found, nil
}

// askFor is the question itself. No answer has the pod's UID: two pods of one name, the old one not quite gone, cannot be told
// from each other, and the one may not get the other's devices.
func askFor(ctx context.Context, kubelet *rpc, pod *kube.Pod) (*resources, error) {
	answer, err := kubelet.call(ctx, methodGet, getRequest(pod.Namespace, pod.Name))
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		// The gate and a pod that is not known are both the code Unknown, so every error but the time is a reason to go on.
		if answer, err = kubelet.call(ctx, methodList, nil); err != nil {
			return nil, err
		}
	}
	all, err := parsePods(answer)
	if err != nil {
		return nil, err
	}
	var one *resources
	for _, p := range all {
		if p.name != pod.Name || p.namespace != pod.Namespace {
			continue
		}
		if one != nil {
			return nil, netconf.Errorf(netconf.CodeTryAgainLater, "kubelet has two pods %s/%s: the old one is not gone yet", pod.Namespace, pod.Name)
		}
		one = p
	}
	return one, nil
}

// gather joins what one container has of each resource: kubelet lists each device by itself, or those of a NUMA node.
func gather(devices []container) []container {
	var list []container
	at := map[string]int{}
	for _, d := range devices {
		i, ok := at[d.resource]
		if !ok {
			i = len(list)
			at[d.resource] = i
			list = append(list, container{resource: d.resource})
		}
		list[i].ids = append(list[i].ids, d.ids...)
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
