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

// A plugin with an ipam section of its own: no other plugin is called.
func ExampleStatic() {
	env := map[string]string{"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "pod1", "CNI_NETNS": "/run/netns/pod1", "CNI_IFNAME": "eth0"}
	config := `{"cniVersion":"1.1.0","name":"lan","type":"mine","ipam":{"addresses":[{"address":"192.0.2.7/24"},{"address":"192.0.2.0/24"}]}}`
	req, err := netconf.Parse(func(key string) string { return env[key] }, strings.NewReader(config))
	if err != nil {
		fmt.Println(err)
		return
	}
	conf, err := netconf.Decode[struct {
		IPAM ipam.Static `json:"ipam"`
	}](req, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(conf.IPAM.Validate(req))
	conf.IPAM.Addresses = conf.IPAM.Addresses[:1]
	if err := conf.IPAM.Add(context.Background(), req); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(req.Result.IPs[0].Address.String())
	// Output:
	// configuration: ipam.addresses[1].address (line 1, column 109): 192.0.2.0/24 is its subnet's network or broadcast address
	// 192.0.2.7/24
}

// The program "static" need not be installed.
func ExampleStaticInProcess() {
	env := map[string]string{"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "pod1", "CNI_NETNS": "/run/netns/pod1", "CNI_IFNAME": "eth0"}
	config := `{"cniVersion":"1.1.0","name":"lan","type":"mine","ipam":{"type":"static"},"runtimeConfig":{"ips":["192.0.2.8/24"]}}`
	req, err := netconf.Parse(func(key string) string { return env[key] }, strings.NewReader(config))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := ipam.FromConfig(req, ipam.StaticInProcess()).Add(context.Background(), req); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(req.Result.IPs[0].Address.String())
	// Output: 192.0.2.8/24
}
