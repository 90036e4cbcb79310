package kube

import "encoding/json"

// The types of an event.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// Pod is a pod, as far as its network is concerned.
type Pod struct {
	Namespace, Name, UID string
	Annotations, Labels  map[string]string
	Node                 string // spec.nodeName
	// Static is a pod that kubelet read from a file or a URL (the annotation kubernetes.io/config.source is there and
	// not "api"). Its object in the API is a mirror with another UID than the runtime tells.
	Static bool
	Claims []PodClaim // of dynamic resource allocation, in the order of the spec
}

// PodClaim is a ResourceClaim of a pod.
type PodClaim struct {
	Name  string // in the pod (spec.resourceClaims[].name)
	Claim string // the ResourceClaim's name in the pod's namespace; empty while there is none yet, or none is needed
}

// Definition is a NetworkAttachmentDefinition.
type Definition struct {
	Namespace, Name string
	Annotations     map[string]string
	Config          string // spec.config as it is; empty: the file of that name
}

// Claim is a ResourceClaim (resource.k8s.io/v1, Kubernetes 1.34 and later).
type Claim struct {
	Namespace, Name, UID string
	Annotations          map[string]string
	Devices              []ClaimDevice // what is allocated, in the order of the allocation; empty before it is
}

// ClaimDevice is a device that a claim was given.
type ClaimDevice struct {
	Request              string          // the name of the request in the claim; "request/subrequest" of a prioritised list
	Driver, Pool, Device string          // together they name the device
	Data                 json.RawMessage // what the driver says of it (status.devices[].data); nil if it says nothing
}
