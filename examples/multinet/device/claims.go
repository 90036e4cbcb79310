package device

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/netconf"
)

// What a device of dynamic resource allocation says its ID is, in its ResourceSlice: the attribute that the CNI plugins' drivers
// set, else the one that Kubernetes has for all PCI devices.
const (
	attributeID  = "k8s.cni.cncf.io/deviceID"
	attributePCI = "resource.kubernetes.io/pciBusID"
)

// claimOf returns the pod's claim that a resource stands for, if it is one: CLAIM/REQUEST. The names of device plugins'
// resources begin with a domain, those of claims are labels without a dot.
func claimOf(pod *kube.Pod, resource string) (kube.PodClaim, bool) {
	name, _, _ := strings.Cut(resource, "/")
	for _, c := range pod.Claims {
		if c.Name == name {
			return c, true
		}
	}
	return kube.PodClaim{}, false
}

// askClaims adds the devices of the claims that are wanted: a claim has others too, a GPU say, that no network knows of.
func (s Sources) askClaims(ctx context.Context, pod *kube.Pod, wants []Want, found Allocated) error {
	claims := map[string]*kube.Claim{}
	for _, w := range wants {
		c, ok := claimOf(pod, w.Resource)
		if _, done := found[w.Resource]; !ok || done {
			continue
		}
		var err error
		if claims[c.Name] == nil {
			claims[c.Name], err = s.claim(ctx, pod, c)
		}
		if err == nil {
			found[w.Resource], err = s.given(ctx, claims[c.Name], strings.TrimPrefix(w.Resource, c.Name+"/"))
		}
		if err != nil {
			return fmt.Errorf("resource claim %q of the pod: %w", c.Name, err)
		}
	}
	return nil
}

// claim reads a claim.
func (s Sources) claim(ctx context.Context, pod *kube.Pod, c kube.PodClaim) (*kube.Claim, error) {
	if s.API == nil {
		return nil, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "there is no API server to ask")
	}
	if c.Claim == "" {
		return nil, netconf.Errorf(netconf.CodeTryAgainLater, "it has not been made yet")
	}
	return s.API.Claim(ctx, pod.Namespace, c.Claim)
}

// given lists the devices of one request of a claim, in the order of the allocation.
func (s Sources) given(ctx context.Context, claim *kube.Claim, request string) (ids []string, err error) {
	ids = []string{}
	for _, d := range claim.Devices {
		name, _, _ := strings.Cut(d.Request, "/") // of a list of alternatives the name of the whole
		if name != request {
			continue
		}
		id, err := s.idOf(ctx, d)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) { // shares of one device have its ID
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// idOf looks a device up among those that its driver announces.
func (s Sources) idOf(ctx context.Context, d kube.ClaimDevice) (string, error) {
	attributes, err := s.API.DeviceAttributes(ctx, d.Driver, d.Pool, d.Device)
	if err != nil {
		return "", err
	}
	for _, name := range []string{attributeID, attributePCI} {
		if id := attributes[name]; id != "" {
			return id, nil
		}
	}
	return "", netconf.Errorf(netconf.CodeInvalidNetworkConfig, "device %q of driver %q has neither the attribute %s nor %s", d.Device, d.Driver, attributeID, attributePCI)
}
