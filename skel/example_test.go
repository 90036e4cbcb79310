package skel_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type exampleConfig struct {
	Address string `json:"address"`
}

// fixed is a step: it gives one address. It keeps nothing, so there is nothing to check or to free.
type fixed struct{ address string }

func (f fixed) Add(_ context.Context, req *netconf.Request) error {
	ip, n, err := net.ParseCIDR(f.address)
	if err != nil {
		return req.Invalid("address", "%w", err)
	}
	req.AddIP(-1, net.IPNet{IP: ip, Mask: n.Mask}, nil)
	return nil
}
func (fixed) Check(context.Context, *netconf.Request) error { return nil }
func (fixed) Del(context.Context, *netconf.Request) error   { return nil }

// examplePlugin describes an attachment once; every verb follows from it.
func examplePlugin(runDir string) skel.Plugin[exampleConfig] {
	return skel.Plugin[exampleConfig]{
		Name: "fixed", Kind: skel.IPAM, RunDir: runDir,
		Steps: func(_ *netconf.Request, c *exampleConfig) skel.Steps { return skel.Steps{fixed{c.Address}} },
	}
}

// A test of a plugin gives the environment and the streams as values. The program's main is
// skel.Main(...) of the same description.
func ExamplePlugin_Run() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	var stderr strings.Builder
	status := examplePlugin(dir).Run(context.Background(), skel.IO{
		Env:    []string{"CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_NETNS=/run/netns/c1", "CNI_IFNAME=eth0"},
		Stdin:  strings.NewReader(`{"cniVersion":"1.1.0","name":"net","type":"fixed","address":"192.0.2.2/24"}`),
		Stdout: os.Stdout, Stderr: &stderr,
	})
	fmt.Println("exit status", status, stderr.String())
	// Output:
	// {
	//     "cniVersion": "1.1.0",
	//     "ips": [
	//         {
	//             "address": "192.0.2.2/24"
	//         }
	//     ]
	// }
	// exit status 0
}

// A daemon, or a plugin that has another as a delegate, serves a call in-process.
func ExamplePlugin_Do() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	env := map[string]string{"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/c1", "CNI_IFNAME": "eth0"}
	req, err := netconf.Parse(func(key string) string { return env[key] },
		strings.NewReader(`{"cniVersion":"1.1.0","name":"net","type":"fixed","address":"192.0.2.300/24"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = examplePlugin(dir).Do(context.Background(), req)
	fmt.Println(netconf.Code(err), err)
	fmt.Println(req.Close())
	// Output:
	// 7 skel_test.fixed: configuration: address (line 1, column 61): invalid CIDR address: 192.0.2.300/24
	// <nil>
}

// Verbs written by hand, for what has no parts. Without GC the plugin announces no version that has it.
func ExampleFuncs() {
	hello := skel.Funcs{
		Title: "hello",
		Add:   func(context.Context, *netconf.Request) error { return nil },
		Check: func(context.Context, *netconf.Request) error { return nil },
		Del:   func(context.Context, *netconf.Request) error { return nil },
	}
	p := skel.Plugin[struct{}]{
		Name: "hello", Kind: skel.Meta,
		Steps: func(*netconf.Request, *struct{}) skel.Steps { return skel.Steps{hello.Step()} },
	}
	var out strings.Builder
	p.Run(context.Background(), skel.IO{Env: []string{"CNI_COMMAND=VERSION"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out})
	fmt.Print(out.String())
	// Output:
	// {"cniVersion":"1.1.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0"]}
}
