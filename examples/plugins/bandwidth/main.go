// Command bandwidth is a chained CNI plugin that limits what goes into a container and out of it, with the
// configuration keys of the reference plugin of the same name.
package main

import (
	"net/netip"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	IngressRate  netconf.Quantity `json:"ingressRate" doc:"into the container, in bits per second; 0 (default): no limit" example:"100000000"`
	IngressBurst netconf.Quantity `json:"ingressBurst" doc:"what may go at once, in bits; 0 (default): what goes in 10 ms"`
	EgressRate   netconf.Quantity `json:"egressRate" doc:"out of the container, in bits per second; 0 (default): no limit"`
	EgressBurst  netconf.Quantity `json:"egressBurst" doc:"what may go at once, in bits; 0 (default): what goes in 10 ms"`
	Unshaped     []netconf.Prefix `json:"unshapedSubnets" doc:"what comes from, or goes to, these is not limited"`
	Shaped       []netconf.Prefix `json:"shapedSubnets" doc:"what comes from, or goes to, these alone is limited"`
}

// limits are those of the configuration, and for a direction for which it has none the runtime's.
func limits(req *netconf.Request, c *config) link.Bandwidth {
	in, out := link.Rate{Rate: c.IngressRate, Burst: c.IngressBurst}, link.Rate{Rate: c.EgressRate, Burst: c.EgressBurst}
	if asked := req.Runtime().Bandwidth; asked != nil { // the administrator's limit goes before the pod's
		if in == (link.Rate{}) {
			in = link.Rate{Rate: asked.IngressRate, Burst: asked.IngressBurst}
		}
		if out == (link.Rate{}) {
			out = link.Rate{Rate: asked.EgressRate, Burst: asked.EgressBurst}
		}
	}
	return link.Bandwidth{Ingress: in, Egress: out, Unshaped: prefixes(c.Unshaped), Shaped: prefixes(c.Shaped)}
}

func prefixes(list []netconf.Prefix) (out []netip.Prefix) {
	for _, p := range list {
		out = append(out, p.Prefix)
	}
	return out
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:     "bandwidth",
		About:    "limits what goes into a container and out of it",
		Kind:     skel.Chained,
		Validate: func(req *netconf.Request, c *config) error { return limits(req, c).Valid() },
		Steps:    func(req *netconf.Request, c *config) skel.Steps { return skel.Steps{limits(req, c)} },
	}
}

func main() { skel.Main(plugin()) }
