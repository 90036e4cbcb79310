// Command sbr is a chained CNI plugin that has packets leave by the interface whose address they come from, with the
// configuration keys of the reference plugin of the same name.
package main

import (
	"net/netip"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	Table    int            `json:"table" doc:"a routing table that has its routes already; default: tables of the interface's own, to which its routes are moved" example:"100"`
	Gateways []netconf.Addr `json:"gateways" doc:"one of each family at most, in the place of those of the addresses"`
	Hints    bool           `json:"addSourceHints" doc:"the main table keeps the routes to the interface's subnets"`
}

func steps(_ *netconf.Request, c *config) skel.Steps {
	var gateways []netip.Addr
	for _, gw := range c.Gateways {
		gateways = append(gateways, gw.Addr)
	}
	return skel.Steps{link.SourceRouting{Table: c.Table, Gateways: gateways, KeepSubnets: c.Hints}}
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:  "sbr",
		About: "routes by the source: packets leave by the interface whose address they come from",
		Kind:  skel.Chained,
		Steps: steps,
	}
}

func main() { skel.Main(plugin()) }
