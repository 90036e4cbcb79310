package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/examples/multinet/device"
	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/examples/multinet/route"
	"github.com/cnikit/cnikit/examples/multinet/selection"
	"github.com/cnikit/cnikit/examples/multinet/status"
	"github.com/cnikit/cnikit/netconf"
)

// Add attaches the pod to its networks. This file is what happens, in the order in which it does.
func (m multinet) Add(ctx context.Context, req *netconf.Request) error {
	// Nothing is changed in here: what goes wrong must not be followed by a DEL, which in a second ADD would take away
	// what lives.
	a, err := m.prepare(ctx, req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	defer a.flush(ctx)
	if err := a.keepDevices(ctx); err != nil {
		return netconf.Unchanged(netconf.Join(err, m.dropDevices(ctx, req)))
	}
	// The record is on the disk before the first plugin runs. If one fails all are undone, and what cannot be undone
	// stays in the record, for DEL.
	results, err := m.records().Add(ctx, a.set(), a.req)
	if err != nil {
		return netconf.Join(err, m.dropDevices(ctx, req))
	}
	// What goes wrong from here on is rolled back by DEL, from the record.
	changed, err := a.moveRoutes(ctx, results)
	if err == nil {
		err = a.report(ctx, results, changed)
	}
	if err != nil {
		return netconf.Join(err, changed.Undo(context.WithoutCancel(ctx)))
	}
	return req.SetResult(results[0].JSON)
}

// adding is an ADD: what is found out before anything is changed.
type adding struct {
	multinet
	req         *netconf.Request // as the plugins get it
	api         cluster          // nil: there is no API server
	pod         *kube.Pod        // nil: there is no API server, or the container is no pod
	networks    []network
	attachments []delegate.Attachment // of the networks, in their order
}

// prepare finds out what the pod gets, and checks all of it.
func (m multinet) prepare(ctx context.Context, req *netconf.Request) (*adding, error) {
	if err := m.unattached(req); err != nil {
		return nil, err
	}
	if err := m.awaitReady(ctx); err != nil {
		return nil, err
	}
	a := &adding{multinet: m, req: m.request(req)}
	var err error
	if a.api, err = m.Connect(m.Kubeconfig, req.Environ); err != nil {
		return nil, err
	}
	if err := a.findPod(ctx); err != nil {
		return nil, err
	}
	if a.networks, err = m.networks(ctx, req, a.pod, a.api); err != nil {
		a.missing(ctx, err)
		return nil, err
	}
	return a, a.attach(ctx)
}

// awaitReady waits for the file that says that the default network works.
func (m multinet) awaitReady(ctx context.Context) error {
	if m.Readiness == "" {
		return nil
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := os.Stat(m.Readiness)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return netconf.Errorf(netconf.CodeTryAgainLater, "the default network is not ready: readinessindicatorfile: %w", err)
		}
	}
}

// findPod reads the pod that the container is of, and makes sure that it is this one: a pod of a stateful set has the
// name of the one before it.
func (a *adding) findPod(ctx context.Context) error {
	is, ok := a.req.Pod()
	if a.api == nil || !ok {
		return nil
	}
	pod, err := a.api.Pod(ctx, is.Namespace, is.Name)
	if err != nil {
		return err // one that is not there has code 11: it was deleted, or is not there yet
	}
	if is.UID != "" && is.UID != pod.UID && !pod.Static { // the API has a static pod's mirror, with a UID of its own
		return netconf.Errorf(netconf.CodeTryAgainLater, "pod %q in namespace %q has UID %q, and the container is of one with UID %q", is.Name, is.Namespace, pod.UID, is.UID)
	}
	a.pod = pod
	return nil
}

// missing tells whoever looks at the pod that a network is not there.
func (a *adding) missing(ctx context.Context, err error) {
	if a.pod != nil && errors.Is(err, kube.ErrNotFound) {
		a.api.Event(ctx, a.pod, kube.Warning, "NoNetworkFound", err.Error())
		a.flush(ctx)
	}
}

// firstMetric is below those of the networks beside the default one. The kernel's own are 0, and 1024 for IPv6.
const firstMetric = 4096

// attach makes attachments of the networks: each with its interface's name, its device, and what is asked of it.
func (a *adding) attach(ctx context.Context) error {
	wanted := make([]string, len(a.networks))
	for i, n := range a.networks {
		wanted[i] = n.Asked.Interface
	}
	names, err := selection.Names(a.req.IfName, wanted)
	if err != nil {
		return err
	}
	devices, err := a.devices(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for i, n := range a.networks {
		o := selection.Options{Device: devices[i], Legacy: a.LegacyRequests}
		if i > 0 { // a default route of its own comes behind those of the networks before it, in whatever order they run
			o.DefaultMetric = firstMetric + i
		}
		if o.Device != "" {
			o.DeviceInfoFile = device.Files{}.Path(a.req.ContainerID, names[i])
		}
		one, err := n.Asked.Attach(n.Network, names[i], o)
		errs = append(errs, err)
		a.attachments = append(a.attachments, one)
	}
	// What the runtime asks for is meant for its own interface: a port of the host can lead to one place.
	first := &a.attachments[0]
	own := maps.Clone(a.req.Network.RuntimeConfig)
	if own != nil {
		maps.Copy(own, first.RuntimeConfig)
		first.RuntimeConfig = own
	}
	return netconf.Join(errs...)
}

// devices is the device of each network; empty where it needs none.
func (a *adding) devices(ctx context.Context) ([]string, error) {
	wants := make([]device.Want, len(a.networks))
	for i, n := range a.networks {
		if n.Resource == "" {
			continue // a pod that names a device of its own free will gets it by the capability alone
		}
		wants[i].Resource = n.Resource
		if asked := n.Asked.Requests["deviceID"]; asked != nil {
			if err := json.Unmarshal(asked, &wants[i].ID); err != nil {
				return nil, err // cannot be: it was checked
			}
		}
	}
	if a.pod == nil {
		return make([]string, len(wants)), nil // nobody can know
	}
	return a.Devices(ctx, a.api, a.pod, wants)
}

// set is the attachments as package delegate runs them: the default network first.
func (a *adding) set() delegate.Set {
	return delegate.Set{Attachments: a.attachments, Parallel: a.Parallel, Ahead: 1, Plugins: a.plugins()}
}

// moveRoutes gives the default routes to the attachments that ask for them, and changes the results, in place and in
// the record, accordingly. What it returns undoes it, and may be nil.
func (a *adding) moveRoutes(ctx context.Context, results []delegate.Result) (*route.Changed, error) {
	all := make([]route.Attachment, len(results))
	for i, n := range a.networks {
		all[i] = route.Attachment{
			IfName: a.attachments[i].IfName, Result: results[i].Result, Asked: n.Asked.Gateways != nil, Gateways: n.Asked.Gateways,
		}
	}
	changes := route.Plan(all)
	if len(changes) == 0 {
		return nil, nil
	}
	changed, err := changes.Apply(ctx, a.req.Netns)
	if err != nil {
		return nil, err
	}
	for i, old := range results {
		ifname := a.attachments[i].IfName
		if results[i], err = changed.Result(ifname, old); err != nil {
			return changed, err
		}
		if bytes.Equal(old.JSON, results[i].JSON) {
			continue
		}
		if err := a.records().SetResult(ctx, a.req, ifname, results[i].JSON); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// report says in the API what the pod got: its status, and an event for each network beside that. Pods of
// systemNamespaces have one too: multus means to leave them out, but compares the pod's name, and so tools expect it.
func (a *adding) report(ctx context.Context, results []delegate.Result, changed *route.Changed) error {
	if a.pod == nil {
		return nil
	}
	all := make([]status.Attachment, len(results))
	for i, n := range a.networks {
		ifname := a.attachments[i].IfName
		all[i] = status.Attachment{Name: n.Name, Result: results[i].Result, DeviceInfo: a.deviceInfo(i), NoDefault: changed.Without(ifname)}
		a.api.Event(ctx, a.pod, kube.Normal, "AddedInterface", fmt.Sprintf("Add %s %v from %s", ifname, addresses(results[i]), n.Name))
	}
	text, err := status.Encode(status.Of(all))
	if err != nil {
		return err
	}
	if err := a.api.PatchStatus(ctx, a.pod, map[string]*string{selection.StatusAnnotation: &text}); err != nil {
		return fmt.Errorf("network-status of pod %q in namespace %q: %w", a.pod.Name, a.pod.Namespace, err)
	}
	return nil
}

func addresses(r delegate.Result) []string {
	var all []string
	for _, ip := range r.IPs {
		all = append(all, ip.Address.String())
	}
	return all
}

// flush waits for the events. They are for people: without them the pod is attached all the same.
func (a *adding) flush(ctx context.Context) {
	if a.api == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := a.api.Flush(ctx); err != nil {
		a.req.Warn("events are lost", "error", err.Error())
	}
}
