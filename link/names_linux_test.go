package link_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// TestNamesOfAllKinds: a daemon calls without skel, which checks CNI_IFNAME. Of "eth%d" the kernel made eth0, which nobody took for
// the attachment's then.
func TestNamesOfAllKinds(t *testing.T) {
	uplink(t)
	bridge(t)
	for _, k := range kindsHere(t) {
		ns := space(t) // one for all: a snapshot costs more than all else
		ns.Run("sh", "-ec", "ip link add net1 type bridge; ip link add br0 type bridge; ip link property add dev br0 altname net2")
		same := unchanged(t, ns)
		for _, test := range []struct {
			name string
			code uint // 0: it is made
		}{
			{"fifteen-bytes-x", 0},
			{"sixteen-bytes-xx", 4},
			{"a/b", 4},
			{"eth%d", 4},
			{"eth%", 4},
			{"a:b", 4},
			{"a b", 4},
			{".", 4},
			{"..", 4},
			{"", 4},
			{"all", 4},
			{"eth0\x00x", 4},
			{"a.b", 0},
			{"net1", 100},
			{"net2", 100}, // an alternative name
			{"p0", 0},     // a parent's, and on the host
			{"br7", 0},
			{"lo", 100},
		} {
			t.Run(k.name+" "+test.name, func(t *testing.T) {
				req := request(t, netconf.Add, ns.Path, "a")
				req.IfName = test.name
				err := k.step.Add(t.Context(), req)
				switch {
				case test.code == 0 && err != nil, test.code != 0 && err == nil, test.code == 100 && !errors.Is(err, netconf.ErrExists):
					t.Errorf("ADD: %v, expected code %d", err, test.code)
				case err != nil && (netconf.Code(err) != test.code || !strings.Contains(err.Error(), strings.ReplaceAll(test.name, "\x00", `\x00`))):
					t.Errorf("ADD: %v (code %d), expected %d", err, netconf.Code(err), test.code)
				case err == nil && !has(ns, test.name):
					t.Errorf("it has another name: %s", ns.Run("ip", "-o", "link"))
				}
				if err != nil && test.code != 100 && has(ns, "eth0") {
					t.Error("it was made all the same")
				}
				del := request(t, netconf.Del, ns.Path, "a")
				del.IfName = test.name
				if err := k.step.Del(t.Context(), del); err != nil {
					t.Errorf("DEL: %v", err)
				}
			})
		}
		same(k.name)
	}
}

// The same of the core, where no step is in front of it.
func TestNamesOfTheCore(t *testing.T) {
	uplink(t)
	ns := space(t)
	host, container := spaces(t, ns)
	same := unchanged(t, ns)
	o := owner("a")
	for _, name := range []string{"eth%d", "sixteen-bytes-xx", "a/b", "all"} {
		o.IfName = name
		_, macvlan := link.Macvlan{Parent: link.Parent{Name: "p0"}}.Create(t.Context(), host, container, o)
		_, tap := link.Tap{}.Create(t.Context(), host, container, o)
		_, _, veth := link.Veth{}.Create(t.Context(), host, container, o)
		_, _, netkit := link.Netkit{}.Create(t.Context(), host, container, o)
		_, device := link.Device{Link: "p0"}.Create(t.Context(), host, container, o, nil)
		for kind, err := range map[string]error{"macvlan": macvlan, "tap": tap, "veth": veth, "netkit": netkit, "device": device} {
			if netconf.Code(err) != netconf.CodeInvalidEnvironment || !strings.Contains(err.Error(), name) {
				t.Errorf("%s %s: %v (code %d), expected 4", kind, name, err, netconf.Code(err))
			}
		}
		same(name)
	}
}

// TestParentsOfAllKinds: what is no parent is said before any change, and what names one is found.
func TestParentsOfAllKinds(t *testing.T) {
	uplink(t)
	bridge(t)
	type of struct {
		name string
		step func(link.Parent, int) skel.Step
	}
	for _, k := range []of{
		{"macvlan", func(p link.Parent, mtu int) skel.Step { return link.Macvlan{Parent: p, MTU: mtu} }},
		{"macvtap", func(p link.Parent, mtu int) skel.Step { return link.Macvtap{Parent: p, MTU: mtu} }},
		{"ipvlan", func(p link.Parent, mtu int) skel.Step { return link.IPvlan{Parent: p, MTU: mtu} }},
		{"vlan", func(p link.Parent, mtu int) skel.Step { return link.VLAN{Parent: p, ID: 7, MTU: mtu} }},
	} {
		if lacks(t, k.name) {
			continue // TestKernelHasKind tells
		}
		ns := space(t)
		ns.Run("sh", "-ec", "ip link add q0 type veth peer name q1; for l in q0 q1; do ip link set $l addrgenmode none up; done; ip address add 10.8.0.1/24 dev q0; ip route add default via 10.8.0.2")
		same := unchanged(t, ns)
		for _, test := range []struct {
			name, before string
			parent       link.Parent
			mtu          int
			words        string // of the error; empty: it is made
			code         uint
		}{
			{"by its name", "true", link.Parent{Name: "p0"}, 0, "", 0},
			{"by an alternative name", "ip link property add dev p0 altname the-uplink-of-this-host", link.Parent{Name: "the-uplink-of-this-host"}, 0, "", 0},
			{"of the default route", "ip address add 10.9.0.1/24 dev p0; ip route add default via 10.9.0.2", link.Parent{}, 0, "", 0},
			{"in the container", "true", link.Parent{Name: "q0", InContainer: true}, 0, "", 0},
			{"of the container's default route", "true", link.Parent{InContainer: true}, 0, "", 0},
			{"not there", "true", link.Parent{Name: "nosuch", Key: "master"}, 0, `nosuch`, 7},
			{"not in the container", "true", link.Parent{Name: "p0", InContainer: true}, 0, "in the container", 7},
			{"no name of a link", "true", link.Parent{Name: "a/b"}, 0, "a/b", 7},
			{"a pattern", "true", link.Parent{Name: "p%d"}, 0, "p%d", 7},
			{"no default route", "true", link.Parent{}, 0, "no default route", 7},
			{"the loopback", "true", link.Parent{Name: "lo"}, 0, `lo`, 7},
			{"mtu below", "true", link.Parent{Name: "p0"}, 67, "mtu 67", 7},
			{"mtu above the parent's", "true", link.Parent{Name: "p0"}, 1501, "1500", 7},
			{"mtu of the parent", "true", link.Parent{Name: "p0"}, 1500, "", 0},
			{"mtu that would be cut", "true", link.Parent{Name: "p0"}, 4294968796, "4294968796", 7},
		} {
			t.Run(k.name+" "+test.name, func(t *testing.T) {
				skeltest.Host(t, "sh", "-ec", test.before)
				t.Cleanup(func() {
					ignore(t, "ip link property del dev p0 altname the-uplink-of-this-host; ip route flush default; ip address flush dev p0")
				})
				err := k.step(test.parent, test.mtu).Add(t.Context(), request(t, netconf.Add, ns.Path, "a"))
				if (err == nil) != (test.words == "") || err != nil && (netconf.Code(err) != test.code || !strings.Contains(err.Error(), test.words)) {
					t.Errorf("ADD: %v (code %d), expected %d, %q", err, netconf.Code(err), test.code, test.words)
				}
				if err != nil && has(ns, "eth0") {
					t.Error("it was made all the same")
				}
				if test.parent.Key != "" && !strings.Contains(err.Error(), test.parent.Key) {
					t.Errorf("ADD: %v: without the key", err)
				}
				if err := k.step(test.parent, test.mtu).Del(t.Context(), request(t, netconf.Del, ns.Path, "a")); err != nil {
					t.Errorf("DEL: %v", err)
				}
			})
		}
		same(k.name)
	}
}
