// Command macvlan is a CNI plugin that gives a container a macvlan of a link of the host, with the
// configuration keys of the reference plugin of the same name.
package main

import (
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	Master  string           `json:"master" doc:"the parent link; default: the link of the default route" example:"eth0"`
	Mode    link.MacvlanMode `json:"mode" doc:"how macvlans on the same parent reach each other"`
	MTU     int              `json:"mtu" doc:"in bytes, at most the parent's; 0 (default) is the parent's"`
	MAC     netconf.MAC      `json:"mac" doc:"hardware address; default: the kernel chooses; args and runtimeConfig go before it"`
	InNS    bool             `json:"linkInContainer" doc:"the parent is in the container's namespace, not on the host"`
	BcQueue uint32           `json:"bcqueuelen" doc:"length of the parent's broadcast queue; 0 (default) is the kernel's 1000"`
}

func steps(req *netconf.Request, c *config) skel.Steps {
	return skel.Steps{
		link.Macvlan{
			Parent: link.Parent{Name: c.Master, InContainer: c.InNS, Key: "master"},
			Mode:   c.Mode, MTU: c.MTU, MAC: req.MAC(c.MAC), BcQueueLen: c.BcQueue,
		},
		ipam.FromConfig(req, compiledIn()...), // nil without an ipam section: a layer-2 attachment
		link.Addresses{},                      // what IPAM answered, put on the interface
	}
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:  "macvlan",
		About: "gives a container a macvlan of a link of the host",
		Steps: steps,
	}
}

func main() { skel.Main(plugin()) }
