package skeltest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Snapshot is the state of a network namespace: links with all their details, addresses, routes in all
// tables, rules, permanent neighbours and the nft ruleset, one line each, sorted. What changes by itself
// (learned neighbours, lifetimes, address detection in progress, counters) is left out.
type Snapshot []string

// snapshotCommands are what ip and nft say, which is also what a reader of a difference knows.
var snapshotCommands = [][]string{
	{"link", "ip", "-d", "-o", "link"},
	{"address", "ip", "-o", "address"},
	{"route", "ip", "-4", "-d", "-o", "route", "show", "table", "all"},
	{"route", "ip", "-6", "-d", "-o", "route", "show", "table", "all"},
	{"rule", "ip", "-4", "rule"},
	{"rule", "ip", "-6", "rule"},
	{"neighbour", "ip", "-o", "neighbour", "show", "nud", "permanent"},
	{"nft", "nft", "--stateless", "list", "ruleset"},
}

// volatile is what two looks at an unchanged namespace may differ in.
var volatile = regexp.MustCompile(`\b(tentative|(valid_lft|preferred_lft|expires) \S+|state (UP|DOWN|LOWERLAYERDOWN|UNKNOWN)|linkdown|NO-CARRIER,?|,?LOWER_UP|\w+_timer +\S+|topology_change(_detected)? \S+)`)

// Snapshot takes a snapshot of the namespace.
func (n *NS) Snapshot() Snapshot {
	n.t.Helper()
	return snapshot(n.t, n.Run)
}

// HostSnapshot takes a snapshot of the namespace that stands for the host: the test binary's own.
func HostSnapshot(t testing.TB) Snapshot {
	t.Helper()
	return snapshot(t, func(name string, args ...string) string { return Host(t, name, args...) })
}

func snapshot(t testing.TB, run func(string, ...string) string) Snapshot {
	t.Helper()
	var s Snapshot
	for _, c := range snapshotCommands {
		for line := range strings.Lines(run(c[1], c[2:]...)) {
			line = strings.Join(strings.Fields(volatile.ReplaceAllString(line, "")), " ")
			if line != "" && !strings.Contains(line, "table local proto kernel") { // follows from the addresses, when their detection is over
				s = append(s, c[0]+": "+line)
			}
		}
	}
	slices.Sort(s)
	return s
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
