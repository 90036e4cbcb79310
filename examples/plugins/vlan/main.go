// Command vlan is a CNI plugin that gives a container one VLAN of a link of the host, with the configuration keys of the
// reference plugin of the same name.
package main

import (
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	Master string `json:"master" doc:"the parent link, whose frames carry the tag; required" example:"eth0"`
	ID     int    `json:"vlanId" doc:"the VLAN, 0 to 4094; a parent has one link for each" example:"7"`
	MTU    int    `json:"mtu" doc:"in bytes, at most the parent's; 0 (default) is the parent's"`
	InNS   bool   `json:"linkInContainer" doc:"the parent is in the container's namespace, not on the host"`
}

func (c *config) link() link.VLAN {
	return link.VLAN{Parent: link.Parent{Name: c.Master, InContainer: c.InNS, Key: "master"}, ID: c.ID, MTU: c.MTU}
}

func steps(req *netconf.Request, c *config) skel.Steps {
	return skel.Steps{
		c.link(),
		ipam.FromConfig(req, compiledIn()...), // nil without an ipam section: layer 2 only
		link.Addresses{},                      // what IPAM answered, put on the interface
	}
}

func validate(req *netconf.Request, c *config) error {
	if c.Master == "" {
		return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "key %q: the link that the VLAN is on is required", "master")
	}
	if c.ID == 0 {
		req.Warn("vlanId is 0: the frames get a priority tag, which is no VLAN", "master", c.Master)
	}
	if mac := req.MAC(nil); mac != nil { // it refuses what is no MAC
		req.Warn("a VLAN's link has its parent's hardware address: the plugin tuning sets another", "mac", mac.String())
	}
	return c.link().Valid()
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:     "vlan",
		About:    "gives a container one VLAN of a link of the host",
		Validate: validate,
		Steps:    steps,
	}
}

func main() { skel.Main(plugin()) }
