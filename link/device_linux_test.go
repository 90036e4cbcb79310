package link_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// card makes the pair d0 and d1 on the host: a network card, and what is at its cable, with the address 10.1.0.1. d0 is
// back at the end wherever a test left it, or goes with its namespace.
func card(t *testing.T) {
	t.Helper()
	skeltest.Host(t, "ip", "link", "add", "d0", "address", "02:00:00:00:00:d0", "type", "veth", "peer", "name", "d1")
	t.Cleanup(func() { ignore(t, "ip", "link", "del", "d1") })
	skeltest.Host(t, "sh", "-c", "ip link set d0 addrgenmode none; ip link set d1 addrgenmode none up; ip addr add 10.1.0.1/24 dev d1")
}

// hostIs fails the test if a link of the host does not have all of these words.
func hostIs(t *testing.T, name string, words ...string) {
	t.Helper()
	text := skeltest.Host(t, "ip", "-d", "link", "show", "dev", name)
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s: no %q in %s", name, w, text)
		}
	}
}

func TestDevice(t *testing.T) {
	skeltest.NeedRoot(t)
	card(t)
	ns := space(t)
	skeltest.Host(t, "sh", "-c", "ip link set d0 mtu 1400 alias uplink group 7 txqueuelen 77 promisc on; ip link property add dev d0 altname the-card")
	same := unchanged(t, ns)
	p := plugin(link.Device{Link: "d0"}, ipam("10.1.0.2/24"), link.Addresses{})
	a := add(ns, "a").Run(t.Context(), t, p).OK(t)
	if made := a.Result.Interfaces[0]; made.Name != "eth0" || made.Sandbox != ns.Path || made.Mac != "02:00:00:00:00:d0" || made.Mtu != 1400 {
		t.Errorf("interface %+v", made)
	}
	if hostHas(t, "d0") {
		t.Error("d0 is on the host")
	}
	ns.Ping("10.1.0.1")
	if text := ns.Run("ip", "-d", "link", "show", "eth0"); !strings.Contains(text, "alias cni:net:a:eth0:from=d0") {
		t.Error(text)
	}
	add(ns, "a").With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
	ns.Run("sh", "-c", "ip link set eth0 mtu 1300 address 02:00:00:00:00:77 txqueuelen 5 promisc off allmulticast on; ip addr add 10.9.0.9/24 dev eth0")
	add(ns, "a").With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
	same("after DEL")
}

// What is up on the host is up again, without the addresses that it had in the container.
func TestDeviceThatWasUp(t *testing.T) {
	skeltest.NeedRoot(t)
	card(t)
	ns := space(t)
	skeltest.Host(t, "ip", "link", "set", "d0", "up")
	same := unchanged(t, ns)
	p := plugin(link.Device{Link: "d0"}, ipam("10.1.0.2/24", "fd00:1::2/64"), link.Addresses{DAD: link.DADOff})
	a := add(ns, "a").Run(t.Context(), t, p).OK(t)
	add(ns, "a").With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
	same("after DEL")
}

// Each operation fails, panics and is cancelled in turn.
func TestWalkDevice(t *testing.T) {
	skeltest.NeedRoot(t)
	card(t)
	ns := space(t)
	skeltest.Host(t, "sh", "-c", "ip link set d0 mtu 1400 alias uplink group 7 txqueuelen 77 promisc on up")
	p := plugin(link.Device{Link: "d0"}, ipam("10.1.0.2/24"), link.Addresses{}, link.Tune{MTU: 1300, MAC: netconf.MAC{2, 0, 0, 0, 0, 9}})
	if n := skeltest.Walk(t, p, add(ns, "a"), ns, nil); n < 8 {
		t.Errorf("the hook saw %d operations", n)
	}
}

// Killed before any operation of ADD or of DEL: a DEL, with what was kept and without, brings the device back.
func TestDeviceAfterAKill(t *testing.T) {
	skeltest.NeedRoot(t)
	killed := errors.New("killed")
	at := func(ctx context.Context, n int) (context.Context, *int) {
		seen := 0
		return netconf.WithFault(ctx, func(context.Context, string) error {
			if seen++; seen >= n {
				return killed
			}
			return nil
		}), &seen
	}
	for _, lost := range []bool{false, true} {
		for n := 1; ; n++ {
			card(t)
			ns := space(t)
			skeltest.Host(t, "sh", "-c", "ip link set d0 mtu 1400 up")
			if !lost {
				skeltest.Host(t, "ip", "link", "set", "d0", "alias", "uplink", "group", "7")
			}
			same := unchanged(t, ns)
			host, container := spaces(t, ns)
			var was *link.DeviceWas
			keep := func(w *link.DeviceWas) error { k := *w; was = &k; return nil }
			record := func() *link.DeviceWas {
				if lost {
					return nil
				}
				return was
			}
			d := link.Device{Link: "d0"}
			ctx, seen := at(t.Context(), n)
			_, addErr := d.Create(ctx, host, container, owner("a"), keep)
			if addErr == nil { // then it is DEL that is killed
				ctx, delSeen := at(t.Context(), n-*seen)
				if err := d.Delete(ctx, host, container, owner("a"), record()); err == nil {
					if *delSeen < 4 && !lost || n < 6 {
						t.Fatalf("%d operations", *seen+*delSeen)
					}
					if lost {
						skeltest.Host(t, "ip", "link", "set", "d0", "addrgenmode", "none", "up")
					}
					same("at the end")
					ignore(t, "ip", "link", "del", "d1")
					break
				}
			}
			if err := d.Delete(t.Context(), host, container, owner("a"), record()); err != nil {
				t.Fatal(err)
			}
			if lost { // it stays down, and how it makes its addresses is not known
				skeltest.Host(t, "ip", "link", "set", "d0", "addrgenmode", "none", "up")
			}
			same(fmt.Sprintf("lost %v, killed at %d", lost, n))
			ignore(t, "ip", "link", "del", "d1")
		}
	}
}

// What somebody in the container does to the device does not keep it there.
func TestDeviceChangedInTheContainer(t *testing.T) {
	skeltest.NeedRoot(t)
	for _, change := range []string{
		"ip link set eth0 down",
		"ip link set eth0 down; ip link set eth0 name net7 up",
		"ip link set eth0 alias '' group default",
		"ip link set eth0 alias cni:net:b:eth0 group 5",
		"ip link set eth0 alias cni:net:a:eth0:from=lo",
		"ip link set eth0 down; ip link set eth0 name net7 alias '' group default address 02:00:00:00:00:77; ip link add eth0 type bridge; ip link set eth0 address 02:00:00:00:00:d0",
		"ip link add d0 type bridge",
		"ip link property add dev eth0 altname lo0; ip link property add dev eth0 altname d1-alt",
	} {
		t.Run(change, func(t *testing.T) {
			card(t)
			ns := space(t)
			skeltest.Host(t, "ip", "link", "set", "d0", "alias", "uplink", "up")
			skeltest.Host(t, "ip", "link", "property", "add", "dev", "d1", "altname", "d1-alt")
			p := plugin(link.Device{Link: "d0"}, ipam("10.1.0.2/24"), link.Addresses{})
			before := skeltest.HostSnapshot(t)
			a := add(ns, "a").Run(t.Context(), t, p).OK(t)
			ns.Run("sh", "-c", change)
			del := add(ns, "a").With(netconf.Del).WithPrev(a)
			for range 2 {
				del.Run(t.Context(), t, p).OK(t)
			}
			if strings.Contains(change, "altname") {
				skeltest.Host(t, "ip", "link", "property", "del", "dev", "d0", "altname", "lo0")
			}
			if diff := before.Diff(skeltest.HostSnapshot(t)); diff != "" {
				t.Errorf("not as before:\n%s", diff)
			}
		})
	}
}

// The device's name has been taken on the host meanwhile: it comes back under another, with a warning.
func TestDeviceWhoseNameWasTaken(t *testing.T) {
	skeltest.NeedRoot(t)
	for _, when := range []string{"before DEL", "in DEL before the move", "in DEL before the name"} {
		t.Run(when, func(t *testing.T) {
			card(t)
			ns := space(t)
			p := plugin(link.Device{Link: "d0"})
			add(ns, "a").Run(t.Context(), t, p).OK(t)
			take := func() { skeltest.Host(t, "ip", "link", "add", "d0", "address", "02:00:00:00:00:11", "type", "bridge") }
			t.Cleanup(func() { ignore(t, "ip", "link", "del", "d0") })
			at := map[string]string{"in DEL before the move": "link move", "in DEL before the name": "link rename"}[when]
			ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
				if at != "" && strings.HasPrefix(op, at) {
					at = ""
					take()
				}
				return nil
			})
			if when == "before DEL" {
				take()
			}
			answer := add(ns, "a").With(netconf.Del).Run(ctx, t, p).OK(t)
			if !strings.Contains(answer.Stderr, "another name") {
				t.Errorf("no warning: %s", answer.Stderr)
			}
			peer, err := net.InterfaceByName("d1")
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range strings.Split(skeltest.Host(t, "ip", "-o", "link"), "\n") {
				if strings.Contains(l, "02:00:00:00:00:d0") && strings.Contains(l, "dev") {
					return
				}
			}
			t.Errorf("the device at %d is lost: %s", peer.Index, skeltest.Host(t, "ip", "-o", "link"))
		})
	}
}

func TestDeviceRefused(t *testing.T) {
	skeltest.NeedRoot(t)
	const object = "sysctl -qw net.ipv4.nexthop_compat_mode=0; ip link set d0 up; ip addr add 10.7.0.1/24 dev d0"
	for _, test := range []struct {
		name, setup string
		step        link.Device
		code        uint
		words       []string
	}{
		{"nothing named", "true", link.Device{}, 7, []string{"no device is named"}},
		{"not there", "true", link.Device{Link: "nosuch"}, 7, []string{"nosuch", "no such device"}},
		{"a name that is none", "true", link.Device{Link: "a/b"}, 7, []string{"a/b", "no such device"}},
		{"a pattern", "true", link.Device{Link: "d%d"}, 7, []string{"d%d", "no such device"}},
		{"a name that is cut", "true", link.Device{Link: "d0\x00x"}, 7, []string{"no such device"}},
		{"the loopback", "true", link.Device{Link: "lo"}, 7, []string{"lo", "loopback"}},
		{"a port", "ip link add br7 type bridge; ip link set d0 master br7", link.Device{Link: "d0"}, 7, []string{"d0", "bridge br7"}},
		{"the default route", "ip link set d0 up; ip addr add 10.7.0.1/24 dev d0; ip route add default via 10.7.0.9", link.Device{Link: "d0"}, 7, []string{"d0", "default route"}},
		{"the default route of IPv6", "ip link set d0 up; ip -6 route add default dev d0", link.Device{Link: "d0"}, 7, []string{"d0", "default route"}},
		{"the default route by a nexthop object", object + "; ip nexthop add id 7 via 10.7.0.9 dev d0; ip route add default nhid 7", link.Device{Link: "d0"}, 7, []string{"d0", "default route", "nexthop object"}},
		{"the default route of IPv6 by a nexthop object", object + "; ip -6 nexthop add id 7 dev d0; ip -6 route add default nhid 7", link.Device{Link: "d0"}, 7, []string{"d0", "default route", "nexthop object"}},
		{"the default route by a group of objects", object + "; ip nexthop add id 7 via 10.7.0.9 dev d0; ip nexthop add id 8 group 7; ip route add default nhid 8", link.Device{Link: "d0"}, 7, []string{"d0", "default route"}},
		{"another attachment's", "ip link set d0 alias cni:other:c9:net1:from=d0", link.Device{Link: "d0"}, 11, []string{"d0", "in use", "c9", "net1", "other"}},
		{"no MAC", "true", link.Device{MAC: "02:00"}, 7, []string{"02:00", "hardware address"}},
		{"no such MAC", "true", link.Device{MAC: "02:00:00:00:00:ff"}, 7, []string{"02:00:00:00:00:ff", "no such device"}},
		{"two of the MAC", "ip link set d1 address 02:00:00:00:00:d0", link.Device{MAC: "02:00:00:00:00:d0"}, 7, []string{"several", "d0", "d1"}},
		{"a path elsewhere", "true", link.Device{KernelPath: "/sys/class/net/d0"}, 7, []string{"/sys/class/net/d0", "/sys/devices/"}},
		{"a path with ..", "true", link.Device{KernelPath: "/sys/devices/../class"}, 7, []string{"/sys/devices/"}},
		{"the path of all", "true", link.Device{KernelPath: "/sys/devices/"}, 7, []string{"/sys/devices/"}},
		{"no such PCI address", "true", link.Device{PCI: "0000:ff:1f.7"}, 7, []string{"0000:ff:1f.7", "no such device"}},
		{"a PCI address that is a path", "true", link.Device{PCI: "../../../devices/virtual"}, 7, []string{"no device"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			card(t)
			ns := space(t)
			skeltest.Host(t, "sh", "-c", test.setup)
			t.Cleanup(func() {
				ignore(t, "ip link del br7; ip -6 route flush default; ip route flush default; ip nexthop flush; sysctl -qw net.ipv4.nexthop_compat_mode=1")
			})
			same := unchanged(t, ns)
			add(ns, "a").Run(t.Context(), t, plugin(test.step)).Fails(t, test.code, test.words...)
			same("after the refused ADD")
			add(ns, "a").With(netconf.Del).Run(t.Context(), t, plugin(test.step)).OK(t)
			same("after DEL")
		})
	}
}

// A second ADD, also where somebody in the container has renamed the device, leaves the live attachment alone.
func TestDeviceSecondADD(t *testing.T) {
	skeltest.NeedRoot(t)
	card(t)
	ns := space(t)
	p := plugin(link.Device{Link: "d0"})
	add(ns, "a").Run(t.Context(), t, p).OK(t)
	ns.Run("ip", "link", "set", "eth0", "name", "net7")
	same := unchanged(t, ns)
	add(ns, "a").Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "net7")
	same("after the second ADD")
	add(ns, "a").With(netconf.Del).Run(t.Context(), t, p).OK(t)
	hostIs(t, "d0", "group default")
}

// The device is in another pod: the error says in which.
func TestDeviceInUse(t *testing.T) {
	skeltest.NeedRoot(t)
	card(t)
	one, two := space(t), space(t)
	skeltest.Host(t, "ip", "link", "property", "add", "dev", "d0", "altname", "the-card")
	add(one, "a").Run(t.Context(), t, plugin(link.Device{Link: "d0"})).OK(t)
	same := unchanged(t, one)
	for _, d := range []link.Device{{Link: "d0"}, {Link: "the-card"}, {MAC: "02:00:00:00:00:D0"}} {
		p := plugin(d)
		add(two, "b").Run(t.Context(), t, p).Fails(t, netconf.CodeTryAgainLater, "in use", `"a"`, "net")
		add(two, "b").With(netconf.Del).Run(t.Context(), t, p).OK(t)
		same("after ADD and DEL of the other")
		status := skeltest.Call{Command: netconf.Status, Config: add(one, "a").Config}
		status.Run(t.Context(), t, p).OK(t)
	}
	skeltest.Call{Command: netconf.Status, Config: add(one, "a").Config}.Run(t.Context(), t, plugin(link.Device{Link: "nosuch"})).Fails(t, netconf.CodePluginNotAvailable, "nosuch")
	add(one, "a").With(netconf.Del).Run(t.Context(), t, plugin(link.Device{Link: "d0"})).OK(t)
}

// A device that a nexthop object leads out of, while the default route is another link's, or there is none by an object.
func TestDeviceWithANexthopObjectThatIsNotTheDefaultRoute(t *testing.T) {
	skeltest.NeedRoot(t)
	card(t)
	ns := space(t)
	skeltest.Host(t, "sh", "-ec", "sysctl -qw net.ipv4.nexthop_compat_mode=0; ip link set d0 up; ip addr add 10.7.0.1/24 dev d0; "+
		"ip nexthop add id 7 via 10.7.0.9 dev d0; ip route add 10.8.0.0/16 nhid 7")
	t.Cleanup(func() { ignore(t, "ip nexthop flush; sysctl -qw net.ipv4.nexthop_compat_mode=1") })
	p := plugin(link.Device{Link: "d0"})
	add(ns, "a").Run(t.Context(), t, p).OK(t)
	add(ns, "a").With(netconf.Del).Run(t.Context(), t, p).OK(t)
}
