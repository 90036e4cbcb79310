package device

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/netconf"
)

// entry is what one container has of one resource, in kubelet's file (pkg/kubelet/cm/devicemanager/checkpoint).
type entry struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	DeviceIDs     ids
}

// ids is a list of IDs; since Kubernetes 1.20 there is one for each NUMA node, before it was a plain list.
type ids []string

// UnmarshalJSON reads either.
func (l *ids) UnmarshalJSON(data []byte) error {
	*l = nil
	var flat []string
	if json.Unmarshal(data, &flat) == nil {
		*l = flat
		return nil
	}
	var byNode map[string][]string
	if err := json.Unmarshal(data, &byNode); err != nil {
		return err
	}
	for _, list := range byNode {
		*l = append(*l, list...)
	}
	return nil
}

// uidOf is the UID that kubelet knows the pod by. That of a static pod, which kubelet has made of a file, is not the UID of its
// mirror in the API; the mirror has it in an annotation.
func uidOf(pod *kube.Pod) string {
	if pod.Static {
		return pod.Annotations["kubernetes.io/config.hash"]
	}
	return pod.UID
}

// readCheckpoint reads what a pod has from kubelet's file. Its sum is not checked: it is made of the Go values of the kubelet
// that wrote it, and kubelet replaces the file as a whole. The file knows no order of containers; they are sorted by name.
func readCheckpoint(path, uid string) (Allocated, error) {
	if uid == "" {
		return nil, netconf.Errorf(netconf.CodeInvalidEnvironment, "kubelet's checkpoint goes by the pod's UID, which is not known")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, netconf.Errorf(netconf.CodeTryAgainLater, "kubelet's checkpoint: %w", err)
	}
	var file struct {
		Data struct {
			PodDeviceEntries []entry
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, netconf.Errorf(netconf.CodeTryAgainLater, "kubelet's checkpoint %q: %w", path, err)
	}
	entries := slices.DeleteFunc(file.Data.PodDeviceEntries, func(e entry) bool { return e.PodUID != uid })
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.ContainerName, b.ContainerName) })
	found := Allocated{}
	for _, e := range entries {
		found.add(e.ResourceName, e.DeviceIDs)
	}
	return found, nil
}

// add adds the devices of one container; those that an earlier one has, as init containers hand theirs on, are there.
func (a Allocated) add(resource string, ids []string) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	for _, id := range ids {
		if id != "" && !slices.Contains(a[resource], id) {
			a[resource] = append(a[resource], id)
		}
	}
}
