package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// meta is what all objects of the API have.
type meta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	UID         string            `json:"uid"`
	Annotations map[string]string `json:"annotations"`
	Labels      map[string]string `json:"labels"`
}

// Pod reads a pod.
func (c *Client) Pod(ctx context.Context, namespace, name string) (*Pod, error) {
	var o struct {
		Metadata meta `json:"metadata"`
		Spec     struct {
			NodeName       string `json:"nodeName"`
			ResourceClaims []struct {
				Name              string  `json:"name"`
				ResourceClaimName *string `json:"resourceClaimName"`
			} `json:"resourceClaims"`
		} `json:"spec"`
		Status struct {
			ResourceClaimStatuses []struct {
				Name              string  `json:"name"`
				ResourceClaimName *string `json:"resourceClaimName"`
			} `json:"resourceClaimStatuses"` // of claims made from a template
		} `json:"status"`
	}
	if err := c.get(ctx, "pod", "/api/v1", "pods", namespace, name, &o); err != nil {
		return nil, err
	}
	pod := &Pod{
		Namespace: namespace, Name: name, UID: o.Metadata.UID,
		Annotations: o.Metadata.Annotations, Labels: o.Metadata.Labels, Node: o.Spec.NodeName,
	}
	source, ok := pod.Annotations["kubernetes.io/config.source"]
	pod.Static = ok && source != "api"
	for _, claim := range o.Spec.ResourceClaims {
		it := PodClaim{Name: claim.Name}
		if claim.ResourceClaimName != nil {
			it.Claim = *claim.ResourceClaimName
		}
		for _, made := range o.Status.ResourceClaimStatuses {
			if made.Name == claim.Name && made.ResourceClaimName != nil {
				it.Claim = *made.ResourceClaimName
			}
		}
		pod.Claims = append(pod.Claims, it)
	}
	return pod, nil
}

// Definition reads a NetworkAttachmentDefinition.
func (c *Client) Definition(ctx context.Context, namespace, name string) (*Definition, error) {
	var o struct {
		Metadata meta `json:"metadata"`
		Spec     struct {
			Config string `json:"config"`
		} `json:"spec"`
	}
	if err := c.get(ctx, "network-attachment-definition", "/apis/k8s.cni.cncf.io/v1", "network-attachment-definitions", namespace, name, &o); err != nil {
		return nil, err
	}
	return &Definition{Namespace: namespace, Name: name, Annotations: o.Metadata.Annotations, Config: o.Spec.Config}, nil
}

// Claim reads a ResourceClaim.
func (c *Client) Claim(ctx context.Context, namespace, name string) (*Claim, error) {
	var o struct {
		Metadata meta `json:"metadata"`
		Status   struct {
			Allocation struct {
				Devices struct {
					Results []struct{ Request, Driver, Pool, Device string } `json:"results"`
				} `json:"devices"`
			} `json:"allocation"`
			Devices []struct {
				Driver, Pool, Device string
				Data                 json.RawMessage
			} `json:"devices"`
		} `json:"status"`
	}
	if err := c.get(ctx, "resource claim", "/apis/resource.k8s.io/v1", "resourceclaims", namespace, name, &o); err != nil {
		return nil, err
	}
	claim := &Claim{Namespace: namespace, Name: name, UID: o.Metadata.UID, Annotations: o.Metadata.Annotations}
	for _, r := range o.Status.Allocation.Devices.Results {
		it := ClaimDevice{Request: r.Request, Driver: r.Driver, Pool: r.Pool, Device: r.Device}
		for _, d := range o.Status.Devices {
			if d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device {
				it.Data = d.Data
			}
		}
		claim.Devices = append(claim.Devices, it)
	}
	return claim, nil
}

// PatchStatus sets annotations of a pod by one merge patch of its status, and removes those that are nil. It is
// ErrConflict if the pod of that name is another one by now.
func (c *Client) PatchStatus(ctx context.Context, pod *Pod, annotations map[string]*string) error {
	const op = "patch status of pod"
	object := pod.Namespace + "/" + pod.Name
	path, err := objectPath("/api/v1", "pods", pod.Namespace, pod.Name)
	if err != nil {
		return fileError(op, object, netconf.CodeInvalidNetworkConfig, err)
	}
	metadata := map[string]any{"annotations": annotations}
	if pod.UID != "" {
		metadata["uid"] = pod.UID
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fileError(op, object, netconf.CodeInternal, err)
	}
	if err := netconf.Before(ctx, op+" "+object); err != nil {
		return err
	}
	return c.do(ctx, call{
		op: op, object: object, method: http.MethodPatch, path: path + "/status", media: "application/merge-patch+json", body: body,
	}, nil)
}

// get reads the object of a name.
func (c *Client) get(ctx context.Context, kind, group, plural, namespace, name string, out any) error {
	path, err := objectPath(group, plural, namespace, name)
	if err != nil {
		return fileError("get "+kind, namespace+"/"+name, netconf.CodeInvalidNetworkConfig, err)
	}
	return c.do(ctx, call{op: "get " + kind, object: namespace + "/" + name, method: http.MethodGet, path: path}, out)
}

// objectPath is where an object is. Names are refused that would lead elsewhere: with an empty one it is the list, whose
// answer decodes into an object without a name.
func objectPath(group, plural, namespace, name string) (string, error) {
	for _, s := range []string{namespace, name} {
		if s == "" || s == "." || s == ".." || strings.ContainsAny(s, "/%?#\\") {
			return "", fmt.Errorf("%q is no name of an object", s)
		}
	}
	return group + "/namespaces/" + namespace + "/" + plural + "/" + name, nil
}
