package skeltest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a folder of the state holds is seen to change, whatever it is and wherever it differs.
func TestLookSeesEachChangeOfTheState(t *testing.T) {
	NeedRoot(t)
	long := strings.Repeat("x", 300)
	for name, change := range map[string]func(dir string) error{
		"the end of a long file":    func(dir string) error { return os.WriteFile(dir+"/file", []byte(long[1:]+"y"), 0o600) },
		"the length of a long file": func(dir string) error { return os.WriteFile(dir+"/file", []byte(long+"x"), 0o600) },
		"an empty folder":           func(dir string) error { return os.Mkdir(dir+"/folder", 0o700) },
		"a symbolic link":           func(dir string) error { return os.Symlink("nowhere", dir+"/link") },
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte(long), 0o600); err != nil {
				t.Fatal(err)
			}
			b := &Bench{Target: Target{State: []string{dir}, Volatile: regexp.MustCompile("^$")}}
			before := b.Look()
			if diff := before.Diff(b.Look()); diff != "" {
				t.Fatalf("nothing was changed:\n%s", diff)
			}
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			if before.Diff(b.Look()) == "" {
				t.Error("no difference is seen")
			}
		})
	}
}

// A filter that is left on a queueing discipline of somebody else's is seen: the discipline is as it was.
func TestSnapshotSeesFilters(t *testing.T) {
	ns := NewNS(t)
	ns.Run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "a1")
	for _, test := range []struct{ qdisc, filter string }{
		{"clsact", "dev a0 ingress"}, {"clsact", "dev a0 egress"}, {"ingress", "dev a0 parent ffff:"},
	} {
		if out, err := ns.Try("tc", "qdisc", "add", "dev", "a0", test.qdisc); err != nil && strings.Contains(err.Error(), "qdisc kind is unknown") {
			continue // the kernel has no such thing to be seen
		} else if err != nil {
			t.Fatalf("%s: %v %s", test.qdisc, err, out)
		}
		before := ns.Snapshot()
		ns.Run("tc", strings.Fields("filter add "+test.filter+" protocol ip priority 7 u32 match u32 0 0")...)
		if diff := before.Diff(ns.Snapshot()); !strings.Contains(diff, "+ filter: u32 dev a0 parent ffff:") || !strings.Contains(diff, "priority 7") || strings.Contains(diff, "- ") {
			t.Errorf("%s, %s: the difference is %q", test.qdisc, test.filter, diff)
		}
		ns.Run("tc", strings.Fields("filter del "+test.filter+" priority 7")...)
		if diff := before.Diff(ns.Snapshot()); diff != "" {
			t.Errorf("%s, %s: not forgotten: %s", test.qdisc, test.filter, diff)
		}
		ns.Run("tc", "qdisc", "del", "dev", "a0", test.qdisc)
	}
}

// So is one that is left on a class of somebody else's, and the class.
func TestSnapshotSeesClassesAndTheirFilters(t *testing.T) {
	ns := NewNS(t)
	ns.Run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "a1")
	if out, err := ns.Try("tc", strings.Fields("qdisc add dev a0 root handle 1: htb")...); err != nil && strings.Contains(err.Error(), "qdisc kind is unknown") {
		t.Skip("the kernel has no htb, and so no classes")
	} else if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	ns.Run("tc", strings.Fields("class add dev a0 parent 1: classid 1:1 htb rate 100mbit")...)
	before := ns.Snapshot()
	for _, change := range []struct{ do, undo, seen string }{
		{"class add dev a0 parent 1:1 classid 1:2 htb rate 10mbit", "class del dev a0 classid 1:2", "+ class: htb dev a0 parent 1:1 classid 1:2\n"},
		{"filter add dev a0 parent 1:1 protocol ip priority 7 u32 match u32 0 0", "filter del dev a0 parent 1:1 priority 7", "+ filter: u32 dev a0 parent 1:1 priority 7\n"},
	} {
		ns.Run("tc", strings.Fields(change.do)...)
		if diff := before.Diff(ns.Snapshot()); !strings.Contains(diff, change.seen) || strings.Contains(diff, "- ") {
			t.Errorf("%s: the difference is %q", change.do, diff)
		}
		ns.Run("tc", strings.Fields(change.undo)...)
		if diff := before.Diff(ns.Snapshot()); diff != "" {
			t.Errorf("%s: not forgotten: %s", change.undo, diff)
		}
	}
}

// Each sysctl of a link that can be written is seen when it changes, under its name; what is of all links is not.
func TestSnapshotSeesSysctls(t *testing.T) {
	ns := NewNS(t)
	ns.Run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "a1")
	inside := func(f func() error) error { return within(ns.Path, f) }
	look := func() (s Snapshot) { // without a program, which takes its time in a guest
		t.Helper()
		if err := inside(func() (err error) { s, err = sysctls(); return err }); err != nil {
			t.Fatal(err)
		}
		return s
	}
	read := func(path string) (string, error) {
		var text []byte
		err := inside(func() (err error) { text, err = os.ReadFile("/proc/sys/net/" + path); return err })
		return strings.TrimSpace(string(text)), err
	}
	write := func(path, value string) error {
		return inside(func() error { return os.WriteFile("/proc/sys/net/"+path, []byte(value), 0) })
	}
	for family, all := range map[string][]sysctl{"ipv4": sysctls4, "ipv6": sysctls6} {
		seen, before := 0, look()
		for _, s := range all {
			path, other := family+"/conf/a0/"+s.name, "1"
			was, err := read(path)
			if s.name == "" || err != nil {
				continue // left out; not in this kernel
			}
			if was == "1" {
				other = "0"
			}
			if write(path, other) != nil {
				continue // only the kernel writes it
			}
			seen++
			if now, err := read(path); err != nil || now == was {
				t.Errorf("%s is %s, and stays so: %v", path, was, err)
			}
			if diff := before.Diff(look()); !strings.Contains(diff, " sysctl: net."+family+".conf.a0."+s.name+" = ") || strings.Count(diff, "\n") > 2 {
				t.Errorf("%s from %s to %s: the difference is %q", path, was, other, diff)
			}
			if err := write(path, was); err != nil {
				t.Error(err)
			}
			if diff := before.Diff(look()); diff != "" {
				t.Errorf("%s: not forgotten: %s", path, diff)
			}
		}
		if seen < 25 {
			t.Errorf("of %s only %d could be written", family, seen)
		}
		if err := write(family+"/conf/all/forwarding", "1"); err != nil {
			t.Fatal(err)
		}
		if diff := before.Diff(look()); diff != "" {
			t.Errorf("forwarding of all links: %s", diff)
		}
	}
	before := ns.Snapshot()
	if err := write("ipv4/conf/a0/arp_filter", "1"); err != nil {
		t.Fatal(err)
	}
	if diff := before.Diff(ns.Snapshot()); diff != "+ sysctl: net.ipv4.conf.a0.arp_filter = 1\n" {
		t.Errorf("of the whole: %q", diff)
	}
}

// The kernel makes a rule with the first VRF of a namespace, and never takes it away. No DEL left it. With it the rules of IPv6 were
// listed that a snapshot leaves out otherwise; what else becomes of them is seen as before.
func TestSnapshotWithTheRuleOfVRFs(t *testing.T) {
	NeedRoot(t)
	ns := NewNS(t)
	before := ns.Snapshot()
	ns.Run("sh", "-ec", "ip rule add l3mdev pref 1000 protocol kernel; ip -6 rule add l3mdev pref 1000 protocol kernel")
	if diff := before.Diff(ns.Snapshot()); diff != "" {
		t.Errorf("the kernel's own rule: %s", diff)
	}
	ns.Run("ip", "-6", "rule", "add", "from", "fd00::1", "lookup", "77")
	if diff := before.Diff(ns.Snapshot()); !strings.Contains(diff, "lookup 77") {
		t.Errorf("a rule of IPv6 beside it: %s", diff)
	}
}
