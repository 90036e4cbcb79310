package device

import (
	"cmp"
	"context"
	"slices"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/netconf"
)

// Annotation is the annotation of a NetworkAttachmentDefinition that names the resource its device comes from: that of
// a device plugin ("vendor.example/nic"), or CLAIM/REQUEST, the pod's name for a claim and the request in it.
const Annotation = "k8s.v1.cni.cncf.io/resourceName"

// Want is what one network needs.
type Want struct {
	Resource string // see [Annotation]; empty: none
	ID       string // the device that the pod asks for ("deviceID"); with a Resource it must be one of the pod's
}

// Allocated is what a pod has been given: the IDs of its devices by resource, each once.
type Allocated map[string][]string

// Assign gives each network its device; the default network is the first. The n-th network of a resource gets the n-th
// device that nobody asked for by its ID, so no device is given twice. "" is none. Errors, with code 7, name the resource:
// all its devices are given away, or the one asked for is not the pod's.
func (a Allocated) Assign(wants []Want) ([]string, error) {
	ids := make([]string, len(wants))
	taken := map[Want]bool{}
	for i, w := range wants { // what is asked for by its ID goes first
		ids[i] = w.ID
		if w.Resource == "" || w.ID == "" {
			continue
		}
		if !slices.Contains(a[w.Resource], w.ID) {
			return nil, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "device %q is not one that the pod has of resource %q: it has %q", w.ID, w.Resource, a[w.Resource])
		}
		if taken[w] {
			return nil, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "device %q of resource %q is asked for by two networks", w.ID, w.Resource)
		}
		taken[w] = true
	}
	for i, w := range wants {
		if w.Resource == "" || w.ID != "" {
			continue
		}
		for _, id := range a[w.Resource] {
			if one := (Want{w.Resource, id}); !taken[one] {
				ids[i], taken[one] = id, true
				break
			}
		}
		if ids[i] == "" {
			return nil, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "no device of resource %q is left: the pod has %d, and more networks want one", w.Resource, len(a[w.Resource]))
		}
	}
	return ids, nil
}

// API is what is asked of the API server, for pods with ResourceClaims.
type API interface {
	// Claim reads a ResourceClaim.
	Claim(ctx context.Context, namespace, name string) (*kube.Claim, error)
	// DeviceAttributes reads what a driver announces of a device (ResourceSlice): the attributes that are texts, by
	// their full name.
	DeviceAttributes(ctx context.Context, driver, pool, device string) (map[string]string, error)
}

// Sources are where it is known what a pod has been given. The zero value is kubelet's folders, and no API server.
type Sources struct {
	Socket     string // of kubelet's pod-resources service; default: /var/lib/kubelet/pod-resources/kubelet.sock
	Checkpoint string // kubelet's own file, for when the service is not there; default: /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint
	API        API    // nil: no claims
}

// Assign finds out what the pod has been given, as far as wants need it, and assigns it: see [Allocated.Assign]. If
// nothing is wanted, nobody is asked. An error of the sources carries code 11: kubelet may answer the next time.
func (s Sources) Assign(ctx context.Context, pod *kube.Pod, wants []Want) ([]string, error) {
	found, err := s.allocated(ctx, pod, wants)
	if err != nil {
		return nil, err
	}
	return found.Assign(wants)
}

// allocated asks those who know of what is wanted.
func (s Sources) allocated(ctx context.Context, pod *kube.Pod, wants []Want) (Allocated, error) {
	found := Allocated{}
	if slices.ContainsFunc(wants, func(w Want) bool { _, claim := claimOf(pod, w.Resource); return w.Resource != "" && !claim }) {
		var err, fallback error
		if found, err = askKubelet(ctx, cmp.Or(s.Socket, socket), pod); err != nil {
			if found, fallback = readCheckpoint(cmp.Or(s.Checkpoint, checkpoint), uidOf(pod)); fallback != nil {
				return nil, netconf.Join(err, fallback)
			}
		}
	}
	return found, s.askClaims(ctx, pod, wants, found)
}

const (
	socket     = "/var/lib/kubelet/pod-resources/kubelet.sock"
	checkpoint = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
)
