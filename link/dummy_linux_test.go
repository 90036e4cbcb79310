package link_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// The addresses are reached in the container, by who listens there too; what is sent out of the link is gone.
func TestDummy(t *testing.T) {
	skeltest.NeedRoot(t)
	needs(t, "dummy")
	ns := space(t)
	ns.Run("ip", "link", "set", "lo", "up") // packets to an own address go by it
	same := unchanged(t, ns)
	p := plugin(link.Dummy{MTU: 9000, MAC: netconf.MAC{2, 0, 0, 0, 0, 1}}, ipam("10.1.0.2/24", "fd00:1::2/64"), link.Addresses{})
	a := add(ns, "a").Run(t.Context(), t, p).OK(t)
	if made := a.Result.Interfaces[0]; made.Name != "eth0" || made.Sandbox != ns.Path || made.Mtu != 9000 || made.Mac != "02:00:00:00:00:01" {
		t.Errorf("interface %+v", made)
	}
	ns.Ping("10.1.0.2")
	ns.Ping("fd00:1::2")
	if out, err := ns.Try("ping", "-c", "1", "-W", "1", "10.1.0.3"); err == nil {
		t.Errorf("a dummy leads somewhere: %s", out)
	}
	details := ns.Run("ip", "-d", "link", "show", "dev", "eth0")
	for _, want := range []string{"dummy", "alias cni:net:a:eth0", "mtu 9000", "UP,LOWER_UP"} {
		if !strings.Contains(details, want) {
			t.Errorf("%q is missing in\n%s", want, details)
		}
	}
	call := add(ns, "a").WithPrev(a)
	call.With(netconf.Check).Run(t.Context(), t, p).OK(t)
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	same("after DEL")
}

// With or without dummy in the kernel: the attachment is made, or refused with a word that says why, and gone.
func TestDummyOrWhyNot(t *testing.T) {
	skeltest.NeedRoot(t)
	ns := space(t)
	same := unchanged(t, ns)
	a := add(ns, "a").Run(t.Context(), t, plugin(link.Dummy{}, ipam("10.1.0.2/24"), link.Addresses{}))
	if lacks(t, "dummy") {
		a.Fails(t, netconf.CodeNotSupported, "the kernel lacks", "dummy")
	} else {
		a.OK(t)
		add(ns, "a").With(netconf.Del).Run(t.Context(), t, plugin(link.Dummy{})).OK(t)
	}
	same("after it")
}

func TestDummyRefused(t *testing.T) {
	skeltest.NeedRoot(t)
	for _, mtu := range []int{-1, 67, 65536, 4294968796} {
		ns := space(t)
		same := unchanged(t, ns)
		add(ns, "a").Run(t.Context(), t, plugin(link.Dummy{MTU: mtu})).Fails(t, netconf.CodeInvalidNetworkConfig, "mtu", "68 to 65535")
		same("after the refused ADD")
	}
}

func TestDummyEnsure(t *testing.T) {
	skeltest.NeedRoot(t)
	needs(t, "dummy")
	ns := space(t)
	host, container := spaces(t, ns)
	d := link.Dummy{MTU: 1400, MAC: netconf.MAC{2, 0, 0, 0, 0, 1}}
	for _, damage := range []string{"true", "ip link set eth0 mtu 1300 down", "ip link set eth0 address 02:00:00:00:00:07", "ip link set eth0 alias ''", "ip link del eth0"} {
		ns.Run("sh", "-c", damage)
		if _, err := d.Ensure(t.Context(), host, container, owner("a")); err != nil {
			t.Fatalf("%s: %v", damage, err)
		}
		ns.Run("ip", "link", "set", "eth0", "up")
		if err := d.Verify(t.Context(), host, container, owner("a"), nil); err != nil {
			t.Errorf("%s: %v", damage, err)
		}
		if l := ns.Run("ip", "link", "show", "eth0"); !strings.Contains(l, "mtu 1400") || !strings.Contains(l, "02:00:00:00:00:01") || !strings.Contains(l, "cni:net:a:eth0") {
			t.Errorf("%s: %s", damage, l)
		}
	}
	for _, f := range []func(link.Owner) error{
		func(o link.Owner) error { _, err := d.Create(t.Context(), host, container, o); return err },
		func(o link.Owner) error { _, err := d.Ensure(t.Context(), host, container, o); return err },
	} {
		if err := f(owner("b")); !errors.Is(err, netconf.ErrExists) {
			t.Errorf("by another owner: %v", err)
		}
	}
	if err := d.Delete(t.Context(), host, container, owner("b")); err != nil || !has(ns, "eth0") {
		t.Errorf("Delete by another owner: %v", err)
	}
	for range 2 {
		if err := d.Delete(t.Context(), host, container, owner("a")); err != nil || has(ns, "eth0") {
			t.Errorf("Delete: %v", err)
		}
	}
	if err := d.Delete(t.Context(), host, nil, owner("a")); err != nil {
		t.Errorf("Delete without a namespace: %v", err)
	}
	ns.Run("sh", "-c", "ip link add eth0 type bridge; ip link set eth0 alias cni:net:a:eth0")
	if _, err := d.Ensure(t.Context(), host, container, owner("a")); !errors.Is(err, netconf.ErrDifferent) {
		t.Errorf("Ensure over a bridge with the owner's label: %v", err)
	}
}
