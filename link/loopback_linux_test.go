package link_test

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// loopback is a plugin made of the step and more.
func loopback(more ...skel.Step) skel.Plugin[struct{}] {
	p := plugin(link.Loopback{}, more...)
	p.Kind = skel.Meta // the result does not name CNI_IFNAME
	return p
}

// settled makes a container whose lo was up once: the kernel leaves 127.0.0.1/8 on it.
func settled(t *testing.T) *skeltest.NS {
	t.Helper()
	ns := space(t)
	ns.Run("sh", "-c", "ip link set lo up; ip link set lo down")
	return ns
}

func TestLoopback(t *testing.T) {
	ns := settled(t)
	same := unchanged(t, ns)
	if _, err := ns.Try("ping", "-c", "1", "-W", "1", "127.0.0.1"); err == nil {
		t.Fatal("lo is up before ADD")
	}
	a := add(ns, "a").Run(t.Context(), t, loopback()).OK(t)
	ns.Ping("127.0.0.1")
	ns.Ping("::1")
	if len(a.Result.Interfaces) != 1 || len(a.Result.IPs) != 2 {
		t.Fatalf("result %s", a.Stdout)
	}
	if lo := a.Result.Interfaces[0]; lo.Name != "lo" || lo.Sandbox != ns.Path || lo.Mac != "00:00:00:00:00:00" || lo.Mtu != 0 {
		t.Errorf("interface %+v", lo)
	}
	for i, want := range []string{"127.0.0.1/8", "::1/128"} {
		if ip := a.Result.IPs[i]; ip.Address.String() != want || ip.Interface == nil || *ip.Interface != 0 || ip.Gateway != nil {
			t.Errorf("address %v, expected %s of the interface 0", ip, want)
		}
	}
	check := add(ns, "a").With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, loopback()).OK(t)
	ns.Run("ip", "address", "del", "::1/128", "dev", "lo")
	check.Run(t.Context(), t, loopback()).Fails(t, netconf.CodeDifferent, "lo", "::1/128")
	ns.Run("ip", "link", "set", "lo", "down")
	check.Run(t.Context(), t, loopback()).Fails(t, netconf.CodeDifferent, "lo", "down")
	for range 2 {
		add(ns, "a").With(netconf.Del).Run(t.Context(), t, loopback()).OK(t)
		same("after DEL")
	}
}

// In a list the result of the plugins before goes through as it came, and CNI_IFNAME is another plugin's.
func TestLoopbackInAList(t *testing.T) {
	ns := settled(t)
	first := plugin(link.Veth{}, ipam("10.1.0.2/24"), link.Addresses{})
	same := unchanged(t, ns)
	a := add(ns, "a").Run(t.Context(), t, first).OK(t)
	b := add(ns, "a").WithPrev(a).Run(t.Context(), t, loopback()).OK(t)
	if string(a.Stdout) != string(b.Stdout) {
		t.Errorf("the prevResult\n%s\nbecame\n%s", a.Stdout, b.Stdout)
	}
	ns.Ping("127.0.0.1")
	add(ns, "a").With(netconf.Check).WithPrev(b).Run(t.Context(), t, loopback()).OK(t)
	// The label on lo is not the other plugin's: its DEL, which looks for its link under other names, leaves lo alone.
	ns.Run("ip", "link", "del", "eth0")
	add(ns, "a").With(netconf.Del).WithPrev(b).Run(t.Context(), t, first).OK(t)
	ns.Ping("127.0.0.1")
	add(ns, "a").With(netconf.Del).WithPrev(b).Run(t.Context(), t, loopback()).OK(t)
	same("after both DELs")
}

// A lo that was up before stays up: DEL, or a rollback, of one network takes it from no other, and from no container that
// had it up itself.
func TestLoopbackOfALivingContainerStaysUp(t *testing.T) {
	for name, before := range map[string]string{
		"set up by the container":           "ip link set lo up",
		"with an alias of the owner's":      "ip link set lo alias mine",
		"set up for another attachment":     "ip link set lo alias cni:net:b:eth0:lo; ip link set lo up",
		"of another interface, as labelled": "ip link set lo up alias cni:net:a:eth1:lo",
	} {
		t.Run(name, func(t *testing.T) {
			ns := settled(t)
			ns.Run("sh", "-c", before+"; ip link set lo up")
			same := unchanged(t, ns)
			a := add(ns, "a").Run(t.Context(), t, loopback()).OK(t)
			same("after ADD")
			add(ns, "a").Run(t.Context(), t, loopback(failing())).Fails(t, netconf.CodeExhausted)
			same("after an ADD that failed later")
			add(ns, "a").With(netconf.Del).WithPrev(a).Run(t.Context(), t, loopback()).OK(t)
			same("after DEL")
		})
	}
	// So does that of the same attachment, in a second ADD that fails later.
	ns := settled(t)
	add(ns, "a").Run(t.Context(), t, loopback()).OK(t)
	same := unchanged(t, ns)
	add(ns, "a").Run(t.Context(), t, loopback(failing())).Fails(t, netconf.CodeExhausted)
	same("after a second ADD that failed later")
}

// One that is down and has its owner's alias keeps it, and so stays up.
func TestLoopbackKeepsAnAlias(t *testing.T) {
	ns := settled(t)
	ns.Run("ip", "link", "set", "lo", "alias", "mine")
	a := add(ns, "a").Run(t.Context(), t, loopback()).OK(t)
	add(ns, "a").With(netconf.Del).WithPrev(a).Run(t.Context(), t, loopback()).OK(t)
	if lo := ns.Run("ip", "link", "show", "lo"); !strings.Contains(lo, "alias mine") || !strings.Contains(lo, "UP") {
		t.Error(lo)
	}
}

// A label of an attachment whose lo was set down meanwhile goes over to who sets it up again.
func TestLoopbackTakesALabelOver(t *testing.T) {
	ns := settled(t)
	add(ns, "b").Run(t.Context(), t, loopback()).OK(t)
	ns.Run("ip", "link", "set", "lo", "down")
	add(ns, "a").Run(t.Context(), t, loopback()).OK(t)
	add(ns, "b").With(netconf.Del).Run(t.Context(), t, loopback()).OK(t)
	ns.Ping("127.0.0.1")
	add(ns, "a").With(netconf.Del).Run(t.Context(), t, loopback()).OK(t)
	if lo := ns.Run("ip", "link", "show", "lo"); strings.Contains(lo, "UP") || strings.Contains(lo, "alias") {
		t.Error(lo)
	}
}

func TestLoopbackRefused(t *testing.T) {
	for name, test := range map[string]struct{ before, words string }{
		"an address that is none of a loopback": {"ip address add 192.0.2.7/32 dev lo", "192.0.2.7/32"},
		"the same of IPv6":                      {"ip address add 2001:db8::7/128 dev lo", "2001:db8::7/128"},
		"renamed":                               {"ip link set lo name back", "no loopback"},
		"another link of the name":              {"ip link set lo name back; ip link add lo type dummy || ip link add lo type bridge", "no loopback"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := settled(t)
			ns.Run("sh", "-c", test.before)
			same := unchanged(t, ns)
			add(ns, "a").Run(t.Context(), t, loopback()).Fails(t, netconf.CodeInvalidNetworkConfig, test.words)
			same("after the refused ADD")
			add(ns, "a").With(netconf.Del).Run(t.Context(), t, loopback()).OK(t)
			same("after DEL")
		})
	}
}

// Without a namespace, and without an ADD before, DEL has nothing to do; the host's own lo is never set down.
func TestLoopbackDelWithoutANamespace(t *testing.T) {
	ns := settled(t)
	same := unchanged(t, ns)
	for _, netns := range []string{"", "/run/netns/none", "/proc/self/ns/net", ns.Path} {
		del := add(ns, "a").With(netconf.Del)
		del.Netns = netns
		del.Run(t.Context(), t, loopback()).OK(t)
		same("after DEL with CNI_NETNS=" + netns)
	}
}

// Each operation fails, panics and is cancelled in turn.
func TestWalkLoopback(t *testing.T) {
	ns := settled(t)
	if n := skeltest.Walk(t, loopback(), add(ns, "a"), ns, nil); n < 2 {
		t.Errorf("the hook saw %d operations", n)
	}
}

// Killed between any two requests of ADD, or of DEL, the next DEL makes it as before.
func TestLoopbackKilled(t *testing.T) {
	for _, at := range []string{"link up lo", "link down lo", "link alias lo"} {
		ns := settled(t)
		same := unchanged(t, ns)
		killed := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
			if op == at {
				return syscall.EIO
			}
			return nil
		})
		ctx, del := killed, killed
		if at != "link up lo" {
			ctx = t.Context()
		}
		if err := (link.Loopback{}).Add(ctx, request(t, netconf.Add, ns.Path, "a")); (err == nil) != (at != "link up lo") {
			t.Fatalf("%s: ADD: %v", at, err)
		}
		if err := (link.Loopback{}).Del(del, request(t, netconf.Del, ns.Path, "a")); err == nil && at != "link up lo" {
			t.Fatalf("%s: DEL was not harmed", at)
		}
		if err := (link.Loopback{}).Del(t.Context(), request(t, netconf.Del, ns.Path, "a")); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		same("after " + at + " and DEL")
	}
}

func TestLoopbackEnsure(t *testing.T) {
	ns := settled(t)
	_, container := spaces(t, ns)
	var b link.Loopback
	for range 2 {
		if _, err := b.Ensure(t.Context(), container, owner("a")); err != nil {
			t.Fatal(err)
		}
		if err := b.Verify(t.Context(), container, nil); err != nil {
			t.Error(err)
		}
		if _, err := b.Create(t.Context(), container, owner("a")); netconf.Code(err) != netconf.CodeExists {
			t.Errorf("Create of one that is up: %v", err)
		}
		ns.Run("ip", "link", "set", "lo", "down")
		if err := b.Verify(t.Context(), container, nil); netconf.Code(err) != netconf.CodeDifferent {
			t.Errorf("Verify of one that is down: %v", err)
		}
	}
	if _, err := b.Create(t.Context(), container, owner("a")); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), container, owner("b")); err != nil || b.Verify(t.Context(), container, nil) != nil {
		t.Errorf("Delete by another owner: %v", err)
	}
	for range 2 {
		if err := b.Delete(t.Context(), container, owner("a")); err != nil || b.Verify(t.Context(), container, nil) == nil {
			t.Errorf("Delete: %v", err)
		}
	}
	if err := b.Delete(t.Context(), nil, owner("a")); err != nil {
		t.Errorf("Delete without a namespace: %v", err)
	}
}
