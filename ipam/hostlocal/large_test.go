package hostlocal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/ipam/hostlocal"
	"github.com/cnikit/cnikit/netconf"
)

// unseen puts an empty file into a store without changing its time: who reads all leases frees it, and who does not
// leaves it. It tells one from the other.
func unseen(t *testing.T, dir string) (wasSeen func() bool) {
	t.Helper()
	folder := filepath.Join(dir, "net")
	path := filepath.Join(folder, "192.0.2.1")
	info, err := os.Stat(folder)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, "")
	if err := os.Chtimes(folder, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	return func() bool {
		t.Helper()
		_, err := os.Stat(path)
		info, statErr := os.Stat(folder)
		if statErr != nil {
			t.Fatal(statErr)
		}
		if err == nil {
			err = errors.Join(os.Remove(path), os.Chtimes(folder, info.ModTime(), info.ModTime()))
		} else if os.IsNotExist(err) {
			return true
		}
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
}

// foreign makes a lease as the reference plugin would.
func foreign(t *testing.T, dir, address, id string) {
	t.Helper()
	write(t, filepath.Join(dir, "net", address), id+"\r\neth0")
	write(t, filepath.Join(dir, "net", "last_reserved_ip.0"), address)
}

// with is the call with an address in its prevResult.
func (c call) with(address string) call {
	c.config = strings.Replace(c.config, `"name"`, `"prevResult":{"cniVersion":"1.1.0","ips":[{"address":"`+address+`/22"}]},"name"`, 1)
	return c
}

// Which calls read all leases of a large store: none where the index is complete; where it is not, those that cannot
// know otherwise, once.
func TestLargeStore(t *testing.T) {
	t.Parallel()
	in := call{dir: full(t, 700), config: config(`"subnet":"10.0.0.0/22"`)}
	reads := func(want bool, what string, f func()) {
		t.Helper()
		seen := unseen(t, in.dir)
		f()
		if seen() != want {
			t.Errorf("%s: all leases were read: %v", what, !want)
		}
	}
	id := func(n int) call { c := in; c.id = fmt.Sprintf("%064x", n); return c } // of those that were there before
	named := func(name string) call { c := in; c.id = name; return c }

	reads(false, "the first ADD", func() {
		if a := named("a").add(t); a != "10.0.2.190" {
			t.Error(a)
		}
	})
	reads(false, "STATUS", func() { in.ok(t, netconf.Status) })
	reads(false, "DEL with a prevResult", func() { id(5).with("10.0.0.7").ok(t, netconf.Del) })
	reads(false, "CHECK with a prevResult", func() { id(6).with("10.0.0.8").ok(t, netconf.Check) })
	reads(false, "DEL of what ADD has just given", func() { named("a").ok(t, netconf.Del) })
	reads(true, "DEL with another's address in the prevResult", func() { named("none").with("10.0.0.8").ok(t, netconf.Del) })
	if n := len(store(t, in.dir)); n != 699 {
		t.Fatalf("%d leases", n)
	}
	// Now it is complete.
	named("b").ok(t, netconf.Del)
	reads(false, "DEL that finds nothing", func() { named("none").ok(t, netconf.Del) })
	reads(false, "CHECK", func() { id(7).ok(t, netconf.Check) })
	reads(false, "a second ADD", func() { id(7).fails(t, netconf.Add, netconf.CodeExists, "10.0.0.9") })
	reads(false, "DEL", func() { id(7).ok(t, netconf.Del) })
	reads(false, "STATUS", func() { in.ok(t, netconf.Status) })
	reads(false, "DEL that finds nothing, after STATUS", func() { named("none").ok(t, netconf.Del) })

	// Somebody else takes the next two hundred addresses.
	for i := range 200 {
		foreign(t, in.dir, fmt.Sprintf("10.0.%d.%d", 2+(192+i)/256, (192+i)%256), fmt.Sprint("f", i))
	}
	write(t, filepath.Join(in.dir, "net", "last_reserved_ip.0"), "10.0.2.191")
	reads(false, "ADD", func() {
		c, operations := named("c"), 0
		c.verb = netconf.Add
		ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
			if op != "index write" {
				operations++
			}
			return nil
		})
		result, err := plugin().Call(ctx, c.request(t))
		if err != nil || result.IPs[0].Address.IP.String() != "10.0.3.136" {
			t.Errorf("%v, %v: expected the first behind the 200", result, err)
		}
		if operations > 100 {
			t.Errorf("%d operations: each of the 200 was tried", operations)
		}
	})
	reads(false, "STATUS", func() { in.ok(t, netconf.Status) })
	reads(true, "DEL of what the index does not know", func() { named("f7").ok(t, netconf.Del) })
	named("none").ok(t, netconf.Del)
	reads(false, "DEL that finds nothing", func() { named("none").ok(t, netconf.Del) })
	if n := len(store(t, in.dir)); n != 898 {
		t.Errorf("%d leases", n)
	}
}

// A large store that is full but for what the reference plugin has freed meanwhile: the index says that all is taken, and is
// not believed.
func TestLargeStoreIsFull(t *testing.T) {
	t.Parallel()
	in := call{dir: full(t, 508), config: config(`"subnet":"10.0.0.0/23","gateway":"10.0.0.1"`), id: "a"}
	if a := in.add(t); a != "10.0.1.254" {
		t.Fatal(a)
	}
	in.id = "b"
	in.fails(t, netconf.Add, netconf.CodeExhausted, "10.0.0.1-10.0.1.254")
	for range 2 { // a pod that is tried again and again does not cost a look at all leases each time
		seen := unseen(t, in.dir)
		in.fails(t, netconf.Add, netconf.CodeExhausted, "10.0.0.1-10.0.1.254")
		in.ok(t, netconf.Del)
		if seen() {
			t.Error("all leases were read")
		}
	}
	if err := os.Remove(filepath.Join(in.dir, "net", "10.0.1.7")); err != nil {
		t.Fatal(err)
	}
	in.ok(t, netconf.Status)
	if a := in.add(t); a != "10.0.1.7" {
		t.Error(a)
	}
	in.id = "c"
	in.fails(t, netconf.Status, netconf.CodePluginNotAvailable, hostlocal.ErrExhausted.Error())
	write(t, filepath.Join(in.dir, "net", "10.0.1.7"), "") // killed while it wrote
	write(t, filepath.Join(in.dir, "net", "new"), "")
	if a := in.add(t); a != "10.0.1.7" {
		t.Error(a)
	}
}

// The index of a large store says of an address that it is free, and the reference plugin has given it meanwhile.
func TestLargeStoreIsFilledByOthers(t *testing.T) {
	t.Parallel()
	in := call{dir: full(t, 509), config: config(`"subnet":"10.0.0.0/23"`), id: "none"}
	in.ok(t, netconf.Del) // the index is complete
	mine := in
	mine.id = fmt.Sprintf("%064x", 100)
	mine.ok(t, netconf.Del)
	foreign(t, in.dir, "10.0.0.102", "f")
	in.fails(t, netconf.Status, netconf.CodePluginNotAvailable, "no address is free")
	in.fails(t, netconf.Add, netconf.CodeExhausted, "no address is free")
}

// A prevResult that names one of an attachment's two addresses does not hide the other one.
func TestLargeStoreAndHalfAPrevResult(t *testing.T) {
	t.Parallel()
	keys := `"ranges":[[{"subnet":"10.0.0.0/22"}],[{"subnet":"fd00::/64"}]]`
	in := call{dir: full(t, 400), config: config(keys), id: "f"}.with("10.0.3.9")
	foreign(t, in.dir, "10.0.3.9", "f")
	foreign(t, in.dir, "fd00::9", "f")
	in.ok(t, netconf.Del)
	if n := len(store(t, in.dir)); n != 400 {
		t.Errorf("%d leases: expected 400", n)
	}
}

// rewrite does what nobody does: other words in the same file, at the same time. Who reads it sees them.
func rewrite(t *testing.T, dir, name, id string) {
	t.Helper()
	path := filepath.Join(dir, "net", name)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, id+"\r\neth0")
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// What is in the index is not read again when that is made anew, and what has changed since is: the same address for another, in a file
// that has got the inode of the old one, perhaps.
func TestLeasesAreReadOnce(t *testing.T) {
	t.Parallel()
	in := call{dir: full(t, 400), config: config(`"subnet":"10.0.0.0/22"`)}
	folder := filepath.Join(in.dir, "net")
	old := time.Now().Add(-time.Hour)
	for _, line := range store(t, in.dir) {
		name, _, _ := strings.Cut(line, " ")
		if err := os.Chtimes(filepath.Join(folder, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	foreign(t, in.dir, "10.0.3.3", "young") // a moment ago: another file could have the same time
	in.ok(t, netconf.Del)
	in.id = "mine"
	mine := in.add(t)
	if info, err := os.Stat(filepath.Join(folder, mine)); err != nil || info.ModTime().After(time.Now().Add(-time.Second)) {
		t.Errorf("%v: a lease of ours has a time that a file of the reference plugin's can have too", err)
	}
	rewrite := func(name, id string) { t.Helper(); rewrite(t, in.dir, name, id) }
	rewrite("10.0.0.7", "hidden")
	rewrite(mine, "hidden")
	rewrite("10.0.3.3", "grown")
	for _, name := range []string{"10.0.0.8", "10.0.0.9"} { // what the reference plugin does
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
		foreign(t, in.dir, name, "f"+name)
	}
	for id, found := range map[string]bool{"hidden": false, "grown": true, "f10.0.0.8": true, "f10.0.0.9": true} {
		in.id, in.verb = id, netconf.Check
		if _, err := in.serve(t); (err == nil) != found {
			t.Errorf("%s: found %v: %v", id, !found, err)
		}
	}
	in.id = fmt.Sprintf("%064x", 9) // had 10.0.0.11
	in.ok(t, netconf.Check)
	in.id = fmt.Sprintf("%064x", 6) // had 10.0.0.8
	in.fails(t, netconf.Check, netconf.CodeDifferent, "no address")
}

// A lease that was changed by hand, which the time of the folder does not tell, is seen where the index is held against
// it, and then the index is made anew.
func TestIndexIsWrong(t *testing.T) {
	t.Parallel()
	in := call{dir: t.TempDir()}
	for _, change := range []func(t *testing.T, dir, name, id string){rewrite, func(t *testing.T, dir, name, id string) {
		write(t, filepath.Join(dir, "net", name), id+"\r\neth0")
	}} {
		in.id = "c1"
		change(t, in.dir, in.add(t), "c2")
		in.fails(t, netconf.Check, netconf.CodeDifferent, "no address")
		in.id = "c2"
		in.ok(t, netconf.Check)
		in.ok(t, netconf.Del)
		has(t, in.dir)
	}
}

// What is not known to be there before an ADD has looked must not be taken away after it: such an error says that nothing was
// changed.
func TestSecondAddIsHarmedWhileItLooks(t *testing.T) {
	t.Parallel()
	for name, harm := range harms {
		if name == "kill" {
			continue // says nothing
		}
		in := call{dir: t.TempDir(), verb: netconf.Add}
		in.add(t)
		live := store(t, in.dir)
		write(t, filepath.Join(in.dir, "net", "10.0.0.5"), "")
		write(t, filepath.Join(in.dir, "net", "last_reserved_ip.cnikit-new"), "")
		for n := 1; n <= 2; n++ {
			if _, hit, err := in.struck(t, n, harm); !hit || !netconf.IsUnchanged(err) {
				t.Errorf("%s at %d: hit %v, %v", name, n, hit, err)
			}
		}
		in.ok(t, netconf.Check)
		has(t, in.dir, live...)
	}
}

// The address given last is read back as it was written, whatever stood in the file before.
func TestLastAddress(t *testing.T) {
	t.Parallel()
	in := call{dir: t.TempDir(), config: config(`"subnet":"10.0.0.0/24"`)}
	for i, before := range []string{"10.0.0.253", "10.0.0.254", "garbage that is longer than an address", ""} {
		write(t, filepath.Join(in.dir, "net", "last_reserved_ip.0"), before)
		in.id = fmt.Sprint(i)
		want := in.add(t)
		if got, err := os.ReadFile(filepath.Join(in.dir, "net", "last_reserved_ip.0")); err != nil || string(got) != want {
			t.Errorf("after %q: %q, %v: expected %q", before, got, err, want)
		}
	}
}
