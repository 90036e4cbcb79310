package link_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// filtered makes sure that the kernel's bridges filter VLANs, or skips the test.
func filtered(t *testing.T) {
	t.Helper()
	ns := space(t)
	_, n := spaces(t, ns)
	if _, err := (link.Bridge{Name: "try", VLANFiltering: true}).Ensure(t.Context(), n, owner("try")); errors.Is(err, link.ErrNotSupported) {
		if !strings.Contains(err.Error(), "do not filter VLANs") || has(ns, "try") {
			t.Errorf("%v, and the bridge is there: %v", err, has(ns, "try"))
		}
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	ns.Run("ip", "link", "del", "try")
}

// onVLANs is a plugin that makes a port of cni7 with VLANs.
func onVLANs(vlans link.PortVLANs, more ...skel.Step) skel.Plugin[struct{}] {
	return plugin(link.Bridge{Name: "cni7", VLANFiltering: true}, append([]skel.Step{link.Veth{Bridge: "cni7", VLANs: vlans}}, more...)...)
}

func removed(t *testing.T, name string) {
	t.Helper()
	skeltest.NeedRoot(t)
	t.Cleanup(func() { ignore(t, "ip link del "+name) })
}

// Two containers in VLAN 10, one in VLAN 20, one with a trunk of both: all have an address of one subnet.
func TestPortVLANs(t *testing.T) {
	filtered(t)
	needs(t, "vlan")
	removed(t, "cni7")
	ten, twenty := link.PortVLANs{Untagged: 10}, link.PortVLANs{Untagged: 20}
	trunk := link.PortVLANs{Tagged: []link.VLANRange{{10, 12}, {20, 20}}}
	var at []*skeltest.NS
	var check []func()
	for i, v := range []link.PortVLANs{ten, ten, twenty, trunk} {
		id, ns := fmt.Sprint("c", i), space(t)
		p := onVLANs(v, ipam(fmt.Sprintf("10.1.0.%d/24", i+1)), link.Addresses{})
		made := add(ns, id).Run(t.Context(), t, p).OK(t)
		at = append(at, ns)
		check = append(check, func() { add(ns, id).With(netconf.Check).WithPrev(made).Run(t.Context(), t, p).OK(t) })
	}
	at[3].Run("sh", "-c", "for v in 10 20; do ip link add link eth0 name eth0.$v type vlan id $v; ip address add 10.1.0.4/24 dev eth0.$v; ip link set eth0.$v up; done; ip route flush root 10.1.0.0/24")
	via := func(device, to string, want bool) {
		t.Helper()
		at[3].Run("ip", "route", "replace", to+"/32", "dev", device)
		if reached := reaches(at[3], to); reached != want {
			t.Errorf("from the trunk by %s to %s: %v, expected %v", device, to, reached, want)
		}
	}
	at[0].Ping("10.1.0.2")
	if reaches(at[0], "10.1.0.3") {
		t.Error("VLAN 10 reaches VLAN 20")
	}
	via("eth0.10", "10.1.0.1", true)
	via("eth0.20", "10.1.0.3", true)
	via("eth0.20", "10.1.0.2", false)
	via("eth0", "10.1.0.1", false) // without a tag
	for _, c := range check {
		c()
	}
	want := map[string]string{owner("c0").HostName("host"): "10 PVID Egress Untagged", owner("c2").HostName("host"): "20 PVID Egress Untagged", owner("c3").HostName("host"): "10 11 12 20"}
	for port, vlans := range want {
		have := strings.Fields(strings.Replace(skeltest.Host(t, "bridge", "vlan", "show", "dev", port), "port", "", 1))
		if text := strings.Join(have, " "); !strings.HasSuffix(text, port+" "+vlans) {
			t.Errorf("%s has the VLANs %q, expected %q", port, text, vlans)
		}
	}
}

// What is damaged is found, and Ensure brings it back: with a trunk that holds the port's own VLAN too, whatever the order.
func TestPortVLANsDamaged(t *testing.T) {
	filtered(t)
	removed(t, "cni7")
	ns := space(t)
	host, container := spaces(t, ns)
	b := link.Bridge{Name: "cni7", VLANFiltering: true}
	end := owner("a").HostName("host")
	for _, v := range []link.PortVLANs{
		{Untagged: 10, Tagged: []link.VLANRange{{1, 12}, {4094, 4094}}},
		{Untagged: 10, KeepDefault: true},
		{Tagged: []link.VLANRange{{5, 5}}},
	} {
		veth := link.Veth{Bridge: "cni7", VLANs: v}
		for _, damage := range []string{
			"true", "bridge vlan del vid 10 dev HOST", "bridge vlan add vid 100-200 dev HOST", "bridge vlan add vid 11 pvid untagged dev HOST",
			"bridge vlan del vid 5 dev HOST", "ip link set cni7 type bridge vlan_filtering 0", "ip link set HOST nomaster",
		} {
			skeltest.Host(t, "sh", "-c", strings.ReplaceAll(damage, "HOST", end)+" || true")
			if err := veth.Verify(t.Context(), host, container, owner("a"), nil); damage != "true" && !strings.Contains(damage, "del vid") && !errors.Is(err, netconf.ErrDifferent) {
				t.Errorf("%+v: %s: Verify: %v", v, damage, err)
			}
			if _, err := b.Ensure(t.Context(), host, owner("a")); err != nil {
				t.Fatal(err)
			}
			if _, _, err := veth.Ensure(t.Context(), host, container, owner("a")); err != nil {
				t.Fatalf("%+v: %s: %v", v, damage, err)
			}
			ns.Run("ip", "link", "set", "eth0", "up")
			if err := netconf.Join(b.Verify(t.Context(), host, owner("a")), veth.Verify(t.Context(), host, container, owner("a"), nil)); err != nil {
				t.Errorf("%+v: %s: %v", v, damage, err)
			}
		}
		if err := veth.Delete(t.Context(), host, container, owner("a")); err != nil {
			t.Fatal(err)
		}
	}
}

// VLANs that mean nothing are refused before any change: else containers of different ones would reach each other.
func TestPortVLANsRefused(t *testing.T) {
	ns := space(t)
	bridge(t) // an administrator's, which does not filter
	host, _ := spaces(t, ns)
	_, err := (link.Bridge{Name: "br7", VLANFiltering: true}).Ensure(t.Context(), host, owner("a"))
	lacking := errors.Is(err, link.ErrNotSupported)
	code := map[bool]uint{true: netconf.CodeNotSupported, false: netconf.CodeInvalidNetworkConfig}[lacking]
	if netconf.Code(err) != code || !strings.Contains(err.Error(), "br7") {
		t.Errorf("a bridge that does not filter: %v", err)
	}
	same := unchanged(t, ns)
	on := func(v link.PortVLANs) link.Veth { return link.Veth{Bridge: "br7", VLANs: v} }
	for _, test := range []struct {
		step link.Veth
		code uint
		word string
	}{
		{on(link.PortVLANs{Untagged: 10}), code, "br7"},
		{on(link.PortVLANs{Tagged: []link.VLANRange{{1, 2}}}), code, "br7"},
		{on(link.PortVLANs{Untagged: 4095}), 7, "4095"},
		{on(link.PortVLANs{Untagged: -1}), 7, "-1"},
		{on(link.PortVLANs{Tagged: []link.VLANRange{{0, 2}}}), 7, "VLANs 0 to 2"},
		{on(link.PortVLANs{Tagged: []link.VLANRange{{3, 2}}}), 7, "VLANs 3 to 2"},
		{on(link.PortVLANs{Tagged: []link.VLANRange{{1, 4095}}}), 7, "VLANs 1 to 4095"},
		{link.Veth{VLANs: link.PortVLANs{Untagged: 10}}, 7, "need a bridge"},
	} {
		add(ns, "a").Run(t.Context(), t, plugin(test.step)).Fails(t, test.code, test.word)
		same("after the refused ADD")
	}
}

// The gateway of a VLAN is a link on the bridge; one that the reference plugin made, a pair, is used as it is.
func TestGatewayVLAN(t *testing.T) {
	filtered(t)
	needs(t, "vlan")
	for _, theirs := range []bool{false, true} {
		removed(t, "cni7")
		removed(t, "cni7.10")
		a, b := space(t), space(t)
		if theirs {
			skeltest.Host(t, "sh", "-c", "ip link add cni7 type bridge vlan_filtering 1; ip link set cni7 up; ip link add cni7.10 type veth peer name g0; "+
				"ip link set g0 master cni7 up; bridge vlan del vid 1 dev g0; bridge vlan add vid 10 pvid untagged dev g0; ip link set cni7.10 up")
		}
		ten := onVLANs(link.PortVLANs{Untagged: 10}, ipam("10.1.0.2/24", "fd00:1::2/64"), link.Gateway{Bridge: "cni7", VLAN: 10, Default: true}, link.Addresses{})
		made := add(a, "a").Run(t.Context(), t, ten).OK(t)
		twenty := onVLANs(link.PortVLANs{Untagged: 20}, ipam("10.1.0.3/24"), link.Addresses{})
		add(b, "b").Run(t.Context(), t, twenty).OK(t)
		a.Ping("10.1.0.1")
		a.Ping("fd00:1::1")
		if reaches(b, "10.1.0.1") {
			t.Error("VLAN 20 reaches the gateway of VLAN 10")
		}
		if last := made.Result.Interfaces[len(made.Result.Interfaces)-1]; last.Name != "cni7.10" || last.Sandbox != "" {
			t.Errorf("interface %+v", last)
		}
		kind := map[bool]string{false: "vlan", true: "veth"}[theirs]
		if l := hostLink(t, "cni7.10"); l.Type() != kind || !theirs && l.Attrs().Alias != "cni:net" {
			t.Errorf("%s, alias %q", l.Type(), l.Attrs().Alias)
		}
		check := add(a, "a").With(netconf.Check).WithPrev(made)
		check.Run(t.Context(), t, ten).OK(t)
		damages := []string{"ip address del 10.1.0.1/24 dev cni7.10", "ip link set cni7.10 down", "ip link del cni7.10"}
		if !theirs {
			damages = append([]string{"bridge vlan del vid 10 dev cni7 self"}, damages...)
		}
		host, _ := spaces(t, a)
		for _, damage := range damages {
			skeltest.Host(t, "sh", "-c", damage)
			check.Run(t.Context(), t, ten).Fails(t, netconf.CodeDifferent, "cni7", "10")
			if err := (link.Gateway{Bridge: "cni7", VLAN: 10}).Ensure(t.Context(), host, made.Result.IPs); err != nil {
				t.Fatal(err)
			}
			if !theirs {
				check.Run(t.Context(), t, ten).OK(t)
				a.Ping("10.1.0.1")
			}
		}
		add(a, "a").With(netconf.Del).WithPrev(made).Run(t.Context(), t, ten).OK(t)
		add(b, "b").With(netconf.Del).Run(t.Context(), t, twenty).OK(t)
		if !hostHas(t, "cni7.10") {
			t.Error("the gateway of the VLAN is gone with one attachment")
		}
		ignore(t, "ip link del cni7.10; ip link del cni7; ip link del g0")
	}
}

// The bridge's default VLAN has its gateway on the bridge itself.
func TestGatewayDefaultVLAN(t *testing.T) {
	filtered(t)
	removed(t, "cni7")
	ns := space(t)
	p := onVLANs(link.PortVLANs{Untagged: 1, Tagged: []link.VLANRange{{5, 9}}}, ipam("10.1.0.2/24"), link.Gateway{Bridge: "cni7", VLAN: 1}, link.Addresses{})
	made := add(ns, "a").Run(t.Context(), t, p).OK(t)
	ns.Ping("10.1.0.1")
	add(ns, "a").With(netconf.Check).WithPrev(made).Run(t.Context(), t, p).OK(t)
	if hostHas(t, "cni7.1") {
		t.Error("there is a link of its own")
	}
}

func TestGatewayVLANRefused(t *testing.T) {
	ns := space(t)
	bridge(t)
	removed(t, "bridge-of-14-by")
	host, _ := spaces(t, ns)
	for _, test := range []struct {
		gateway link.Gateway
		word    string
	}{
		{link.Gateway{Bridge: "br7", VLAN: 4095}, "4095"},
		{link.Gateway{Bridge: "bridge-of-14-b", VLAN: 10}, "bridge-of-14-b.10"},
	} {
		same := unchanged(t, ns)
		if err := test.gateway.Ensure(t.Context(), host, nil); netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), test.word) {
			t.Errorf("%v", err)
		}
		same("after the refusal")
	}
}

// Every operation of an ADD with VLANs fails in turn.
func TestWalkVLANs(t *testing.T) {
	filtered(t)
	needs(t, "vlan")
	removed(t, "cni7")
	ns := space(t)
	p := onVLANs(link.PortVLANs{Untagged: 10, Tagged: []link.VLANRange{{20, 30}}}, ipam("10.1.0.2/24"), link.Gateway{Bridge: "cni7", VLAN: 10}, link.Addresses{})
	add(ns, "first").Run(t.Context(), t, p).OK(t) // the bridge and the gateway stay
	add(ns, "first").With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if n := skeltest.Walk(t, p, add(ns, "a"), ns, nil); n < 8 {
		t.Errorf("the hook saw %d operations", n)
	}
}
