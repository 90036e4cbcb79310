package delegate_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// A runtime attaches a container to a network and detaches it: no plugin code, only netconf and
// delegate.
func Example_runtime() {
	network, err := netconf.ParseNetwork([]byte(`{"cniVersion":"1.1.0","name":"lan","type":"no-such-plugin"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	req := &netconf.Request{
		Command: netconf.Add, ContainerID: "pod1", Netns: "/run/netns/pod1", IfName: "eth0",
		Path: []string{"/opt/cni/bin"}, Environ: os.Environ(),
		Network: network, Config: network.Bytes(),
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	result, err := delegate.Add(ctx, delegate.Exec{}, req)
	if err != nil {
		fmt.Println(netconf.Code(err), err)
		return
	}
	fmt.Println(result.IPs[0].Address.String())
	if _, err := (delegate.Exec{}).Call(ctx, req.As(netconf.Del)); err != nil {
		fmt.Println(err)
	}
	// Output: 5 delegate "no-such-plugin" ADD, network "lan": no such program in CNI_PATH: looked for "no-such-plugin" in ["/opt/cni/bin"]
}

// A Go value takes the place of a program.
func ExampleInProcess() {
	env := map[string]string{"CNI_COMMAND": "STATUS"}
	req, err := netconf.Parse(func(key string) string { return env[key] }, strings.NewReader(`{"cniVersion":"1.1.0","name":"lan","type":"pool"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	pool := delegate.InProcess{Do: func(_ context.Context, req *netconf.Request) error {
		return netconf.Errorf(netconf.CodePluginNotAvailable, "no address left")
	}}
	_, err = pool.Call(context.Background(), req)
	fmt.Println(netconf.Code(err), err)
	// Output: 50 delegate "pool" STATUS, network "lan": no address left
}
