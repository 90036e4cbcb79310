package main

import (
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// card makes the device: one end of a veth pair stands for the network card, the other for its cable.
func card(t *testing.T) {
	skeltest.Host(t, "ip", "link", "add", "card", "address", "02:00:00:00:00:ca", "type", "veth", "peer", "name", "wire")
	t.Cleanup(func() { skeltest.Host(t, "ip", "link", "del", "wire") })
	// Without link-local addresses, which come by themselves in their own time, after a snapshot.
	skeltest.Host(t, "sh", "-c", "ip link set card addrgenmode none; ip link set wire addrgenmode none up; ip addr add 10.1.0.1/24 dev wire")
}

// conf is a configuration with these keys.
func conf(keys string) string {
	return `{"cniVersion":"1.1.0","name":"net","type":"host-device",` + keys + `}`
}

func add(ns *skeltest.NS, config, path string) skeltest.Call {
	return skeltest.Call{Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "net1", Path: path, Config: config}
}

func TestPacketsFlowAndNothingIsLeft(t *testing.T) {
	red, blue, ipam := skeltest.NewNS(t), skeltest.NewNS(t), skeltest.NewIPAM(t)
	card(t)
	skeltest.Host(t, "ip", "link", "set", "card", "mtu", "1400", "alias", "uplink", "up")
	host, empty := skeltest.HostSnapshot(t), red.Snapshot()
	ipam.Answer(`{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.@N@/24","gateway":"10.1.0.1"}]}`)
	config := conf(`"device":"card","ipam":{"type":"test-ipam"}`)
	first := add(red, config, ipam.Path).Run(t.Context(), t, plugin()).OK(t)
	red.Ping("10.1.0.1")
	if net1 := first.Result.Interfaces[0]; net1.Name != "net1" || net1.Sandbox != red.Path || net1.Mtu != 1400 || net1.Mac != "02:00:00:00:00:ca" {
		t.Errorf("the result names the interface %v", net1)
	}
	check := add(red, config, ipam.Path).With(netconf.Check).WithPrev(first)
	check.Run(t.Context(), t, plugin()).OK(t)
	add(blue, config, ipam.Path).Run(t.Context(), t, plugin()).Fails(t, netconf.CodeTryAgainLater, "card", "in use", red.Name)
	add(red, config, ipam.Path).With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	if diff := empty.Diff(red.Snapshot()) + host.Diff(skeltest.HostSnapshot(t)); diff != "" || len(ipam.Reserved()) > 0 {
		t.Errorf("left behind: %s%v", diff, ipam.Reserved())
	}
}

func TestConfigurationOfTheReferencePlugin(t *testing.T) {
	for _, test := range []struct {
		keys string
		code uint
		word string // of the error
	}{
		{keys: `"device":"card"`},
		{keys: `"device":"a-name-of-more-than-fifteen-bytes"`},
		{keys: `"hwaddr":"02:00:00:00:00:CA"`},
		{keys: `"kernelpath":"/sys/devices/cardbus"`},
		{keys: `"pciBusID":"0000:03:00.1"`},
		{keys: `"pciBusID":"0000:03:00.2"`}, // virtio
		{keys: `"runtimeConfig":{"deviceID":"0000:03:00.1"}`},
		{keys: `"runtimeConfig":{"deviceID":"mlx5_core.sf.2"}`},
		{keys: `"device":"nosuch","pciBusID":"x","runtimeConfig":{"deviceID":"0000:03:00.1"}`}, // what the pod was given counts
		{keys: `"device":"nosuch"`, code: netconf.CodeInvalidNetworkConfig, word: "nosuch"},
		{keys: `"mtu":1400`, code: netconf.CodeInvalidNetworkConfig, word: "no device is named"},
		{keys: `"device":7`, code: netconf.CodeDecodingFailure, word: "device"},
		{keys: `"hwaddr":"02:00"`, code: netconf.CodeInvalidNetworkConfig, word: "02:00"},
		{keys: `"kernelpath":"/sys/class/net/card"`, code: netconf.CodeInvalidNetworkConfig, word: "/sys/class/net/card"},
		{keys: `"pciBusID":"0000:03:00.9"`, code: netconf.CodeInvalidNetworkConfig, word: "0000:03:00.9"},
		{keys: `"pciBusID":"0000:03:00.4"`, code: netconf.CodeInvalidNetworkConfig, word: "several links (card, wire)"},
		{keys: `"runtimeConfig":{"deviceID":"0000:03:00.9"}`, code: netconf.CodeInvalidNetworkConfig, word: "0000:03:00.9"},
		{keys: `"runtimeConfig":{"deviceID":"../../../x"}`, code: netconf.CodeInvalidNetworkConfig, word: "no device"},
	} {
		t.Run(test.keys, func(t *testing.T) {
			ns := skeltest.NewNS(t)
			card(t)
			sysfs(t)
			skeltest.Host(t, "ip", "link", "property", "add", "dev", "card", "altname", "a-name-of-more-than-fifteen-bytes")
			before := append(ns.Snapshot(), skeltest.HostSnapshot(t)...)
			a := add(ns, conf(test.keys), "").Run(t.Context(), t, plugin())
			if test.code != 0 {
				a.Fails(t, test.code, test.word)
			} else if a.OK(t); !strings.Contains(ns.Run("ip", "link", "show", "net1"), "02:00:00:00:00:ca") {
				t.Errorf("another device: %s", ns.Run("ip", "link", "show", "net1"))
			}
			add(ns, conf(test.keys), "").With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
			if diff := before.Diff(append(ns.Snapshot(), skeltest.HostSnapshot(t)...)); diff != "" {
				t.Errorf("left behind: %s", diff)
			}
		})
	}
}

// sysfs lists devices as the kernel does, in the mount namespace of the test.
func sysfs(t *testing.T) {
	skeltest.Host(t, "sh", "-ec", `for d in /sys/bus /sys/devices; do mount -t tmpfs tmpfs $d; done
		mkdir -p /sys/devices/cardbus/net/card /sys/bus/auxiliary/devices/mlx5_core.sf.2/net/card /sys/bus/pci/devices /sys/bus/pci/drivers
		cd /sys/bus/pci/devices; mkdir -p 0000:03:00.1/net/card 0000:03:00.2/virtio1/net/card 0000:03:00.3 0000:03:00.4/net/card 0000:03:00.4/net/wire
		for d in 3 5; do mkdir -p 0000:03:00.$d; done
		ln -s ../../drivers/vfio-pci 0000:03:00.3/driver; ln -s ../../drivers/mlx5_vfio_pci 0000:03:00.5/driver`)
	t.Cleanup(func() { skeltest.Host(t, "umount", "/sys/devices", "/sys/bus") })
}

// A device that a process drives has no link: the pod gets its addresses in the result.
func TestDeviceOfAProcess(t *testing.T) {
	for _, keys := range []string{
		`"pciBusID":"0000:03:00.3"`,
		`"pciBusID":"0000:03:00.5"`, // a vendor's variant of the driver
		`"runtimeConfig":{"deviceID":"0000:03:00.3"}`,
	} {
		t.Run(keys, func(t *testing.T) {
			ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
			sysfs(t)
			before := ns.Snapshot()
			call := add(ns, conf(keys+`,"ipam":{"type":"test-ipam"}`), ipam.Path)
			a := call.Run(t.Context(), t, plugin()).OK(t)
			if i := a.Result.Interfaces; len(i) != 1 || i[0].Name != "net1" || i[0].Sandbox != ns.Path || i[0].Mac != "" {
				t.Errorf("interfaces %v", i)
			}
			if ips := a.Result.IPs; len(ips) == 0 || ips[0].Interface == nil || *ips[0].Interface != 0 {
				t.Errorf("addresses %v", ips)
			}
			call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, plugin()).OK(t)
			call.With(netconf.Status).Run(t.Context(), t, plugin()).OK(t)
			call.With(netconf.Del).WithPrev(a).Run(t.Context(), t, plugin()).OK(t)
			if diff := before.Diff(ns.Snapshot()); diff != "" || len(ipam.Reserved()) > 0 {
				t.Errorf("left behind: %s%v", diff, ipam.Reserved())
			}
		})
	}
}
