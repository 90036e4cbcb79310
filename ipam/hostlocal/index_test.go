package hostlocal

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// table is an index in a folder of the test's.
func table(t *testing.T) (x *index, reopen func() *index) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, indexName)
	reopen = func() *index {
		if x != nil {
			if err := x.close(); err != nil {
				t.Fatal(err)
			}
		}
		x = openIndex(dir, path)
		return x
	}
	t.Cleanup(func() { _ = x.close() }) // nothing more is written
	return reopen(), reopen
}

// Thousands of random changes, in memory and in the file, while the table grows: it knows what a map knows.
func TestIndexIsAMap(t *testing.T) {
	t.Parallel()
	x, reopen := table(t)
	rnd := rand.New(rand.NewPCG(1, 1))
	lease := map[netip.Addr]string{}
	address := func() netip.Addr {
		if rnd.IntN(4) == 0 {
			return netip.AddrFrom16([16]byte{0xfd, 14: byte(rnd.IntN(200)), 15: byte(rnd.IntN(256))}) // blocks that come and go
		}
		return netip.AddrFrom4([4]byte{10, 0, byte(rnd.IntN(6)), byte(rnd.IntN(256))})
	}
	x.trusted = true
	for i := range 20000 {
		a := address()
		switch who, taken := lease[a]; {
		case !taken && i%5000 < 4000:
			lease[a] = fmt.Sprint("c", rnd.IntN(500))
			x.add(lease[a], a, version{})
		case taken:
			delete(lease, a)
			x.remove(who, a)
		}
		if i%500 != 499 {
			continue
		}
		if err := x.finish(); err != nil {
			t.Fatal(err)
		}
		if x = reopen(); !x.trusted || x.mem != nil {
			t.Fatalf("%d: trusted %v", i, x.trusted)
		}
		same(t, x, lease)
	}
	if x.slots < 4*minSlots || x.used > x.slots/2 {
		t.Errorf("%d of %d slots: it has not grown", x.used, x.slots)
	}
	for a, who := range lease {
		x.remove(who, a)
	}
	if x.used != 0 {
		t.Errorf("%d slots of an empty table are used", x.used)
	}
}

func same(t *testing.T, x *index, lease map[netip.Addr]string) {
	t.Helper()
	by := map[string][]netip.Addr{}
	for a, who := range lease {
		by[who] = append(by[who], a)
	}
	for i := range 500 {
		who := fmt.Sprint("c", i)
		got := x.owned(who)
		slices.SortFunc(got, netip.Addr.Compare)
		slices.SortFunc(by[who], netip.Addr.Compare)
		if !slices.Equal(got, by[who]) {
			t.Fatalf("%s has %v: expected %v", who, got, by[who])
		}
	}
	for _, r := range []string{"10.0.0.0/21", "fd00::/112"} {
		p := netip.MustParsePrefix(r)
		want, taken := p.Addr(), slices.SortedFunc(maps.Keys(lease), netip.Addr.Compare)
		for _, a := range taken {
			if a == want {
				want = a.Next()
			}
		}
		if got, ok := x.free(p.Addr(), lastOf(p)); !ok || got != want {
			t.Fatalf("free in %s: %v %v: expected %v", r, got, ok, want)
		}
	}
}

// A run of taken addresses is passed over, to its end and no further.
func TestIndexFree(t *testing.T) {
	t.Parallel()
	x, _ := table(t)
	first, last := netip.MustParseAddr("10.0.0.250"), netip.MustParseAddr("10.0.3.5")
	for a := first; a.Compare(last) <= 0; a = a.Next() {
		x.take(a)
	}
	for _, c := range []struct{ from, to, want string }{
		{"10.0.0.1", "10.0.9.9", "10.0.0.1"}, {"10.0.0.250", "10.0.9.9", "10.0.3.6"}, {"10.0.1.7", "10.0.3.6", "10.0.3.6"},
		{"10.0.1.7", "10.0.3.5", ""}, {"10.0.2.0", "10.0.2.255", ""}, {"255.255.255.255", "255.255.255.255", "255.255.255.255"}, {"10.0.0.9", "10.0.0.8", ""},
		{"ffff::", "ffff::1", "ffff::"},
	} {
		got, ok := x.free(netip.MustParseAddr(c.from), netip.MustParseAddr(c.to))
		if ok != (c.want != "") || ok && got != netip.MustParseAddr(c.want) {
			t.Errorf("%s to %s: %v %v: expected %q", c.from, c.to, got, ok, c.want)
		}
	}
	x.take(netip.MustParseAddr("255.255.255.255"))
	if a, ok := x.free(netip.MustParseAddr("255.255.255.255"), netip.MustParseAddr("255.255.255.255")); ok {
		t.Error(a)
	}
}

// An index is trusted only as it was written, in the folder as it was left, in the same boot.
func TestIndexIsTrusted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(dir, path string, data []byte) error
		want bool
	}{
		{"as it was", func(string, string, []byte) error { return nil }, true},
		{"a file came and went", func(dir, _ string, _ []byte) error {
			if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
				return err
			}
			return os.Remove(filepath.Join(dir, "x"))
		}, false},
		{"written again", func(_, path string, data []byte) error { return os.WriteFile(path, data, 0o600) }, false},
		{"a file inside was written", func(dir, _ string, _ []byte) error {
			return os.WriteFile(filepath.Join(dir, "10.0.0.2"), []byte("c2"), 0o600)
		}, true}, // nobody does this: the reference plugin makes and removes files
		{"longer", func(_, path string, data []byte) error { return stamped(path, append(data, 0)) }, false},
		{"shorter", func(_, path string, data []byte) error { return stamped(path, data[:len(data)-1]) }, false},
		{"magic", func(_, path string, data []byte) error { data[0]++; return stamped(path, data) }, false},
		{"boot", func(_, path string, data []byte) error {
			data[9]++
			binary.LittleEndian.PutUint64(data[40:], sum(data[:40]))
			return stamped(path, data)
		}, false},
		{"slots", func(_, path string, data []byte) error { data[24]++; return stamped(path, data) }, false},
		{"used", func(_, path string, data []byte) error { data[32]++; return stamped(path, data) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x, reopen := table(t)
			if err := os.WriteFile(filepath.Join(x.dir, "10.0.0.2"), []byte("c1"), 0o600); err != nil {
				t.Fatal(err)
			}
			x.add("c1", netip.MustParseAddr("10.0.0.2"), version{})
			x.trusted = true
			if err := x.finish(); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(x.path)
			if err == nil {
				err = c.do(x.dir, x.path, data)
			}
			if err != nil {
				t.Fatal(err)
			}
			if x = reopen(); x.trusted != c.want {
				t.Errorf("trusted %v", x.trusted)
			}
		})
	}
}

// stamped writes a file and gives it its time back.
func stamped(path string, data []byte) error {
	info, err := os.Stat(path)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err == nil {
		err = os.Chtimes(path, time.Time{}, info.ModTime())
	}
	return err
}

// What an untrusted index says is a guess, and is written back as one.
func TestIndexUntrusted(t *testing.T) {
	t.Parallel()
	x, reopen := table(t)
	a := netip.MustParseAddr("10.0.0.2")
	x.add("c1", a, version{})
	if err := x.finish(); err != nil {
		t.Fatal(err)
	}
	if x = reopen(); x.trusted || !slices.Equal(x.owned("c1"), []netip.Addr{a}) {
		t.Errorf("trusted %v, owned %v", x.trusted, x.owned("c1"))
	}
}

// What is vouched for has a time two seconds in the past: the kernel gives what changes in the same tick of its clock the
// same time, and such a change to the folder would not be seen.
func TestIndexIsStampedInThePast(t *testing.T) {
	t.Parallel()
	x, _ := table(t)
	x.trusted = true
	if err := x.finish(); err != nil {
		t.Fatal(err)
	}
	latest := time.Now().Add(-2 * time.Second)
	for _, path := range []string{x.dir, x.path} {
		if info, err := os.Stat(path); err != nil || info.ModTime().After(latest) {
			t.Errorf("%s: %v, %v after what it may be", path, err, info.ModTime().Sub(latest))
		}
	}
}
