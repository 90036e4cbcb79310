// Command host-device is a CNI plugin that moves a device of the host into a container, with the configuration keys of the
// reference plugin of the same name.
package main

import (
	"context"

	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	Device     string `json:"device" doc:"the device's name on the host, or an alternative one" example:"eth1"`
	HWAddr     string `json:"hwaddr" doc:"its hardware address"`
	KernelPath string `json:"kernelpath" doc:"its folder below /sys/devices"`
	PCI        string `json:"pciBusID" doc:"its PCI address; runtimeConfig.deviceID goes before all of these keys"`
}

func steps(req *netconf.Request, c *config) skel.Steps {
	d := link.Device{Link: c.Device, MAC: c.HWAddr, KernelPath: c.KernelPath, PCI: c.PCI, ID: req.Runtime().DeviceID}
	return skel.Steps{
		d,
		ipam.FromConfig(req, compiledIn()...), // nil without an ipam section: a layer-2 attachment
		addresses{device: d},
	}
}

// addresses are what IPAM answered, put on the device. One that is handed to a process has no link that could have them: the
// process finds them in the result.
type addresses struct {
	link.Addresses
	device link.Device
}

func (addresses) Name() string { return "addresses" }

func (a addresses) Add(ctx context.Context, req *netconf.Request) error {
	if !a.device.Userspace() {
		return a.Addresses.Add(ctx, req)
	}
	index := netconf.Attached(req.Result, req.IfName)
	for _, ip := range req.Result.IPs {
		ip.Interface = &index
	}
	return nil
}

func (a addresses) Check(ctx context.Context, req *netconf.Request) error {
	if a.device.Userspace() {
		return nil
	}
	return a.Addresses.Check(ctx, req)
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:  "host-device",
		About: "moves a device of the host into a container",
		Steps: steps,
	}
}

func main() { skel.Main(plugin()) }
