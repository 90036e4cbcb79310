package kube

import (
	"context"
)

// Client speaks to one API server as one user. It is safe for concurrent use.
type Client struct {
	x int
}

// Load makes a client from a kubeconfig file: its current context. Paths in it are relative to its folder. With an
// empty path it is the client of the pod that the process runs in, by the service account that kubelet mounts, and
// environ says where the API server is. environ is an environment, "K=V": KUBERNETES_SERVICE_HOST and _PORT, and
// HTTPS_PROXY, HTTP_PROXY and NO_PROXY, which a proxy-url in the kubeconfig goes before. Nothing is sent yet.
//
// The error is one with ErrNone if there is no file of that name, or no pod around the process.
func Load(kubeconfig string, environ []string) (*Client, error) { return nil, ErrNone }

// Pod reads a pod.
func (c *Client) Pod(ctx context.Context, namespace, name string) (*Pod, error) { return nil, nil }

// Definition reads a NetworkAttachmentDefinition.
func (c *Client) Definition(ctx context.Context, namespace, name string) (*Definition, error) {
	return nil, nil
}

// Claim reads a ResourceClaim.
func (c *Client) Claim(ctx context.Context, namespace, name string) (*Claim, error) { return nil, nil }

// PatchStatus sets annotations of a pod by one merge patch of its status, and removes those that are nil. It is
// ErrConflict if the pod of that name is another one by now.
func (c *Client) PatchStatus(ctx context.Context, pod *Pod, annotations map[string]*string) error {
	return nil
}

// Event posts an event about a pod, without waiting for it: type_ is Normal or Warning, reason one word. ctx is of
// its request. See Flush.
func (c *Client) Event(ctx context.Context, pod *Pod, type_, reason, message string) {}

// Flush waits until all events are posted, or ctx ends, and returns what went wrong with them.
func (c *Client) Flush(ctx context.Context) error { return nil }

// Ready asks the API server once, without trying again, whether it serves requests: for STATUS.
func (c *Client) Ready(ctx context.Context) error { return nil }
