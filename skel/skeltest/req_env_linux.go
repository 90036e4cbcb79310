package skeltest

import (
	"slices"
	"strings"

	"github.com/cnikit/cnikit/skel"
)

// notIPAM are the kinds of plugins that work in the container's namespace.
var notIPAM = []skel.Kind{skel.Interface, skel.Chained, skel.Meta}

// envRequirements are about the environment: the parameters of a call.
func envRequirements() []Requirement { return slices.Concat(envRefused(), envTaken()) }

// envRefused are about parameters that must be refused.
func envRefused() []Requirement {
	return []Requirement{{
		ID: "env/missing", Level: Must, Section: "CNI 1.1.0, 2 (Parameters)",
		Text:    "ADD without CNI_CONTAINERID or CNI_IFNAME fails, and makes nothing.",
		Explain: "An attachment under an empty id is nobody's: no DEL will ever name it. Check what you are given before you do anything.",
		Check: func(b *Bench) {
			refusesEach(b, []wrong{
				{"no CNI_CONTAINERID", func(c *Call) { c.ContainerID = "" }},
				{"no CNI_IFNAME", func(c *Call) { c.IfName = "" }},
			})
		},
	}, {
		ID: "env/command", Level: Must, Section: "CNI 1.1.0, 2 (CNI_COMMAND), 5 (code 4)",
		Text:    "A call without CNI_COMMAND, or with one that does not exist, fails, and does nothing.",
		Explain: "A plugin that takes what it does not know for success promises what it has not done: when the next version has a new verb, the runtime relies on it. Where no terminal is, no CNI_COMMAND is a mistake too.",
		Check: func(b *Bench) {
			refusesEach(b, []wrong{
				{"no CNI_COMMAND", func(c *Call) { c.Command = "" }},
				{"CNI_COMMAND=EAT", func(c *Call) { c.Command = "EAT" }},
				{"CNI_COMMAND=add", func(c *Call) { c.Command = "add" }},
			})
		},
	}, {
		ID: "env/bad", Level: Must, Section: "CNI 1.1.0, 2 (Parameters), 5 (code 4)",
		Text:    "ADD with a container id or an interface name that cannot be one fails, and makes nothing.",
		Explain: "The id becomes a part of file names: \"../x\" leaves the folder of the store. An interface name has at most 15 bytes, no slash, colon or blank, and is neither \".\" nor \"..\".",
		Check: func(b *Bench) {
			var rows []wrong
			for _, id := range []string{"../x", "a/b", "-x", ".x", "a b", "a\nb"} {
				rows = append(rows, wrong{"CNI_CONTAINERID=" + quoted(id), func(c *Call) { c.ContainerID = id }})
			}
			for _, name := range []string{"a/b", ".", "..", "a:b", "a b", "a\tb", "sixteen-bytes-eh"} {
				rows = append(rows, wrong{"CNI_IFNAME=" + quoted(name), func(c *Call) { c.IfName = name }})
			}
			refusesEach(b, rows)
		},
	}, {
		ID: "env/netns", Level: Must, Section: "CNI 1.1.0, 2 (Parameters)", Kinds: notIPAM,
		Text:    "ADD fails, and makes nothing, when CNI_NETNS is missing, leads nowhere, or to something that is no network namespace.",
		Explain: "It must end, too: opening a FIFO waits for ever. And what was reserved before the namespace was found to be wrong must be given back.",
		Check: func(b *Bench) {
			var rows []wrong
			for _, odd := range b.odd() {
				rows = append(rows, wrong{"CNI_NETNS is " + odd[0], func(c *Call) { c.Netns = odd[1] }})
			}
			refusesEach(b, append(rows, wrong{"no CNI_NETNS", func(c *Call) { c.Netns = "" }}))
		},
	}, {
		ID: "env/own-netns", Level: Ours, Section: "CNI 1.1.0, 2 (\"isolation domain\")", Kinds: notIPAM,
		Text:    "ADD fails, and changes nothing, when CNI_NETNS is the host's own namespace.",
		Explain: "When a process id is used again, /proc/PID/ns/net is the host's: a plugin that goes on gives the node's own interfaces new addresses and routes. Compare the namespace with your own before anything else.",
		Check: func(b *Bench) {
			refusesEach(b, []wrong{{"CNI_NETNS=/proc/1/ns/net", func(c *Call) { c.Netns = "/proc/1/ns/net" }}})
		},
	}}
}

// envTaken are about those that must be taken.
func envTaken() []Requirement {
	return []Requirement{{
		ID: "env/args", Level: Must, Section: "CNI 1.1.0, 2 (CNI_ARGS)",
		Text:    "Keys of CNI_ARGS that the plugin does not know are ignored where IgnoreUnknown=1 says so.",
		Explain: "Kubernetes sends the pod's name to every plugin in this way. A plugin that refuses what it does not know fails every pod.",
		Check:   func(b *Bench) { withArgs(b, "IgnoreUnknown=1;K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;FOO=bar") },
	}, {
		ID: "env/args-bare", Level: Ours, Section: "CNI 1.1.0, 2 (CNI_ARGS)",
		Text:    "Keys of CNI_ARGS that the plugin does not know are ignored without IgnoreUnknown too.",
		Explain: "Not every runtime sends IgnoreUnknown, and a key may be for another plugin of the chain. An unknown key that fails DEL keeps the pod for ever.",
		Check:   func(b *Bench) { withArgs(b, "K8S_POD_NAME=b;FOO=bar") },
	}, {
		ID: "env/limits", Level: Must, Section: "CNI 1.1.0, 2, 3",
		Text:    "Ids of 200 bytes with dots, and an interface name of 15 bytes, work, and containers whose ids differ at the end only are told apart.",
		Explain: "A name on the host has 15 bytes and a file name 255: who cuts off what is too long has one name for two containers, and the second ADD, or the first DEL, hits the other one. Use a hash of the whole.",
		Check:   envLimits,
	}, {
		ID: "env/path", Level: Must, Section: "CNI 1.1.0, 2 (CNI_PATH: optional)",
		Text:    "A DEL without CNI_PATH succeeds where nothing was delegated.",
		Explain: "The specification wants CNI_PATH for GC alone. A DEL that insists on it cannot be made by hand when a node is to be cleaned.",
		Check: func(b *Bench) {
			if b.Kind == skel.Meta || b.ipam() != "" {
				b.Skip("the configuration has a delegate, which is found by CNI_PATH")
			}
			c := b.Container()
			before := b.Settle(c)
			b.Attach(c)
			del := c.Del()
			del.Path = ""
			b.Succeeds(del)
			b.Same(before, "after DEL without CNI_PATH", c)
		},
	}}
}

func withArgs(b *Bench, args string) {
	c := b.Container()
	before := b.Settle(c)
	c.Add.Args = args
	b.Attach(c)
	b.Succeeds(c.Del())
	b.Same(before, "after ADD and DEL with CNI_ARGS="+args, c)
}

func envLimits(b *Bench) {
	long := strings.Repeat("0123456789-_.abc", 13)[:199]
	b.Base = b.Set(b.Base, "name", quoted("n"+long))
	one, two := b.Container(), b.Container()
	for i, c := range []*Container{one, two} {
		c.Add.ContainerID = long + string(rune('1'+i))
		if b.Kind == skel.Interface {
			c.Add.IfName = "fifteen-bytes.0"
		}
	}
	b.Settle(one)
	before := b.Look(one, two)
	b.Attach(one)
	if b.single() != "" { // the second one can only come when the first has gone
		b.Succeeds(one.Del())
		b.Same(before, "after DEL of the first", one, two)
		b.Attach(two)
		b.Succeeds(two.Del())
		b.Same(before, "after DEL of the second", one, two)
		return
	}
	alone := b.Look(one)
	b.AttachAnother(two)
	b.Succeeds(two.Del())
	b.Same(alone, "after ADD and DEL of a second container, whose id differs in the last byte", one)
	b.Succeeds(one.Del())
	b.Same(before, "after DEL of both", one, two)
}

// odd lists paths that lead to no network namespace, and what they are.
func (b *Bench) odd() [][2]string {
	dir := b.TempDir()
	for _, command := range [][]string{{"sh", "-c", "echo text > " + dir + "/file"}, {"mkfifo", dir + "/fifo"}} {
		if out, err := run(command[0], command[1:]...); err != nil {
			b.Fatalf("%v: %v %s", command, err, out)
		}
	}
	return [][2]string{
		{"a path that does not exist", dir + "/nowhere"}, {"a folder", dir}, {"a file", dir + "/file"}, {"a FIFO", dir + "/fifo"},
		{"a namespace of another kind", "/proc/1/ns/uts"},
	}
}
