// Command bridge is a CNI plugin that connects a container to a bridge of the host by a veth pair,
// with the configuration keys of the reference plugin of the same name.
package main

import (
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	Bridge   string      `json:"bridge" doc:"the bridge's name; made if it is not there"`
	Gateway  bool        `json:"isGateway" doc:"give the bridge the gateway's address and forward"`
	Default  bool        `json:"isDefaultGateway" doc:"as isGateway, and the container's default route leads there"`
	Force    bool        `json:"forceAddress" doc:"replace another address of the same family on the bridge"`
	MTU      int         `json:"mtu" doc:"in bytes; 0 (default) is the bridge's"`
	MAC      netconf.MAC `json:"mac" doc:"hardware address in the container; args and runtimeConfig go before it"`
	Hairpin  bool        `json:"hairpinMode" doc:"a packet may leave by the port it came in by"`
	Promisc  bool        `json:"promiscMode" doc:"the bridge takes every packet"`
	Isolated bool        `json:"portIsolation" doc:"the container reaches the bridge, not its other isolated ports"`
	DAD      bool        `json:"enabledad" doc:"wait for duplicate address detection; default: an allocator owns the addresses"`
	IPMasq   bool        `json:"ipMasq" doc:"what leaves the container's subnet gets the host's address"`
	Backend  nat.Backend `json:"ipMasqBackend" doc:"empty is nftables; iptables, a program, is refused: none is started"`

	VLAN         netconf.Unserved `json:"vlan" doc:"not served"`
	VLANTrunk    netconf.Unserved `json:"vlanTrunk" doc:"not served"`
	PreserveVLAN bool             `json:"preserveDefaultVlan" doc:"without vlan and vlanTrunk it says nothing"`
	SpoofCheck   netconf.Unserved `json:"macspoofchk" doc:"not served"`
	NoInterface  netconf.Unserved `json:"disableContainerInterface" doc:"not served"`
}

func steps(req *netconf.Request, c *config) skel.Steps {
	dad := map[bool]link.DADMode{false: link.DADAuto, true: link.DADOwn}[c.DAD]
	var gateway skel.Step // nil steps are skipped
	if c.Gateway || c.Default {
		gateway = link.Gateway{Bridge: c.Bridge, Default: c.Default, Force: c.Force}
	}
	return skel.Steps{
		link.Bridge{Name: c.Bridge, MTU: c.MTU, Promisc: c.Promisc},
		link.Veth{Bridge: c.Bridge, MTU: c.MTU, MAC: req.MAC(c.MAC), Hairpin: c.Hairpin, Isolated: c.Isolated},
		ipam.FromConfig(req, compiledIn()...),
		gateway,
		link.Addresses{DAD: dad},
		nat.Masquerade{Off: !c.IPMasq},
	}
}

func validate(req *netconf.Request, c *config) error {
	if err := c.Backend.Check(); c.IPMasq && err != nil {
		return req.Invalid("ipMasqBackend", "%w", err)
	}
	return nil
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:     "bridge",
		About:    "connects a container to a bridge of the host",
		Defaults: func() config { return config{Bridge: "cni0"} },
		Validate: validate,
		Steps:    steps,
	}
}

func main() { skel.Main(plugin()) }
