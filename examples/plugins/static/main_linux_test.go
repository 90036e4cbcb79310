package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// own is the plugin with locks in a folder of the test's: it needs no root.
func own(t *testing.T) skel.Plugin[config] {
	t.Helper()
	p := plugin()
	p.RunDir = t.TempDir()
	return p
}

// call is an ADD with an ipam section's keys, and more of the configuration. Its namespace does not exist.
func call(version, keys, more string) skeltest.Call {
	return skeltest.Call{Command: netconf.Add, ContainerID: "c1", Netns: "/run/netns/none", IfName: "eth0",
		Config: fmt.Sprintf(`{"cniVersion":%q,"name":"net","type":"macvlan","master":"x","ipam":{"type":"static"%s}%s}`, version, keys, more)}
}

const lan = `,"addresses":[{"address":"10.1.0.5/24","gateway":"10.1.0.1"},{"address":"fd00:1::5/64","gateway":"fd00:1::1"}],"routes":[{"dst":"0.0.0.0/0"}]`

// A namespace that does not exist is no error, and the result has no interfaces.
func TestAllVerbs(t *testing.T) {
	t.Parallel()
	add := call("1.1.0", lan, `,"dns":{"nameservers":["192.0.2.1"]}`)
	a := add.Run(t.Context(), t, own(t)).OK(t)
	if len(a.Result.IPs) != 2 || len(a.Result.Interfaces) > 0 || !a.Result.DNS.IsEmpty() {
		t.Errorf("result %s", a.Stdout)
	}
	if strings.Contains(a.Stderr, "WARN") {
		t.Errorf("warned of its caller's keys: %s", a.Stderr)
	}
	check := add.With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, own(t)).OK(t)
	check.Prev = strings.Replace(check.Prev, `"10.1.0.1"`, `"10.1.0.2"`, 1)
	check.Run(t.Context(), t, own(t)).Fails(t, netconf.CodeDifferent, "10.1.0.2", "10.1.0.1")
	gone := add.With(netconf.Del)
	for _, gone.Netns = range []string{"", "/run/netns/none"} {
		for _, gone.Config = range []string{add.Config, `{"ipam":{"addresses":7}}`, "garbage"} {
			gone.Run(t.Context(), t, own(t)).OK(t)
		}
	}
	status := call("1.1.0", lan, "").With(netconf.Status)
	status.Run(t.Context(), t, own(t)).OK(t)
	status.Config = call("1.1.0", "", `,"capabilities":{"ips":true}`).Config // STATUS is not told what the runtime asks for
	status.Run(t.Context(), t, own(t)).OK(t)
	status.Config = call("1.1.0", `,"addresses":[{"address":"10.1.0.0/24"}]`, "").Config
	status.Run(t.Context(), t, own(t)).Fails(t, netconf.CodeInvalidNetworkConfig, "ipam.addresses[0].address (line 1")
	gc := skeltest.Call{Command: netconf.GC, Path: "/none", Config: call("1.1.0", lan, `,"cni.dev/valid-attachments":[]`).Config}
	gc.Run(t.Context(), t, own(t)).OK(t)
	call("1.1.0", "", "").Run(t.Context(), t, own(t)).Fails(t, netconf.CodeInvalidNetworkConfig, "ipam.addresses", "no address")
	call("1.1.0", `,"addresses":[{"address":"10.1.0.5"}]`, "").Run(t.Context(), t, own(t)).Fails(t, netconf.CodeInvalidNetworkConfig, "ipam.addresses[0].address (line 1, column ")
}

// The runtime's addresses reach the interface, and packets flow between them.
func TestPacketsFlow(t *testing.T) {
	red, blue := skeltest.NewNS(t), skeltest.NewNS(t)
	path := skeltest.Build(t, ".", "github.com/cnikit/cnikit/examples/plugins/macvlan")
	macvlan := skeltest.Binary(filepath.Join(path, "macvlan"))
	skeltest.Host(t, "ip", "link", "add", "uplink", "type", "veth", "peer", "name", "wire")
	t.Cleanup(func() { skeltest.Host(t, "ip", "link", "del", "uplink") })
	for _, link := range []string{"uplink", "wire"} {
		skeltest.Host(t, "ip", "link", "set", link, "addrgenmode", "none", "up")
	}
	add := func(ns *skeltest.NS, ips string) skeltest.Call {
		return skeltest.Call{Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0", Path: path,
			Config: `{"cniVersion":"1.1.0","name":"net","type":"macvlan","master":"uplink","ipam":{"type":"static"` + lan + `},"runtimeConfig":{"ips":` + ips + `}}`}
	}
	first, second := add(red, `["10.1.0.8/24","fd00:1::8/64"]`), add(blue, `["10.1.0.9/24","fd00:1::9/64"]`)
	a := first.Run(t.Context(), t, macvlan)
	if a.Exit != 0 && a.Err.Code == netconf.CodeNotSupported {
		t.Skip(a.Err.Msg)
	}
	a.OK(t)
	second.Run(t.Context(), t, macvlan).OK(t)
	blue.Ping("10.1.0.8")
	blue.Ping("fd00:1::8")
	first.With(netconf.Check).WithPrev(a).Run(t.Context(), t, macvlan).OK(t)
	for _, c := range []skeltest.Call{first, second} {
		c.With(netconf.Del).Run(t.Context(), t, macvlan).OK(t)
	}
}

// The list beside the program, in which it is another plugin's, is found good, and a wrong address in it is found.
func TestValidatesTheList(t *testing.T) {
	skeltest.NeedRoot(t) // as above
	static := filepath.Join(skeltest.Build(t, "."), "static")
	if out, err := exec.Command(static, "validate", "static.conflist").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	list, err := os.ReadFile("static.conflist")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(static, "validate", "-")
	cmd.Stdin = strings.NewReader(strings.Replace(string(list), "10.1.1.5/24", "10.1.1.0/24", 1))
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "stdin:12:24: plugins[0].ipam.addresses[0].address: 10.1.1.0/24 is") {
		t.Errorf("%v: %s", err, out)
	}
}
