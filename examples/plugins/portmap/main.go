// Command portmap is a chained CNI plugin that leads ports of the host into a container, with the configuration keys
// of the reference plugin of the same name.
package main

import (
	"encoding/json"
	"fmt"

	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	SNAT    bool        `json:"snat" doc:"the host by 127.0.0.1, the container itself and its neighbours reach the port; they come from the host's address"`
	MasqAll bool        `json:"masqAll" doc:"all who reach the port come from the host's address"`
	Backend nat.Backend `json:"backend" doc:"empty is nftables; iptables, a program, is refused: none is started"`
	MarkBit int         `json:"markMasqBit" doc:"the bit of a packet's mark that is used, 13; another is refused"`

	ConditionsV4 []string `json:"conditionsV4" doc:"refused: text of rules, for which a program is needed"`
	ConditionsV6 []string `json:"conditionsV6" doc:"refused: text of rules, for which a program is needed"`
	SetMarkChain string   `json:"externalSetMarkChain" doc:"refused: a chain of iptables"`
}

func portMap(req *netconf.Request, c *config) nat.PortMap {
	return nat.PortMap{Mappings: req.Runtime().PortMappings, NoSNAT: !c.SNAT, MasqueradeAll: c.MasqAll}
}

func steps(req *netconf.Request, c *config) skel.Steps { return skel.Steps{portMap(req, c)} }

// hostIPs refuses addresses on which nothing can be mapped. It reads them as they were sent: Runtime leaves out a
// mapping that is there twice, and the path must lead to the one that is wrong.
func hostIPs(req *netconf.Request, c *config) (errs []error) {
	var sent []struct {
		HostIP netconf.Addr `json:"hostIP"`
	}
	if err := json.Unmarshal(req.Network.RuntimeConfig["portMappings"], &sent); err != nil {
		return nil // there are none, or Runtime has said what is wrong with them
	}
	for i, m := range sent {
		if err := portMap(req, c).CheckHostIP(m.HostIP.Addr); err != nil {
			errs = append(errs, req.Invalid(fmt.Sprintf("runtimeConfig.portMappings[%d].hostIP", i), "%w", err))
		}
	}
	return errs
}

func validate(req *netconf.Request, c *config) error {
	errs := hostIPs(req, c)
	refuse := func(key string, is bool, why string) {
		if is {
			errs = append(errs, req.Invalid(key, "not served: %s", why))
		}
	}
	if err := c.Backend.Check(); err != nil {
		errs = append(errs, req.Invalid("backend", "%w", err))
	}
	refuse("markMasqBit", c.MarkBit != nat.MarkBit, "all networks share one table, which uses bit 13 between two of its own chains alone")
	const text = "a condition is the text of a rule, and the table has no rules of one network"
	refuse("conditionsV4", len(c.ConditionsV4) > 0, text)
	refuse("conditionsV6", len(c.ConditionsV6) > 0, text)
	refuse("externalSetMarkChain", c.SetMarkChain != "", "it is a chain of iptables, and what it marks is masqueraded here without it")
	return netconf.Join(errs...)
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:     "portmap",
		About:    "leads ports of the host into a container",
		Kind:     skel.Chained,
		Defaults: func() config { return config{SNAT: true, MarkBit: nat.MarkBit} },
		Validate: validate,
		Steps:    steps,
	}
}

func main() { skel.Main(plugin()) }
