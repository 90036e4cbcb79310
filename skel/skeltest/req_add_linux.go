package skeltest

import (
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// makers are the kinds of plugins that make an interface, themselves or by others.
var makers = []skel.Kind{skel.Interface, skel.Meta}

// addRequirements are about ADD in itself.
func addRequirements() []Requirement {
	return []Requirement{{
		ID: "add/works", Level: Must, Section: "CNI 1.1.0, 2 (ADD)",
		Text:    "ADD with the given configuration succeeds, makes something, and says what.",
		Explain: "All else is judged from here. If the error names something that your host has (a parent link, a daemon, another plugin), make it in the setup script, or name its folder in the path.",
		Check:   addWorks,
	}, {
		ID: "add/taken-name", Level: Must, Section: "CNI 1.1.0, 2 (ADD)", Kinds: []skel.Kind{skel.Interface},
		Text:    "ADD of an interface name that is taken fails, and leaves the other interface as it is.",
		Explain: "The rollback of an ADD that fails because the name is taken must not delete by this name: it takes away the interface of somebody else. Roll back only what this very call has made.",
		Check:   addTakenName,
	}}
}

func addWorks(b *Bench) {
	c := b.Container()
	a := b.Attach(c)
	if b.Kind == skel.Interface && netconf.Attached(a.Result, c.Add.IfName) < 0 {
		b.Errorf("the result does not name the interface %q with the sandbox %q: %s", c.Add.IfName, c.Path, a.Stdout)
	}
}

func addTakenName(b *Bench) {
	c := b.Container()
	b.Settle(c)
	c.Run("ip", "link", "add", c.Add.IfName, "type", "veth", "peer", "name", "foreign")
	before := b.Look(c)
	b.Fails(c.Add, "the namespace had an interface of this name")
	b.Same(before, "after ADD of a taken name", c)
}
