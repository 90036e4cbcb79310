package main

import (
	"context"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/ipam/hostlocal"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// compiledIn are the plugins that are Go values of this program, by type: without a process of its own an attachment
// takes a third of the time. A plugin can be here only if it serves every key of the program whose name it takes: a
// node's networks were written for that. So macvlan is here, and bridge (of whose keys the SDK leaves out vlan) is not.
// The example plugins of the SDK are programs, which cannot be imported; what they are made of is the SDK's steps, as
// here.
func compiledIn() delegate.Registry {
	return delegate.Registry{
		"macvlan":  skel.Plugin[macvlan]{Name: "macvlan", Steps: macvlanSteps}.Do,
		"passthru": passthru,
	}
}

// macvlan is the configuration of the plugin macvlan.
type macvlan struct {
	Master  string           `json:"master"`
	Mode    link.MacvlanMode `json:"mode"`
	MTU     int              `json:"mtu"`
	MAC     netconf.MAC      `json:"mac"`
	InNS    bool             `json:"linkInContainer"`
	BcQueue uint32           `json:"bcqueuelen"`
}

func macvlanSteps(req *netconf.Request, c *macvlan) skel.Steps {
	return skel.Steps{
		link.Macvlan{
			Parent: link.Parent{Name: c.Master, InContainer: c.InNS, Key: "master"},
			Mode:   c.Mode, MTU: c.MTU, MAC: req.MAC(c.MAC), BcQueueLen: c.BcQueue,
		},
		ipam.FromConfig(req, hostlocal.InProcess(), ipam.StaticInProcess()),
		link.Addresses{},
	}
}

// passthru makes nothing: it is the head of the auxiliary chain, whose plugins need a prevResult.
func passthru(context.Context, *netconf.Request) error { return nil }
