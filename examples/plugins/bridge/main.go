// Command bridge is a CNI plugin that connects a container to a bridge of the host by a veth pair,
// with the configuration keys of the reference plugin of the same name.
package main

import (
	"fmt"

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

	VLAN         int     `json:"vlan" doc:"the container's VLAN, 1 to 4094, untagged on its side; the bridge filters then"`
	VLANTrunk    []trunk `json:"vlanTrunk" doc:"VLANs that the container sends and gets with their tags"`
	PreserveVLAN bool    `json:"preserveDefaultVlan" doc:"with vlan: the port stays in the bridge's default VLAN too"`
	NoInterface  bool    `json:"disableContainerInterface" doc:"the container's end stays down; then there is no ipam"`

	SpoofCheck netconf.Unserved `json:"macspoofchk" doc:"not served"`
}

// trunk is one VLAN, or several in a row, or both.
type trunk struct {
	ID  *int `json:"id" doc:"a VLAN, 1 to 4094"`
	Min *int `json:"minID" doc:"the first VLAN of a range"`
	Max *int `json:"maxID" doc:"the last VLAN of the range"`
}

// vlans are those of the container's port. A trunk without a VLAN of its own has the VLAN 1 for what is untagged, as that of
// the reference plugin has.
func (c *config) vlans() link.PortVLANs {
	v := link.PortVLANs{Untagged: c.VLAN, KeepDefault: c.PreserveVLAN}
	for _, t := range c.VLANTrunk {
		if t.Min != nil && t.Max != nil {
			v.Tagged = append(v.Tagged, link.VLANRange{First: *t.Min, Last: *t.Max})
		}
		if t.ID != nil {
			v.Tagged = append(v.Tagged, link.VLANRange{First: *t.ID, Last: *t.ID})
		}
	}
	if v.Untagged == 0 && len(v.Tagged) > 0 {
		v.Untagged = 1
	}
	return v
}

func steps(req *netconf.Request, c *config) skel.Steps {
	dad := map[bool]link.DADMode{false: link.DADAuto, true: link.DADOwn}[c.DAD]
	var gateway, addresses skel.Step // nil steps are skipped
	if c.Gateway || c.Default {
		gateway = link.Gateway{Bridge: c.Bridge, VLAN: c.VLAN, Default: c.Default, Force: c.Force}
	}
	if !c.NoInterface {
		addresses = link.Addresses{DAD: dad} // they also set the link up
	}
	vlans := c.vlans()
	return skel.Steps{
		link.Bridge{Name: c.Bridge, MTU: c.MTU, Promisc: c.Promisc, VLANFiltering: vlans.Untagged != 0},
		link.Veth{
			Bridge: c.Bridge, VLANs: vlans, MTU: c.MTU, MAC: req.MAC(c.MAC),
			Hairpin: c.Hairpin, Isolated: c.Isolated, Down: c.NoInterface,
		},
		ipam.FromConfig(req, compiledIn()...),
		gateway,
		addresses,
		nat.Masquerade{Off: !c.IPMasq},
	}
}

func validate(req *netconf.Request, c *config) error {
	if err := c.Backend.Check(); c.IPMasq && err != nil {
		return req.Invalid("ipMasqBackend", "%w", err)
	}
	if c.Hairpin && c.Promisc {
		return req.Invalid("hairpinMode", "not together with promiscMode: the bridge would deliver what comes back twice")
	}
	if c.NoInterface && req.Network.IPAM.Type != "" {
		return req.Invalid("disableContainerInterface", "not together with ipam: addresses need the interface")
	}
	if err := (link.PortVLANs{Untagged: c.VLAN}).Valid(); err != nil {
		return req.Invalid("vlan", "%w", err)
	}
	for i, t := range c.VLANTrunk {
		key := fmt.Sprintf("vlanTrunk[%d]", i)
		if (t.Min == nil) != (t.Max == nil) || t.ID == nil && t.Min == nil {
			return req.Invalid(key, "expected id, or minID and maxID")
		}
		if err := (&config{VLANTrunk: c.VLANTrunk[i : i+1]}).vlans().Valid(); err != nil {
			return req.Invalid(key, "%w", err)
		}
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
