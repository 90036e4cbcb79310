package skeltest

import (
	"slices"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// ipamRequirements are about an IPAM plugin that does not work as it should.
func ipamRequirements() []Requirement {
	const section = "CNI 1.1.0, 4 (Plugin delegation)"
	return []Requirement{{
		ID: "ipam/fails", Level: Must, Section: section, Kinds: makers,
		Text:    "ADD whose IPAM plugin fails says so, leaves nothing, and has called the IPAM plugin's DEL; then ADD works.",
		Explain: "A link that stays makes every retry fail with \"file exists\", until somebody deletes the pod's sandbox. A lease that stays is lost, for an IPAM plugin may fail after it took one. Take back all that this call has made, whatever failed.",
		Check:   ipamFails,
	}, {
		ID: "ipam/nonsense", Level: Ours, Section: section + ", 5 (Success)", Kinds: makers,
		Text:    "ADD whose IPAM plugin answers what is no result fails with an error document, leaves nothing, and has called DEL.",
		Explain: "Half an answer that is believed gives a pod without an address, or with one that nobody can route, and no error anywhere. Look at the answer before anything is made of it: one document, a result, addresses with a prefix.",
		Check:   ipamNonsense,
	}, {
		ID: "ipam/del-fails", Level: Must, Section: section + ", 2 (DEL)", Kinds: makers,
		Text:    "DEL whose IPAM plugin fails takes the link away all the same, and fails; DEL once more mends it.",
		Explain: "DEL goes on after an error, and returns it in the end: a success would mean that nobody ever asks again, and the address stays taken. A link that waits for the IPAM plugin keeps a dead address alive on the network.",
		Check:   ipamDelFails,
	}}
}

func ipamFails(b *Bench) {
	ipam := b.WithIPAM()
	c := b.Container()
	before := b.Settle(c)
	ipam.Fail("ADD") // which has taken an address by then
	b.Fails(c.Add, "its IPAM plugin failed")
	ipamGone(b, ipam, before, c, "ADD whose IPAM plugin failed")
	ipam.Heal()
	b.Attach(c)
	b.Succeeds(c.Del())
	b.Same(before, "after ADD and DEL once more", c)
}

// ipamGone looks for what an ADD that failed has left.
func ipamGone(b *Bench, ipam *IPAM, before Snapshot, c *Container, when string) {
	b.Helper()
	if left := ipam.Reserved(); len(left) > 0 {
		b.Errorf("after %s: the IPAM plugin's DEL was not called: reserved is %q", when, left)
	}
	b.Same(before, "after "+when, c)
}

// answer is what an IPAM plugin prints, and its exit status, "" for 0.
type answer struct{ what, text, exit string }

// nonsense lists answers of an IPAM plugin that are no result. It is no variable: the last of them would be made at each
// start of a test binary.
func nonsense() []answer {
	return []answer{
		{"what is not JSON", `10.1.0.2/24`, ""},
		{"nothing", ``, ""},
		{"half a document", `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2/24"`, ""},
		{"two documents", `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2/24"}]} {"cniVersion":"1.0.0","ips":[{"address":"10.1.0.3/24"}]}`, ""},
		{"an empty list of addresses", `{"cniVersion":"1.0.0","ips":[]}`, ""},
		{"a list in the place of a result", `["10.1.0.2/24"]`, ""},
		{"an address without a prefix", `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2"}]}`, ""},
		{"an address mapped into IPv6", `{"cniVersion":"1.0.0","ips":[{"address":"::ffff:10.1.0.2/120"}]}`, ""},
		{"an address that no host can have", `{"cniVersion":"1.0.0","ips":[{"address":"0.0.0.0/0"}]}`, ""},
		{"a gateway of the other family", `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2/24","gateway":"fd00:1::1"}]}`, ""},
		{"an interface that is out of range", `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2/24","interface":7}]}`, ""},
		{"a cniVersion that does not exist", `{"cniVersion":"9.9.9","ips":[{"address":"10.1.0.2/24"}]}`, ""},
		{"an error document, with exit status 0", `{"cniVersion":"1.0.0","code":11,"msg":"try again"}`, ""},
		{"nothing, with exit status 1", ``, "1"},
		{"a result, with exit status 1", `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2/24"}]}`, "1"},
		{"17 MB", `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2/24"}],"x":"` + strings.Repeat("x", 17<<20) + `"}`, ""},
	}
}

func ipamNonsense(b *Bench) {
	ipam := b.WithIPAM()
	c := b.Container()
	before := b.Settle(c)
	for _, n := range nonsense() {
		ipam.Answer(n.text)
		ipam.Exit(n.exit)
		what := "an answer of its IPAM plugin that is " + n.what
		if a := b.Run(c.Add); a.Exit == 0 {
			b.Errorf("ADD succeeded after %s: %.200s", what, a.Stdout)
			b.Run(c.Del())
		} else {
			b.explained(a, what+": ADD")
		}
		if left := ipam.Reserved(); len(left) > 0 {
			b.Errorf("after %s: the IPAM plugin's DEL was not called: reserved is %q", what, left)
			b.Run(c.Del())
		}
		b.Same(before, "after "+what, c)
	}
}

func ipamDelFails(b *Bench) {
	ipam := b.WithIPAM()
	c := b.Container()
	before := b.Settle(c)
	b.Attach(c)
	ipam.Fail("DEL")
	b.Fails(c.Del(), "its IPAM plugin's DEL failed")
	if calls := ipam.Calls(); !slices.Contains(calls, string(netconf.Del)) {
		b.Errorf("the IPAM plugin was called with %q only", calls)
	}
	// What it has written down it may need again, for DEL once more.
	b.same(withoutState(before, c).Diff(withoutState(b.Look(c), c)), "after a DEL whose IPAM plugin failed")
	ipam.Heal()
	b.Succeeds(c.Del())
	if left := ipam.Reserved(); len(left) > 0 {
		b.Errorf("after DEL once more: reserved is %q", left)
	}
	b.Same(before, "after DEL once more", c)
}
