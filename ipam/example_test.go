package ipam_test

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/netconf"
)

// An IPAM plugin that is a Go value: no second process.
func ExampleFromConfig() {
	env := map[string]string{"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "pod1", "CNI_NETNS": "/run/netns/pod1", "CNI_IFNAME": "eth0"}
	config := `{"cniVersion":"1.1.0","name":"lan","type":"mine","ipam":{"type":"fixed"}}`
	req, err := netconf.Parse(func(key string) string { return env[key] }, strings.NewReader(config))
	if err != nil {
		fmt.Println(err)
		return
	}
	fixed := delegate.InProcess{Type: "fixed", Do: func(_ context.Context, req *netconf.Request) error {
		if req.Command == netconf.Add {
			req.AddIP(-1, net.IPNet{IP: net.IPv4(192, 0, 2, 7), Mask: net.CIDRMask(24, 32)}, net.IPv4(192, 0, 2, 1))
		}
		return nil
	}}
	if err := ipam.FromConfig(req, fixed).Add(context.Background(), req); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(req.Result.IPs[0].Address.String(), req.Result.IPs[0].Gateway)
	// Output: 192.0.2.7/24 192.0.2.1
}
