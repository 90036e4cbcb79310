package hostlocal_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/ipam/hostlocal"
	"github.com/cnikit/cnikit/netconf"
)

// killed is what a process that is killed in the middle of a call leaves: nothing of it runs after the operation. (A
// panic runs deferred calls alone, which close files, as the kernel does.)
type killed struct{}

// struck makes a call that is harmed at its n-th operation; hit tells whether it had so many.
func (c call) struck(t *testing.T, n int, harm func(cancel func()) error) (got []string, hit bool, err error) {
	t.Helper()
	req := c.request(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count := 0
	ctx = netconf.WithFault(ctx, func(_ context.Context, op string) error {
		if count++; count != n {
			return nil
		}
		hit = true
		if op != "index write" {
			return harm(cancel)
		}
		_ = harm(func() {}) // a kill does not come back; else the next operation is harmed: no call fails for its index
		hit, count = false, n-1
		return nil
	})
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			err = errors.New("killed")
		}
	}()
	result, err := delegate.InProcess{Type: "host-local", Do: func(ctx context.Context, req *netconf.Request) (err error) {
		defer func() { // InProcess makes an error of a panic
			if r := recover(); r != nil {
				err = errors.New("killed")
			}
		}()
		return hostlocal.InProcess().Do(ctx, req)
	}}.Call(ctx, req)
	if err == nil && result != nil {
		for _, ip := range result.IPs {
			got = append(got, ip.Address.IP.String())
		}
	}
	return got, hit, err
}

var harms = map[string]func(cancel func()) error{
	"fail":      func(func()) error { return errors.New("injected") },
	"full disk": func(func()) error { return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC} },
	"cancel":    func(cancel func()) error { cancel(); return context.Canceled },
	"kill":      func(func()) error { panic(killed{}) },
}

// world is a store and what a simple map says of it.
type world struct {
	in    call
	rnd   *rand.Rand
	lease map[string]string // address to "ID IFNAME"
	log   []string
}

func (w *world) path(name string) string { return filepath.Join(w.in.dir, "net", name) }

func (w *world) of(who string) (found []string) {
	for a, o := range w.lease {
		if o == who {
			found = append(found, a)
		}
	}
	return found
}

func (w *world) drop(who string) {
	maps.DeleteFunc(w.lease, func(_, o string) bool { return o == who })
}

// look holds the files against the map. Empty files are no leases.
func (w *world) look(t *testing.T) {
	t.Helper()
	var got, want []string
	for _, line := range store(t, w.in.dir) {
		if _, who, _ := strings.Cut(line, " "); who != "" {
			got = append(got, line)
		}
	}
	for a, who := range w.lease {
		want = append(want, a+" "+who)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("store %q\nexpected %q\nafter\n%s", got, want, strings.Join(w.log[max(0, len(w.log)-12):], "\n"))
	}
}

// step makes one random call, or does what others do to a store.
func (w *world) step(t *testing.T) {
	t.Helper()
	c := w.in
	c.id, c.ifname = fmt.Sprint("c", w.rnd.IntN(9)), []string{"eth0", "net1"}[w.rnd.IntN(2)]
	who := c.id + " " + c.ifname
	names := slices.Sorted(maps.Keys(harms))
	name, n := "none", 0
	if w.rnd.IntN(2) == 0 {
		name, n = names[w.rnd.IntN(len(names))], 1+w.rnd.IntN(25)
	}
	note := func(format string, args ...any) {
		w.log = append(w.log, fmt.Sprintf(format, args...)+fmt.Sprintf(" (%s at %d)", name, n))
	}
	switch w.rnd.IntN(10) {
	case 0, 1, 2, 3:
		w.add(t, c, name, n, note)
	case 4, 5:
		c.verb = netconf.Del
		_, hit, err := c.struck(t, n, harms[name])
		note("DEL %s: %v", who, err)
		if err != nil && !hit {
			t.Fatal(err)
		}
		if err != nil { // again, until it succeeds
			if _, _, err := c.struck(t, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		w.drop(who)
	case 6:
		live := slices.Sorted(maps.Values(w.lease))
		if live = slices.Compact(live); len(live) > 0 {
			i := w.rnd.IntN(len(live))
			who := live[i]
			live = slices.Delete(live, i, i+1)
			w.drop(who)
		}
		note("GC but %q", live)
		w.gc(t, live, n, harms[name])
	case 7:
		c.verb = netconf.Check
		_, hit, err := c.struck(t, n, harms[name])
		if note("CHECK %s: %v", who, err); !hit && (err == nil) != (len(w.of(who)) == 2) {
			t.Fatalf("%v, %s has %v", err, who, w.of(who))
		}
	case 8:
		w.foreign(t, who, note)
	case 9:
		w.harmFiles(t, note)
	}
	w.look(t)
}

// add makes an ADD that is harmed in the named way at its n-th operation.
func (w *world) add(t *testing.T, c call, name string, n int, note func(string, ...any)) {
	t.Helper()
	who := c.id + " " + c.ifname
	had := w.of(who)
	c.verb = netconf.Add
	got, hit, err := c.struck(t, n, harms[name])
	note("ADD %s: %v %v", who, got, err)
	switch {
	case err == nil && len(had) == 0 && len(got) == 2:
		w.lease[got[0]], w.lease[got[1]] = who, who
	case err == nil:
		t.Fatalf("%s has %v, and got %v", who, had, got)
	case hit && len(had) == 0 && name == "kill": // the runtime's DEL follows
		c.verb = netconf.Del
		if _, _, err := c.struck(t, 0, nil); err != nil {
			t.Fatal(err)
		}
	case !hit && len(had) > 0 && !errors.Is(err, netconf.ErrExists):
		t.Fatalf("%s has %v: %v", who, had, err)
	case !hit && len(had) == 0 && !errors.Is(err, hostlocal.ErrExhausted):
		t.Fatal(err)
	case !hit && len(had) == 0 && len(w.lease) < 12:
		t.Fatalf("%v: %d leases of 12", err, len(w.lease))
	}
}

func (w *world) gc(t *testing.T, live []string, n int, harm func(func()) error) {
	t.Helper()
	list := []string{}
	for _, who := range live {
		id, ifname, _ := strings.Cut(who, " ")
		list = append(list, fmt.Sprintf(`{"containerID":%q,"ifname":%q}`, id, ifname))
	}
	c := w.in
	c.verb = netconf.GC
	c.config = strings.Replace(c.config, `"name"`, `"cni.dev/valid-attachments":[`+strings.Join(list, ",")+`],"name"`, 1)
	if _, hit, err := c.struck(t, n, harm); err != nil {
		if !hit {
			t.Fatal(err)
		}
		if _, _, err := c.struck(t, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// foreign does what the reference plugin does: a file, its content, the last address; or it is killed after the first.
func (w *world) foreign(t *testing.T, who string, note func(string, ...any)) {
	t.Helper()
	if has := w.of(who); len(has) > 0 {
		note("foreign DEL %s", who)
		for _, a := range has {
			if err := os.Remove(w.path(a)); err != nil {
				t.Fatal(err)
			}
		}
		w.drop(who)
		return
	}
	var free []string
	for i := 2; i < 8; i++ {
		free = append(free, fmt.Sprint("10.0.0.", i), fmt.Sprint("fd00::", i))
	}
	free = slices.DeleteFunc(free, func(a string) bool { return w.lease[a] != "" })
	both := []string{}
	for _, family := range []string{"10.", "fd"} {
		of := slices.DeleteFunc(slices.Clone(free), func(a string) bool { return !strings.HasPrefix(a, family) })
		if len(of) == 0 {
			return
		}
		both = append(both, of[w.rnd.IntN(len(of))])
	}
	if w.rnd.IntN(4) == 0 {
		note("foreign ADD %s killed at %s", who, both[0])
		write(t, w.path(both[0]), "")
		return
	}
	note("foreign ADD %s: %v", who, both)
	for i, a := range both {
		write(t, w.path(a), strings.Replace(who, " ", "\r\n", 1))
		write(t, w.path(fmt.Sprint("last_reserved_ip.", i)), a)
		w.lease[a] = who
	}
}

// harmFiles is what else befalls a store: a reboot, a clock that jumps, an index that is lost, short, old or garbage.
func (w *world) harmFiles(t *testing.T, note func(string, ...any)) {
	t.Helper()
	index := w.path("last_reserved_ip.cnikit-index")
	old, err := os.ReadFile(index)
	if err != nil || len(old) == 0 {
		return
	}
	must := func(err error) {
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	kind := w.rnd.IntN(8)
	note("harm %d", kind)
	switch kind {
	case 0:
		must(os.Remove(index))
	case 1:
		must(os.Truncate(index, w.rnd.Int64N(int64(len(old)))))
	case 2:
		for range 20 {
			old[w.rnd.IntN(len(old))] ^= byte(1 + w.rnd.IntN(255))
		}
		must(os.WriteFile(index, old, 0o600))
	case 3:
		must(os.WriteFile(index, nil, 0o600))
	case 4: // a clock that is wrong, or a backup
		at := time.Now().Add(time.Duration(w.rnd.Int64N(int64(48*time.Hour))) - 24*time.Hour)
		must(os.Chtimes(filepath.Dir(index), at, at))
		must(os.Chtimes(index, at, at))
	case 5:
		must(os.WriteFile(w.path("last_reserved_ip.0"), []byte([]string{"", "10.0.0.9", "x", "10.0.0.6", "10.0.0.7", "10.0.0.65"}[w.rnd.IntN(6)]), 0o600))
	case 6: // an index of before, over files that have changed since
		c := w.in
		c.id, c.verb = "gone", netconf.Del
		if _, _, err := c.struck(t, 0, nil); err != nil {
			t.Fatal(err)
		}
		w.foreign(t, "f1 eth0", note)
		must(os.WriteFile(index, old, 0o600))
	case 7: // power cut: the head has the right times, of another boot, and what is behind it is old or was never written
		info, err := os.Stat(index)
		must(err)
		clear(old[64+w.rnd.IntN(len(old)-64):])
		rebooted(old)
		must(os.WriteFile(index, old, 0o600))
		must(os.Chtimes(index, info.ModTime(), info.ModTime()))
	}
}

// rebooted changes the boot in an index's head, and the head's sum.
func rebooted(index []byte) {
	index[8] ^= 1
	h := fnv.New64a()
	h.Write(index[:40])
	binary.LittleEndian.PutUint64(index[40:], h.Sum64()^h.Sum64()>>32)
}

// Random calls, each harmed at a random operation or not, beside what the reference plugin and the world do to the files.
// After each of them the store is what a map says.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := &world{in: call{dir: t.TempDir(), config: config(`"ranges":[[{"subnet":"10.0.0.0/28","rangeEnd":"10.0.0.7"}],[{"subnet":"fd00::/124","rangeEnd":"fd00::7"}]]`)},
				rnd: rand.New(rand.NewPCG(seed, 1)), lease: map[string]string{}}
			for range 250 {
				w.step(t)
			}
		})
	}
}

// A call that is harmed at any of its operations, in any way, leaves all of a lease or nothing, and never an empty file; a
// second ADD that is harmed leaves the live lease.
func TestHarmedAtEachOperation(t *testing.T) {
	t.Parallel()
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operations := 0
			for n := 1; ; n++ {
				c := call{dir: t.TempDir(), verb: netconf.Add, config: config(`"ranges":[[{"subnet":"10.0.0.0/29"}],[{"subnet":"fd00::/64"}]]`)}
				_, hit, err := c.struck(t, n, harm)
				if hit == (err == nil) {
					t.Errorf("operation %d: hit %v, %v", n, hit, err)
				}
				left := store(t, c.dir)
				for _, line := range left {
					if !strings.HasSuffix(line, " c1 eth0") {
						t.Errorf("operation %d: %q", n, left)
					}
				}
				_, statErr := os.Stat(filepath.Join(c.dir, "net", "last_reserved_ip.cnikit-new"))
				if hit && name != "kill" && (len(left) > 0 || !os.IsNotExist(statErr)) {
					t.Errorf("operation %d: left behind %q, and a lease without a name: %v", n, left, statErr)
				}
				c.ok(t, netconf.Del)
				has(t, c.dir)
				c.add(t)
				live := store(t, c.dir)
				if len(live) != 2 {
					t.Errorf("operation %d: %q", n, live)
				}
				if _, _, err := c.struck(t, n, harm); err == nil {
					t.Error("a second ADD")
				}
				has(t, c.dir, live...)
				if !hit {
					break
				}
				operations = n
			}
			if want := map[bool]int{false: 14, true: 18}[name == "kill"]; operations < want { // the index's are for kills alone
				t.Errorf("%d operations: the hook is not called before each write", operations)
			}
		})
	}
}
