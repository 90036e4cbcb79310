package skeltest

import (
	"maps"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// statusRequirements are about STATUS: whether an ADD could be served now.
func statusRequirements() []Requirement {
	const section = "CNI 1.1.0, 2 (STATUS)"
	return []Requirement{{
		ID: "status/ready", Level: Must, Section: section,
		Text:    "STATUS succeeds when all is in order, says nothing, and changes nothing; before and after an ADD.",
		Explain: "A runtime asks every few seconds, and a node is not ready while it fails. It must not make what it looks for.",
		Check:   statusReady,
	}, {
		ID: "status/parent-gone", Level: Must, Section: section, Kinds: makers,
		Text:    "STATUS fails when the link that an attachment needs is gone, with code 50 or 51.",
		Explain: "What makes ADD fail for every pod makes the node not ready: without it pods are scheduled here and fail one after the other. Look whether what the configuration names is there: with skel, in the method Status of the step that needs it (skel.Prober).",
		Check:   statusParentGone,
	}, {
		ID: "status/delegate-missing", Level: Must, Section: section + ", 4", Kinds: makers,
		Text:    "STATUS fails when the program of its IPAM plugin is not in CNI_PATH, with code 50 or 51.",
		Explain: "After an upgrade that forgot a file every ADD fails. To forward STATUS to the IPAM plugin finds this by itself, if \"not found\" is not taken for \"has no STATUS\".",
		Check:   statusDelegateMissing,
	}, {
		ID: "status/ipam", Level: Must, Section: section + " (\"must execute all delegated plugins\")", Kinds: makers,
		Text:    "STATUS asks the IPAM plugin too, and fails when that one does.",
		Explain: "Whether there is an address left, only the IPAM plugin knows. A delegate's STATUS is called, and its error returned.",
		Check: func(b *Bench) {
			b.NeedVersion(netconf.Status)
			ipam := b.WithIPAM()
			b.Succeeds(b.hostCall(netconf.Status, b.Base))
			if calls := ipam.Calls(); !slices.Contains(calls, "STATUS") {
				b.Fatalf("the IPAM plugin was not called with STATUS, only with %q", calls)
			}
			ipam.Fail("STATUS")
			b.Fails(b.hostCall(netconf.Status, b.Base), "its IPAM plugin failed")
		},
	}, {
		ID: "status/exhausted", Level: Must, Section: section + " (\"exhausted\")", Kinds: []skel.Kind{skel.Interface, skel.Meta, skel.IPAM},
		Text:    "STATUS fails when the pool has no address left, with code 50 or 51, and succeeds when one has come back.",
		Explain: "Without it pods go on to be scheduled to a node that has no address for them. To read the pool and the leases is enough: nothing is taken.",
		Check:   statusExhausted,
	}, {
		ID: "status/old-version", Level: Must, Section: "CNI 1.1.0, 2 (STATUS), 5 (code 1)",
		Text:    "STATUS in a version below 1.1.0 fails with code 1.",
		Explain: "Those versions do not have the verb. A success would be taken for readiness that nobody looked at.",
		Check:   func(b *Bench) { verbTooOld(b, netconf.Status) },
	}}
}

func statusReady(b *Bench) {
	b.NeedVersion(netconf.Status)
	look := func(containers ...*Container) Snapshot { return withoutFolders(b.Look(containers...)) }
	ready := func(when string, containers ...*Container) {
		before := look(containers...)
		for range 2 {
			if a := b.Succeeds(b.hostCall(netconf.Status, b.Base)); strings.TrimSpace(a.Stdout) != "" {
				b.Errorf("STATUS: stdout: %s", a.Stdout)
			}
		}
		b.same(before.Diff(look(containers...)), when)
	}
	ready("after STATUS on an empty host")
	c := b.Container()
	b.Attach(c)
	ready("after STATUS beside an attachment", c)
}

// notReady calls STATUS on a host where ADD fails: STATUS must say so and change nothing. Where ADD works it does not apply.
func (b *Bench) notReady(call Call, c *Container, why string) {
	b.Helper()
	add := c.Add
	add.Config, add.Path = call.Config, call.Path
	if a := b.Run(add); a.Exit == 0 {
		b.Skipf("ADD works although %s", why)
	}
	b.Run(add.With(netconf.Del)) // what both may leave, other requirements judge
	before := b.Look(c)
	a := b.Fails(call, why+", and ADD fails")
	if a.Err.Code != netconf.CodePluginNotAvailable && a.Err.Code != netconf.CodeLimitedConnectivity {
		b.Errorf("STATUS fails as it must (%s), with code %d; expected 50 or 51", a.Err.Msg, a.Err.Code)
	}
	b.Same(before, "after STATUS that failed because "+why, c)
}

func statusParentGone(b *Bench) {
	b.NeedVersion(netconf.Status)
	c := b.Container()
	b.Settle(c)
	Host(b, "ip", "link", "del", b.Parent)
	b.notReady(b.hostCall(netconf.Status, b.Base), c, "the link "+b.Parent+" is gone")
}

func statusDelegateMissing(b *Bench) {
	b.NeedVersion(netconf.Status)
	b.WithIPAM()
	c := b.Container()
	b.Settle(c)
	call := b.hostCall(netconf.Status, b.Base)
	call.Path = b.TempDir()
	b.notReady(call, c, "its IPAM plugin is not in CNI_PATH")
}

// smallest is a pool of four addresses, of which plugins give one, or more.
const smallest = `[[{"subnet":"10.99.0.0/30"}]]`

// statusExhausted takes all addresses of a pool that is as small as can be.
func statusExhausted(b *Bench) {
	b.NeedVersion(netconf.Status)
	ipam := b.Get(b.Base, "ipam")
	if b.Kind != skel.IPAM {
		ipam = b.ipam()
	}
	if ipam == "" || b.Get(ipam, "ranges") == "" && b.Get(ipam, "subnet") == "" {
		b.Skip("the configuration has no pool that is known to be made smaller: ipam.ranges, or ipam.subnet")
	}
	for _, key := range []string{"subnet", "rangeStart", "rangeEnd", "gateway"} {
		ipam = b.Without(ipam, key)
	}
	if ipam = b.Set(ipam, "ranges", smallest); b.Kind == skel.IPAM {
		b.Base = b.Set(b.Base, "ipam", ipam)
	} else {
		b.setIPAM(ipam)
	}
	taken := b.Container()
	b.Settle(taken)
	status := b.hostCall(netconf.Status, b.Base)
	b.Succeeds(status)
	b.exhaust(b.Attach(taken))
	if program, err := find(b.paths, strings.Trim(b.Get(ipam, "type"), `"`)); err == nil && b.Kind != skel.IPAM {
		if b.Run(status).Exit == 0 && (Call{Command: status.Command, Config: status.Config, Path: status.Path}).run(b.Context(), b, program).Exit == 0 {
			b.Skipf("the IPAM plugin, %s, says itself that it is ready", program)
		}
	}
	b.notReady(status, b.Container(), "no address is left")
	b.Succeeds(taken.Del())
	b.Succeeds(status)
}

// exhaust makes attachments, after the first, until one fails for want of an address. Each has addresses of its own.
func (b *Bench) exhaust(first Answer) {
	given := map[string]bool{}
	take := func(a Answer) {
		for _, ip := range a.Result.IPs {
			if address := ip.Address.IP.String(); !given[address] {
				given[address] = true
			} else {
				b.Fatalf("the address %s was given twice, from a pool that has none left", address)
			}
		}
	}
	take(first)
	if why := b.single(); why != "" {
		b.Skip(why)
	}
	for range 4 {
		c := b.Container()
		a := b.Run(c.Add)
		if a.Exit != 0 {
			b.Run(c.Del())
			return
		}
		take(a)
	}
	b.Skipf("five attachments have addresses of their own, and the pool is of four: it is not made smaller by ipam.ranges: %v", slices.Sorted(maps.Keys(given)))
}
