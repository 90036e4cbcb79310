package main

import (
	"context"
	"os"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// Del detaches the container from all that its record says, backwards, and asks nobody else: not the API server, which may
// have forgotten the pod.
func (m multinet) Del(ctx context.Context, req *netconf.Request) error {
	return netconf.Join(m.detachAll(ctx, m.recorded(req)), m.dropDevices(ctx, req))
}

// detachAll detaches a container from all networks that can be known. Where a record was damaged, and leases may remain of
// networks that nobody knows, it says so: once, for no retry will mend it.
func (m multinet) detachAll(ctx context.Context, own *netconf.Request) error {
	lost, why, err := m.lost(ctx, own)
	if err != nil {
		return err
	}
	errs := []error{m.records().Del(ctx, m.plugins(), own)} // one that cannot be used is moved aside here
	if lost {
		complete, err := m.detachLost(ctx, own)
		if errs = append(errs, err); complete {
			why = nil
		}
	}
	if why != nil {
		errs = append(errs, netconf.Errorf(netconf.CodeBadStore, "container %q: networks beside the default one may still have addresses of it until GC: %w", own.ContainerID, why))
	}
	return netconf.Join(errs...)
}

// Check asks all networks that the record has, each with the result that its ADD had.
func (m multinet) Check(ctx context.Context, req *netconf.Request) error {
	own := m.recorded(req)
	if err := m.adopt(ctx, own); err != nil {
		return err
	}
	return m.records().Check(ctx, m.plugins(), own)
}

// GC detaches what the runtime no longer has, and lets each network, once, collect what is nobody's: those of the
// records, and the default networks as far as they can be known without an API server.
func (m multinet) GC(ctx context.Context, req *netconf.Request) error {
	if err := m.awaitReady(ctx); err != nil {
		return err
	}
	own := m.request(req)
	damaged, err := m.adoptAll(ctx, own)
	if err != nil {
		return err
	}
	known, err := m.networks(ctx, own, nil, nil)
	if err != nil {
		req.Warn("GC of default networks is left out", "error", err.Error())
	}
	also, errs, unknown := m.otherNames(ctx, own)
	errs = append(errs, damaged, m.detachDamaged(ctx, own))
	if unknown != nil {
		return netconf.Join(append(errs, unknown)...)
	}
	for _, n := range known {
		also = append(also, n.Network)
	}
	return netconf.Join(append(errs, m.records().GC(ctx, m.plugins(), own, also...), m.dropStaleDevices(ctx, req))...)
}

// Status says whether a pod could be attached now.
func (m multinet) Status(ctx context.Context, req *netconf.Request) error {
	if m.Readiness != "" {
		if _, err := os.Stat(m.Readiness); err != nil {
			return netconf.Errorf(netconf.CodePluginNotAvailable, "the default network is not ready: readinessindicatorfile: %w", err)
		}
	}
	set, err := m.defaultSet(ctx, m.request(req))
	if err != nil {
		return netconf.Errorf(netconf.CodePluginNotAvailable, "%v", err) // not %w: it has another code
	}
	return set.Status(ctx, m.request(req))
}

// defaultSet is the networks of a pod that asks for none, if the API server can be asked for what others do.
func (m multinet) defaultSet(ctx context.Context, req *netconf.Request) (delegate.Set, error) {
	api, err := m.Connect(m.Kubeconfig, req.Environ)
	if err == nil && api != nil {
		err = api.Ready(ctx)
	}
	if err != nil {
		return delegate.Set{}, err
	}
	networks, err := m.networks(ctx, req, nil, api)
	set := delegate.Set{Plugins: m.plugins()}
	for _, n := range networks {
		set.Attachments = append(set.Attachments, delegate.Attachment{Network: n.Network})
	}
	return set, err
}

// unattached says that the container is attached already, by this plugin or by multus.
func (m multinet) unattached(req *netconf.Request) error {
	if _, err := os.Lstat(m.multusFile(req)); err == nil {
		return netconf.Errorf(netconf.CodeExists, "%q: %w, a DEL is due first", m.multusFile(req), netconf.ErrExists)
	}
	return m.records().Unattached(req)
}
