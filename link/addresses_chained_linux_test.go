package link_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
	"github.com/containernetworking/cni/pkg/types"
)

// prevOf is the result of the plugin before: eth0 with 10.1.1.9/24.
func prevOf(ns *skeltest.NS) string {
	return `{"cniVersion":"1.1.0","interfaces":[{"name":"p0"},{"name":"eth0","sandbox":"` + ns.Path + `"}],` +
		`"ips":[{"address":"10.1.1.9/24","gateway":"10.1.1.1","interface":1}]}`
}

// device makes a container whose eth0 another plugin has made, with an address of its own, and a plugin that adds more.
func device(t *testing.T) (container, neighbour *skeltest.NS, p skel.Plugin[struct{}], call skeltest.Call) {
	container, neighbour = pair(t, "10.1.1.1/24", "fd00::1/64")
	container.Run("ip", "link", "set", "eth0", "alias", "another plugin's")
	container.Run("ip", "address", "add", "10.1.1.9/24", "dev", "eth0")
	container.Run("ip", "link", "set", "eth0", "addrgenmode", "none", "up") // no link-local address, which IPv6 brings
	routes := skel.Funcs{Add: func(_ context.Context, req *netconf.Request) error {
		for _, dst := range []string{"10.77.0.0/16", "fd77::/48"} {
			_, n, err := net.ParseCIDR(dst)
			if err != nil {
				return err
			}
			req.AddRoute(&types.Route{Dst: *n})
		}
		return nil
	}, Check: nothing, GC: nothing, Status: nothing}.Step()
	p = plugin(ipam("10.1.1.2/24", "fd00::2/64 fd00::1"), routes, link.Addresses{})
	p.Kind = skel.Chained
	call = add(container, "a")
	call.Prev = prevOf(container)
	return container, neighbour, p, call
}

// TestAddressesChained: more addresses on a link that another plugin made. They have the link's index in the result,
// CHECK sees them, and DEL takes no other away.
func TestAddressesChained(t *testing.T) {
	parallelNS(t)
	container, neighbour, p, call := device(t)
	before := layer3(container)
	a := call.Run(t.Context(), t, p).OK(t)
	for _, ip := range a.Result.IPs {
		if ip.Interface == nil || *ip.Interface != 1 {
			t.Errorf("%v: expected interface 1", ip)
		}
	}
	if len(a.Result.IPs) != 3 || len(a.Result.Interfaces) != 2 || a.Result.Routes[0].GW.String() != "10.1.1.1" {
		t.Errorf("result %s", a.Stdout)
	}
	for _, ip := range []string{"10.1.1.2", "10.1.1.9", "fd00::2"} {
		neighbour.Ping(ip)
	}
	call.WithPrev(a).With(netconf.Check).Run(t.Context(), t, p).OK(t)
	again := call.WithPrev(a)
	again.Prev = prevOf(container)
	again.Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "10.1.1.2")
	call.WithPrev(a).With(netconf.Check).Run(t.Context(), t, p).OK(t)
	for range 2 {
		call.WithPrev(a).With(netconf.Del).Run(t.Context(), t, p).OK(t)
		if diff := before.Diff(layer3(container)); diff != "" {
			t.Errorf("not as before:\n%s", diff)
		}
	}
	container.Ping("10.1.1.1")
}

// TestAddressesChainedSysctlsStay: DEL gives none of them back, so that others' IPv6 addresses stay; a device that leaves the
// container has those of the namespace it comes to.
func TestAddressesChainedSysctlsStay(t *testing.T) {
	parallelNS(t)
	container, neighbour, p, call := device(t)
	container.Run("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")
	sysctls := []string{"-n", "net.ipv4.conf.eth0.arp_notify", "net.ipv6.conf.eth0.disable_ipv6", "net.ipv6.conf.eth0.keep_addr_on_down", "net.ipv6.conf.eth0.ndisc_notify"}
	a := call.Run(t.Context(), t, p).OK(t)
	container.Run("ip", "address", "add", "fd00::7/64", "dev", "eth0", "nodad")
	call.WithPrev(a).With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if have := strings.Join(strings.Fields(container.Run("sysctl", sysctls...)), " "); have != "1 0 1 1" {
		t.Errorf("after DEL: %s", have)
	}
	if show := container.Run("ip", "-6", "address", "show", "dev", "eth0"); !strings.Contains(show, "fd00::7") || strings.Contains(show, "fd00::2/") {
		t.Errorf("after DEL: %s", show)
	}
	container.Run("ip", "link", "set", "eth0", "netns", neighbour.Name)
	if have := strings.Join(strings.Fields(neighbour.Run("sysctl", sysctls...)), " "); have != "0 0 0 0" {
		t.Errorf("in the other namespace: %s", have)
	}
}

// TestWalkAddresses: whichever operation fails, panics or is cancelled, nothing of ours remains, and all of the others'.
func TestWalkAddresses(t *testing.T) {
	container, _, p, call := device(t)
	if n := skeltest.Walk(t, p, call, container, nil); n < 6 {
		t.Errorf("the hook saw %d operations", n)
	}
}

// TestDelKeepsOthersOfTheSubnet: by default the kernel deletes all addresses of a subnet with its first.
func TestDelKeepsOthersOfTheSubnet(t *testing.T) {
	parallelNS(t)
	container, _ := pair(t)
	container.Run("sysctl", "-qw", "net.ipv4.conf.all.promote_secondaries=0", "net.ipv4.conf.eth0.promote_secondaries=0")
	c := newCall(t, container, `"ips":[{"address":"10.1.1.2/24"},{"address":"10.1.1.3/24"}]`)
	c.add(t, link.Addresses{})
	container.Run("ip", "address", "add", "10.1.1.9/24", "dev", "eth0")
	c.del(t, link.Addresses{})
	if got := strings.Fields(container.Run("ip", "-4", "-br", "address", "show", "dev", "eth0")); len(got) != 3 || got[2] != "10.1.1.9/24" {
		t.Errorf("addresses %q, expected 10.1.1.9/24 alone", got)
	}
}

// TestDelLeavesAnotherAttachmentsLink: a late DEL of the container before, whose link had the same name.
func TestDelLeavesAnotherAttachmentsLink(t *testing.T) {
	parallelNS(t)
	container, _ := pair(t)
	container.Run("ip", "link", "set", "eth0", "addrgenmode", "none") // a link-local address comes in its own time
	c := newCall(t, container, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"0.0.0.0/0"}]`)
	c.add(t, link.Addresses{})
	before := layer3(container)
	for _, alias := range []string{"cni:n:k2:eth0", "", "a container's own"} {
		container.Run("ip", "link", "set", "eth0", "alias", alias)
		c.del(t, link.Addresses{})
	}
	container.Run("ip", "link", "set", "eth0", "alias", "cni:n:k1:eth0")
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	c.del(t, link.Addresses{})
	if out := container.Run("ip", "-4", "address", "show", "dev", "eth0"); strings.TrimSpace(out) != "" {
		t.Errorf("left: %s", out)
	}
}

// TestAddressesState: a record that cannot be written stops ADD before anything is done, and one that cannot be read no DEL.
func TestAddressesState(t *testing.T) {
	parallelNS(t)
	container, _ := pair(t)
	before := layer3(container)
	c := newCall(t, container, `"ips":[{"address":"10.1.1.2/24"}]`)
	c.Prev, c.Result.Interfaces = c.Result, nil
	c.Prev = parse(t, `"ips":[]`)
	c.State = full{}
	if err := (link.Addresses{}).Add(t.Context(), c.Request); !errors.Is(err, errFull) {
		t.Errorf("error %v", err)
	}
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
	c.State = memory{"link.addresses.eth0": json.RawMessage(`{"Addresses":7}`)}
	if err := (link.Addresses{}).Del(t.Context(), c.As(netconf.Del)); err != nil || len(c.State.(memory)) > 0 || len(c.warnings) != 1 || !strings.Contains(c.warnings[0], "link.addresses.eth0") {
		t.Errorf("error %v, kept %v, warnings %q: expected a warning that names the entry, which is gone", err, c.State, c.warnings)
	}
}

var errFull = errors.New("no space left")

type full struct{ memory }

func (full) Save(string, []byte) error { return errFull }

// TestF9SecondADDOfAChainedPlugin: whatever it fails by, it leaves alone what the first one added and kept in its state.
func TestF9SecondADDOfAChainedPlugin(t *testing.T) {
	parallelNS(t)
	container, _, p, call := device(t)
	a := call.Run(t.Context(), t, p).OK(t)
	live := layer3(container)
	for _, test := range []struct {
		name  string
		steps []skel.Step
		code  uint
		words string
	}{
		{"a wrong answer", []skel.Step{ipam("224.0.0.1/24"), link.Addresses{}}, netconf.CodeInvalidNetworkConfig, "224.0.0.1"},
		{"a wrong route and no address", []skel.Step{route("10.9.0.0/16", "10.1.1.9"), link.Addresses{}}, netconf.CodeInvalidNetworkConfig, "10.1.1.9"},
		{"no such interface", []skel.Step{ipam("10.1.1.5/24"), link.Addresses{Interface: "net7"}}, netconf.CodeInvalidNetworkConfig, "net7"},
	} {
		again := plugin(test.steps[0], test.steps[1:]...)
		again.Kind = skel.Chained
		call.Run(t.Context(), t, again).Fails(t, test.code, test.words)
		if diff := live.Diff(layer3(container)); diff != "" {
			t.Errorf("%s: changed:\n%s", test.name, diff)
		}
	}
	unsaved := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if strings.HasPrefix(op, "state write") {
			return errFull
		}
		return nil
	})
	again := plugin(ipam("10.1.1.5/24"), link.Addresses{})
	again.Kind = skel.Chained
	if a := call.Run(unsaved, t, again); a.Exit == 0 {
		t.Error("the state was not written and ADD did not fail")
	}
	if diff := live.Diff(layer3(container)); diff != "" {
		t.Errorf("state not written: changed:\n%s", diff)
	}
	call.WithPrev(a).With(netconf.Check).Run(t.Context(), t, p).OK(t)
}
