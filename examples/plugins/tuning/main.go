// Command tuning is a chained CNI plugin that changes sysctls and attributes of the interface, with the configuration
// keys of the reference plugin of the same name.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// allowList, if it is there, says which sysctls may be set.
const allowList = "/etc/cni/tuning/allowlist.conf"

type config struct {
	keys
	DataDir string `json:"dataDir" doc:"where the reference plugin has written down what DEL gives back, for an attachment that it has made; default: /run/cni/tuning"`
}

// keys may stand in args.cni too.
type keys struct {
	Sysctl   map[string]string `json:"sysctl" doc:"parameters below net, by name; the part IFNAME is the interface's name"`
	MAC      netconf.MAC       `json:"mac" doc:"hardware address; args and runtimeConfig go before it"`
	MTU      int               `json:"mtu" doc:"in bytes; 0 (default) leaves it" example:"1400"`
	Promisc  *bool             `json:"promisc" doc:"take frames that are for others; default: as it is"`
	AllMulti *bool             `json:"allmulti" doc:"take all multicast frames; default: as it is"`
	TxQLen   *int              `json:"txQLen" doc:"packets in the queue for sending; default: as it is"`
}

// asked is the configuration with what args.cni has of its keys.
func asked(req *netconf.Request, c *config) (*keys, error) {
	if cni := req.Network.Args["cni"]; bytes.HasPrefix(cni, []byte("{")) {
		return netconf.DecodeAt(req, "args.cni", func() keys { return c.keys })
	}
	return &c.keys, nil
}

// validate looks at the values, and holds the sysctls against the allow-list.
func validate(req *netconf.Request, c *config) error {
	k, err := asked(req, c)
	if err == nil {
		err = netconf.Join(link.Sysctls{Values: k.Sysctl}.Valid(), link.Tune{MTU: k.MTU, TxQLen: k.TxQLen}.Valid())
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(allowList)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return netconf.Errorf(netconf.CodeIOFailure, "the allow-list: %w", err)
	}
	list, err := link.ParseAllowedSysctls(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", allowList, err)
	}
	return list.Check(link.Sysctls{Values: k.Sysctl})
}

func steps(req *netconf.Request, c *config) skel.Steps {
	k, err := asked(req, c)
	req.Reject(err)
	return skel.Steps{
		link.Sysctls{Values: k.Sysctl},
		link.Tune{MAC: req.MAC(k.MAC), MTU: k.MTU, Promisc: k.Promisc, AllMulti: k.AllMulti, TxQLen: k.TxQLen},
		record{c.DataDir},
	}
}

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name: "tuning", About: "changes sysctls and attributes of the interface", Kind: skel.Chained, Validate: validate, Steps: steps,
		Defaults: func() config { return config{DataDir: "/run/cni/tuning"} },
	}
}

func main() { skel.Main(plugin()) }
