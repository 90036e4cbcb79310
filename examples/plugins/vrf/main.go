// Command vrf is a chained CNI plugin that puts the interface into a routing domain of its own, with the configuration keys
// of the reference plugin of the same name.
package main

import (
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	Name  string `json:"vrfname" doc:"the VRF, which is made with its first interface and goes with the last; required" example:"red"`
	Table int    `json:"table" doc:"its routing table; 0 (default): that of the VRF, if it is there, or the lowest free one"`
}

func steps(_ *netconf.Request, c *config) skel.Steps {
	return skel.Steps{link.VRF{VRF: c.Name, Table: c.Table}}
}

func validate(_ *netconf.Request, c *config) error {
	if c.Name == "" {
		return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "key %q: the name of the VRF is required", "vrfname")
	}
	return link.VRF{VRF: c.Name, Table: c.Table}.Valid()
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name: "vrf", About: "puts the interface into a routing domain of its own", Kind: skel.Chained,
		Validate: validate, Steps: steps,
	}
}

func main() { skel.Main(plugin()) }
