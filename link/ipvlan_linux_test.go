package link_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// ipvlan is one on p0.
func ipvlan(mode link.IPvlanMode, flag link.IPvlanFlag) link.IPvlan {
	return link.IPvlan{Parent: link.Parent{Name: "p0"}, Mode: mode, Flag: flag}
}

// parent makes the link p0 on the host, up, of a kind that an ipvlan may have under it.
func parent(t *testing.T, kind string) {
	t.Helper()
	switch needs(t, "ipvlan", kind); kind {
	case "veth":
		uplink(t)
		return
	case "dummy":
		skeltest.Host(t, "ip", "link", "add", "p0", "type", "dummy")
	case "vlan":
		skeltest.Host(t, "sh", "-c", "ip link add q0 type veth peer name q1; ip link set q0 up; ip link set q1 up; ip link add p0 link q0 type vlan id 7")
	}
	t.Cleanup(func() { ignore(t, "ip link del p0; ip link del q0") })
	skeltest.Host(t, "ip", "link", "set", "p0", "addrgenmode", "none", "up")
}

func TestIPvlan(t *testing.T) {
	for _, kind := range []string{"veth", "dummy", "vlan"} {
		for _, mode := range []link.IPvlanMode{link.IPvlanL2, link.IPvlanL3, link.IPvlanL3S} {
			t.Run(kind+" "+mode.String(), func(t *testing.T) {
				parent(t, kind)
				a, b := space(t), space(t)
				same := unchanged(t, a)
				var answers []skeltest.Answer
				var plugins []skeltest.Plugin
				for i, ns := range []*skeltest.NS{a, b} {
					step := ipvlan(mode, link.IPvlanBridge)
					step.MTU = 1400
					p := plugin(step, ipam(fmt.Sprintf("10.1.0.1%d/24 10.1.0.1", i), fmt.Sprintf("fd00:1::1%d/64", i)), link.Addresses{})
					answer := add(ns, []string{"a", "b"}[i]).Run(t.Context(), t, p).OK(t)
					if made := answer.Result.Interfaces[0]; made.Name != "eth0" || made.Sandbox != ns.Path || made.Mtu != 1400 || made.Mac != hostLink(t, "p0").Attrs().HardwareAddr.String() {
						t.Errorf("interface %+v", made)
					}
					if out := ns.Run("ip", "address", "show", "to", "fd00:1::/64"); strings.Contains(out, "tentative") {
						t.Errorf("tentative after ADD: %s", out)
					}
					answers, plugins = append(answers, answer), append(plugins, p)
				}
				a.Ping("10.1.0.11")
				a.Ping("fd00:1::11")
				details := a.Run("ip", "-d", "link", "show", "dev", "eth0")
				for _, want := range []string{"ipvlan  mode " + mode.String() + " bridge", "alias cni:net:a:eth0", "mtu 1400"} {
					if !strings.Contains(details, want) {
						t.Errorf("%q is missing in\n%s", want, details)
					}
				}
				for i, ns := range []*skeltest.NS{a, b} {
					call := add(ns, []string{"a", "b"}[i]).WithPrev(answers[i])
					call.With(netconf.Check).Run(t.Context(), t, plugins[i]).OK(t)
					call.With(netconf.Del).Run(t.Context(), t, plugins[i]).OK(t)
				}
				same("after DEL")
			})
		}
	}
}

// With or without ipvlan in the kernel: the attachment is made, or refused with a word that says why, and gone.
func TestIPvlanOrWhyNot(t *testing.T) {
	uplink(t)
	ns := space(t)
	same := unchanged(t, ns)
	a := add(ns, "a").Run(t.Context(), t, plugin(ipvlan("", ""), ipam("10.1.0.2/24"), link.Addresses{}))
	if lacks(t, "ipvlan") {
		a.Fails(t, netconf.CodeNotSupported, "the kernel lacks", "ipvlan")
	} else {
		a.OK(t)
		add(ns, "a").With(netconf.Del).Run(t.Context(), t, plugin(ipvlan("", ""))).OK(t)
	}
	same("after it")
}

// The parent may be in the container: another plugin's link, or one that is an ipvlan itself, of a parent on the host.
func TestIPvlanOnALinkInTheContainer(t *testing.T) {
	uplink(t)
	needs(t, "ipvlan")
	for name, setup := range map[string]string{
		"veth":   "ip link add q0 type veth peer name q1; ip link set q0 up; ip link set q1 up",
		"ipvlan": "true",
	} {
		t.Run(name, func(t *testing.T) {
			ns := space(t)
			ns.Run("sh", "-c", setup)
			if name == "ipvlan" {
				skeltest.Host(t, "ip", "link", "add", "q0", "link", "p0", "netns", ns.Name, "type", "ipvlan", "mode", "l2")
			}
			step := link.IPvlan{Parent: link.Parent{Name: "q0", InContainer: true}}
			p := plugin(step, link.Addresses{})
			a := add(ns, "a").Run(t.Context(), t, p).OK(t)
			add(ns, "a").With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
			step.Parent.Name = "lo"
			add(ns, "a").With(netconf.Check).WithPrev(a).Run(t.Context(), t, plugin(step)).Fails(t, netconf.CodeDifferent, "parent", "lo")
			step.Parent.Name, step.Mode = "q0", link.IPvlanL3
			add(ns, "b").Run(t.Context(), t, plugin(step)).Fails(t, netconf.CodeExists)
			other := add(ns, "a")
			other.IfName = "eth1"
			other.Run(t.Context(), t, plugin(step)).Fails(t, netconf.CodeInvalidNetworkConfig, "mode l3", "q0", "mode l2")
			add(ns, "a").With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
			if has(ns, "eth0") || !has(ns, "q0") {
				t.Error(ns.Run("ip", "link"))
			}
			ns.Run("ip", "link", "del", "q0")
		})
	}
}

func TestIPvlanRefused(t *testing.T) {
	p0 := link.Parent{Name: "p0"}
	for _, test := range []struct {
		name, setup string
		step        link.IPvlan
		code        uint
		words       []string
	}{
		{"no parent", "true", link.IPvlan{Parent: link.Parent{Name: "nosuch"}}, 7, []string{"nosuch", "no such parent"}},
		{"no default route", "true", link.IPvlan{}, 7, []string{"default route"}},
		{"no parent in the container", "true", link.IPvlan{Parent: link.Parent{Name: "p0", InContainer: true}}, 7, []string{"p0"}},
		{"mtu above", "true", link.IPvlan{Parent: p0, MTU: 1501}, 7, []string{"mtu", "1501", "1500", "p0"}},
		{"mtu below", "true", link.IPvlan{Parent: p0, MTU: 67}, 7, []string{"mtu 67", "68 to 1500"}},
		{"mtu that is cut", "true", link.IPvlan{Parent: p0, MTU: 4294968796}, 7, []string{"mtu 4294968796"}},
		{"mode", "true", ipvlan("l4", ""), 7, []string{"mode", "l4"}},
		{"flag", "true", ipvlan("", "passthru"), 7, []string{"flag", "passthru"}},
		{"port", "ip link set p0 master br7", ipvlan("", ""), 7, []string{"p0", "busy", "bridge", "br7"}},
		{"macvlan's parent", "ip link add m0 link p0 type macvlan", ipvlan("", ""), 7, []string{"p0", "busy", "macvlan"}},
		{"no Ethernet", "true", link.IPvlan{Parent: link.Parent{Name: "lo"}}, 7, []string{"lo", "no Ethernet link"}},
		{"other mode", "ip link add i0 link p0 type ipvlan mode l3", ipvlan("", ""), 7, []string{"p0", "mode l2", `"i0"`, "mode l3"}},
		{"other flag", "ip link add i0 link p0 type ipvlan mode l2 private", ipvlan("", "vepa"), 7, []string{"p0", "flag vepa", `"i0"`, "flag private"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			uplink(t)
			needs(t, "ipvlan")
			if strings.Contains(test.setup, "br7") {
				bridge(t)
			}
			ns := space(t)
			skeltest.Host(t, "sh", "-c", test.setup)
			same := unchanged(t, ns)
			add(ns, "a").Run(t.Context(), t, plugin(test.step)).Fails(t, test.code, test.words...)
			same("after the refused ADD")
		})
	}
}

// The kernel answers ENOTSUPP where it was built without l3s, which no other part of this test's kernels says.
func TestIPvlanWithoutL3S(t *testing.T) {
	uplink(t)
	ns := space(t)
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if op == "link add eth0" {
			return syscall.Errno(524)
		}
		return nil
	})
	host, container := spaces(t, ns)
	_, err := ipvlan(link.IPvlanL3S, "").Create(ctx, host, container, owner("a"))
	if !errors.Is(err, link.ErrNotSupported) || netconf.Code(err) != netconf.CodeNotSupported || !strings.Contains(err.Error(), "l3s") {
		t.Errorf("%v, code %d", err, netconf.Code(err))
	}
}

// One parent has one mode and one flag: a second network's ADD would change the first one's live links, in whichever
// namespace they are. STATUS says so before.
func TestIPvlanOfAnotherModeOnTheParent(t *testing.T) {
	uplink(t)
	needs(t, "ipvlan")
	a, b := space(t), space(t)
	status := skeltest.Call{Command: netconf.Status, Config: `{"cniVersion":"1.1.0","name":"net","type":"test"}`}
	first := plugin(ipvlan(link.IPvlanL2, ""), link.Addresses{})
	answer := add(a, "a").Run(t.Context(), t, first).OK(t)
	same := unchanged(t, a)
	for _, other := range []link.IPvlan{ipvlan(link.IPvlanL3, ""), ipvlan(link.IPvlanL3S, ""), ipvlan("", link.IPvlanPrivate)} {
		add(b, "b").Run(t.Context(), t, plugin(other)).Fails(t, netconf.CodeInvalidNetworkConfig, "p0", "cni:net:a:eth0", "mode l2, flag bridge")
		status.Run(t.Context(), t, plugin(other)).Fails(t, netconf.CodePluginNotAvailable, "cni:net:a:eth0")
	}
	same("after the refused ADDs")
	status.Run(t.Context(), t, first).OK(t)
	add(b, "b").Run(t.Context(), t, first).OK(t)

	// A parent of another namespace that has the same index is another one.
	index := fmt.Sprint(hostLink(t, "p1").Attrs().Index)
	c, d := space(t), space(t)
	c.Run("ip", "link", "add", "q0", "index", index, "type", "bridge") // a veth's other end might take the number
	skeltest.Host(t, "ip", "netns", "set", c.Name, "auto")
	add(c, "c").Run(t.Context(), t, plugin(link.IPvlan{Parent: link.Parent{Name: "q0", InContainer: true}, Mode: link.IPvlanL3})).OK(t)
	add(d, "d").Run(t.Context(), t, plugin(link.IPvlan{Parent: link.Parent{Name: "p1"}})).OK(t)
	c.Run("ip", "link", "del", "q0")

	add(b, "b").With(netconf.Del).Run(t.Context(), t, first).OK(t)
	add(a, "a").With(netconf.Del).WithPrev(answer).Run(t.Context(), t, first).OK(t)
	add(b, "b").Run(t.Context(), t, plugin(ipvlan(link.IPvlanL3, ""))).OK(t)
}

// Two networks are given the parent at the same moment: who finds his link changed fails.
func TestIPvlanModeChangedMeanwhile(t *testing.T) {
	uplink(t)
	needs(t, "ipvlan")
	ns := space(t)
	same := unchanged(t, ns)
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if op == "link alias eth0" {
			skeltest.Host(t, "ip", "link", "add", "i0", "link", "p0", "type", "ipvlan", "mode", "l3")
			skeltest.Host(t, "ip", "link", "del", "i0")
		}
		return nil
	})
	add(ns, "a").Run(ctx, t, plugin(ipvlan("", ""))).Fails(t, netconf.CodeTryAgainLater, "p0", "mode is l3, expected l2")
	same("after the ADD that failed")
	add(ns, "a").Run(t.Context(), t, plugin(ipvlan("", ""))).OK(t)
}

func TestIPvlanParentDown(t *testing.T) {
	uplink(t)
	needs(t, "ipvlan")
	skeltest.Host(t, "ip", "link", "set", "p0", "down")
	ns := space(t)
	req := request(t, netconf.Add, ns.Path, "a")
	var warned []any
	req.Warn = func(msg string, args ...any) { warned = append(warned, msg, args) }
	if err := ipvlan("", "").Add(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(warned...), "the parent link is down") {
		t.Errorf("warned of %v", warned)
	}
}

func TestIPvlanCheck(t *testing.T) {
	uplink(t)
	needs(t, "ipvlan")
	ns := space(t)
	whole := plugin(ipvlan("", ""), ipam("10.1.0.2/24 10.1.0.1"), link.Addresses{})
	a := add(ns, "a").Run(t.Context(), t, whole).OK(t)
	check := add(ns, "a").With(netconf.Check).WithPrev(a)
	for _, test := range []struct {
		step  link.IPvlan
		words []string
	}{
		{ipvlan(link.IPvlanL3S, ""), []string{"mode", "l2", "l3s"}},
		{ipvlan("", link.IPvlanVEPA), []string{"flag", "vepa", "bridge"}},
		{link.IPvlan{Parent: link.Parent{Name: "p1"}}, []string{"parent", "p0", "p1"}},
		{link.IPvlan{Parent: link.Parent{Name: "gone"}}, []string{"parent", "p0", "gone"}},
	} {
		check.Run(t.Context(), t, plugin(test.step)).Fails(t, netconf.CodeDifferent, test.words...)
	}
	// The hardware address is the parent's, as it is now.
	skeltest.Host(t, "ip", "link", "set", "p0", "address", "02:00:00:00:00:42")
	check.Run(t.Context(), t, whole).OK(t)
	// Changes that the container's owner can make, and that the host's can.
	for _, test := range []struct {
		change, back string
		words        []string
	}{
		{"ip link set eth0 type ipvlan mode l3", "ip link set eth0 type ipvlan mode l2", []string{"mode", "l3"}},
		{"ip link set eth0 type ipvlan private", "ip link set eth0 type ipvlan bridge", []string{"flag", "private"}},
		{"ip link set eth0 mtu 1300", "ip link set eth0 mtu 1500", []string{"MTU", "1300"}},
		{"ip address del 10.1.0.2/24 dev eth0", "ip address add 10.1.0.2/24 dev eth0", []string{"10.1.0.2"}},
	} {
		ns.Run("sh", "-c", test.change)
		check.Run(t.Context(), t, whole).Fails(t, netconf.CodeDifferent, test.words...)
		ns.Run("sh", "-c", test.back)
		check.Run(t.Context(), t, whole).OK(t)
	}
	skeltest.Host(t, "ip", "link", "set", "p0", "mtu", "1400")
	check.Run(t.Context(), t, whole).Fails(t, netconf.CodeDifferent, "MTU", "1400")
}

func TestIPvlanEnsure(t *testing.T) {
	uplink(t)
	needs(t, "ipvlan")
	ns := space(t)
	host, container := spaces(t, ns)
	m := ipvlan(link.IPvlanL3, link.IPvlanPrivate)
	m.MTU = 1400
	for _, damage := range []string{"true", "ip link set eth0 mtu 1300 down", "ip link del eth0"} {
		ns.Run("sh", "-c", damage)
		if _, err := m.Ensure(t.Context(), host, container, owner("a")); err != nil {
			t.Fatalf("%s: %v", damage, err)
		}
		ns.Run("ip", "link", "set", "eth0", "up")
		if err := m.Verify(t.Context(), host, container, owner("a"), nil); err != nil {
			t.Errorf("%s: %v", damage, err)
		}
		if l := ns.Run("ip", "-d", "link", "show", "eth0"); !strings.Contains(l, "mtu 1400") || !strings.Contains(l, "mode l3 private") {
			t.Errorf("%s: %s", damage, l)
		}
	}
	for _, f := range []func(link.Owner) error{
		func(o link.Owner) error { _, err := m.Create(t.Context(), host, container, o); return err },
		func(o link.Owner) error { _, err := m.Ensure(t.Context(), host, container, o); return err },
	} {
		if err := f(owner("b")); !errors.Is(err, netconf.ErrExists) {
			t.Errorf("by another owner: %v", err)
		}
	}
	other := m
	other.Mode = link.IPvlanL2
	if _, err := other.Ensure(t.Context(), host, container, owner("a")); !errors.Is(err, netconf.ErrDifferent) {
		t.Errorf("Ensure with another mode: %v", err)
	}
	if err := m.Delete(t.Context(), host, container, owner("b")); err != nil || !has(ns, "eth0") {
		t.Errorf("Delete by another owner: %v", err)
	}
	for range 2 {
		if err := m.Delete(t.Context(), host, container, owner("a")); err != nil || has(ns, "eth0") {
			t.Errorf("Delete: %v", err)
		}
	}
	if err := m.Delete(t.Context(), host, nil, owner("a")); err != nil {
		t.Errorf("Delete without a namespace: %v", err)
	}
}

// The kernel takes no MTU for granted: below 1280 there is no IPv6 on the link.
func TestIPvlanTooSmallForIPv6(t *testing.T) {
	uplink(t)
	needs(t, "ipvlan")
	ns := space(t)
	same := unchanged(t, ns)
	step := ipvlan("", "")
	step.MTU = 1279
	add(ns, "a").Run(t.Context(), t, plugin(step, ipam("fd00:1::2/64"), link.Addresses{})).Fails(t, netconf.CodeInvalidNetworkConfig, "mtu 1279", "1280")
	same("after the refused ADD")
}

func TestIPvlanStatus(t *testing.T) {
	uplink(t)
	p := plugin(ipvlan("", ""))
	status := skeltest.Call{Command: netconf.Status, Config: `{"cniVersion":"1.1.0","name":"net","type":"test"}`}
	status.Run(t.Context(), t, p).OK(t)
	skeltest.Host(t, "ip", "link", "del", "p0")
	status.Run(t.Context(), t, p).Fails(t, netconf.CodePluginNotAvailable, "p0")
	// Which parent a prevResult will name, STATUS cannot know.
	status.Run(t.Context(), t, plugin(link.IPvlan{Chained: true})).OK(t)
}

func TestIPvlanModeAndFlag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]link.IPvlanMode{"": link.IPvlanL2, "l2": link.IPvlanL2, "l3": link.IPvlanL3, "l3s": link.IPvlanL3S} {
		var m link.IPvlanMode
		if err := m.UnmarshalText([]byte(text)); err != nil || m != want || text != "" && m.String() != text {
			t.Errorf("%q: %q, %v", text, m, err)
		}
	}
	for text, want := range map[string]link.IPvlanFlag{"": link.IPvlanBridge, "bridge": link.IPvlanBridge, "private": link.IPvlanPrivate, "vepa": link.IPvlanVEPA} {
		var f link.IPvlanFlag
		if err := f.UnmarshalText([]byte(text)); err != nil || f != want || text != "" && f.String() != text {
			t.Errorf("%q: %q, %v", text, f, err)
		}
	}
	var both struct {
		Mode link.IPvlanMode
		Flag link.IPvlanFlag
	}
	for config, words := range map[string][]string{
		`{"mode":"L3"}`:       {`"L3"`, "l2, l3 or l3s"},
		`{"mode":"l4"}`:       {`"l4"`, "l2, l3 or l3s"},
		`{"flag":"passthru"}`: {`"passthru"`, "bridge, private or vepa"},
	} {
		err := json.Unmarshal([]byte(config), &both)
		for _, word := range words {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v: no %q", config, err, word)
			}
		}
	}
}
