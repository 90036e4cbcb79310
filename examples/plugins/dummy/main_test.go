package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

const conf = `{"cniVersion":"1.1.0","name":"net","type":"dummy","ipam":{"type":"test-ipam"}}`

// needed skips the test on a kernel without dummy, after the plugin has said so, with code 103, and has left nothing.
func needed(t *testing.T) {
	t.Helper()
	try, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	before := try.Snapshot()
	c := add(try, ipam)
	a := c.Run(t.Context(), t, plugin())
	if a.Exit == 0 || a.Err.Code != netconf.CodeNotSupported {
		c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
		return
	}
	a.Fails(t, netconf.CodeNotSupported, "the kernel lacks", "dummy")
	if diff := before.Diff(try.Snapshot()); diff != "" || len(ipam.Reserved()) > 0 {
		t.Errorf("left behind on a kernel without dummy: %s%v", diff, ipam.Reserved())
	}
	t.Skip("the kernel lacks links of the kind dummy")
}

// add is the ADD of a container in a namespace.
func add(ns *skeltest.NS, ipam *skeltest.IPAM) skeltest.Call {
	return skeltest.Call{Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0", Path: ipam.Path, Config: conf}
}

// The addresses are reached from the container itself.
func TestPacketsFlowAndNothingIsLeft(t *testing.T) {
	skeltest.NeedRoot(t)
	needed(t)
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	ns.Run("ip", "link", "set", "lo", "up") // packets to an own address go by it
	host, empty := skeltest.HostSnapshot(t), ns.Snapshot()
	a := add(ns, ipam).Run(t.Context(), t, plugin()).OK(t)
	for _, ip := range a.Result.IPs {
		if ip.Interface == nil || *ip.Interface != 0 {
			t.Errorf("the address %v is on interface %v", ip.Address, ip.Interface)
		}
		ns.Ping(ip.Address.IP.String())
	}
	eth0 := a.Result.Interfaces[0]
	if eth0.Name != "eth0" || eth0.Sandbox != ns.Path || eth0.Mac == "" || len(a.Result.IPs) != 2 {
		t.Errorf("the result: %v", a.Result)
	}
	check := add(ns, ipam).With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, plugin()).OK(t)
	ns.Run("ip", "link", "set", "eth0", "down")
	check.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, "eth0")
	add(ns, ipam).Run(t.Context(), t, plugin()).Fails(t, netconf.CodeExists, "eth0")
	for range 2 {
		add(ns, ipam).With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	}
	if diff := empty.Diff(ns.Snapshot()) + host.Diff(skeltest.HostSnapshot(t)); diff != "" || len(ipam.Reserved()) > 0 {
		t.Errorf("left behind: %s%v", diff, ipam.Reserved())
	}
}

// The call is harmed at each of its operations in turn: everything is as before, each time.
func TestHarmedAnywhereNothingIsLeft(t *testing.T) {
	skeltest.NeedRoot(t)
	needed(t)
	ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
	if n := skeltest.Walk(t, plugin(), add(ns, ipam), ns, ipam.Reserved); n < 5 {
		t.Errorf("an ADD of %d operations: the fault hook is not called", n)
	}
}

// What is asked for is made, or refused with a word that helps; a DEL follows, as a runtime's does.
func TestConfigurationOfTheReferencePlugin(t *testing.T) {
	skeltest.NeedRoot(t)
	const ipamSection = `"ipam":{"type":"test-ipam"}`
	for _, test := range []struct {
		name, conf string
		answer     string // of the IPAM plugin; empty: its own
		code       uint
		words      string // in the error, or in what ip says of the link
	}{
		{name: "as it comes", conf: ipamSection, words: "mtu 1500"},
		{name: "mtu", conf: ipamSection + `,"mtu":9000`, words: "mtu 9000"},
		{name: "mac", conf: ipamSection + `,"mac":"02:00:00:00:00:03"`, words: "02:00:00:00:00:03"},
		{name: "mac of the runtime", conf: ipamSection + `,"runtimeConfig":{"mac":"02:00:00:00:00:04"}`, words: "02:00:00:00:00:04"},
		{name: "no ipam", conf: `"mtu":1500`, code: netconf.CodeInvalidNetworkConfig, words: `"ipam"`},
		{name: "ipam without a type", conf: `"ipam":{}`, code: netconf.CodeInvalidNetworkConfig, words: `"ipam"`},
		{name: "mtu out of range", conf: ipamSection + `,"mtu":67`, code: netconf.CodeInvalidNetworkConfig, words: "mtu 67"},
		{name: "what is no MAC", conf: ipamSection + `,"mac":"02:00"`, code: netconf.CodeInvalidNetworkConfig, words: "mac"},
		{name: "no addresses", conf: ipamSection, answer: `{"cniVersion":"1.0.0"}`, code: netconf.CodeBadDelegate, words: "no address"},
	} {
		t.Run(test.name, func(t *testing.T) {
			needed(t)
			ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
			if test.answer != "" {
				ipam.Answer(test.answer)
			}
			c := add(ns, ipam)
			c.Config = `{"cniVersion":"1.1.0","name":"net","type":"dummy",` + test.conf + `}`
			before := ns.Snapshot()
			a := c.Run(t.Context(), t, plugin())
			if test.code != 0 {
				a.Fails(t, test.code, test.words)
			} else {
				a.OK(t)
				if details := ns.Run("ip", "-d", "link", "show", "eth0"); !strings.Contains(details, test.words) {
					t.Errorf("no %q in %s", test.words, details)
				}
			}
			c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
			if diff := before.Diff(ns.Snapshot()); diff != "" || len(ipam.Reserved()) > 0 {
				t.Errorf("left behind: %s%v", diff, ipam.Reserved())
			}
		})
	}
}

// The suite, on a kernel that has dummy: that of a guest in most cases, where all of it would take many minutes.
func TestConforms(t *testing.T) {
	skeltest.NeedRoot(t)
	target := skeltest.Target{
		Plugin: plugin(), Path: []string{skeltest.Build(t, "github.com/cnikit/cnikit/examples/plugins/host-local")},
		Config: `{"cniVersion":"1.1.0","name":"net","type":"dummy",
			"ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}}`,
	}
	if _, guest := os.LookupEnv("CNIKIT_TEST_PREBUILT"); guest {
		target.Only = regexp.MustCompile(`^(add/(taken-name|twice|two-interfaces)|del/(all|foreign-link|stale-netns|no-netns|own-netns)|` +
			`check/(fresh|gone|kind|link)|gc/(live|stale)|status/ready)$`)
	}
	skeltest.Conform(t, target)
}
