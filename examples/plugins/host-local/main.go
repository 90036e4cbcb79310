// Command host-local is a CNI plugin that gives addresses from ranges and keeps the leases in files, with the
// configuration keys and the files of the reference plugin of the same name.
package main

import (
	"github.com/cnikit/cnikit/ipam/hostlocal"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	IPAM hostlocal.Config `json:"ipam"`
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:     "host-local",
		About:    "gives addresses from ranges, and remembers in files who has them",
		Kind:     skel.IPAM, // the namespace need not exist, and the result has no interfaces
		Validate: func(req *netconf.Request, c *config) error { return c.IPAM.Validate(req) },
		Steps:    func(_ *netconf.Request, c *config) skel.Steps { return skel.Steps{c.IPAM} },
	}
}

func main() { skel.Main(plugin()) }
