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

func is[T any](v T) *T { return &v }

// changer makes a container whose eth0 another plugin has made, a plugin of the steps behind it, and its ADD.
func changer(t *testing.T, step skel.Step, more ...skel.Step) (container, neighbour *skeltest.NS, p skel.Plugin[struct{}], call skeltest.Call) {
	t.Helper()
	container, neighbour = pair(t, "10.1.1.1/24", "fd00::1/64")
	container.Run("ip", "address", "add", "10.1.1.9/24", "dev", "eth0")
	container.Run("ip", "address", "add", "fd00::9/64", "dev", "eth0", "nodad")
	container.Run("ip", "link", "set", "eth0", "addrgenmode", "none", "up") // no link-local address, which IPv6 brings
	p = plugin(step, more...)
	p.Kind = skel.Chained
	call = add(container, container.Name) // its state is kept by the id, and tests run in parallel
	call.Prev = `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"},{"name":"eth0","mac":"02:00:00:00:00:99","mtu":1500,"sandbox":"` + container.Path + `"}],` +
		`"ips":[{"address":"10.1.1.9/24","gateway":"10.1.1.1","interface":1}]}`
	return container, neighbour, p, call
}

var everything = link.Tune{MAC: mac("02:00:00:00:00:07"), MTU: 1400, Promisc: is(true), AllMulti: is(true), TxQLen: is(77)}

func mac(text string) (m netconf.MAC) {
	if err := m.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return m
}

// TestTune: what is asked for is in the kernel and in the result, packets flow, CHECK sees each change, DEL gives back.
func TestTune(t *testing.T) {
	parallelNS(t)
	container, neighbour, p, call := changer(t, everything)
	before := container.Snapshot()
	a := call.Run(t.Context(), t, p).OK(t)
	if i := a.Result.Interfaces[1]; i.Mac != "02:00:00:00:00:07" || i.Mtu != 1400 || a.Result.Interfaces[0].Mac != "" {
		t.Errorf("result %s: expected the container's eth0, and no other, as it is", a.Stdout)
	}
	show := container.Run("ip", "-d", "link", "show", "eth0")
	for _, words := range []string{"02:00:00:00:00:07", "mtu 1400", "PROMISC", "ALLMULTI", "qlen 77"} {
		if !strings.Contains(show, words) {
			t.Errorf("no %q in %s", words, show)
		}
	}
	neighbour.Run("ip", "neighbour", "flush", "all")
	container.Ping("10.1.1.1")
	check := call.With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, p).OK(t)
	for what, change := range map[string][2]string{
		"the address": {"address 02:00:00:00:00:08", "address 02:00:00:00:00:07"}, "the mtu": {"mtu 1300", "mtu 1400"},
		"the promisc": {"promisc off", "promisc on"}, "the allmulticast": {"allmulticast off", "allmulticast on"}, "the txqueuelen": {"txqueuelen 78", "txqueuelen 77"},
	} {
		container.Run("sh", "-c", "ip link set eth0 "+change[0])
		check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, what)
		container.Run("sh", "-c", "ip link set eth0 "+change[1])
	}
	check.Run(t.Context(), t, p).OK(t)
	for range 2 {
		call.With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
		if diff := before.Diff(container.Snapshot()); diff != "" {
			t.Errorf("not given back:\n%s", diff)
		}
	}
}

// TestWalkTune: whichever operation fails, panics or is cancelled, the link is as it was.
func TestWalkTune(t *testing.T) {
	container, _, p, call := changer(t, everything, link.Sysctls{Values: map[string]string{
		"net.ipv4.conf.IFNAME.rp_filter": "2", "net/ipv6/conf/IFNAME/accept_ra": "0",
	}})
	also := func() []string {
		return strings.Fields(container.Run("sysctl", "-n", "net.ipv4.conf.eth0.rp_filter", "net.ipv6.conf.eth0.accept_ra"))
	}
	if n := skeltest.Walk(t, p, call, container, also); n < 9 {
		t.Errorf("the hook saw %d operations: expected at least to save twice, five attributes, two sysctls", n)
	}
}

// TestTuneAgainKeepsWhatWasBefore: a second ADD that wrote down the tuned values would have DEL give those back.
func TestTuneAgainKeepsWhatWasBefore(t *testing.T) {
	parallelNS(t)
	container, _, p, call := changer(t, everything)
	before := container.Snapshot()
	call.Run(t.Context(), t, p).OK(t)
	call.Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "eth0")
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if diff := before.Diff(container.Snapshot()); diff != "" {
		t.Errorf("not given back:\n%s", diff)
	}
}

// TestTuneGivesNothingToAnotherLink: a link that came in the place of the first, under its name.
func TestTuneGivesNothingToAnotherLink(t *testing.T) {
	parallelNS(t)
	container, neighbour, p, call := changer(t, everything)
	call.Run(t.Context(), t, p).OK(t)
	container.Run("ip", "link", "del", "eth0")
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	call.Run(t.Context(), t, p).Fails(t, netconf.CodeInvalidNetworkConfig, "no such link")
	neighbour.Run("ip", "link", "add", "p1", "type", "veth", "peer", "name", "eth0", "netns", container.Name)
	call.Run(t.Context(), t, p).OK(t)
	container.Run("ip", "link", "del", "eth0")
	neighbour.Run("ip", "link", "add", "p2", "type", "veth", "peer", "name", "eth0", "netns", container.Name)
	fresh := container.Snapshot()
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if diff := fresh.Diff(container.Snapshot()); diff != "" {
		t.Errorf("the other link was changed:\n%s", diff)
	}
}

// TestTuneCheckAllowsALaterPlugin: it has changed the MAC and the MTU, and the prevResult says so.
func TestTuneCheckAllowsALaterPlugin(t *testing.T) {
	parallelNS(t)
	container, _, p, call := changer(t, everything)
	a := call.Run(t.Context(), t, p).OK(t)
	container.Run("ip", "link", "set", "eth0", "address", "02:00:00:00:00:0a", "mtu", "1300")
	check := call.With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, "02:00:00:00:00:0a", "1300")
	check.Prev = strings.NewReplacer("02:00:00:00:00:07", "02:00:00:00:00:0a", "1400", "1300").Replace(check.Prev)
	check.Run(t.Context(), t, p).OK(t)
}

// TestTuneCheckAfterAnUpgrade: the reference plugin does not note the MTU.
func TestTuneCheckAfterAnUpgrade(t *testing.T) {
	parallelNS(t)
	_, _, p, call := changer(t, everything)
	a := call.Run(t.Context(), t, p).OK(t)
	check := call.With(netconf.Check).WithPrev(a)
	check.Prev = strings.Replace(check.Prev, "1400", "1500", 1)
	check.Run(t.Context(), t, p).OK(t)
}

// TestTuneOfALinkOfTheSamePlugin: the step before has made it, and noted it in the result as it was then; its CHECK would
// not know the new address.
func TestTuneOfALinkOfTheSamePlugin(t *testing.T) {
	ns := space(t)
	p := plugin(link.Veth{}, everything)
	a := add(ns, ns.Name).Run(t.Context(), t, p).OK(t)
	if i := a.Result.Interfaces[1]; i.Mac != "02:00:00:00:00:07" || i.Mtu != 1400 {
		t.Errorf("result %s", a.Stdout)
	}
	ns.Run("ip", "link", "set", "eth0", "up")
	add(ns, ns.Name).With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
	add(ns, ns.Name).With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
}

// TestTunePacketSocketIsNotPromisc: somebody listens with tcpdump; that is not what CHECK is about.
func TestTunePacketSocketIsNotPromisc(t *testing.T) {
	parallelNS(t)
	container, _, p, call := changer(t, link.Tune{Promisc: is(false)})
	a := call.Run(t.Context(), t, p).OK(t)
	container.Run("sh", "-c", "ip link add br0 type bridge && ip link set eth0 master br0")
	if show := container.Run("ip", "-d", "link", "show", "eth0"); !strings.Contains(show, "promiscuity 1") {
		t.Fatalf("the port of a bridge takes all: %s", show)
	}
	call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
}

// TestTuneRefuses: before any change, with the value named.
func TestTuneRefuses(t *testing.T) {
	parallelNS(t)
	tests := []struct {
		tune  link.Tune
		words string
	}{
		{link.Tune{MTU: 67}, "mtu 67"}, {link.Tune{MTU: 65536}, "mtu 65536"}, {link.Tune{MTU: -1}, "mtu -1"},
		{link.Tune{MTU: 1279}, "fd00::9"}, // the kernel would take the address away
		{link.Tune{TxQLen: is(-1)}, "txqueuelen -1"},
		{link.Tune{Interface: "eth7", MTU: 1400}, "eth7"},
	}
	container, _, _, call := changer(t, everything)
	before := container.Snapshot()
	for _, test := range tests {
		test.tune.MAC = mac("02:00:00:00:00:07")
		p := plugin(test.tune)
		call.Run(t.Context(), t, p).Fails(t, netconf.CodeInvalidNetworkConfig, test.words)
		if diff := before.Diff(container.Snapshot()); diff != "" {
			t.Errorf("%v: changed:\n%s", test.tune, diff)
		}
	}
}

// TestTuneCore: a daemon repairs with it.
func TestTuneCore(t *testing.T) {
	parallelNS(t)
	container, _, _, _ := changer(t, everything)
	before := container.Snapshot()
	_, n := spaces(t, container)
	was, err := everything.Was(n, "eth0")
	if err != nil {
		t.Fatal(err)
	}
	if err := everything.Verify(t.Context(), n, "eth0"); !errors.Is(err, netconf.ErrDifferent) {
		t.Errorf("before Ensure: %v", err)
	}
	for range 2 {
		if err := errors.Join(everything.Ensure(t.Context(), n, "eth0"), everything.Verify(t.Context(), n, "eth0")); err != nil {
			t.Fatal(err)
		}
	}
	var ops []string
	if err := everything.Ensure(netconf.WithFault(t.Context(), recording(&ops)), n, "eth0"); err != nil || len(ops) > 0 {
		t.Errorf("what is so already was changed: %v, %v", ops, err)
	}
	if err := was.Ensure(t.Context(), n, "eth0"); err != nil {
		t.Fatal(err)
	}
	if diff := before.Diff(container.Snapshot()); diff != "" {
		t.Errorf("not as before:\n%s", diff)
	}
	for _, err := range []error{everything.Ensure(t.Context(), n, "eth7"), everything.Verify(t.Context(), n, "eth7")} {
		if err == nil {
			t.Error("no error for a link that is not there")
		}
	}
}

// TestLateDelInAnotherContainersNamespace: the path leads to another's by now, whose link has the same name and index, and no
// label; and an ADD there, of the same container's, which had no DEL, finds nothing of its own.
func TestLateDelInAnotherContainersNamespace(t *testing.T) {
	for name, step := range map[string]skel.Step{
		"tune": everything, "sysctls": link.Sysctls{Values: map[string]string{"net.ipv4.conf.IFNAME.rp_filter": "2"}}, "routes": extra(), "routes to nowhere": nowhere(),
		"neighbours": neighbours("10.1.1.1 02:00:00:00:00:51"), "sourcerouting": link.SourceRouting{}, "sourcerouting, table": link.SourceRouting{Table: 77},
	} {
		t.Run(name, func(t *testing.T) {
			container, _, p, call := changer(t, step)
			other, _, _, others := changer(t, step)
			look := func(ns *skeltest.NS) skeltest.Snapshot {
				return append(ns.Snapshot(), ns.Run("sysctl", "net.ipv4.conf.eth0.rp_filter"))
			}
			before := look(container)
			call.Run(t.Context(), t, p).OK(t)
			if before.Diff(look(container)) == "" {
				t.Error("ADD has changed nothing: the test proves nothing")
			}
			a := others.Run(t.Context(), t, p).OK(t)
			alive := look(other)
			late := call.WithPrev(a).With(netconf.Del)
			late.Netns = other.Path
			late.Run(t.Context(), t, p).OK(t)
			if diff := alive.Diff(look(other)); diff != "" {
				t.Errorf("changed:\n%s", diff)
			}
			others.With(netconf.Del).Run(t.Context(), t, p).OK(t)

			call.Run(t.Context(), t, p) // what it finds is the first one's, or not
			fresh := look(other)
			again := call
			again.Netns, again.Prev = other.Path, others.Prev
			again.Run(t.Context(), t, p).OK(t)
			again.With(netconf.Del).Run(t.Context(), t, p).OK(t)
			if diff := fresh.Diff(look(other)); diff != "" {
				t.Errorf("not given back:\n%s", diff)
			}
		})
	}
}
