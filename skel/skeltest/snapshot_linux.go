package skeltest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Snapshot is the state of a network namespace: links with all their details, addresses, routes in all
// tables, rules, permanent neighbours and the nft ruleset, one line each, sorted. What changes by itself
// (learned neighbours, lifetimes, address detection in progress, counters, and the link-local address that the kernel
// gives a link some time after it is up) is left out.
type Snapshot []string

// What ip and nft say, which is also what a reader of a difference knows. One ip says all of a family: to start one for
// each kind is three times as slow, and the tests of faults take hundreds of snapshots.
const (
	ipv4 = "link show\naddress show\nroute show table all\nrule show\nneighbour show nud permanent\n"
	ipv6 = "address show\nroute show table all\nrule show\nneighbour show nud permanent\n"
)

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
// and the kernel's own link-local address, whose second half comes from the MAC, with its route.
var itself = regexp.MustCompile(`table local proto kernel| inet6 fe80::[0-9a-f]+:[0-9a-f]+:[0-9a-f]+:[0-9a-f]+/64 scope link|^unicast fe80::/64 dev \S+ .*proto kernel`)

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
	dir := t.TempDir()
	var s Snapshot
	for family, commands := range map[string]string{"-4": ipv4, "-6": ipv6} {
		batch := filepath.Join(dir, family)
		if err := os.WriteFile(batch, []byte(commands), 0o600); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(run("ip", family, "-d", "-o", "-batch", batch)) {
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
	}
	for line := range strings.Lines(run("nft", "--stateless", "list", "ruleset")) {
		if line = settled(line); line != "" {
			s = append(s, "nft: "+line)
		}
	}
	slices.Sort(s)
	return s
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
