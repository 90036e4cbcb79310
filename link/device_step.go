package link

import (
	"context"
	"errors"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// deviceKey is what a device is kept under in req.State.
const deviceKey = "link.device"

// Add is Create, with the link noted in the result. Of a device that is handed to a process (see Userspace) there is nothing to
// move, and the result has the name alone.
func (d Device) Add(ctx context.Context, req *netconf.Request) error {
	p, err := entering(req, deviceKind)
	if err != nil {
		return netconf.Unchanged(err)
	}
	if d.Userspace() {
		req.AddInterface(&types100.Interface{Name: req.IfName, Sandbox: req.Netns})
		return nil
	}
	d.Warn = req.Warn
	if err := d.before(ctx, req, p); err != nil {
		return netconf.Unchanged(err)
	}
	l, err := d.Create(ctx, p.host, p.container, p.Owner, func(was *DeviceWas) error { return keep(req, deviceKey, was) })
	if err != nil {
		return err
	}
	req.AddInterface(describe(l, req.Netns))
	return nil
}

// before looks after what an earlier Add of this attachment has moved: it lives, or its DEL never came.
func (d Device) before(ctx context.Context, req *netconf.Request, p *place) error {
	var was *DeviceWas
	if there, err := kept(req, deviceKey, &was); err != nil || !there {
		return err
	}
	l, err := p.deviceInside(p.container, was)
	if err != nil {
		return err
	}
	if l != nil {
		return done("link move", l.Attrs().Name)
	}
	return d.bring(ctx, p.host, nil, claim{Owner: p.Owner, marked: true}, was)
}

// Check is Verify against the prevResult. The link must be the device that was moved.
func (d Device) Check(_ context.Context, req *netconf.Request) error {
	p, want, err := checking(req)
	if err != nil || d.Userspace() {
		return err
	}
	l, err := d.verify(p.container, p.Owner, want)
	var was *DeviceWas
	if there, stateErr := kept(req, deviceKey, &was); stateErr != nil || !there || l == nil || !was.in(p.container) {
		return netconf.Join(err, stateErr)
	}
	if was.Index != l.Attrs().Index {
		err = netconf.Join(err, different(req.IfName, "the link", "the device "+was.Name, "another one"))
	}
	return err
}

// Del is Delete. A namespace that is not passed any more, and is there, is found by what was kept.
func (d Device) Del(ctx context.Context, req *netconf.Request) error {
	p, err := leaving(req, deviceKind)
	if p == nil {
		return err
	}
	d.Warn = req.Warn
	var was *DeviceWas
	if _, err := kept(req, deviceKey, &was); err != nil {
		warn(req, "how the device was is not known: it gets its name by its label, and stays down", "error", err.Error())
		was = nil
	}
	if err := d.bringFrom(ctx, p, was); err != nil {
		return err
	}
	if was == nil || req.State == nil {
		return nil
	}
	return forget(req, deviceKey)
}

// bringFrom is bring from the container of the call, or from the one that was kept.
func (d Device) bringFrom(ctx context.Context, p *place, was *DeviceWas) error {
	if p.container != nil || was == nil || was.Path == "" || was.Index == 0 {
		return d.bring(ctx, p.host, p.container, p.claim, was)
	}
	container, err := Open(was.Path)
	if Gone(err) {
		return d.bring(ctx, p.host, nil, p.claim, was)
	}
	if err != nil {
		return err
	}
	if !was.in(container) { // another has its path now
		return errors.Join(d.bring(ctx, p.host, nil, p.claim, was), container.Close())
	}
	return errors.Join(d.bring(ctx, p.host, container, p.claim, was), container.Close())
}

// GC brings back the devices of the network whose attachment is not in the list of valid ones: those of which was kept where
// they are, from there, and those that the kernel has given back to the host.
func (d Device) GC(ctx context.Context, req *netconf.Request) error {
	host, labels, err := staleLabels(req)
	if err != nil {
		return err
	}
	d.Warn = req.Warn
	var errs []error
	if stale, ok := req.State.(netconf.StaleRecorder); ok {
		errs = append(errs, stale.Each(func(containerID, ifname string, record netconf.Recorder) error {
			one := *req
			one.State = record
			var was *DeviceWas
			if _, known, err := left(&one, deviceKey, &was); err != nil || !known {
				return err // of one that does not decode the label tells, as soon as the device is on the host
			}
			o := Owner{Network: req.Network.Name, ContainerID: containerID, IfName: ifname}
			return d.bringFrom(ctx, &place{claim: claim{Owner: o, marked: true}, host: host}, was) // marked: hardware is not waited for, once for each
		}))
		if host, labels, err = staleLabels(req); err != nil {
			return netconf.Join(append(errs, err)...)
		}
	}
	for _, l := range labels {
		if _, moved := l.label.from(); moved {
			errs = append(errs, d.restore(ctx, host, l.Link, guessed(l.Link)))
		}
	}
	return netconf.Join(errs...)
}

// Status is an error with code 50 when the device is neither on the host nor in one of the containers, or when it is one that
// stays on the host. A device that the pod brings (ID) cannot be asked for.
func (d Device) Status(_ context.Context, req *netconf.Request) error {
	if d.text() == "" || d.Userspace() {
		return nil
	}
	host, err := Host(req)
	if err != nil {
		return err
	}
	_, err = d.Find(host)
	switch {
	case errors.Is(err, errGivenAway):
		return nil
	case netconf.Code(err) == netconf.CodeInvalidNetworkConfig:
		return netconf.Errorf(netconf.CodePluginNotAvailable, "%w", err)
	}
	return err
}
