// Command loopback is a CNI plugin that sets a container's lo up, as the reference plugin of the same name.
package main

import (
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct{} // it has no key of its own

func steps(*netconf.Request, *config) skel.Steps { return skel.Steps{link.Loopback{}} }

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:  "loopback",
		About: "sets the lo of a container up",
		Kind:  skel.Meta, // as one of these it need not name CNI_IFNAME in its result, and may have a prevResult or none
		Steps: steps,
	}
}

func main() { skel.Main(plugin()) }
