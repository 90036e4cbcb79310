package skeltest

import "os"

// deleteRequirements are about DEL: whatever has happened, it ends the attachment.
func deleteRequirements() []Requirement {
	return []Requirement{{
		ID: "del/all", Level: Must, Section: "CNI 1.1.0, 2 (DEL)",
		Text:    "DEL takes away all that ADD has made: on the host, in the namespace, in the stores.",
		Explain: "What DEL leaves adds up: addresses run out, and names are taken. Look at what is listed as left, and at which part of your DEL returned before it came there.",
		Check:   func(b *Bench) { delAfterAdd(b, "DEL", func(*Container, *Call) {}) },
	}, {
		ID: "del/twice", Level: Must, Section: "CNI 1.1.0, 2 (DEL)",
		Text:    "DEL succeeds again when all is gone.",
		Explain: "Runtimes repeat DEL after a crash or a time-out, and keep the sandbox for as long as it fails. What is gone already is no error: neither a link, nor an address, nor a lease, nor a namespace.",
		Check: func(b *Bench) {
			c := b.Container()
			before := b.Settle(c)
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
	}}
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
