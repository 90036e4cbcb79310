package skel_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// reserve is a step: it gives the address of the configuration.
type reserve struct{ address string }

func (r reserve) Add(_ context.Context, req *netconf.Request) error {
	ip, subnet, err := net.ParseCIDR(r.address)
	if err != nil {
		return req.Invalid("address", "%w", err)
	}
	req.AddIP(-1, net.IPNet{IP: ip, Mask: subnet.Mask}, nil)
	return nil
}

// Check holds the part against what the ADD has answered. To return nil here would say of anything that it is right.
func (r reserve) Check(_ context.Context, req *netconf.Request) error {
	for _, ip := range req.Prev.IPs {
		if ip.Address.String() == r.address {
			return nil
		}
	}
	return fmt.Errorf("%w: the prevResult does not have %s", netconf.ErrDifferent, r.address)
}

// Del has nothing to take away: what nobody keeps a record of is not taken. So there is no GC and no Status either.
func (r reserve) Del(context.Context, *netconf.Request) error { return nil }

type exampleConfig struct {
	Address string `json:"address" doc:"the one address to give"`
}

func examplePlugin() skel.Plugin[exampleConfig] {
	return skel.Plugin[exampleConfig]{
		Name: "one-address", Kind: skel.IPAM, RunDir: os.TempDir(),
		Steps: func(_ *netconf.Request, c *exampleConfig) skel.Steps { return skel.Steps{reserve{c.Address}} },
	}
}

// A plugin's main function is one line. (It never returns, so it is not run here.)
func ExampleMain() {
	main := func() { skel.Main(examplePlugin()) }
	_ = main
}

// Run serves a call whose environment and streams are values: no process, no globals.
func ExamplePlugin_Run() {
	env := []string{"CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_NETNS=/run/netns/c1", "CNI_IFNAME=eth0"}
	conf := `{"cniVersion": "1.1.0", "name": "net", "type": "one-address", "address": "10.0.0.2/24"}`
	exit := examplePlugin().Run(context.Background(), skel.IO{Env: env, Stdin: strings.NewReader(conf), Stdout: os.Stdout, Stderr: os.Stderr})
	fmt.Println("exit status", exit)

	conf = `{"cniVersion": "1.1.0", "name": "net", "type": "one-address",
 "address": 10}`
	exit = examplePlugin().Run(context.Background(), skel.IO{Env: env, Stdin: strings.NewReader(conf), Stdout: os.Stdout, Stderr: os.Stderr})
	fmt.Println("exit status", exit)
	// Output:
	// {
	//     "cniVersion": "1.1.0",
	//     "ips": [
	//         {
	//             "address": "10.0.0.2/24"
	//         }
	//     ]
	// }
	// exit status 0
	// {
	//     "cniVersion": "1.1.0",
	//     "code": 6,
	//     "msg": "configuration: address (line 2, column 13): expected a string, got the number 10"
	// }
	// exit status 1
}

// Do serves a call inside a program of yours: a daemon, or a plugin that has another one compiled in.
func ExamplePlugin_Do() {
	env := map[string]string{"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/c1", "CNI_IFNAME": "eth0"}
	conf := strings.NewReader(`{"cniVersion": "1.1.0", "name": "net", "type": "one-address", "address": "10.0.0.2/24"}`)
	req, err := netconf.Parse(func(key string) string { return env[key] }, conf)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer req.Close()
	if err := examplePlugin().Do(context.Background(), req); err != nil {
		fmt.Println(netconf.Code(err), err)
		return
	}
	fmt.Println(req.Result.IPs[0].Address.String())
	// Output: 10.0.0.2/24
}

// Funcs is for verbs that are written by hand. This one has no GC and no STATUS, so the plugin announces
// the versions up to 1.0.0.
func ExampleFuncs() {
	byHand := skel.Funcs{
		Add: func(_ context.Context, req *netconf.Request) error {
			req.AddInterface(&types100.Interface{Name: req.IfName, Sandbox: req.Netns})
			return nil
		},
		Check: func(context.Context, *netconf.Request) error { return nil },
	}
	p := skel.Plugin[struct{}]{
		Name:  "by-hand",
		Steps: func(*netconf.Request, *struct{}) skel.Steps { return skel.Steps{byHand.Step()} },
	}
	p.Run(context.Background(), skel.IO{Env: []string{"CNI_COMMAND=VERSION"}, Stdin: strings.NewReader(`{"cniVersion": "1.0.0"}`), Stdout: os.Stdout, Stderr: os.Stderr})
	// Output: {"cniVersion":"1.0.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0"]}
}

// Logger is for what a step has to tell, WithLogger for a daemon that wants to hear it.
func ExampleLogger() {
	ask := skel.Funcs{Add: func(ctx context.Context, req *netconf.Request) error {
		skel.Logger(ctx).Info("the daemon has answered", "device", "ens5")
		return nil
	}, Title: "daemon"}
	p := skel.Plugin[struct{}]{
		Name: "eni", Kind: skel.Meta, RunDir: os.TempDir(), Versions: []string{"0.3.1"},
		Steps: func(*netconf.Request, *struct{}) skel.Steps { return skel.Steps{ask.Step()} },
	}
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "duration" {
			return slog.Attr{}
		}
		return a
	}
	ctx := skel.WithLogger(context.Background(), slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: noTime})))
	req := &netconf.Request{Command: netconf.Add, ContainerID: "c1", IfName: "eth0", Config: []byte(`{"cniVersion":"0.3.1"}`),
		Network: netconf.Network{Name: "net", CNIVersion: "0.3.1"}}
	if err := p.Do(ctx, req); err != nil {
		fmt.Println(err)
	}
	// Output:
	// level=INFO msg="the daemon has answered" plugin=eni verb=ADD network=net container=c1 ifname=eth0 step=daemon device=ens5
	// level=INFO msg=done plugin=eni verb=ADD network=net container=c1 ifname=eth0 step="" code=0
}
