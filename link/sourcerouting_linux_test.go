package link_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// twoLinks makes a container with eth0, which has the default routes, and net1, each with a neighbour of its own behind
// which 192.0.2.99 and 2001:db8::99 are, and the ADD of a plugin behind the one that made net1.
func twoLinks(t *testing.T, step skel.Step) (container *skeltest.NS, neighbours [2]*skeltest.NS, p skel.Plugin[struct{}], call skeltest.Call) {
	t.Helper()
	container, neighbours[0] = pair(t, "10.1.1.1/24", "fd01::1/64")
	second := skeltest.NewNS(t)
	neighbours[1] = second
	second.Run("ip", "link", "add", "p0", "type", "veth", "peer", "name", "net1", "netns", container.Name)
	second.Run("sh", "-c", "ip link set p0 up; ip link set lo up; ip address add 10.2.2.1/24 dev p0; ip address add fd02::1/64 dev p0 nodad; "+
		"ip address add 192.0.2.99/32 dev lo; ip address add 2001:db8::99/128 dev lo nodad")
	container.Run("sh", "-ec", `
		ip link set eth0 addrgenmode none up; ip link set net1 addrgenmode none up
		ip address add 10.1.1.2/24 dev eth0; ip address add fd01::2/64 dev eth0 nodad
		ip route add default via 10.1.1.1; ip route add default via fd01::1
		ip address add 10.2.2.2/24 dev net1; ip address add fd02::2/64 dev net1 nodad
		ip route add 198.51.100.0/24 via 10.2.2.1 dev net1 mtu 1400 metric 5`)
	p = plugin(step)
	p.Kind = skel.Chained
	call = add(container, container.Name)
	call.IfName = "net1"
	call.Prev = `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"},{"name":"net1","sandbox":"` + container.Path + `"}],` +
		`"ips":[{"address":"10.2.2.2/24","gateway":"10.2.2.1","interface":1},{"address":"fd02::2/64","gateway":"fd02::1","interface":1}],` +
		`"routes":[{"dst":"198.51.100.0/24","gw":"10.2.2.1","mtu":1400,"priority":5}]}`
	return container, neighbours, p, call
}

func pingFrom(ns *skeltest.NS, source, address string) error {
	_, err := ns.Try("ping", "-n", "-c", "1", "-W", "2", "-I", source, address)
	return err
}

// TestSourceRouting: packets of the second interface's addresses leave by it and are answered, others go as before;
// CHECK sees what is missing, also the CHECK of the plugin before; DEL puts all back.
func TestSourceRouting(t *testing.T) {
	parallelNS(t)
	container, _, p, call := twoLinks(t, link.SourceRouting{})
	before := layer3(container)
	if pingFrom(container, "10.2.2.2", "192.0.2.99") == nil {
		t.Fatal("the packet comes back without the rules: the test proves nothing")
	}
	a := call.Run(t.Context(), t, p).OK(t)
	for source, address := range map[string]string{"10.2.2.2": "192.0.2.99", "10.1.1.2": "192.0.2.99", "fd02::2": "2001:db8::99", "fd01::2": "2001:db8::99"} {
		if err := pingFrom(container, source, address); err != nil {
			t.Errorf("from %s: %v\n%s", source, err, container.Run("sh", "-c", "ip rule; ip route show table all; ip -6 rule; ip -6 route show table all"))
		}
	}
	container.Ping("192.0.2.99")
	if main := container.Run("ip", "route", "show", "dev", "net1") + container.Run("ip", "-6", "route", "show", "dev", "net1"); strings.TrimSpace(main) != "" {
		t.Errorf("the main table still has %s", main)
	}
	check := call.With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, p).OK(t)
	first := plugin(link.Addresses{})
	check.Run(t.Context(), t, first).OK(t) // its routes are in another table now
	table := strconv.Itoa(link.Owner{Network: "net", ContainerID: container.Name, IfName: "net1"}.Table(0))
	for _, change := range [][2]string{
		{"ip rule del from 10.2.2.2", "ip rule add from 10.2.2.2 lookup " + table + " priority 30000 proto 67"},
		{"ip -6 rule del from fd02::2", "ip -6 rule add from fd02::2 lookup " + table + " priority 30000 proto 67"},
		{"ip route del default table " + table, "ip route add default via 10.2.2.1 dev net1 proto 67 table " + table},
		{"ip route del 198.51.100.0/24 table " + table, "ip route add 198.51.100.0/24 via 10.2.2.1 dev net1 mtu 1400 metric 5 proto 67 table " + table},
	} {
		container.Run("sh", "-c", change[0])
		check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent)
		container.Run("sh", "-c", change[1])
	}
	check.Run(t.Context(), t, p).OK(t)
	for range 2 {
		call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
		if diff := before.Diff(layer3(container)); diff != "" {
			t.Errorf("not put back:\n%s", diff)
		}
	}
}

// TestSourceRoutingAgain: a second ADD finds all as it would make it, and nothing that goes wrong in it takes that away; one
// with another answer of IPAM is refused.
func TestSourceRoutingAgain(t *testing.T) {
	parallelNS(t)
	container, _, p, call := twoLinks(t, link.SourceRouting{})
	before := layer3(container)
	call.Run(t.Context(), t, p).OK(t)
	alive := layer3(container)
	same := func(when string) {
		t.Helper()
		if diff := alive.Diff(layer3(container)); diff != "" {
			t.Errorf("%s: changed:\n%s", when, diff)
		}
	}
	call.Run(t.Context(), t, p).OK(t)
	same("again")
	unprintable := call
	unprintable.Stdout = broken{}
	unprintable.Run(t.Context(), t, p)
	same("again, and the result cannot be printed")
	other := call
	other.Prev = strings.ReplaceAll(call.Prev, "10.2.2.2/", "10.2.2.3/")
	other.Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "net1")
	same("with another address")
	container.Run("ip", "rule", "del", "from", "10.2.2.2")
	call.Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "net1")
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("not put back:\n%s", diff)
	}
}

// broken is a stdout that takes nothing.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestWalkSourceRouting(t *testing.T) {
	container, _, p, call := twoLinks(t, link.SourceRouting{KeepSubnets: true})
	container.Run("ip", "route", "del", "10.2.2.0/24", "dev", "net1") // so that it is put there
	container.Run("ip", "route", "add", "10.2.2.1", "dev", "net1")
	if n := skeltest.Walk(t, p, call, container, nil); n < 8 {
		t.Errorf("the hook saw %d operations", n)
	}
}

// TestSourceRoutingDelWithoutAnything: no prevResult and no record; what is left is found by the tables' numbers, and for a
// given table by the interface's addresses.
func TestSourceRoutingDelWithoutAnything(t *testing.T) {
	parallelNS(t)
	for _, step := range []link.SourceRouting{{}, {Table: 77}} {
		container, _, p, call := twoLinks(t, step)
		container.Run("ip", "rule", "add", "from", "10.9.9.9", "lookup", "77", "proto", "67")   // another attachment's
		container.Run("ip", "rule", "add", "from", "10.2.2.2", "lookup", "77", "priority", "5") // somebody's
		before := layer3(container)
		call.Run(t.Context(), t, p).OK(t)
		req := request(t, netconf.Del, container.Path, container.Name)
		req.IfName = "net1"
		for range 2 {
			if err := step.Del(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		left := strings.Split(strings.TrimSpace(before.Diff(layer3(container))), "\n")
		for _, line := range left { // the routes of the main table: nobody knows any more
			if strings.HasPrefix(line, "+") || strings.Contains(line, "rule") {
				t.Errorf("%+v: %s", step, line)
			}
		}
	}
}

// TestSourceRoutingDelOfAnotherContainer: an ADD of another container's, by mistake into the same namespace, was refused; the
// DEL after it takes nothing.
func TestSourceRoutingDelOfAnotherContainer(t *testing.T) {
	parallelNS(t)
	for _, step := range []link.SourceRouting{{}, {Table: 77}} {
		container, _, p, call := twoLinks(t, step)
		a := call.Run(t.Context(), t, p).OK(t)
		alive := layer3(container)
		call.WithPrev(a).With(netconf.Del).Run(t.Context(), t, p).OK(t)
		a = call.Run(t.Context(), t, p).OK(t)
		other := call.WithPrev(a).With(netconf.Del)
		other.ContainerID += "b"
		other.Run(t.Context(), t, p).OK(t)
		if diff := alive.Diff(layer3(container)); diff != "" {
			t.Errorf("%+v: changed:\n%s", step, diff)
		}
		call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	}
}

// TestSourceRoutingDelWithoutTheLink: the rules go all the same.
func TestSourceRoutingDelWithoutTheLink(t *testing.T) {
	parallelNS(t)
	for _, step := range []link.SourceRouting{{}, {Table: 77}} {
		container, _, p, call := twoLinks(t, step)
		a := call.Run(t.Context(), t, p).OK(t)
		container.Run("ip", "link", "del", "net1")
		call.With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
		if rules := container.Run("ip", "rule") + container.Run("ip", "-6", "rule"); strings.Contains(rules, "proto 67") {
			t.Errorf("%+v: left %s", step, rules)
		}
	}
}

// TestSourceRoutingAtOnce: two interfaces of one container choose their tables at the same time.
func TestSourceRoutingAtOnce(t *testing.T) {
	parallelNS(t)
	container, neighbours, p, call := twoLinks(t, link.SourceRouting{})
	neighbours[0].Run("ip", "route", "add", "198.51.100.7", "dev", "p0")
	before := layer3(container)
	first := call
	first.IfName = "eth0"
	first.Prev = `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"` + container.Path + `"}],"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1","interface":0},{"address":"fd01::2/64","gateway":"fd01::1"}]}`
	both := []skeltest.Call{call, first}
	each := func(command netconf.Command) {
		var all sync.WaitGroup
		for _, c := range both {
			all.Go(func() {
				if a := c.With(command).Run(t.Context(), t, p); a.Exit != 0 {
					t.Errorf("%s %s: %s", command, c.IfName, a.Err.Msg)
				}
			})
		}
		all.Wait()
	}
	for range 10 {
		each(netconf.Add)
		for _, source := range []string{"10.1.1.2", "10.2.2.2"} {
			if err := pingFrom(container, source, "192.0.2.99"); err != nil {
				t.Errorf("from %s: %v", source, err)
			}
		}
		each(netconf.Del)
	}
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("not put back:\n%s", diff)
	}
}

// TestSourceRoutingCore: a daemon repairs with it.
func TestSourceRoutingCore(t *testing.T) {
	parallelNS(t)
	container, _, _, call := twoLinks(t, link.SourceRouting{})
	before := layer3(container)
	_, n := spaces(t, container)
	main, err := link.MainRoutes(n, "net1")
	if err != nil || len(main) != 3 {
		t.Fatalf("%v, %v: expected two connected routes and one by a gateway", main, err)
	}
	prev, err := netconf.ParseResult([]byte(call.Prev), "")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := link.SourceRouting{}.Plan(owner("a"), prev.IPs, main)
	if err != nil {
		t.Fatal(err)
	}
	if err := plan.Verify(t.Context(), n, "net1"); !errors.Is(err, netconf.ErrDifferent) {
		t.Errorf("before: %v", err)
	}
	for range 2 {
		if err := errors.Join(plan.Ensure(t.Context(), n, "net1"), plan.Verify(t.Context(), n, "net1")); err != nil {
			t.Fatal(err)
		}
	}
	container.Run("ip", "route", "flush", "table", strconv.Itoa(owner("a").Table(0)))
	if err := errors.Join(plan.Ensure(t.Context(), n, "net1"), plan.Verify(t.Context(), n, "net1"), plan.Delete(t.Context(), n, "net1"), plan.Delete(t.Context(), n, "net1")); err != nil {
		t.Fatal(err)
	}
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("not put back:\n%s", diff)
	}
}

// TestSourceRoutingShapes: gateways beyond the subnet, and two of one family, carry packets.
func TestSourceRoutingShapes(t *testing.T) {
	parallelNS(t)
	for _, test := range []struct {
		name, neighbour, container, ips string
		pings                           [][2]string // from, to
	}{
		{"a cloud's /32", "ip address add 169.254.1.1/32 dev p0; ip route add 10.2.2.7 dev p0",
			"ip address add 10.2.2.7/32 dev net1; ip route add default via 169.254.1.1 dev net1 onlink metric 50",
			`{"address":"10.2.2.7/32","gateway":"169.254.1.1","interface":1}`, [][2]string{{"10.2.2.7", "192.0.2.99"}}},
		{"a cloud's /128", "ip address add fe80::1/64 dev p0 nodad; ip -6 route add fd02::7 dev p0", "ip address add fd02::7/128 dev net1 nodad",
			`{"address":"fd02::7/128","gateway":"fe80::1","interface":1}`, [][2]string{{"fd02::7", "2001:db8::99"}}},
		{"two gateways", "ip address add 10.2.2.1/24 dev p0; ip address add 10.3.3.1/24 dev p0", "ip address add 10.2.2.2/24 dev net1; ip address add 10.3.3.3/24 dev net1",
			`{"address":"10.2.2.2/24","gateway":"10.2.2.1","interface":1},{"address":"10.3.3.3/24","gateway":"10.3.3.1"}`, [][2]string{{"10.2.2.2", "192.0.2.99"}, {"10.3.3.3", "192.0.2.99"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			container, neighbours, p, call := twoLinks(t, link.SourceRouting{})
			neighbours[1].Run("sh", "-ec", "ip address flush dev p0; "+test.neighbour)
			container.Run("sh", "-ec", "ip address flush dev net1; "+test.container)
			before := layer3(container)
			call.Prev = call.Prev[:strings.Index(call.Prev, `"ips"`)] + `"ips":[` + test.ips + `]}`
			a := call.Run(t.Context(), t, p).OK(t)
			for _, ping := range test.pings {
				if err := pingFrom(container, ping[0], ping[1]); err != nil {
					t.Errorf("%s to %s: %v", ping[0], ping[1], err)
				}
			}
			call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
			call.With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
			if diff := before.Diff(layer3(container)); diff != "" {
				t.Errorf("not put back:\n%s", diff)
			}
		})
	}
}
