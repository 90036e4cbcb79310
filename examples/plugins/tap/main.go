// Command tap is a CNI plugin that gives a container a tap, for a virtual machine in it, with the configuration keys of the
// reference plugin of the same name.
package main

import (
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	MultiQueue bool             `json:"multiQueue" doc:"it may be opened several times, a queue each"`
	MTU        int              `json:"mtu" doc:"in bytes, 68 to 65521; 0 (default) is the kernel's 1500"`
	MAC        netconf.MAC      `json:"mac" doc:"hardware address; default: the kernel chooses; args and runtimeConfig go before it"`
	Owner      *uint32          `json:"owner" doc:"number of the user who may open it; default: any, if there is no group"`
	Group      *uint32          `json:"group" doc:"number of the group whose members may open it; default: any, if there is no owner"`
	Bridge     string           `json:"bridge" doc:"it becomes a port of this bridge, in the container's namespace; default: of none"`
	SELinux    netconf.Unserved `json:"selinuxContext"`
}

func steps(req *netconf.Request, c *config) skel.Steps {
	return skel.Steps{
		link.Tap{UID: c.Owner, GID: c.Group, MultiQueue: c.MultiQueue, Bridge: c.Bridge, MTU: c.MTU, MAC: req.MAC(c.MAC)},
		ipam.FromConfig(req, compiledIn()...), // nil without an ipam section: a layer-2 attachment
		link.Addresses{DAD: link.DADOff},      // nobody is behind the tap yet who could have the address
	}
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:  "tap",
		About: "gives a container a tap, for a virtual machine in it",
		Steps: steps,
	}
}

func main() { skel.Main(plugin()) }
