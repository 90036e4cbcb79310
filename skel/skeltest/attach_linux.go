package skeltest

import (
	"fmt"
	"regexp"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// Attach makes the ADD, which must succeed and, unless the plugin only changes what others made, must have made
// something: else a DEL after it would prove nothing. Where the target says that the plugin keeps nothing, it must not.
func (b *Bench) Attach(c *Container) Answer {
	b.Helper()
	before := withoutFolders(b.Look(c))
	a := b.Succeeds(c.Add)
	switch diff := before.Diff(withoutFolders(b.Look(c))); {
	case b.Stateless && diff != "":
		b.Fatalf("the plugin is said to keep nothing (Target.Stateless, -stateless), and ADD has changed (- gone, + new):\n%s", diff)
	case !b.Stateless && b.Kind != skel.Chained && diff == "":
		b.Fatal("ADD succeeded and nothing has changed: not in the namespace, not on the host, not in the folders of its state, which Target.State (-state) names; an IPAM plugin that keeps nothing is Target.Stateless (-stateless)")
	}
	return a
}

// NeedState ends the check, as not applicable, if the target says that the plugin keeps nothing.
func (b *Bench) NeedState() {
	if b.Stateless {
		b.Skip("the plugin keeps nothing that could be lost, or found")
	}
}

// hasParent tells whether the link that attachments need is on the host.
func (b *Bench) hasParent() bool {
	_, err := run("ip", "link", "show", b.Parent)
	return err == nil
}

// lostParent tells whether the link that attachments need was on the host, and is not.
func (b *Bench) lostParent() bool { return b.parent && !b.hasParent() }

// single says why the configuration is for one attachment at a time, now that there is one; "" if it is for more.
func (b *Bench) single() string {
	switch {
	case b.Single:
		return "the configuration is for one attachment at a time"
	case b.lostParent():
		return "the first attachment has taken the link " + b.Parent + " from the host"
	}
	return ""
}

// AttachAnother makes an attachment beside one that lives. If it fails, so does the requirement, or it does not apply
// where there can be only one.
func (b *Bench) AttachAnother(c *Container) Answer {
	b.Helper()
	if why := b.single(); why != "" {
		b.Skip(why)
	}
	a := b.Run(c.Add)
	if a.Exit != 0 {
		b.Fatalf("a second attachment failed beside the first, exit status %d, code %d: %s %s\nstderr: %s", a.Exit, a.Err.Code, a.Err.Msg, a.Err.Details, a.Stderr)
	}
	return a
}

// already matches how programs say that something is there.
var already = regexp.MustCompile(`(?i)\balready\b|\bexists\b`)

// hint says, where an ADD that makes everything anew has found something, where it may come from.
func (b *Bench) hint(c Call, a Answer) string {
	if c.Command != netconf.Add || a.Err.Code != netconf.CodeExists && !already.MatchString(a.Err.Msg+" "+a.Err.Details) {
		return ""
	}
	return fmt.Sprintf("\nThe host is new, with %v empty. If the plugin or a delegate keeps its state elsewhere, what other requirements left is there: name the folder in Target.State (-state)", b.state())
}
