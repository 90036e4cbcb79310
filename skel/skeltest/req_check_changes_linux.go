package skeltest

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
)

// change is something that CHECK must find.
type change struct {
	what string
	do   [][]string // arguments of ip, in the namespace
}

// checkFinds makes an attachment for each change, makes the change, and CHECK must fail. The change alone makes the
// difference: CHECK succeeds before it. With ipam the test IPAM plugin gives addresses and routes of all sorts.
func checkFinds(b *Bench, changes func(*Bench, *Container, Answer) []change, ipam bool) {
	b.NeedVersion(netconf.Check)
	if ipam {
		i := b.WithIPAM()
		metrics := ""
		if b.announces(netconf.GC.Since()) {
			metrics = `,"priority":50,"mtu":1300`
		}
		i.Answer(`{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.@N@/24","gateway":"10.1.0.1"},{"address":"fd00:1::@N@/64","gateway":"fd00:1::1"}],
			"routes":[{"dst":"0.0.0.0/0"},{"dst":"192.0.2.0/24","gw":"10.1.0.1"` + metrics + `},{"dst":"2001:db8::/32","gw":"fd00:1::1"` + metrics + `}]}`)
	}
	made := 0
	for n := 0; ; n++ {
		c := b.Container()
		a := b.Attach(c)
		check := c.Add.With(netconf.Check).WithPrev(a)
		all := changes(b, c, a)
		if n == 0 {
			b.Succeeds(check)
		}
		if n < len(all) && b.changed(c, all[n]) {
			made++
			if got := b.Run(check); got.Exit == 0 {
				b.Errorf("CHECK succeeded although %s", all[n].what)
			}
		}
		b.Run(c.Del().WithPrev(a)) // makes room; other requirements judge it
		if n+1 >= len(all) {
			break
		}
	}
	if made == 0 {
		b.Skip("the result names nothing of the kind that could be changed")
	}
}

// changed makes a change. Not each is possible: an ipvlan has no MAC of its own, and no link has a larger MTU than the
// one below it.
func (b *Bench) changed(c *Container, change change) bool {
	for i, args := range change.do {
		if out, err := c.Try("ip", args...); err != nil && i == 0 && (strings.Contains(err.Error(), "not supported") || slices.Contains(args, "mtu")) {
			return false
		} else if err != nil {
			b.Fatalf("could not be changed: %s: ip %s: %v %s", change.what, strings.Join(args, " "), err, out)
		}
	}
	return true
}

// addressesOf lists the addresses that the result gives to the attachment's interface.
func addressesOf(a Answer, c *Container) (out []string) {
	ours := netconf.Attached(a.Result, c.Add.IfName)
	for _, ip := range a.Result.IPs {
		if ip.Interface == nil || *ip.Interface == ours {
			out = append(out, ip.Address.String())
		}
	}
	return out
}

func addressChanges(_ *Bench, c *Container, a Answer) (out []change) {
	for _, address := range addressesOf(a, c) {
		p, err := netip.ParsePrefix(address)
		if err != nil {
			continue
		}
		length := p.Bits() + 1
		if length > p.Addr().BitLen() {
			length -= 2
		}
		other, dev := netip.PrefixFrom(p.Addr(), length).String(), []string{"dev", c.Add.IfName}
		add := func(address ...string) []string { return slices.Concat([]string{"address", "add"}, address, dev) }
		del := slices.Concat([]string{"address", "del", address}, dev)
		// A second address first: with the last one the kernel takes the routes away too, which is another thing to find.
		gone := change{address + " is taken off", [][]string{add("198.51.100.7/32"), del}}
		// Off first: the kernel has an IPv6 address once, with one length, and on an ipvlan an IPv4 address too.
		length4 := change{address + " is changed to " + other, [][]string{gone.do[0], del, add(other)}}
		if p.Addr().Is6() {
			gone.do[0] = add("2001:db8:ffff::7/128", "nodad")
			length4.do = [][]string{del, add(other, "nodad")}
		}
		out = append(out, gone, length4)
	}
	return out
}

// routeChanges returns what can be done to each route: "gone", "gateway", "metric", "mtu".
func routeChanges(which ...string) func(*Bench, *Container, Answer) []change {
	return func(b *Bench, c *Container, a Answer) (out []change) {
		for _, r := range a.Result.Routes {
			family, line := b.kernelRoute(c, r.Dst.String())
			for _, w := range which {
				changed, ok := changedRoute(line, w, r.MTU, r.Priority)
				if !ok {
					continue
				}
				do := [][]string{append([]string{family, "route", "del"}, line...)}
				if w != "gone" {
					do = append(do, append([]string{family, "route", "add"}, changed...))
				}
				out = append(out, change{fmt.Sprintf("the route %q is changed to %q", strings.Join(line, " "), strings.Join(changed, " ")), do})
			}
		}
		return out
	}
}

// kernelRoute returns what the kernel has for a route of the result, as words that ip takes.
func (b *Bench) kernelRoute(c *Container, dst string) (family string, words []string) {
	family = "-4"
	if strings.Contains(dst, ":") {
		family = "-6"
	}
	for line := range strings.Lines(c.Run("ip", family, "route", "show", "table", "all", "to", "exact", dst, "dev", c.Add.IfName)) {
		words := slices.DeleteFunc(strings.Fields(line), func(w string) bool { return w == "linkdown" })
		if !strings.Contains(line, "proto kernel") {
			return family, append(words, "dev", c.Add.IfName)
		}
	}
	b.Fatalf("the result has a route to %s, the kernel has none through %s", dst, c.Add.IfName)
	return "", nil
}

// changedRoute returns the words of a route with one thing changed; ok says that the route has it.
func changedRoute(words []string, which string, mtu, metric int) (changed []string, ok bool) {
	changed = slices.Clone(words)
	set := func(key, value string) bool {
		i := slices.Index(changed, key)
		if i >= 0 {
			changed[i+1] = value
		}
		return i >= 0
	}
	switch which {
	case "gone":
		return []string{"none"}, true
	case "gateway":
		i := slices.Index(changed, "via")
		if i < 0 {
			return nil, false
		}
		was, err := netip.ParseAddr(changed[i+1])
		if err != nil {
			return nil, false
		}
		// Near, so that the subnet has it, and not .2, which is the address itself.
		set("via", was.Next().Next().Next().Next().String())
		if !slices.Contains(changed, "onlink") {
			changed = append(changed, "onlink") // also where the gateway is reached by a host route only
		}
		return changed, true
	case "metric":
		return changed, metric > 0 && set("metric", strconv.Itoa(metric+7))
	case "mtu":
		return changed, mtu > 0 && set("mtu", strconv.Itoa(mtu-20))
	}
	return nil, false
}

func linkChanges(b *Bench, c *Container, a Answer) []change {
	l := b.linkOf(c, a)
	out := []change{{"the interface is down", [][]string{{"link", "set", c.Add.IfName, "down"}}}}
	if l.Mac != "" {
		const other = "02:00:5e:00:53:99"
		out = append(out, change{fmt.Sprintf("the MAC is %s, not %s", other, l.Mac), [][]string{{"link", "set", c.Add.IfName, "address", other}}})
	}
	if l.Mtu > 0 {
		other := l.Mtu - 20
		if other < 1280 { // below it the kernel takes IPv6 off the interface, which is another thing to find
			other = l.Mtu + 20
		}
		out = append(out, change{fmt.Sprintf("the MTU is %d, not %d", other, l.Mtu), [][]string{{"link", "set", c.Add.IfName, "mtu", strconv.Itoa(other)}}})
	}
	return out
}

// linkOf is the attachment's interface in the result.
func (b *Bench) linkOf(c *Container, a Answer) *types100.Interface {
	i := netconf.Attached(a.Result, c.Add.IfName)
	if i < 0 {
		b.Fatalf("the result has no interface %q: %s", c.Add.IfName, a.Stdout)
	}
	return a.Result.Interfaces[i]
}

// checkKind puts an interface of another kind, with the same MAC, MTU, addresses and routes, in the place of the
// attachment's.
func checkKind(b *Bench) {
	c, a := b.checked()
	check, l, name := c.Add.With(netconf.Check).WithPrev(a), b.linkOf(c, a), c.Add.IfName
	b.Succeeds(check)
	do := [][]string{{"link", "del", name}, {"link", "add", name, "type", "veth", "peer", "name", "other1"}}
	if strings.Contains(c.Run("ip", "-d", "link", "show", name), "veth") {
		do = [][]string{{"link", "del", name}, {"link", "add", "other0", "type", "veth", "peer", "name", "other1"},
			{"link", "set", "other0", "up"}, {"link", "add", "link", "other0", "name", name, "type", "macvlan", "mode", "bridge"}}
	}
	do = append(do, []string{"link", "set", "other1", "up"}, []string{"link", "set", name, "up"})
	if l.Mac != "" {
		do = append(do, []string{"link", "set", name, "address", l.Mac})
	}
	if l.Mtu > 0 {
		do = append(do, []string{"link", "set", name, "mtu", strconv.Itoa(l.Mtu)})
	}
	for _, address := range addressesOf(a, c) {
		do = append(do, []string{"address", "add", address, "dev", name})
	}
	for _, r := range a.Result.Routes {
		family, line := b.kernelRoute(c, r.Dst.String())
		do = append(do, append([]string{family, "route", "add"}, line...))
	}
	b.changed(c, change{"another kind", do})
	b.Fails(check, "the interface was deleted, and another of its name and another kind made")
}

func checkForeign(b *Bench) {
	c, a := b.checked()
	name := c.Add.IfName
	for _, do := range [][]string{
		{"ip", "address", "add", "198.51.100.7/32", "dev", name},
		{"ip", "address", "add", "2001:db8:ffff::7/128", "dev", name, "nodad"},
		{"ip", "route", "add", "203.0.113.0/24", "dev", name},
		{"ip", "route", "add", "default", "dev", name, "metric", "4321", "table", "77"},
		{"ip", "neighbour", "replace", "198.51.100.8", "lladdr", "02:00:5e:00:53:08", "dev", name},
		{"ip", "link", "add", "other0", "type", "veth", "peer", "name", "other1"},
		{"tc", "qdisc", "add", "dev", name, "root", "tbf", "rate", "1gbit", "burst", "64k", "latency", "50ms"},
		{"sysctl", "-q", "-w", "net.ipv4.conf." + name + ".arp_notify=1"},
	} {
		if out, err := c.Try(do[0], do[1:]...); err != nil && strings.Contains(err.Error(), "qdisc kind is unknown") {
			continue // the kernel has no tbf: nobody can add one
		} else if err != nil {
			b.Fatalf("could not be added: %q: %v %s", do, err, out)
		}
		if got := b.Run(c.Add.With(netconf.Check).WithPrev(a)); got.Exit != 0 {
			b.Errorf("CHECK failed after %q: %s", strings.Join(do, " "), got.Err.Msg)
		}
	}
}
