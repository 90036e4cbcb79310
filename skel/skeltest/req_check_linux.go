package skeltest

import (
	"slices"
	"strings"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// linkMakers are the plugins that answer for an interface and its addresses by themselves.
var linkMakers = []skel.Kind{skel.Interface}

// checkRequirements are about CHECK: it tells whether what ADD said is still so.
func checkRequirements() []Requirement { return slices.Concat(checkAddresses(), checkOthers()) }

// checkAddresses are about addresses and routes, and the interface as a whole.
func checkAddresses() []Requirement {
	const section = "CNI 1.1.0, 2 (CHECK)"
	return []Requirement{{
		ID: "check/fresh", Level: Must, Section: section,
		Text:    "CHECK right after ADD succeeds, twice, and says nothing; it waits for an address that is tentative.",
		Explain: "A runtime that calls CHECK takes a failure for a broken pod and restarts it. What is only on its way (an address that is tentative, a link that comes up) is waited for, a second or two.",
		Check:   checkFresh,
	}, {
		ID: "check/host-prefix", Level: Should, Section: section, Kinds: linkMakers,
		Text:    "CHECK right after ADD succeeds with addresses of /32 and /128.",
		Explain: "Clouds give addresses without a subnet. Who looks for a route to the address's prefix, as the usual Go library does, fails a pod that is well. Look at the address itself.",
		Check:   checkHostPrefix,
	}, {
		ID: "check/address", Level: Should, Section: section, Kinds: linkMakers,
		Text:    "CHECK fails when an address of the result has been taken off, or has another prefix length.",
		Explain: "Compare each address of the prevResult, with its length, with what the kernel has on this interface. That the route through it is still there says nothing: it may go on without the address.",
		Check:   func(b *Bench) { checkFinds(b, addressChanges, true) },
	}, {
		ID: "check/route", Level: Should, Section: section, Kinds: linkMakers,
		Text:    "CHECK fails when a route of the result is gone.",
		Explain: "A pod without its default route is up, has its address, and reaches nobody. Compare each route of the prevResult with what the kernel has, in the table it is to be in.",
		Check:   func(b *Bench) { checkFinds(b, routeChanges("gone"), true) },
	}, {
		ID: "check/gateway", Level: Should, Section: section, Kinds: linkMakers,
		Text:    "CHECK fails when a route of the result leads to another gateway.",
		Explain: "The usual Go library compares default routes by their destination only, so that any gateway is as good as the right one. A route without a gateway in the result has that of the address of its family.",
		Check:   func(b *Bench) { checkFinds(b, routeChanges("gateway"), true) },
	}, {
		ID: "check/metrics", Level: Should, Section: section + ", 5 (routes)", Kinds: linkMakers,
		Text:    "CHECK fails when a route of the result has another metric or MTU than the result says.",
		Explain: "The result has both since 1.1.0. A wrong metric makes another interface's route win, and a wrong MTU loses large packets only: both are found by nobody who pings.",
		Check: func(b *Bench) {
			if !b.announces(netconf.GC.Since()) {
				b.Skip("the result has them since version 1.1.0, which the plugin does not announce")
			}
			checkFinds(b, routeChanges("metric", "mtu"), true)
		},
	}, {
		ID: "check/gone", Level: Must, Section: section, Kinds: makers,
		Text:    "CHECK fails when the interface is gone.",
		Explain: "This is the least that CHECK is for. A plugin without CHECK must not announce versions from 0.4.0 on: a function that does nothing says that all is well.",
		Check: func(b *Bench) {
			checkFinds(b, func(b *Bench, c *Container, _ Answer) []change {
				return []change{{"the interface is deleted", [][]string{{"link", "del", c.Add.IfName}}}}
			}, false)
		},
	}, {
		ID: "check/kind", Level: Should, Section: section, Kinds: linkMakers,
		Text:    "CHECK fails when the interface is of another kind.",
		Explain: "Something else may have taken the name after the interface went: another plugin, or who repaired the pod by hand. Compare the kind of the link, not its name only.",
		Check:   checkKind,
	}}
}

// checkOthers are about what the interface is, what others have added, and the ways in which CHECK is called.
func checkOthers() []Requirement {
	const section = "CNI 1.1.0, 2 (CHECK)"
	return []Requirement{{
		ID: "check/link", Level: Should, Section: section + ", 5 (interfaces)", Kinds: linkMakers,
		Text:    "CHECK fails when the interface is down, or its MAC or MTU is not that of the result.",
		Explain: "With a wrong MAC switches that filter drop every packet; with a wrong MTU small packets pass and large ones do not. Compare both with the prevResult where it has them, and the flag.",
		Check:   func(b *Bench) { checkFinds(b, linkChanges, false) },
	}, {
		ID: "check/foreign", Level: Must, Section: section + " (\"must allow for a later chained plugin\")", Kinds: linkMakers,
		Text:    "CHECK succeeds when others have added an address, a route, a neighbour, a queueing discipline, a sysctl.",
		Explain: "Later plugins of the chain, and what runs in the pod, add their own. CHECK compares what this plugin made with the result, never everything that is there.",
		Check:   checkForeign,
	}, {
		ID: "check/no-prev-result", Level: Must, Section: section + " (prevResult)", Kinds: notIPAM,
		Text:    "CHECK without a prevResult fails.",
		Explain: "Without the result of ADD there is nothing to compare with, and to say that all is well would be a guess.",
		Check: func(b *Bench) {
			c, _ := b.checked()
			call := c.Add.With(netconf.Check)
			call.Prev = ""
			b.Fails(call, "there was no prevResult")
		},
	}, {
		ID: "check/other-prev-result", Level: Should, Section: section + " (prevResult)", Kinds: linkMakers,
		Text:    "CHECK fails with a prevResult that does not name the interface.",
		Explain: "A result of another attachment, or of a network that was changed, cannot be held against this one. Look the interface up by name and sandbox, and fail when it is not there.",
		Check: func(b *Bench) {
			c, a := b.checked()
			a.Stdout = strings.ReplaceAll(a.Stdout, `"`+c.Add.IfName+`"`, `"other0"`)
			b.Fails(c.Add.With(netconf.Check).WithPrev(a), "its prevResult has no interface "+c.Add.IfName)
		},
	}, {
		ID: "check/ipam", Level: Must, Section: section + ", 4", Kinds: makers,
		Text:    "CHECK asks the IPAM plugin too, and fails when that one does.",
		Explain: "The address may be on the interface and its lease given to somebody else. Only the IPAM plugin knows: a delegate's CHECK is called, and its error returned.",
		Check: func(b *Bench) {
			ipam := b.WithIPAM()
			c, a := b.checked()
			ipam.Fail("CHECK")
			b.Fails(c.Add.With(netconf.Check).WithPrev(a), "its IPAM plugin said that something is wrong")
		},
	}, {
		ID: "check/after-del", Level: Must, Section: section,
		Text:    "CHECK after DEL fails.",
		Explain: "Nothing of the attachment is there: no link, no lease, and what a chained plugin had changed is as before.",
		Check:   checkAfterDel,
	}, {
		ID: "check/old-version", Level: Must, Section: "CNI 0.4.0, 1.1.0, 5 (code 1)",
		Text:    "CHECK in a version below 0.4.0 fails with code 1.",
		Explain: "Those versions do not have the verb, and their results not the interfaces that it compares. A success would be taken for a check that was made.",
		Check:   func(b *Bench) { verbTooOld(b, netconf.Check) },
	}}
}

// announces tells whether the plugin announces a version, or a later one.
func (b *Bench) announces(version string) bool {
	return since(strings.Trim(b.Get(b.Base, "cniVersion"), `"`), version)
}

// checked makes an attachment that can be checked.
func (b *Bench) checked() (*Container, Answer) {
	b.Helper()
	b.NeedVersion(netconf.Check)
	c := b.Container()
	return c, b.Attach(c)
}

func checkAfterDel(b *Bench) {
	b.NeedState()
	b.NeedVersion(netconf.Check)
	c := b.Container()
	before := withoutFolders(b.Look(c))
	a := b.Attach(c)
	if before.Diff(withoutFolders(b.Look(c))) == "" { // a chained one
		b.Skip("ADD changes nothing that could be missed")
	}
	b.Succeeds(c.Del())
	b.Fails(c.Add.With(netconf.Check).WithPrev(a), "DEL has taken all away")
}

func checkFresh(b *Bench) {
	c, a := b.checked()
	before := b.Look(c)
	for range 2 {
		if got := b.Succeeds(c.Add.With(netconf.Check).WithPrev(a)); strings.TrimSpace(got.Stdout) != "" {
			b.Errorf("CHECK: stdout: %s", got.Stdout)
		}
	}
	b.Same(before, "after CHECK", c)
	if b.Kind == skel.Interface && b.tentative(c, a) {
		b.Succeeds(c.Add.With(netconf.Check).WithPrev(a))
	}
}

// tentative gives the container the first IPv6 address of the result again, which the kernel then holds back for a
// second, to see whether a neighbour has it. It tells whether there was such an address; one that is the source of a
// route cannot be given again without a change of the route.
func (b *Bench) tentative(c *Container, a Answer) bool {
	b.Helper()
	all := addressesOf(a, c)
	i := slices.IndexFunc(all, func(address string) bool { return strings.Contains(address, ":") })
	if i < 0 {
		return false
	}
	name := c.Add.IfName
	host, _, _ := strings.Cut(all[i], "/")
	if strings.Contains(c.Run("ip", "-6", "route", "show", "table", "all", "dev", name), " src "+host+" ") {
		return false
	}
	for key, value := range map[string]string{
		"conf/" + name + "/accept_dad": "1", "conf/" + name + "/dad_transmits": "1",
		"conf/" + name + "/router_solicitation_delay": "0", // the kernel waits as long, at most, before it begins
		"neigh/" + name + "/retrans_time_ms":          "1000",
	} {
		c.Run("sysctl", "-q", "-w", "net/ipv6/"+key+"="+value)
	}
	c.Run("ip", "address", "del", all[i], "dev", name)
	c.Run("ip", "address", "add", all[i], "dev", name)
	return true
}

func checkHostPrefix(b *Bench) {
	b.NeedVersion(netconf.Check)
	b.WithIPAM().Answer(`{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.@N@/32","gateway":"10.1.0.1"},{"address":"fd00:1::@N@/128","gateway":"fd00:1::1"}]}`)
	c := b.Container()
	a := b.Run(c.Add)
	if a.Exit != 0 {
		b.Skipf("ADD does not take such addresses: %s", a.Err.Msg)
	}
	b.Succeeds(c.Add.With(netconf.Check).WithPrev(a))
	c.Run("ip", "address", "del", addressesOf(a, c)[0], "dev", c.Add.IfName)
	b.Fails(c.Add.With(netconf.Check).WithPrev(a), "the /32 address has been taken off")
}

// verbTooOld calls a verb in each announced version that does not have it.
func verbTooOld(b *Bench, verb netconf.Command) {
	tried := 0
	for _, v := range b.Versions {
		if since(v, verb.Since()) {
			continue
		}
		tried++
		c := b.Container()
		call := c.Add
		call.Config = b.Set(call.Config, "cniVersion", `"`+v+`"`)
		if verb == netconf.Check {
			if call.Prev != "" {
				call.Prev = b.Converted(call.Prev, v)
			}
			if a := b.Run(call); a.Exit == 0 { // without addresses, the oldest versions cannot say a result
				call.Prev = a.Stdout
			}
		} else {
			call = b.hostCall(verb, call.Config)
			call.Config = b.Set(call.Config, attachmentsKey, "[]")
		}
		a := b.Fails(call.With(verb), "version "+v+" does not have it")
		if a.Err.Code != netconf.CodeIncompatibleVersion {
			b.Errorf("version %s: expected code %d; code %d: %s", v, netconf.CodeIncompatibleVersion, a.Err.Code, a.Err.Msg)
		}
	}
	if tried == 0 {
		b.Skipf("the plugin announces no version below %s, in which %s came", verb.Since(), verb)
	}
}
