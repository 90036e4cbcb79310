package main

import (
	"context"
	"encoding/json"

	"github.com/cnikit/cnikit/examples/multinet/device"
	"github.com/cnikit/cnikit/netconf"
)

// The files that describe devices to plugins and to the pod are no part of the record, which package delegate writes;
// their names are in the state that skel keeps of an attachment, written before the first of them. Neither outlives a
// reboot.
const stateKey = "device-info"

// keepDevices copies what device plugins say of the devices to where the networks' plugins find it.
func (a *adding) keepDevices(ctx context.Context) error {
	var paths []string
	for i := range a.attachments {
		if path := a.infoFile(i); path != "" {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	text, err := json.Marshal(paths)
	if err != nil {
		return err // cannot be: strings always encode
	}
	if err := a.req.State.Save(stateKey, text); err != nil {
		return err
	}
	for i, n := range a.networks {
		if path := a.infoFile(i); path != "" {
			if err := (device.Files{}).Copy(ctx, n.Resource, a.device(i), path); err != nil {
				return err
			}
		}
	}
	return nil
}

// infoFile is the file of an attachment's device; empty: it has none.
func (a *adding) infoFile(i int) string { return a.text(i, "CNIDeviceInfoFile") }

// device is an attachment's device.
func (a *adding) device(i int) string { return a.text(i, "deviceID") }

// text is a text in an attachment's runtimeConfig.
func (a *adding) text(i int, key string) (s string) {
	if a.networks[i].Resource != "" && a.attachments[i].RuntimeConfig[key] != nil {
		_ = json.Unmarshal(a.attachments[i].RuntimeConfig[key], &s) // it was written here
	}
	return s
}

// deviceInfo is what the status says of an attachment's device.
func (a *adding) deviceInfo(i int) json.RawMessage {
	path := a.infoFile(i)
	if path == "" {
		return nil
	}
	info, err := device.Files{}.Load(path)
	if err != nil {
		a.req.Warn("the status is written without the device", "error", err.Error())
	}
	return info
}

// dropDevices removes the files of an attachment.
func (m multinet) dropDevices(ctx context.Context, req *netconf.Request) error {
	return dropDevices(context.WithoutCancel(ctx), req.State)
}

// dropStaleDevices removes the files of the attachments that GC is about.
func (m multinet) dropStaleDevices(ctx context.Context, req *netconf.Request) error {
	stale, ok := req.State.(netconf.StaleRecorder)
	if !ok {
		return nil
	}
	return stale.Each(func(_, _ string, kept netconf.Recorder) error { return dropDevices(ctx, kept) })
}

func dropDevices(ctx context.Context, state netconf.Recorder) error {
	text, err := state.Load(stateKey)
	if err != nil || text == nil {
		return err
	}
	var paths []string
	if json.Unmarshal(text, &paths) != nil {
		return state.Forget(stateKey) // damaged: what it named is gone with the next boot
	}
	var errs []error
	for _, path := range paths {
		errs = append(errs, device.Files{}.Remove(ctx, path))
	}
	if err := netconf.Join(errs...); err != nil {
		return err
	}
	return state.Forget(stateKey)
}
