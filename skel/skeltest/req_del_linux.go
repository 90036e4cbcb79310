package skeltest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// deleteRequirements are about DEL: whatever has happened, it ends the attachment.
func deleteRequirements() []Requirement { return slices.Concat(deletePlain(), deleteOdd()) }

// deletePlain are about DEL in the order of things, and of what is somebody else's.
func deletePlain() []Requirement {
	return []Requirement{{
		ID: "del/all", Level: Must, Section: "CNI 1.1.0, 2 (DEL: \"un-apply modifications\")",
		Text:    "DEL takes away all that ADD has made: on the host, in the namespace, in the stores, and in the background; what ADD has changed is as before.",
		Explain: "What DEL leaves adds up: addresses run out, names are taken, and a process that stays holds its memory, and the namespace, for as long as the node is up. Look at what is listed as left, and at which part of your DEL returned before it came there. What you change (an MTU, a sysctl of a link) you write down before, to give it back; a process that you start you write down too, with the time of its start, and end it; better is to start none.",
		Check:   delAll,
	}, {
		ID: "del/twice", Level: Must, Section: "CNI 1.1.0, 2 (DEL)",
		Text:    "DEL succeeds again when all is gone.",
		Explain: "Runtimes repeat DEL after a crash or a time-out, and keep the sandbox for as long as it fails. What is gone already is no error: neither a link, nor an address, nor a lease, nor a namespace.",
		Check: func(b *Bench) {
			c := b.Container()
			before := b.Settle(c)
			b.Attach(c)
			b.Succeeds(c.Del())
			b.Succeeds(c.Del())
			b.Same(before, "after the second DEL", c)
		},
	}, {
		ID: "del/stale-netns", Level: Must, Section: "CNI 1.1.0, 2 (DEL)", Kinds: makers,
		Text:    "DEL succeeds, and frees what is on the host, when the namespace's mount is gone and its file is still there.",
		Explain: "After a reboot, or a lazy unmount, /run/netns holds an empty plain file, and entering it is EINVAL, not ENOENT. A plugin that only forgives \"no such file\" fails for ever, and the address is never freed.",
		Check: func(b *Bench) {
			delAfterAdd(b, "DEL with a stale netns file", func(c *Container, _ *Call) {
				c.NS.Remove()
				if err := os.WriteFile(c.Path, nil, 0o444); err != nil {
					b.Fatal(err)
				}
			})
		},
	}, {
		ID: "del/never-added", Level: Must, Section: "CNI 1.1.0, 2 (DEL)",
		Text:    "DEL of an attachment that was never made succeeds, and touches nothing of another container.",
		Explain: "After an ADD that failed early, or never ran, the runtime calls DEL all the same. What it asks for is done already.",
		Check: func(b *Bench) {
			c, other := b.Container(), b.Container()
			b.Settle(c)
			b.Attach(other)
			before := b.Look(c, other)
			b.Succeeds(c.Del())
			b.Same(before, "after DEL of what was never added", c, other)
		},
	}, {
		ID: "del/foreign-link", Level: Ours, Section: "CNI 1.1.0, 2 (DEL)", Kinds: []skel.Kind{skel.Interface},
		Text:    "DEL of an attachment that was never made leaves an interface of somebody else that has its name.",
		Explain: "DEL runs after an ADD that failed because the name was taken: who deletes by name takes away what made the name taken. Know your own link, by an alias, a group, or its kind and parent.",
		Check: func(b *Bench) {
			c := b.Container()
			b.Settle(c)
			c.Run("ip", "link", "add", c.Add.IfName, "type", "veth", "peer", "name", "foreign")
			before := b.Look(c)
			b.Succeeds(c.Del())
			b.Same(before, "after DEL beside a foreign interface", c)
		},
	}}
}

// deleteOdd are about DEL with parameters that lead nowhere, or make no sense any more.
func deleteOdd() []Requirement {
	return []Requirement{{
		ID: "del/no-netns", Level: Must, Section: "CNI 1.1.0, 2 (DEL: CNI_NETNS optional)",
		Text:    "DEL without CNI_NETNS succeeds and frees what is not in the namespace: the host's side and the address.",
		Explain: "Once the sandbox has died the runtime has no namespace to name. A plugin that returns early then leaks an address with each such pod.",
		Check: func(b *Bench) {
			delAfterAdd(b, "DEL without CNI_NETNS", func(c *Container, del *Call) {
				c.NS.Remove()
				del.Netns = ""
			})
		},
	}, {
		ID: "del/gone-netns", Level: Must, Section: "CNI 1.1.0, 2 (DEL)",
		Text:    "DEL succeeds, and frees what is not in the namespace, when the namespace is gone.",
		Explain: "The sandbox may die before DEL, and its links with it. What is on the host, and the address, is yours to free all the same.",
		Check: func(b *Bench) {
			delAfterAdd(b, "DEL when the namespace is gone", func(c *Container, del *Call) { c.NS.Remove() })
		},
	}, {
		ID: "del/odd-netns", Level: Must, Section: "CNI 1.1.0, 2 (DEL)", Kinds: notIPAM,
		Text:    "DEL succeeds, frees what is not in the namespace, and touches nothing else, when CNI_NETNS leads to something that is no network namespace.",
		Explain: "The path may have been used again, by a file, or another kind of namespace. It holds nothing of the attachment; a DEL that fails on it, or waits for a FIFO to be written, is repeated for ever.",
		Check:   delOddNetns,
	}, {
		ID: "del/own-netns", Level: Ours, Section: "CNI 1.1.0, 2 (\"isolation domain\")", Kinds: notIPAM,
		Text:    "DEL succeeds, and takes nothing from the host, when CNI_NETNS is the host's own namespace.",
		Explain: "When a process id is used again, /proc/PID/ns/net is the host's, and the node may have an eth0 too: a DEL by name takes the node off the network. Compare the namespace with your own.",
		Check:   delOwnNetns,
	}, {
		ID: "del/prev-result", Level: Must, Section: "CNI 1.1.0, 2 (DEL: prevResult)",
		Text:    "DEL with the prevResult takes away all that ADD has made.",
		Explain: "Runtimes hand the result of ADD to DEL, if they still have it.",
		Check: func(b *Bench) {
			c := b.Container()
			before := b.Settle(c)
			b.Succeeds(c.Add.WithPrev(b.Attach(c)).With(netconf.Del))
			b.Same(before, "after DEL with the prevResult", c)
		},
	}, {
		ID: "del/odd-prev-result", Level: Must, Section: "CNI 1.1.0, 2 (DEL: best effort)",
		Text:    "DEL takes away all that ADD has made also when the prevResult is null, empty, or makes no sense.",
		Explain: "The runtime's cache may be half written, of an older version, or lost. A DEL that cannot do without it never succeeds again: treat it as a hint.",
		Check:   delOddPrev,
	}, {
		ID: "del/parent-gone", Level: Must, Section: "CNI 1.1.0, 2 (DEL)",
		Text:    "DEL succeeds, and the address is freed, when the link of the host that the attachment needed is gone.",
		Explain: "The card was unplugged, or renamed. ADD needs the parent; DEL does not. A DEL that looks it up first fails for ever, and never comes to the IPAM plugin.",
		Check:   delParentGone,
	}, {
		ID: "del/bad-config", Level: Must, Section: "CNI 1.1.0, 2 (DEL: best effort)",
		Text:    "DEL takes away all that ADD has made when keys of the configuration, which ADD needs, are gone or make no sense any more.",
		Explain: "An administrator edits the configuration while pods run, or removes the plugin's options. A DEL that validates like ADD keeps these pods for ever. Read on DEL only what DEL needs, and take a default for the rest.",
		Check:   delBadConfig,
	}}
}

// delAll looks into the container before anything of the plugin was there, too: what all attachments of a network share, and
// what therefore may stay after the first of them, is on the host.
func delAll(b *Bench) {
	c := b.Container()
	inside := func() Snapshot {
		return slices.DeleteFunc(b.Look(c), func(l string) bool { return !strings.HasPrefix(l, c.Add.ContainerID+": ") })
	}
	untouched := inside()
	before := b.Settle(c)
	b.same(untouched.Diff(inside()), "after the first ADD and DEL, the container")
	b.Attach(c)
	b.Succeeds(c.Del())
	b.Same(before, "after DEL", c)
}

// delOddNetns ends attachments whose namespaces are gone, and whose paths lead to something else now. Another one lives.
func delOddNetns(b *Bench) {
	b.Settle(b.Container())
	var others []*Container
	if !b.Single && b.Kind != skel.Chained { // it would be the others' of the chain that is seen
		others = append(others, b.Container())
		b.Attach(others[0])
		if b.single() != "" {
			b.Succeeds(others[0].Del())
			others = nil
		}
	}
	odd := b.odd()
	there := describe(odd)
	for _, path := range odd {
		c := b.Container()
		before := b.Look(others...)
		b.Attach(c)
		del := c.Del()
		c.NS.Remove()
		del.Netns = path[1]
		if a := b.Run(del); a.Exit != 0 {
			b.Errorf("CNI_NETNS is %s: DEL failed: %s %s", path[0], a.Err.Msg, a.Stderr)
			del.Netns = ""
			b.Run(del) // makes room; other requirements judge it
		}
		b.sameSoon(before, "after DEL when CNI_NETNS is "+path[0], others...)
		if now := describe(odd); now != there {
			b.Errorf("CNI_NETNS is %s: what is there is not as before:\n%sbut\n%s", path[0], there, now)
		}
		if b.lostParent() {
			break // it was moved into the namespace, and there is no other
		}
	}
}

// describe says what the paths lead to.
func describe(paths [][2]string) string {
	var out strings.Builder
	for _, path := range paths {
		st, err := os.Stat(path[1])
		if err != nil {
			fmt.Fprintf(&out, "%s: nothing\n", path[1])
			continue
		}
		fmt.Fprintf(&out, "%s: %v, %d bytes\n", path[1], st.Mode(), st.Size())
	}
	return out.String()
}

func delOwnNetns(b *Bench) {
	c := b.Container()
	b.Settle(c)
	if out, err := run("ip", "link", "add", c.Add.IfName, "type", "veth", "peer", "name", "eth0-peer"); err != nil {
		b.Fatalf("add a link to the host: %v %s", err, out)
	}
	if out, err := run("ip", "address", "add", "192.0.2.1/24", "dev", c.Add.IfName); err != nil {
		b.Fatalf("add an address to the host: %v %s", err, out)
	}
	foreign := func() Snapshot {
		return slices.DeleteFunc(b.Look(), func(l string) bool { return !strings.Contains(l, "eth0-peer") && !strings.Contains(l, " 192.0.2.") })
	}
	before := foreign()
	if len(before) < 3 {
		b.Fatalf("the host's link is not seen: %q", before)
	}
	b.Attach(c)
	del := c.Del()
	del.Netns = "/proc/1/ns/net"
	b.Succeeds(del)
	if diff := before.Diff(foreign()); diff != "" {
		b.Errorf("after DEL in the host's namespace its link is not as before (- gone, + new):\n%s", diff)
	}
}

func delOddPrev(b *Bench) {
	c := b.Container()
	before := b.Settle(c)
	for _, prev := range []string{
		"null", "{}", "[]", `"lost"`, `{"cniVersion":"9.9.9","ips":[]}`, `{"cniVersion":"1.0.0","interfaces":7}`,
		`{"cniVersion":"1.0.0","ips":[{"address":"nonsense","interface":9}]}`,
		`{"cniVersion":"1.0.0","interfaces":[{"name":"other","sandbox":"/nowhere"}],"ips":[{"address":"192.0.2.9/24","interface":5}]}`,
	} {
		b.Attach(c)
		del := c.Del()
		del.Prev = prev
		if a := b.Run(del); a.Exit != 0 {
			b.Errorf("prevResult %s: DEL failed: %s", prev, a.Err.Msg)
			b.Succeeds(c.Del())
		}
		if diff := before.Diff(b.Look(c)); diff != "" {
			b.Fatalf("prevResult %s: not as before (- gone, + left):\n%s", prev, diff)
		}
	}
}

func delParentGone(b *Bench) {
	if !strings.Contains(b.Base, quoted(b.Parent)) {
		b.Skipf("the configuration does not name the parent, %q", b.Parent)
	}
	c := b.Container()
	b.Settle(c)
	remove := func() {
		if _, err := run("ip", "link", "del", b.Parent); err != nil {
			c.Run("ip", "link", "del", c.Add.IfName) // it was moved into the container
		}
	}
	files := func() Snapshot {
		return slices.DeleteFunc(b.Look(), func(l string) bool { return !strings.HasPrefix(l, "file: ") })
	}
	empty := files()
	b.Attach(c)
	remove()
	b.Succeeds(c.Del())
	if diff := empty.Diff(files()); diff != "" {
		b.Errorf("after DEL without the parent: not as before (- gone, + left):\n%s", diff)
	}
	if left, err := c.Try("ip", "link", "show", c.Add.IfName); err == nil && b.Kind == skel.Interface {
		b.Errorf("after DEL without the parent the interface is still there: %s", left)
	}
}

// delBadConfig makes each key of the plugin's own senseless in turn, and then leaves all of them out.
func delBadConfig(b *Bench) {
	configs := b.badConfigs()
	c := b.Container()
	before := b.Settle(c)
	for _, what := range slices.Sorted(maps.Keys(configs)) {
		b.Attach(c)
		del := c.Del()
		del.Config = configs[what]
		if a := b.Run(del); a.Exit != 0 {
			b.Errorf("%s: DEL failed: %s %s", what, a.Err.Msg, a.Err.Details)
			b.Succeeds(c.Del())
		}
		if diff := before.Diff(b.Look(c)); diff != "" {
			b.Fatalf("%s: not as before (- gone, + left):\n%s", what, diff)
		}
	}
	if b.Kind == skel.Interface && b.ipam() != "" { // what a plugin has others called with is a key of its own
		delWithoutIPAM(b, c, before)
	}
}

// delWithoutIPAM makes DELs whose configuration does not say any more who gave the address. Whatever they answer, the
// plugin's own part goes, and DEL with the right configuration takes the rest.
func delWithoutIPAM(b *Bench, c *Container, before Snapshot) {
	for _, test := range [][2]string{
		{"no ipam section", b.Without(b.Base, "ipam")},
		{"ipam: 5", b.Set(b.Base, "ipam", "5")},
		{"ipam: {}", b.Set(b.Base, "ipam", "{}")},
		{"an IPAM plugin that is not there", b.Set(b.Base, "ipam", `{"type":"conform-none"}`)},
	} {
		b.Attach(c)
		del := c.Del()
		del.Config = test[1]
		a := b.Run(del)
		if diff := withoutState(before, c).Diff(withoutState(b.Look(c), c)); diff != "" {
			b.Errorf("%s, DEL, exit status %d %s: the plugin's own part is not as before (- gone, + left):\n%s", test[0], a.Exit, a.Err.Msg, diff)
		}
		b.Succeeds(c.Del())
		b.Same(before, test[0]+", after DEL with the right configuration", c)
	}
}

// badConfigs are configurations whose keys of the plugin's own make no sense, or are gone, by what is wrong. Those of an
// IPAM plugin are in the section; what stands beside it is its caller's.
func (b *Bench) badConfigs() map[string]string {
	own, spec := b.Base, []string{"cniVersion", "name", "type", "ipam", "prevResult"}
	whole := func(own string) string { return own }
	if b.Kind == skel.IPAM {
		own, spec = b.Get(b.Base, "ipam"), []string{"type"}
		whole = func(own string) string { return b.Set(b.Base, "ipam", own) }
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal([]byte(own), &keys); err != nil {
		b.Fatal(err)
	}
	maps.DeleteFunc(keys, func(key string, _ json.RawMessage) bool { return slices.Contains(spec, key) })
	configs, bare := map[string]string{}, b.Set(own, "conformTypo", "1")
	for key, value := range keys {
		other := `"nonsense"`
		if strings.HasPrefix(string(value), `"`) {
			other = "[7]"
		}
		configs[key+": "+other] = whole(b.Set(own, key, other))
		bare = b.Without(bare, key)
	}
	configs["none of the plugin's keys"] = whole(bare)
	return configs
}

// delAfterAdd makes an attachment, does something to it or to its DEL, and then DEL must leave all as before.
func delAfterAdd(b *Bench, when string, harm func(c *Container, del *Call)) {
	c := b.Container()
	b.Settle(c)
	gone := b.Look() // without the namespace, which may not be there later
	before := b.Look(c)
	b.Attach(c)
	del := c.Del()
	harm(c, &del)
	b.Succeeds(del)
	if !c.Alive() {
		b.Same(gone, "after "+when)
		return
	}
	b.Same(before, "after "+when, c)
}
