// Command ptp is a CNI plugin that connects a container to the host by a veth pair and routes, with
// the configuration keys of the reference plugin of the same name.
package main

import (
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	MTU int         `json:"mtu" doc:"in bytes; 0 (default) is the kernel's 1500"`
	MAC netconf.MAC `json:"mac" doc:"hardware address in the container; args and runtimeConfig go before it"`

	IPMasq  bool        `json:"ipMasq" doc:"what leaves the container's subnet gets the host's address"`
	Backend nat.Backend `json:"ipMasqBackend" doc:"empty is nftables; iptables, a program, is refused: none is started"`
}

func steps(req *netconf.Request, c *config) skel.Steps {
	return skel.Steps{
		link.Veth{MTU: c.MTU, MAC: req.MAC(c.MAC)},
		ipam.FromConfig(req, compiledIn()...),
		link.Addresses{PointToPoint: true}, // everything goes by the gateway, the host's end
		link.HostRoutes{},
		nat.Masquerade{Off: !c.IPMasq},
	}
}

func validate(req *netconf.Request, c *config) error {
	if err := c.Backend.Check(); c.IPMasq && err != nil {
		return req.Invalid("ipMasqBackend", "%w", err)
	}
	if req.Network.IPAM.Type == "" {
		return req.Invalid("ipam", "missing: a routed pair needs addresses")
	}
	return nil
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:     "ptp",
		About:    "connects a container to the host by a veth pair and routes",
		Validate: validate,
		Steps:    steps,
	}
}

func main() { skel.Main(plugin()) }
