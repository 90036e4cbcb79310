package main

import (
	"context"
	"errors"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/examples/multinet/device"
	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/netconf"
)

// cluster is what is asked of the API server, and said to it. It is nil where there is none.
type cluster interface {
	definitions
	device.API

	Pod(ctx context.Context, namespace, name string) (*kube.Pod, error)
	PatchStatus(ctx context.Context, pod *kube.Pod, annotations map[string]*string) error
	Event(ctx context.Context, pod *kube.Pod, kind, reason, message string)
	Flush(ctx context.Context) error
	Ready(ctx context.Context) error
}

// multinet is the one step of this plugin. It keeps nothing: a daemon may make one for each call, with a Connect that
// returns what it has connected to long ago.
type multinet struct {
	*config
	Connect func(kubeconfig string, environ []string) (cluster, error)
	Devices func(ctx context.Context, api device.API, pod *kube.Pod, wants []device.Want) ([]string, error)
}

// connect reads how to reach the API server. A kubeconfig that is named and missing is no sign that there is none: it is
// being installed.
func connect(kubeconfig string, environ []string) (cluster, error) {
	client, err := kube.Load(kubeconfig, environ)
	switch {
	case err == nil:
		return client, nil
	case kubeconfig == "" && errors.Is(err, kube.ErrNone):
		return nil, nil
	}
	return nil, netconf.Errorf(netconf.CodeTryAgainLater, "the API server: %w", err)
}

// devices asks kubelet, and the API server for claims, what the pod has been given.
func devices(ctx context.Context, api device.API, pod *kube.Pod, wants []device.Want) ([]string, error) {
	return device.Sources{API: api}.Assign(ctx, pod, wants)
}

// Name is what skel calls this step in errors and in the log.
func (m multinet) Name() string { return "networks" }

// records is where it is remembered what the containers are attached to.
func (m multinet) records() delegate.Records { return delegate.Records{Dir: m.CNIDir} }

// request is the call as plugins get it.
func (m multinet) request(req *netconf.Request) *netconf.Request {
	own := req.As(req.Command)
	own.Path = m.path(req)
	return own
}
