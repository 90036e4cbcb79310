package skeltest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// The key of the list of living attachments, and how it was called in the specification of libcni 1.2.0 to 1.2.2.
const (
	attachmentsKey    = "cni.dev/valid-attachments"
	oldAttachmentsKey = "cni.dev/attachments"
)

// gcRequirements are about GC: what lives stays, what does not goes.
func gcRequirements() []Requirement { return slices.Concat(gcLists(), gcCalls()) }

// gcLists are about the list of living attachments.
func gcLists() []Requirement {
	const section = "CNI 1.1.0, 2 (GC)"
	return []Requirement{{
		ID: "gc/live", Level: Must, Section: section,
		Text:    "GC with all living attachments in its list succeeds, twice, says nothing, and changes nothing.",
		Explain: "GC runs in a cluster that serves. What it takes away from an attachment of its list is an outage that comes with every pass.",
		Check:   gcLive,
	}, {
		ID: "gc/stale", Level: Must, Section: section,
		Text:    "GC takes away what a vanished attachment has left on the host and in the stores, and nothing else, twice.",
		Explain: "After a reboot or a crash nobody calls DEL for a sandbox that nobody remembers. Its address stays taken until GC gives it back. If yours does and the address stays, look whether GC is forwarded to the IPAM plugin. If something else stays that a step of yours made (with skel), this step needs the method GC (skel.Collector): without it the step has nothing to collect, and GC succeeds.",
		Check:   func(b *Bench) { gcStale(b, attachmentsKey) },
	}, {
		ID: "gc/empty-list", Level: Must, Section: section,
		Text:    "GC with an empty list takes all away.",
		Explain: "An empty list is a list: no attachment lives. A plugin that cannot tell it from an absent one, as an empty slice in Go is not told from none, never cleans a host that has lost all its pods.",
		Check:   gcEmptyList,
	}, {
		ID: "gc/no-list", Level: Ours, Section: section + " (\"must be provided\")",
		Text:    "GC without a list, or with null in its place, takes nothing away.",
		Explain: "An old runtime, or a mistake in a script, is no order to end everything that lives. libcni's own cnitool has done this to living containers. Fail with code 7.",
		Check: func(b *Bench) {
			gcHarmless(b, func(config, _ string) string { return config }, false)
			gcHarmless(b, func(config, _ string) string { return b.Set(config, attachmentsKey, "null") }, false)
		},
	}, {
		ID: "gc/bad-list", Level: Ours, Section: section,
		Text:    "GC with a list that is none fails, and takes nothing away.",
		Explain: "What cannot be read says nothing about who lives. Fail with code 6 or 7 before anything is done.",
		Check: func(b *Bench) {
			for _, list := range []string{`"all"`, `{}`, `7`, `true`, `["conform-1"]`, `[[]]`, `[7]`} {
				gcHarmless(b, func(config, _ string) string { return b.Set(config, attachmentsKey, list) }, true)
			}
		},
	}, {
		ID: "gc/partial-list", Level: Ours, Section: section,
		Text:    "GC with entries that lack containerID or ifname fails, and takes nothing away.",
		Explain: "An entry without its key cannot be told from a living attachment that was spelt wrongly: leaving it out of the list means to end it. Fail with code 7.",
		Check: func(b *Bench) {
			for _, entry := range []string{`{"containerID":"conform-1"}`, `{"ifname":"eth0"}`, `{}`, `null`, `{"containerID":"","ifname":"eth0"}`, `{"containerId":7,"ifname":"eth0"}`} {
				gcHarmless(b, func(config, live string) string {
					return b.Set(config, attachmentsKey, strings.TrimSuffix(live, "]")+","+entry+"]")
				}, true)
				gcHarmless(b, func(config, _ string) string { return b.Set(config, attachmentsKey, "["+entry+"]") }, true)
			}
		},
	}}
}

// gcCalls are about its keys, and the way in which GC is called.
func gcCalls() []Requirement {
	const section = "CNI 1.1.0, 2 (GC)"
	return []Requirement{{
		ID: "gc/old-key", Level: Ours, Section: "CNI 1.1.0 as of libcni 1.2.0 to 1.2.2, 2 (GC)",
		Text:    "GC reads the list also under cni.dev/attachments, as it was called before.",
		Explain: "libcni 1.2.3 and later send both keys; what was written by the earlier text of the specification sends the old one. Who reads only one of them takes the list for absent, or worse for empty.",
		Check:   func(b *Bench) { gcStale(b, oldAttachmentsKey) },
	}, {
		ID: "gc/both-keys", Level: Must, Section: section,
		Text:    "GC with the list under both keys works as with one.",
		Explain: "This is what libcni sends since 1.2.3.",
		Check:   func(b *Bench) { gcStale(b, attachmentsKey, oldAttachmentsKey) },
	}, {
		ID: "gc/ipam", Level: Must, Section: section + " (\"must be forwarded\")", Kinds: makers,
		Text:    "GC is forwarded to the IPAM plugin, with the list, and fails when that one does.",
		Explain: "The addresses are the IPAM plugin's: without its GC they stay taken for ever. None of the reference plugins forwards it, so that host-local's GC is never reached.",
		Check:   gcIPAM,
	}, {
		ID: "gc/empty-host", Level: Must, Section: section,
		Text:    "GC on a host where nothing was ever attached succeeds, and makes nothing.",
		Explain: "A folder or a table that is not there yet is nothing to collect, and no error.",
		Check: func(b *Bench) {
			b.NeedVersion(netconf.GC)
			before := withoutFolders(b.Look()) // host-local makes its store's, to lock it
			b.Succeeds(b.gc(attachmentsKey, "[]"))
			b.same(before.Diff(withoutFolders(b.Look())), "after GC")
		},
	}, {
		ID: "gc/old-version", Level: Must, Section: "CNI 1.1.0, 2 (GC), 5 (code 1)",
		Text:    "GC in a version below 1.1.0 fails with code 1.",
		Explain: "Those versions do not have the verb. A success would be taken for a collection that was made.",
		Check:   func(b *Bench) { verbTooOld(b, netconf.GC) },
	}}
}

// attachKept is Attach of an attachment that keeps something outside of the container, which can be stale there. Of chained
// plugins some do (ports, queueing disciplines, what was before): where this one does not, the check does not apply.
func (b *Bench) attachKept(c *Container) {
	b.Helper()
	before := withoutFolders(b.Look())
	b.Attach(c)
	if b.Kind == skel.Chained && before.Diff(withoutFolders(b.Look())) == "" {
		b.Skip("an attachment leaves nothing on the host")
	}
}

// hostCall is a call that is not about an attachment.
func (b *Bench) hostCall(verb netconf.Command, config string) Call {
	return Call{Command: verb, Config: config, Path: strings.Join(b.paths, string(os.PathListSeparator)), Env: []string{"PATH=" + os.Getenv("PATH")}}
}

// gc is a GC with a list under a key.
func (b *Bench) gc(key, list string) Call {
	return b.hostCall(netconf.GC, b.Set(b.Base, key, list))
}

// list is the list of living attachments.
func (b *Bench) list(containers ...*Container) string {
	type attachment struct {
		ContainerID string `json:"containerID"`
		IfName      string `json:"ifname"`
	}
	all := []attachment{}
	for _, c := range containers {
		all = append(all, attachment{c.Add.ContainerID, c.Add.IfName})
	}
	out, err := json.Marshal(all)
	if err != nil {
		b.Fatal(err)
	}
	return string(out)
}

func gcLive(b *Bench) {
	b.NeedVersion(netconf.GC)
	one := b.Container()
	b.Attach(one)
	all := []*Container{one}
	if b.single() == "" {
		two := b.Container()
		b.AttachAnother(two)
		all = append(all, two)
	}
	before := b.Look(all...)
	for range 2 {
		if a := b.Succeeds(b.gc(attachmentsKey, b.list(all...))); strings.TrimSpace(a.Stdout) != "" {
			b.Errorf("GC: stdout: %s", a.Stdout)
		}
		b.Same(before, "after GC with all attachments in its list", all...)
	}
}

// gcStale makes two attachments, of which one loses its namespace, as in a crash, and its place in the list.
func gcStale(b *Bench, keys ...string) {
	b.NeedVersion(netconf.GC)
	b.NeedState()
	live := b.Container()
	b.Settle(live)
	b.attachKept(live)
	lost := b.Container() // with what the plugins before it make, which is not the judged one's to collect
	before := b.Look(live)
	b.AttachAnother(lost)
	lost.NS.Remove()
	call := b.hostCall(netconf.GC, b.Base)
	for _, key := range keys {
		call.Config = b.Set(call.Config, key, b.list(live))
	}
	for _, when := range []string{"after GC", "after the second GC"} {
		b.Succeeds(call)
		b.sameSoon(before, when, live)
	}
}

func gcEmptyList(b *Bench) {
	b.NeedVersion(netconf.GC)
	b.NeedState()
	c := b.Container()
	b.Settle(c)
	before := b.Look()
	b.Attach(c)
	if before.Diff(b.Look()) == "" {
		b.Skip("an attachment leaves nothing on the host")
	}
	c.NS.Remove()
	b.Succeeds(b.gc(attachmentsKey, "[]"))
	// Not Same: a device that was moved into the namespace has gone with it, if it is as p0 one end of a veth pair.
	if left := settles(func() string { return added(before.Diff(b.Look())) }); left != "" {
		b.Errorf("after GC with an empty list there is left:\n%s", left)
	}
}

// gcHarmless calls GC with a configuration that says nothing of who lives: an attachment must be as before.
func gcHarmless(b *Bench, config func(config, live string) string, fails bool) {
	b.NeedVersion(netconf.GC)
	c := b.Container()
	b.Attach(c)
	before := b.Look(c)
	call := b.hostCall(netconf.GC, config(b.Base, b.list(c)))
	what := "the list " + b.Get(call.Config, attachmentsKey)
	if a := b.Run(call); a.Exit == 0 && fails {
		b.Errorf("GC succeeded with %s", what)
	}
	b.Same(before, "after GC with "+what, c)
	b.Succeeds(c.Del())
}

func gcIPAM(b *Bench) {
	b.NeedVersion(netconf.GC)
	ipam := b.WithIPAM()
	c := b.Container()
	b.Attach(c)
	b.Succeeds(b.gc(attachmentsKey, b.list(c)))
	if calls := ipam.Calls(); !slices.Contains(calls, "GC") {
		b.Fatalf("the IPAM plugin was not called with GC, only with %q", calls)
	}
	if got := ipam.Input("GC"); b.Get(got, attachmentsKey) != b.list(c) {
		b.Errorf("the IPAM plugin was called with the list %q", b.Get(got, attachmentsKey))
	}
	ipam.Fail("GC")
	b.Fails(b.gc(attachmentsKey, b.list(c)), fmt.Sprintf("its IPAM plugin %q failed", "test-ipam"))
}
