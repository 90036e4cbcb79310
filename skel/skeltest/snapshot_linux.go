package skeltest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Snapshot is the state of a network namespace: links with all their details, addresses, routes in all
// tables, rules, permanent neighbours, queueing disciplines with their classes and filters, the sysctls of links, and the nft
// ruleset, one line each, sorted. What changes by itself (learned neighbours, lifetimes, address detection in progress,
// counters, and the link-local address that the kernel gives a link some time after it is up) is left out.
type Snapshot []string

// everything is what ip says, which is also what a reader of a difference knows; of rules it lists those of IPv4 only. One ip
// says all: to start a program takes 3 ms, half of what the conformance tests take, and they take thousands of snapshots.
const everything = "link show\naddress show\nroute show table all\nrule show\nneighbour show nud permanent\n"

// kinds tells by the form of a line what it is about; what is none of these is a route.
var kinds = []struct {
	name string
	form *regexp.Regexp
}{
	{"link", regexp.MustCompile(`^\d+: [^ ]+: <`)},
	{"address", regexp.MustCompile(`^\d+: [^ ]+ inet6? `)},
	{"rule", regexp.MustCompile(`^\d+: (not )?from `)},
	{"neighbour", regexp.MustCompile(` PERMANENT( proto \w+)?$`)},
	{"route", regexp.MustCompile(``)},
}

// volatile is what two looks at an unchanged namespace may differ in.
var volatile = regexp.MustCompile(`\b(tentative|(valid_lft|preferred_lft|expires) \S+|state (UP|DOWN|LOWERLAYERDOWN|UNKNOWN)|linkdown|NO-CARRIER,?|,?LOWER_UP|\w+_timer +\S+|topology_change(_detected)? \S+)`)

// itself is what comes and goes by itself: the local routes that follow from the addresses when their detection is over,
// and the kernel's own link-local address, whose second half comes from the MAC, with its route; the rule that leads to the tables
// of VRFs, which the kernel makes with the first VRF of a namespace, for good: it would not make it again.
var itself = regexp.MustCompile(`\[l3mdev-table\] proto kernel|table local proto kernel| inet6 fe80::[0-9a-f]+:[0-9a-f]+:[0-9a-f]+:[0-9a-f]+/64 scope link|^unicast fe80::/64 dev \S+ .*proto kernel`)

// Snapshot takes a snapshot of the namespace.
func (n *NS) Snapshot() (s Snapshot) {
	n.t.Helper()
	err := within(n.Path, func() (err error) { s, err = snapshot(); return err })
	if err != nil {
		n.t.Fatalf("snapshot of %s: %v", n.Name, err)
	}
	return s
}

// HostSnapshot takes a snapshot of the namespace that stands for the host: the test binary's own.
func HostSnapshot(t testing.TB) Snapshot {
	t.Helper()
	NeedRoot(t)
	s, err := snapshot()
	if err != nil {
		t.Fatalf("snapshot of the host: %v", err)
	}
	return s
}

// snapshot looks at the namespace of the calling thread, which starts what it calls.
func snapshot() (s Snapshot, err error) {
	said, err := runWith(everything, "ip", "-d", "-o", "-batch", "-")
	if err != nil {
		return nil, fmt.Errorf("ip: %w %s", err, said)
	}
	if !usualRules() {
		rules, err := run("ip", "-6", "-d", "-o", "rule", "show")
		if err != nil {
			return nil, fmt.Errorf("ip -6 rule: %w %s", err, rules)
		}
		said = append(said, rules...)
	}
	for line := range strings.Lines(string(said)) {
		line = settled(line)
		if line == "" || itself.MatchString(line) {
			continue
		}
		for _, kind := range kinds {
			if kind.form.MatchString(line) {
				s = append(s, kind.name+": "+line)
				break
			}
		}
	}
	queues, err := queues()
	if err != nil {
		return nil, err
	}
	s = append(s, queues...)
	sysctls, err := sysctls()
	if err != nil {
		return nil, err
	}
	s = append(s, sysctls...)
	if anyTable() {
		ruleset, err := run("nft", "--stateless", "list", "ruleset")
		if err != nil {
			return nil, fmt.Errorf("nft list ruleset: %w %s", err, ruleset)
		}
		for line := range strings.Lines(string(ruleset)) {
			if line = settled(line); line != "" {
				s = append(s, "nft: "+line)
			}
		}
	}
	slices.Sort(s)
	return s, nil
}

// usualRules tells whether the rules of IPv6 are the two that a new namespace has: they are left out then.
func usualRules() bool {
	rules, err := netlink.RuleList(netlink.FAMILY_V6)
	rules = slices.DeleteFunc(rules, func(r netlink.Rule) bool { // that of VRFs, see itself
		return r.Priority == 1000 && r.Table == unix.RT_TABLE_UNSPEC && r.Protocol == unix.RTPROT_KERNEL
	})
	if err != nil || len(rules) != 2 {
		return false // what ip says of it is shown
	}
	for i, usual := range []struct{ priority, table int }{{0, unix.RT_TABLE_LOCAL}, {32766, unix.RT_TABLE_MAIN}} {
		r := netlink.NewRule()
		r.Priority, r.Table, r.Family = usual.priority, usual.table, netlink.FAMILY_V6
		if r.String() != rules[i].String() || rules[i].IifName+rules[i].OifName != "" || rules[i].Mark != 0 || rules[i].Invert {
			return false
		}
	}
	return true
}

// anyTable tells whether nftables has one, of any family, without which it has nothing; also when it cannot be told.
func anyTable() bool {
	const getTable = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETTABLE
	request := nl.NewNetlinkRequest(getTable, unix.NLM_F_DUMP)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_UNSPEC, Version: unix.NFNETLINK_V0})
	tables, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	return err != nil || len(tables) > 0
}

// settled is a line without what is volatile, and with single blanks.
func settled(line string) string {
	return strings.Join(strings.Fields(volatile.ReplaceAllString(line, "")), " ")
}

// Diff says what has changed from s to now, a line each: "-" for what is gone, "+" for what is new. It
// is empty if nothing has.
func (s Snapshot) Diff(now Snapshot) string {
	var out strings.Builder
	lines := func(sign string, of, in Snapshot) {
		left := slices.Clone(in)
		for _, line := range of {
			if i := slices.Index(left, line); i >= 0 {
				left = slices.Delete(left, i, i+1)
			} else {
				out.WriteString(sign + " " + line + "\n")
			}
		}
	}
	lines("-", s, now)
	lines("+", now, s)
	return out.String()
}
