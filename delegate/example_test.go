package delegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// A runtime attaches a container to a network and detaches it: no plugin code, only netconf and delegate. The
// plugins here are Go values; those that are not in the registry would be programs of CNI_PATH.
func Example_runtime() {
	network, err := delegate.ParseNetwork([]byte(`{
		"cniVersion": "0.4.0", "cniVersions": ["1.0.0", "1.1.0"], "name": "lan",
		"plugins": [{"type": "wire"}, {"type": "wrap", "capabilities": {"mac": true}}]
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	say := func(_ context.Context, req *netconf.Request) error {
		fmt.Println(req.Network.Type, req.Command, req.Network.CNIVersion, string(req.Network.RuntimeConfig["mac"]), req.Prev != nil)
		return nil
	}
	plugins := delegate.Registry{"wire": say, "wrap": say}
	req := &netconf.Request{
		ContainerID: "pod1", Netns: "/run/netns/pod1", IfName: "eth0", Path: []string{"/opt/cni/bin"}, Environ: os.Environ(),
		Network: netconf.Network{RuntimeConfig: map[string]json.RawMessage{"mac": json.RawMessage(`"02:00:00:00:00:01"`)}},
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := network.Validate(ctx, plugins, req); err != nil {
		fmt.Println(err) // a program is not there, or too old, before a container waits for it
		return
	}
	result, err := network.Add(ctx, plugins, req)
	if err != nil {
		fmt.Println(netconf.Code(err), err)
		return
	}
	// What a DEL needs, perhaps after a reboot, is two texts: network.Bytes() and result.JSON.
	if err := req.SetPrev(result.JSON); err != nil {
		fmt.Println(err)
		return
	}
	if err := network.Del(ctx, plugins, req); err != nil {
		fmt.Println(err)
	}
	// Output:
	// wire VERSION 1.1.0  false
	// wrap VERSION 1.1.0  false
	// wire ADD 1.1.0  false
	// wrap ADD 1.1.0 "02:00:00:00:00:01" true
	// wrap DEL 1.1.0 "02:00:00:00:00:01" true
	// wire DEL 1.1.0  true
}

// A plugin that attaches a container to several networks: ADD takes them from wherever they are described, DEL, CHECK
// and GC from the record alone. As a step of skel's it is these four functions.
func ExampleRecords() {
	dir, err := os.MkdirTemp("", "records")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	plugins := delegate.Registry{"wire": func(_ context.Context, req *netconf.Request) error {
		fmt.Println(req.Command, req.Network.Name, req.IfName)
		if req.Network.Name == "storage" && req.Command == netconf.Del && len(req.Path) == 0 {
			return netconf.Errorf(netconf.CodeTryAgainLater, "the daemon is away")
		}
		return nil
	}}
	storage, err := delegate.ParseNetwork([]byte(`{"cniVersion": "1.1.0", "name": "storage", "type": "wire"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	lan := &delegate.Network{Name: "lan", CNIVersion: "1.1.0", Plugins: []json.RawMessage{json.RawMessage(`{"type":"wire"}`)}}
	set := delegate.Set{
		Attachments: []delegate.Attachment{{Network: lan, IfName: "eth0"}, {Network: storage, IfName: "net1"}},
		Plugins:     plugins, Parallel: 4, Ahead: 1, // the first one alone, then up to four at once
	}
	records := delegate.Records{Dir: filepath.Join(dir, "multi")}
	req := &netconf.Request{ContainerID: "pod1", IfName: "eth0", Network: netconf.Network{Name: "multi"}}
	if _, err := records.Add(context.Background(), set, req); err != nil {
		fmt.Println(err)
	}
	_, err = records.Add(context.Background(), set, req)
	fmt.Println(netconf.Code(err), errors.Is(err, netconf.ErrExists))
	fmt.Println(records.Del(context.Background(), plugins, req))
	req.Path = []string{"/opt/cni/bin"} // the daemon is back
	fmt.Println(records.Del(context.Background(), plugins, req))
	// Output:
	// ADD lan eth0
	// ADD storage net1
	// 100 true
	// DEL storage net1
	// DEL lan eth0
	// interface "net1": delegate "wire" DEL, network "storage": the daemon is away
	// DEL storage net1
	// <nil>
}

// Where all containers have the same networks, there is nothing to remember.
func ExampleSet() {
	say := func(_ context.Context, req *netconf.Request) error {
		fmt.Println(req.Command, req.Network.Name, req.IfName)
		return nil
	}
	lan := &delegate.Network{Name: "lan", CNIVersion: "1.1.0", Plugins: []json.RawMessage{json.RawMessage(`{"type":"wire"}`)}}
	wan := &delegate.Network{Name: "wan", CNIVersion: "1.1.0", Plugins: []json.RawMessage{json.RawMessage(`{"type":"wire"}`)}}
	set := delegate.Set{Plugins: delegate.Registry{"wire": say}, Attachments: []delegate.Attachment{{Network: lan, IfName: "eth0"}, {Network: wan, IfName: "eth1"}}}
	req := &netconf.Request{ContainerID: "pod1", IfName: "eth0"}
	if _, err := set.Add(context.Background(), req); err != nil {
		fmt.Println(err)
	}
	if err := set.Del(context.Background(), req); err != nil {
		fmt.Println(err)
	}
	set.Attachments[1].IfName = "eth0"
	_, err := set.Add(context.Background(), req)
	fmt.Println(netconf.Code(err), err)
	// Output:
	// ADD lan eth0
	// ADD wan eth1
	// DEL wan eth1
	// DEL lan eth0
	// 7 interface "eth0": network "wan": the name is that of network "lan" already
}

// The networks of a folder, with the reason why a file is none.
func ExampleListNetworks() {
	dir, err := os.MkdirTemp("", "net.d")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{
		"10-lan.conflist": `{"cniVersion": "1.1.0", "name": "lan", "plugins": [{"type": "macvlan"}]}`,
		"20-old.conf":     `{"cniVersion": "0.3.1", "name": "old", "type": "bridge"}`,
		"30-bad.conflist": `{"cniVersion": "1.1.0", "name": "bad", "plugins": []}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}
	files, err := delegate.ListNetworks(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, file := range files {
		if file.Err != nil {
			fmt.Println(strings.ReplaceAll(file.Err.Error(), dir, "DIR"))
			continue
		}
		fmt.Println(file.Network.Name, len(file.Network.Plugins))
	}
	// Output:
	// lan 1
	// old 1
	// "DIR/30-bad.conflist": configuration: plugins (line 1, column 51): empty: expected at least one plugin
}

// A macvlan with addresses, then the reference plugin tuning, then a step of one's own.
func ExampleStep() {
	type config struct {
		Master string `json:"master"`
	}
	mine := skel.Funcs{Title: "mine", Add: func(context.Context, *netconf.Request) error { return nil }}.Step()
	_ = skel.Plugin[config]{Name: "tuned", Steps: func(req *netconf.Request, c *config) skel.Steps {
		return skel.Steps{
			link.Macvlan{Parent: link.Parent{Name: c.Master}}, ipam.FromConfig(req), link.Addresses{},
			delegate.Step{Config: json.RawMessage(`{"type":"tuning","sysctl":{"net.core.somaxconn":"500"}}`)},
			mine,
		}
	}}
}

// A program that is not there: the code and the text say what to do.
func ExampleExec() {
	network, err := netconf.ParseNetwork([]byte(`{"cniVersion":"1.1.0","name":"lan","type":"no-such-plugin"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	req := &netconf.Request{Command: netconf.Status, Path: []string{"/opt/cni/bin"}, Environ: os.Environ(), Network: network, Config: network.Bytes()}
	_, err = delegate.Exec{}.Call(context.Background(), req)
	fmt.Println(netconf.Code(err), err)
	// Output: 50 delegate "no-such-plugin" STATUS, network "lan": no such program in CNI_PATH: looked for "no-such-plugin" in ["/opt/cni/bin"]
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
