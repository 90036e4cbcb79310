package selection

import (
	"encoding/json"
	"net/netip"
)

// The annotations of the standard, and of multus.
const (
	// Annotation is the pod's: the networks it asks for beside the default one.
	Annotation = "k8s.v1.cni.cncf.io/networks"
	// DefaultAnnotation is the pod's: one network that takes the default network's place.
	DefaultAnnotation = "v1.multus-cni.io/default-network"
	// StatusAnnotation is the pod's: what it was attached to, see package status.
	StatusAnnotation = "k8s.v1.cni.cncf.io/network-status"
	// ResourceAnnotation is a definition's: the device plugin's resource that an attachment takes one of.
	ResourceAnnotation = "k8s.v1.cni.cncf.io/resourceName"
)

// Element is one network that a pod asks for.
type Element struct {
	Namespace string // of the definition; the pod's where the annotation names none
	Name      string // of the definition
	Interface string // the name asked for; empty: one is given, see Names

	// Requests are what is asked for by capability, under the capability's own name as runtimeConfig has it: ips, mac,
	// infinibandGUID, portMappings, bandwidth, deviceID. The values are checked, and byte for byte as the pod has them.
	Requests map[string]json.RawMessage
	// Args are merged into args.cni of the network's plugins ("cni-args"). nil: none.
	Args map[string]json.RawMessage
	// Gateways become the pod's default routes ("default-route"). nil: the key is absent; empty: the network keeps its
	// own default routes and the others lose theirs.
	Gateways []netip.Addr
	// IPAMClaim is the name of an IPAMClaim that the network's IPAM may use ("ipam-claim-reference").
	IPAMClaim string
}

// String is the element's network as "namespace/name", as statuses and messages have it.
func (e Element) String() string { return e.Namespace + "/" + e.Name }
