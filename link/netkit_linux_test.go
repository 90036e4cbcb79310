package link_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
	"github.com/vishvananda/netlink"
)

// nk is a routed pair with its addresses.
func nk(k link.Netkit, answers ...string) skel.Plugin[struct{}] {
	return plugin(k, ipam(answers...), link.Addresses{PointToPoint: true}, link.HostRoutes{})
}

// netkitOf is a container's end as the kernel tells it.
func netkitOf(t *testing.T, ns *skeltest.NS) *netlink.Netkit {
	t.Helper()
	_, n := spaces(t, ns)
	l, err := n.Handle().LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	have, ok := l.(*netlink.Netkit)
	if !ok {
		t.Fatalf("a link of kind %s", l.Type())
	}
	return have
}

// Two containers reach the host and each other, in both modes; the second ADD, CHECK and DEL.
func TestNetkit(t *testing.T) {
	needs(t, "netkit")
	for _, test := range []struct {
		k    link.Netkit
		mode netlink.NetkitMode
		mac  string
	}{
		{link.Netkit{MTU: 1400}, netlink.NETKIT_MODE_L3, ""},
		{link.Netkit{Mode: link.NetkitL2, MTU: 1400, MAC: netconf.MAC{2, 0, 0, 0, 0, 7}}, netlink.NETKIT_MODE_L2, "02:00:00:00:00:07"},
	} {
		t.Run(test.k.Mode.String(), func(t *testing.T) {
			a, b := space(t), space(t)
			same := unchanged(t, a)
			pa, pb := nk(test.k, "10.1.0.2/24 10.1.0.1", "fd00:1::2/64 fd00:1::1"), nk(link.Netkit{Mode: test.k.Mode}, "10.1.0.3/24 10.1.0.1", "fd00:1::3/64 fd00:1::1")
			ra := add(a, "a").Run(t.Context(), t, pa).OK(t)
			rb := add(b, "b").Run(t.Context(), t, pb).OK(t)
			for _, address := range []string{"10.1.0.1", "10.1.0.3", "fd00:1::1", "fd00:1::3"} { // the first forwarded IPv6 packet too
				a.Ping(address)
			}
			made := ra.Result.Interfaces
			if len(made) != 2 || made[0].Name != owner("a").HostName("host") || made[0].Sandbox != "" || made[1].Name != "eth0" || made[1].Sandbox != a.Path || made[1].Mtu != 1400 {
				t.Errorf("interfaces %v", made)
			}
			have := netkitOf(t, a)
			if have.Mode != test.mode || have.IsPrimary() || have.MTU != 1400 || have.Group != owner("a").Group() || have.Alias != owner("a").Alias("") {
				t.Errorf("mode %v, primary %v, %+v", have.Mode, have.IsPrimary(), have.LinkAttrs)
			}
			if test.mac != "" && (have.HardwareAddr.String() != test.mac || made[1].Mac != test.mac) {
				t.Errorf("hardware address %s, in the result %s", have.HardwareAddr, made[1].Mac)
			}
			add(a, "a").With(netconf.Check).WithPrev(ra).Run(t.Context(), t, pa).OK(t)
			add(a, "a").Run(t.Context(), t, pa).Fails(t, netconf.CodeExists, "eth0")
			a.Ping("10.1.0.3")
			add(a, "a").With(netconf.Del).Run(t.Context(), t, pa).OK(t)
			add(b, "b").With(netconf.Del).WithPrev(rb).Run(t.Context(), t, pb).OK(t)
			same("after DEL")
		})
	}
}

func TestNetkitRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		k     link.Netkit
		words string
	}{
		"a mode that is none":   {link.Netkit{Mode: "l7"}, `"l7"`},
		"a MAC in mode l3":      {link.Netkit{MAC: netconf.MAC{2, 0, 0, 0, 0, 7}}, "02:00:00:00:00:07"},
		"mtu below":             {link.Netkit{MTU: 67}, "mtu 67"},
		"mtu above":             {link.Netkit{MTU: 65536}, "mtu 65536"},
		"mtu that would be cut": {link.Netkit{MTU: 4294968796}, "4294968796"},
	} {
		if err := test.k.Valid(); netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: %v (code %d)", name, err, netconf.Code(err))
		}
	}
	for text, want := range map[string]link.NetkitMode{`""`: link.NetkitL3, `"l3"`: link.NetkitL3, `"l2"`: link.NetkitL2} {
		var mode link.NetkitMode
		if err := json.Unmarshal([]byte(text), &mode); err != nil || mode != want {
			t.Errorf("%s: %q, %v", text, mode, err)
		}
	}
	var mode link.NetkitMode
	if err := json.Unmarshal([]byte(`"L2"`), &mode); err == nil {
		t.Errorf("L2: %q", mode)
	}
}

// CHECK finds what was changed, and Ensure brings back what can be.
func TestNetkitCheckAndEnsure(t *testing.T) {
	needs(t, "netkit")
	k := link.Netkit{Mode: link.NetkitL2, MTU: 1400, MAC: netconf.MAC{2, 0, 0, 0, 0, 7}}
	host := owner("a").HostName("host")
	for _, test := range []struct {
		inside, outside string
		words           string // of CHECK
	}{
		{"ip link set eth0 mtu 1300", "true", "1300"},
		{"ip link set eth0 address 02:00:00:00:00:08", "true", "02:00:00:00:00:08"},
		{"ip link set eth0 down", "true", "down"},
		{"true", "ip link set " + host + " down", "down"},
		{"true", "ip link set " + host + " mtu 1300", "1300"},
		{"ip link set eth0 alias '' group 0", "true", ""},
	} {
		t.Run(test.inside+" "+test.outside, func(t *testing.T) {
			ns := space(t)
			p := plugin(k, link.Addresses{})
			a := add(ns, "a").Run(t.Context(), t, p).OK(t)
			check := add(ns, "a").With(netconf.Check).WithPrev(a)
			check.Run(t.Context(), t, p).OK(t)
			ns.Run("sh", "-c", test.inside)
			skeltest.Host(t, "sh", "-c", test.outside)
			if test.words != "" {
				check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, test.words)
			}
			h, n := spaces(t, ns)
			_, _, err := k.Ensure(t.Context(), h, n, owner("a"))
			if test.words == "" { // it is nobody's now, inside: it is not taken over, and DEL takes it by the host's end
				if !errors.Is(err, netconf.ErrExists) {
					t.Error(err)
				}
			} else if err != nil {
				t.Error(err)
			} else {
				check.Run(t.Context(), t, p).OK(t)
			}
			add(ns, "a").With(netconf.Del).Run(t.Context(), t, p).OK(t)
			if has(ns, "eth0") {
				t.Error("left behind")
			}
		})
	}
	ns := space(t)
	add(ns, "a").Run(t.Context(), t, plugin(k)).OK(t)
	h, n := spaces(t, ns)
	if _, _, err := (link.Netkit{}).Ensure(t.Context(), h, n, owner("a")); !errors.Is(err, netconf.ErrDifferent) || !strings.Contains(err.Error(), "l2") {
		t.Errorf("the other mode: %v", err)
	}
	if err := (link.Netkit{}).Verify(t.Context(), h, n, owner("a"), nil); !errors.Is(err, netconf.ErrDifferent) {
		t.Errorf("the other mode: %v", err)
	}
}

// The pair of an attachment that is gone goes, that of one that lives stays.
func TestNetkitGC(t *testing.T) {
	needs(t, "netkit")
	live, stale := space(t), space(t)
	p := plugin(link.Netkit{})
	add(live, "live").Run(t.Context(), t, p).OK(t)
	add(stale, "stale").Run(t.Context(), t, p).OK(t)
	gc := skeltest.Call{Command: netconf.GC, Path: t.TempDir(), Config: `{"cniVersion":"1.1.0","name":"net","type":"test","cni.dev/valid-attachments":[{"containerID":"live","ifname":"eth0"}]}`}
	gc.Run(t.Context(), t, p).OK(t)
	if !has(live, "eth0") || has(stale, "eth0") {
		t.Error("not the stale one")
	}
}

func TestWalkNetkit(t *testing.T) {
	needs(t, "netkit")
	for i, k := range []link.Netkit{{}, {Mode: link.NetkitL2}} {
		ns := space(t)
		id := fmt.Sprint("w", i)
		if n := skeltest.Walk(t, nk(k, "10.1.0.2/24 10.1.0.1"), add(ns, id), ns, nil); n < 8 {
			t.Errorf("an ADD of %d operations", n)
		}
	}
}
