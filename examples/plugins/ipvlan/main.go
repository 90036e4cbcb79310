// Command ipvlan is a CNI plugin that gives a container an ipvlan of a link of the host, with the
// configuration keys of the reference plugin of the same name.
package main

import (
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	Master string          `json:"master" doc:"the parent link; default: the prevResult's one interface, or the link of the default route" example:"eth0"`
	Mode   link.IPvlanMode `json:"mode" doc:"the layer on which packets are passed on; one for all on a parent"`
	Flag   link.IPvlanFlag `json:"flag" doc:"how ipvlans on the same parent reach each other; one for all on a parent"`
	MTU    int             `json:"mtu" doc:"in bytes, at most the parent's; 0 (default) is the parent's"`
	InNS   bool            `json:"linkInContainer" doc:"the parent is in the container's namespace, not on the host"`
}

func steps(req *netconf.Request, c *config) skel.Steps {
	return skel.Steps{
		link.IPvlan{
			Parent: link.Parent{Name: c.Master, InContainer: c.InNS, Key: "master"},
			Mode:   c.Mode, Flag: c.Flag, MTU: c.MTU, Chained: true,
		},
		ipam.FromConfig(req, compiledIn()...), // nil without an ipam section: the prevResult's addresses, or layer 2 only
		link.Addresses{},                      // what IPAM answered, put on the interface
	}
}

func validate(req *netconf.Request, _ *config) error {
	if mac := req.MAC(nil); mac != nil { // it refuses what is no MAC
		req.Warn("an ipvlan has its parent's hardware address: another cannot be set", "mac", mac.String())
	}
	return nil
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:     "ipvlan",
		About:    "gives a container an ipvlan of a link of the host",
		Validate: validate,
		Steps:    steps,
	}
}

func main() { skel.Main(plugin()) }
