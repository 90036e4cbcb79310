// Command dummy is a CNI plugin that gives a container an interface that leads nowhere and holds addresses, with the
// configuration keys of the reference plugin of the same name.
package main

import (
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	MTU int         `json:"mtu" doc:"in bytes; 0 (default) is 1500"`
	MAC netconf.MAC `json:"mac" doc:"hardware address; args and runtimeConfig go before it; default: one by chance"`
}

func steps(req *netconf.Request, c *config) skel.Steps {
	return skel.Steps{
		link.Dummy{MTU: c.MTU, MAC: req.MAC(c.MAC)},
		ipam.FromConfig(req, compiledIn()...),
		link.Addresses{}, // what IPAM answered, put on the interface
	}
}

func validate(req *netconf.Request, _ *config) error {
	if req.Network.IPAM.Type == "" {
		return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "key %q: it is required, since a dummy is there to hold addresses", "ipam")
	}
	return nil
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:     "dummy",
		About:    "gives a container an interface that leads nowhere and holds addresses",
		Validate: validate,
		Steps:    steps,
	}
}

func main() { skel.Main(plugin()) }
