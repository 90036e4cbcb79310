package hostlocal_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/ipam/hostlocal"
	"github.com/cnikit/cnikit/netconf"
)

// A plugin's own step: no second process where the configuration says host-local. Any other type is still a program in
// CNI_PATH.
func ExampleInProcess() {
	dir, err := os.MkdirTemp("", "leases")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	env := map[string]string{"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "pod1", "CNI_NETNS": "/run/netns/pod1", "CNI_IFNAME": "eth0"}
	config := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"lan","type":"mine","ipam":{"type":"host-local","dataDir":%q,"subnet":"192.0.2.0/24"}}`, dir)
	req, err := netconf.Parse(func(key string) string { return env[key] }, strings.NewReader(config))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := ipam.FromConfig(req, hostlocal.InProcess()).Add(context.Background(), req); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(req.Result.IPs[0].Address.String(), req.Result.IPs[0].Gateway)
	// Output: 192.0.2.2/24 192.0.2.1
}

// An IPAM plugin of one's own: the section of the configuration is the step. With package skel it is
// skel.Plugin[config]{Kind: skel.IPAM, Steps: func(_ *netconf.Request, c *config) skel.Steps { return skel.Steps{c.IPAM} }}.
func ExampleConfig() {
	type config struct {
		IPAM hostlocal.Config `json:"ipam"`
	}
	conf, err := netconf.DecodeJSON[config]([]byte(`{"ipam":{"ranges":[[{"subnet":"192.0.2.0/31"}]]}}`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(conf.IPAM.Validate(&netconf.Request{Command: netconf.Add}))
	// Output: configuration: ipam.ranges[0][0].subnet: 192.0.2.0/31 is too small: it has no address beside the network's, the gateway's and the broadcast address
}
