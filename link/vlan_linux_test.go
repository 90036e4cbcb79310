package link_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// vlan is one on a parent on the host.
func vlan(parent string, id int) link.VLAN {
	return link.VLAN{Parent: link.Parent{Name: parent}, ID: id}
}

// The two ends of a pair are the ports of two hosts on one cable: what is in the same VLAN reaches each other over it, and
// nothing else.
func TestVLAN(t *testing.T) {
	uplink(t)
	needs(t, "vlan")
	steps := []link.VLAN{vlan("p0", 7), vlan("p1", 7), vlan("p1", 8)}
	spaces := []*skeltest.NS{space(t), space(t), space(t)}
	same := unchanged(t, spaces[0])
	var answers []skeltest.Answer
	var plugins []skeltest.Plugin
	for i, ns := range spaces {
		steps[i].MTU = 1400
		p := plugin(steps[i], ipam(fmt.Sprintf("10.1.0.1%d/24 10.1.0.1", i), fmt.Sprintf("fd00:1::1%d/64", i)), link.Addresses{})
		answer := add(ns, fmt.Sprint("c", i)).Run(t.Context(), t, p).OK(t)
		parent := hostLink(t, steps[i].Parent.Name).Attrs()
		if made := answer.Result.Interfaces[0]; made.Name != "eth0" || made.Sandbox != ns.Path || made.Mtu != 1400 || made.Mac != parent.HardwareAddr.String() {
			t.Errorf("interface %+v", made)
		}
		answers, plugins = append(answers, answer), append(plugins, p)
	}
	spaces[0].Ping("10.1.0.11")
	spaces[0].Ping("fd00:1::11")
	if out, err := spaces[0].Try("ping", "-c", "1", "-W", "1", "10.1.0.12"); err == nil {
		t.Errorf("another VLAN is reached: %s", out)
	}
	details := spaces[0].Run("ip", "-d", "link", "show", "dev", "eth0")
	for _, want := range []string{"vlan protocol 802.1Q id 7 <REORDER_HDR>", "alias cni:net:c0:eth0", "mtu 1400", "state UP"} {
		if !strings.Contains(details, want) {
			t.Errorf("%q is missing in\n%s", want, details)
		}
	}
	for i, ns := range spaces {
		call := add(ns, fmt.Sprint("c", i)).WithPrev(answers[i])
		call.With(netconf.Check).Run(t.Context(), t, plugins[i]).OK(t)
		call.With(netconf.Del).Run(t.Context(), t, plugins[i]).OK(t)
	}
	same("after DEL")
}

// With or without vlan in the kernel: the attachment is made, or refused with a word that says why, and gone.
func TestVLANOrWhyNot(t *testing.T) {
	uplink(t)
	ns := space(t)
	same := unchanged(t, ns)
	a := add(ns, "a").Run(t.Context(), t, plugin(vlan("p0", 7), ipam("10.1.0.2/24"), link.Addresses{}))
	if lacks(t, "vlan") {
		a.Fails(t, netconf.CodeNotSupported, "the kernel lacks", "vlan")
	} else {
		a.OK(t)
		add(ns, "a").With(netconf.Del).Run(t.Context(), t, plugin(vlan("p0", 7))).OK(t)
	}
	same("after it")
}

// A parent of each kind, on the host and in the container, as another plugin's link.
func TestVLANOnOtherParents(t *testing.T) {
	skeltest.NeedRoot(t)
	for kind, setup := range map[string]string{
		"veth":   "ip link add q0 type veth peer name q1; ip link set q1 up",
		"dummy":  "ip link add q0 type dummy",
		"bridge": "ip link add q0 type bridge",
		"vlan":   "ip link add q8 type veth peer name q9; ip link set q8 up; ip link set q9 up; ip link add q0 link q8 type vlan id 9",
	} {
		for _, inside := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in the container: %v", kind, inside), func(t *testing.T) {
				needs(t, "vlan", kind)
				ns := space(t)
				ready := setup + "; ip link set q0 addrgenmode none up"
				if inside {
					ns.Run("sh", "-c", ready)
				} else {
					skeltest.Host(t, "sh", "-c", ready)
					t.Cleanup(func() { ignore(t, "ip link del q0; ip link del q8") })
				}
				p := plugin(link.VLAN{Parent: link.Parent{Name: "q0", InContainer: inside}, ID: 7}, ipam("10.1.0.2/24"), link.Addresses{})
				a := add(ns, "a").Run(t.Context(), t, p).OK(t)
				add(ns, "a").With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
				add(ns, "a").With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
				if has(ns, "eth0") || inside != has(ns, "q0") || inside == hostHas(t, "q0") {
					t.Error(ns.Run("ip", "link"))
				}
			})
		}
	}
}

func TestVLANRefused(t *testing.T) {
	p0 := link.Parent{Name: "p0"}
	for _, test := range []struct {
		name, setup string
		step        link.VLAN
		code        uint
		words       []string
	}{
		{"no parent", "true", vlan("nosuch", 7), 7, []string{"nosuch", "no such parent"}},
		{"no default route", "true", link.VLAN{ID: 7}, 7, []string{"default route"}},
		{"no parent in the container", "true", link.VLAN{Parent: link.Parent{Name: "p0", InContainer: true}}, 7, []string{"p0", "in the container"}},
		{"no such VLAN", "true", vlan("p0", 4095), 7, []string{"vlan 4095", "0 to 4094"}},
		{"negative", "true", vlan("p0", -1), 7, []string{"vlan -1"}},
		{"a VLAN that is cut", "true", vlan("p0", 65536+7), 7, []string{"vlan 65543"}},
		{"mtu above", "true", link.VLAN{Parent: p0, ID: 7, MTU: 1501}, 7, []string{"mtu", "1501", "1500", "p0"}},
		{"mtu below", "true", link.VLAN{Parent: p0, ID: 7, MTU: 67}, 7, []string{"mtu 67", "68"}},
		{"mtu negative", "true", link.VLAN{Parent: p0, ID: 7, MTU: -1}, 7, []string{"mtu -1"}},
		{"takes no VLANs", "ip link set lo up", vlan("lo", 7), 7, []string{"lo", "takes no VLANs"}},
		{"parent down", "ip link set p0 down", vlan("p0", 7), 11, []string{"p0", "the parent link is down"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			uplink(t)
			needs(t, "vlan")
			ns := space(t)
			skeltest.Host(t, "sh", "-c", test.setup)
			same := unchanged(t, ns)
			add(ns, "a").Run(t.Context(), t, plugin(test.step)).Fails(t, test.code, test.words...)
			same("after the refused ADD")
		})
	}
}

// A parent has one link for each VLAN, wherever it is: the second container is told so, nothing is changed, and the first
// one's link is as it was. With the first gone there is room.
func TestVLANThatAnotherContainerHas(t *testing.T) {
	uplink(t)
	needs(t, "vlan")
	a, b := space(t), space(t)
	p := plugin(vlan("p0", 7), ipam("10.1.0.2/24"), link.Addresses{})
	answer := add(a, "a").Run(t.Context(), t, p).OK(t)
	same := unchanged(t, b)
	add(b, "b").Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "vlan 7", `"p0"`, "only one", "another container")
	same("after the second container's ADD")
	add(b, "b").With(netconf.Del).Run(t.Context(), t, p).OK(t)
	add(a, "a").With(netconf.Check).WithPrev(answer).Run(t.Context(), t, p).OK(t)
	add(a, "a").With(netconf.Del).WithPrev(answer).Run(t.Context(), t, p).OK(t)
	add(b, "b").Run(t.Context(), t, p).OK(t)

	// What has it on the host is named.
	skeltest.Host(t, "sh", "-c", "ip link add p0.9 link p0 type vlan id 9; ip link set p0.9 alias backup")
	t.Cleanup(func() { ignore(t, "ip link del p0.9") })
	add(a, "a").Run(t.Context(), t, plugin(vlan("p0", 9))).Fails(t, netconf.CodeExists, "vlan 9", `"p0.9"`, `alias "backup"`)
	// A VLAN of the same number on another parent is another one.
	add(a, "a").Run(t.Context(), t, plugin(vlan("p1", 9))).OK(t)
}

// A DEL that follows an ADD which found the VLAN taken takes nothing away, nor does its rollback.
func TestVLANOfTheHostSurvives(t *testing.T) {
	uplink(t)
	needs(t, "vlan")
	skeltest.Host(t, "ip", "link", "add", "p0.7", "link", "p0", "type", "vlan", "id", "7")
	ns := space(t)
	same := unchanged(t, ns)
	p := plugin(skel.Steps{vlan("p0", 7), failing()})
	add(ns, "a").Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "p0.7")
	same("after ADD")
	add(ns, "a").With(netconf.Del).Run(t.Context(), t, p).OK(t)
	same("after DEL")
}

func TestVLANCheck(t *testing.T) {
	uplink(t)
	needs(t, "vlan")
	ns := space(t)
	whole := plugin(vlan("p0", 7), ipam("10.1.0.2/24 10.1.0.1"), link.Addresses{})
	a := add(ns, "a").Run(t.Context(), t, whole).OK(t)
	check := add(ns, "a").With(netconf.Check).WithPrev(a)
	for _, test := range []struct {
		step  link.VLAN
		words []string
	}{
		{vlan("p0", 8), []string{"VLAN", "7", "8"}},
		{vlan("p1", 7), []string{"parent", "p0", "p1"}},
		{vlan("gone", 7), []string{"parent", "p0", "gone"}},
	} {
		check.Run(t.Context(), t, plugin(test.step)).Fails(t, netconf.CodeDifferent, test.words...)
	}
	// The hardware address follows the parent's.
	skeltest.Host(t, "ip", "link", "set", "p0", "address", "02:00:00:00:00:42")
	check.Run(t.Context(), t, whole).OK(t)
	for _, test := range []struct {
		change, back string
		words        []string
	}{
		{"ip link set eth0 address 02:00:00:00:00:43", "ip link set eth0 address 02:00:00:00:00:42", []string{"hardware address", "02:00:00:00:00:43"}},
		{"ip link set eth0 mtu 1300", "ip link set eth0 mtu 1500", []string{"MTU", "1300"}},
		{"ip address del 10.1.0.2/24 dev eth0", "ip address add 10.1.0.2/24 dev eth0", []string{"10.1.0.2"}},
	} {
		ns.Run("sh", "-c", test.change)
		check.Run(t.Context(), t, whole).Fails(t, netconf.CodeDifferent, test.words...)
		ns.Run("sh", "-c", test.back)
		check.Run(t.Context(), t, whole).OK(t)
	}
	skeltest.Host(t, "ip", "link", "set", "p0", "down")
	check.Run(t.Context(), t, whole).Fails(t, netconf.CodeDifferent, "up", "down")
}

// A tag of the provider's kind is another VLAN.
func TestVLANCheckFindsAnotherTag(t *testing.T) {
	uplink(t)
	needs(t, "vlan")
	ns := space(t)
	a := add(ns, "a").Run(t.Context(), t, plugin(vlan("p0", 7), link.Addresses{})).OK(t)
	ns.Run("ip", "link", "del", "eth0")
	skeltest.Host(t, "ip", "link", "add", "link", "p0", "name", "eth0", "netns", ns.Name, "type", "vlan", "proto", "802.1ad", "id", "7")
	ns.Run("ip", "link", "set", "eth0", "up")
	add(ns, "a").With(netconf.Check).WithPrev(a).Run(t.Context(), t, plugin(vlan("p0", 7))).Fails(t, netconf.CodeDifferent, "802.1ad")
}

func TestVLANEnsure(t *testing.T) {
	uplink(t)
	needs(t, "vlan")
	ns := space(t)
	host, container := spaces(t, ns)
	v := vlan("p0", 7)
	v.MTU = 1400
	for _, damage := range []string{"true", "ip link set eth0 mtu 1300 down", "ip link set eth0 alias ''", "ip link del eth0"} {
		ns.Run("sh", "-c", damage)
		if _, err := v.Ensure(t.Context(), host, container, owner("a")); err != nil {
			t.Fatalf("%s: %v", damage, err)
		}
		ns.Run("ip", "link", "set", "eth0", "up")
		if err := v.Verify(t.Context(), host, container, owner("a"), nil); err != nil {
			t.Errorf("%s: %v", damage, err)
		}
		if l := ns.Run("ip", "-d", "link", "show", "eth0"); !strings.Contains(l, "mtu 1400") || !strings.Contains(l, "id 7") || !strings.Contains(l, "cni:net:a:eth0") {
			t.Errorf("%s: %s", damage, l)
		}
	}
	for _, f := range []func(link.Owner) error{
		func(o link.Owner) error { _, err := v.Create(t.Context(), host, container, o); return err },
		func(o link.Owner) error { _, err := v.Ensure(t.Context(), host, container, o); return err },
	} {
		if err := f(owner("b")); !errors.Is(err, netconf.ErrExists) {
			t.Errorf("by another owner: %v", err)
		}
	}
	for _, other := range []link.VLAN{vlan("p0", 8), vlan("p1", 7)} {
		if _, err := other.Ensure(t.Context(), host, container, owner("a")); !errors.Is(err, netconf.ErrDifferent) {
			t.Errorf("Ensure of %+v: %v", other, err)
		}
	}
	above := v
	above.MTU = 1501
	if _, err := above.Ensure(t.Context(), host, container, owner("a")); netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
		t.Errorf("Ensure with an MTU above the parent's: %v", err)
	}
	skeltest.Host(t, "ip", "link", "set", "p0", "down")
	if _, err := v.Ensure(t.Context(), host, container, owner("a")); netconf.Code(err) != netconf.CodeTryAgainLater || !strings.Contains(err.Error(), "p0") {
		t.Errorf("Ensure with the parent down: %v", err)
	}
	if err := v.Delete(t.Context(), host, container, owner("b")); err != nil || !has(ns, "eth0") {
		t.Errorf("Delete by another owner: %v", err)
	}
	for range 2 {
		if err := v.Delete(t.Context(), host, container, owner("a")); err != nil || has(ns, "eth0") {
			t.Errorf("Delete: %v", err)
		}
	}
	if err := v.Delete(t.Context(), host, nil, owner("a")); err != nil {
		t.Errorf("Delete without a namespace: %v", err)
	}
}

// Where the kernel looks the name up on the host (before 6.15), whose own eth0 has it, the link is made under another name
// and renamed in its place: that is not taken for a VLAN that has its link.
func TestVLANWithTheHostsNameTaken(t *testing.T) {
	uplink(t)
	needs(t, "vlan")
	skeltest.Host(t, "ip", "link", "add", "eth0", "type", "bridge")
	t.Cleanup(func() { ignore(t, "ip", "link", "del", "eth0") })
	old := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if op == "link add eth0" {
			return syscall.EEXIST
		}
		return nil
	})
	ns := space(t)
	for _, ctx := range []context.Context{old, t.Context()} {
		add(ns, "a").Run(ctx, t, plugin(vlan("p0", 7))).OK(t)
		if !has(ns, "eth0") {
			t.Error(ns.Run("ip", "link"))
		}
		add(ns, "a").With(netconf.Del).Run(t.Context(), t, plugin(vlan("p0", 7))).OK(t)
	}
}

func TestVLANStatus(t *testing.T) {
	uplink(t)
	p := plugin(vlan("p0", 7))
	status := skeltest.Call{Command: netconf.Status, Config: `{"cniVersion":"1.1.0","name":"net","type":"test"}`}
	status.Run(t.Context(), t, p).OK(t)
	skeltest.Host(t, "ip", "link", "set", "p0", "down")
	status.Run(t.Context(), t, p).Fails(t, netconf.CodePluginNotAvailable, "p0", "down")
	skeltest.Host(t, "ip", "link", "del", "p0")
	status.Run(t.Context(), t, p).Fails(t, netconf.CodePluginNotAvailable, "p0")
}
