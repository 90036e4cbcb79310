// Command static is a CNI IPAM plugin that gives the addresses that its configuration, or the runtime, lists, with the
// configuration keys of the reference plugin of the same name.
package main

import (
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	IPAM ipam.Static `json:"ipam"`
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:     "static",
		About:    "gives a container the addresses that the configuration or the runtime lists",
		Kind:     skel.IPAM,
		Validate: func(req *netconf.Request, c *config) error { return c.IPAM.Validate(req) },
		Steps:    func(_ *netconf.Request, c *config) skel.Steps { return skel.Steps{c.IPAM} },
	}
}

func main() { skel.Main(plugin()) }
