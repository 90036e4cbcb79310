package skeltest

import (
	"context"
	"fmt"
	"os"
	"strings"

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
	}, {
		ID: "add/twice", Level: Must, Section: "CNI 1.1.0, 2 (ADD)",
		Text:    "A second ADD of an attachment that lives leaves it as it is, whatever it answers.",
		Explain: "Runtimes should not do it, and do it after a crash. A second ADD that fails and rolls back by name takes the running container's network away; one that reserves again loses an address.",
		Check:   addTwice,
	}, {
		ID: "add/two-interfaces", Level: Must, Section: "CNI 1.1.0, 2 (ADD, DEL)", Kinds: makers,
		Text:    "One container can have two attachments to a network, by different interface names, and DEL of one leaves the other.",
		Explain: "An attachment is the network, the container id and CNI_IFNAME, all three. A store, a host-side name, or a DEL that goes by the container alone mixes the two up.",
		Check:   addTwoInterfaces,
	}, {
		ID: "add/again", Level: Must, Section: "CNI 1.1.0, 2 (ADD, DEL)",
		Text:    "ADD works again after DEL, for the same container.",
		Explain: "What DEL forgets (a link, a name, a lease) shows here at last: the pod restarts and is told \"file exists\".",
		Check: func(b *Bench) {
			c := b.Container()
			before := b.Settle(c)
			for range 2 {
				b.Attach(c)
				b.Succeeds(c.Del())
			}
			b.Same(before, "after the second ADD and DEL", c)
		},
	}, {
		ID: "add/terminated", Level: Ours, Section: "CNI 1.1.0, 2 (ADD), 4", Kinds: makers,
		Text:    "ADD that gets SIGTERM while its IPAM plugin hangs ends, and leaves nothing, not even later; then ADD works.",
		Explain: "A runtime that gives up ends the plugin. One that dies at once leaves its link, so that every retry fails, and an IPAM plugin that takes an address when nobody is there to give it back. Catch SIGTERM, end the delegate, and roll back.",
		Check:   addTerminated,
	}, {
		ID: "add/harmed", Level: Ours, Section: "skeltest.Walk",
		Text:    "Whatever step of ADD or DEL fails, panics or is cancelled, nothing is left, and a living attachment stays.",
		Explain: "A step that is interrupted in the middle must be undone by its own Del, from what the kernel and the stores show, not from what Add had remembered.",
		Check:   addHarmed,
	}}
}

func addTwice(b *Bench) {
	c := b.Container()
	before := b.Settle(c)
	b.Attach(c)
	alive := b.Look(c)
	if a := b.Run(c.Add); b.Look(c).Diff(alive) != "" {
		b.Errorf("the second ADD, exit status %d %s, changed the attachment (- gone, + new):\n%s", a.Exit, a.Err.Msg, alive.Diff(b.Look(c)))
	}
	b.Succeeds(c.Del())
	b.Same(before, "after DEL", c)
}

func addTwoInterfaces(b *Bench) {
	c := b.Container()
	before := b.Settle(c)
	b.Attach(c)
	alone := b.Look(c)
	second := *c
	second.Add.IfName = "eth1"
	if a := b.Run(second.Add); a.Exit != 0 {
		// The configuration may hold what there is one of: a device, a default route, a fixed address.
		b.Same(alone, "after an ADD of a second interface that failed ("+a.Err.Msg+")", c)
	} else if alone.Diff(b.Look(c)) == "" {
		b.Error("ADD of a second interface succeeded and made nothing")
	}
	b.Succeeds(second.Del())
	b.Same(alone, "after DEL of a second interface", c)
	b.Succeeds(c.Del())
	b.Same(before, "after DEL of both", c)
}

func addTerminated(b *Bench) {
	ipam := b.WithIPAM()
	c := b.Container()
	before := b.Settle(c)
	ipam.Hang("ADD")
	ctx, terminate := context.WithCancel(b.Context())
	ended := make(chan Answer, 1)
	go func() { ended <- b.limited(ctx, c.Add) }()
	pid := ipam.Hanging()
	terminate()
	a := <-ended
	b.inTime(c.Add, a)
	if a.Exit == 0 {
		b.Error("ADD succeeded although its IPAM plugin never answered")
	}
	ipam.Heal()
	Eventually(b, "the IPAM plugin that hung has ended", func() bool { return !running(pid) })
	if left := ipam.Reserved(); len(left) > 0 {
		b.Errorf("the IPAM plugin holds an address that nobody releases: %q", left)
	}
	b.Same(before, "after ADD was terminated", c)
	b.Attach(c)
	b.Succeeds(c.Del())
	b.Same(before, "after ADD and DEL once more", c)
}

// running tells whether a process lives; one that has ended and is not waited for does not.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(after, "Z")
}

func addHarmed(b *Bench) {
	if _, program := b.Plugin.(Binary); program {
		b.Skip("the fault hook reaches plugins in the same process only, made with skel")
	}
	b.NeedState()
	reserved := func() []string { return nil }
	if b.ipam() != "" {
		reserved = b.WithIPAM().Reserved
	}
	c := b.Container()
	switch operations, err := walk(b, b.Plugin, c.Add, func() Snapshot { return append(b.Look(c), reserved()...) }); {
	case err != nil:
		b.Fatal(err)
	case operations == 0:
		b.Error("ADD has no operations: nothing calls netconf.Before")
	}
}

func addWorks(b *Bench) {
	c := b.Container()
	if _, program := b.Plugin.(Binary); !program { // of a program nobody knows what its codes mean
		if a := b.Run(c.Add); a.Exit != 0 && a.Err.Code == netconf.CodeNotSupported {
			b.Skip(a.Err.Msg)
		}
		b.Succeeds(c.Del())
	}
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
