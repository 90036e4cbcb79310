package link_test

import (
	"context"
	"fmt"
	"log"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// A card of the host goes into the container with its addresses there, and back. What is kept in between is in req.State.
func ExampleDevice() {
	type config struct {
		Device string `json:"device"`
	}
	plugin := skel.Plugin[config]{
		Name: "card",
		Steps: func(_ *netconf.Request, c *config) skel.Steps {
			return skel.Steps{
				link.Device{Link: c.Device},
				// the IPAM step
				link.Addresses{},
			}
		},
	}
	fmt.Println(plugin.Name)
	// Output: card
}

// A daemon keeps what Delete needs itself: save is called before the device moves, and again when it has arrived.
func ExampleDevice_Create() {
	move := func(ctx context.Context, host, container *link.NS, save func(*link.DeviceWas) error) error {
		d := link.Device{PCI: "0000:03:00.1", Warn: func(msg string, args ...any) { log.Println(append([]any{msg}, args...)...) }}
		owner := link.Owner{Network: "sriov", ContainerID: "c1", IfName: "net1"}
		var was *link.DeviceWas
		_, err := d.Create(ctx, host, container, owner, func(w *link.DeviceWas) error {
			was = w
			return save(w)
		})
		if err != nil {
			return err
		}
		return d.Delete(ctx, host, container, owner, was)
	}
	fmt.Println(move != nil)
	// Output: true
}
