package delegate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/internal/flock"
	"github.com/cnikit/cnikit/netconf"
)

// leases are what plugins have given, by container and interface; a second ADD is refused, as a kernel does it.
type leases struct {
	mu  sync.Mutex
	all map[string]bool
}

func (l *leases) answer(ctx context.Context, name string, req *netconf.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := req.ContainerID + " " + req.IfName + " " + name
	switch req.Command {
	case netconf.Add:
		if l.all[key] {
			return netconf.ErrExists
		}
		l.all[key] = true
		return grow(ctx, name, req)
	case netconf.Check:
		if !l.all[key] {
			return netconf.ErrDifferent
		}
	case netconf.Del:
		delete(l.all, key)
	}
	return nil
}

// Of ADDs of one container at once one comes through, and no other harms it.
func TestAddsOfOneContainerAtOnce(t *testing.T) {
	t.Parallel()
	l := &leases{all: map[string]bool{}}
	s, r := &spy{answer: l.answer}, records(t)
	set := four(t, s)
	var all sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 16 {
		all.Go(func() {
			_, err := r.Add(t.Context(), set, attach(t))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			} else if !errors.Is(err, netconf.ErrExists) || !netconf.IsUnchanged(err) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := s.said(); made != 1 || got != "a ADD, b ADD, c ADD, d ADD, e ADD" {
		t.Errorf("%d came through: %s", made, got)
	}
	if err := r.Check(t.Context(), set.Plugins, attach(t)); err != nil {
		t.Error(err)
	}
}

// watched is a context that tells when somebody begins to wait for its end.
type watched struct {
	context.Context
	once    sync.Once
	waiting chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waiting) })
	return w.Context.Done()
}

// waits begins a call and returns when that waits for a lock: the first thing that asks for the end of its context.
func waits(t *testing.T, run func(ctx context.Context) error) (done <-chan error) {
	t.Helper()
	ctx, end := &watched{Context: t.Context(), waiting: make(chan struct{})}, make(chan error, 1)
	go func() { end <- run(ctx) }()
	select {
	case err := <-end:
		t.Fatalf("%v: it did not wait", err)
	case <-ctx.waiting:
	}
	return end
}

// A DEL that comes while the ADD is at work waits for it and then takes all away; one that cannot wait so long
// changes nothing, and says that it may be tried again.
func TestDelDuringAnAdd(t *testing.T) {
	t.Parallel()
	r := records(t)
	working, goOn := make(chan struct{}), make(chan struct{})
	s := &spy{answer: func(ctx context.Context, name string, req *netconf.Request) error {
		if name == "b" && req.Command == netconf.Add {
			close(working)
			<-goOn
		}
		return grow(ctx, name, req)
	}}
	set := four(t, s)
	added := make(chan error, 1)
	go func() {
		_, err := r.Add(t.Context(), set, attach(t))
		added <- err
	}()
	<-working
	short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	wants(t, r.Del(short, set.Plugins, bare(t)), 11, "another call", file)
	wants(t, r.Check(short, set.Plugins, bare(t)), 11, "another call")
	_, err := r.Add(t.Context(), set, attach(t))
	wants(t, err, 100)
	deleted := waits(t, func(ctx context.Context) error { return r.Del(ctx, set.Plugins, bare(t)) })
	close(goOn)
	if err := <-added; err != nil {
		t.Error(err)
	}
	if err := <-deleted; err != nil {
		t.Error(err)
	}
	if got := s.said(); got != "a ADD, b ADD, c ADD, d ADD, e ADD, e DEL, d DEL, c DEL, b DEL, a DEL" {
		t.Error(got)
	}
	wantNames(t, r)
}

// Many calls of all kinds for a few containers, and the listing beside them: whatever comes first, in the end a DEL
// leaves nothing.
func TestCallsInAnyOrder(t *testing.T) {
	t.Parallel()
	l := &leases{all: map[string]bool{}}
	s, r := &spy{answer: l.answer}, records(t)
	set := four(t, s)
	set.Parallel = 4
	request := func(verb netconf.Command, id int) *netconf.Request {
		req := attach(t).As(verb)
		req.ContainerID = fmt.Sprint("c", id)
		return req
	}
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			for round := range 6 {
				id := (i + round) % 3
				switch i % 4 {
				case 0, 1:
					_, err := r.Add(t.Context(), set, request(netconf.Add, id))
					if err != nil && !netconf.IsUnchanged(err) {
						t.Error(err)
					}
				case 2:
					if err := r.Del(t.Context(), set.Plugins, request(netconf.Del, id)); err != nil {
						t.Error(err)
					}
				case 3:
					if _, err := r.List("outer"); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	for id := range 3 {
		if err := r.Del(t.Context(), set.Plugins, request(netconf.Del, id)); err != nil {
			t.Error(err)
		}
	}
	if len(l.all) > 0 {
		t.Errorf("left: %v", l.all)
	}
	for _, name := range names(t, r) {
		t.Errorf("left: %s", name)
	}
}

// A hundred containers at once do not wait for each other, nor mix.
func TestManyContainersAtOnce(t *testing.T) {
	t.Parallel()
	l := &leases{all: map[string]bool{}}
	s, r := &spy{answer: l.answer}, records(t)
	set := four(t, s)
	set.Parallel = 4
	request := func(i int) *netconf.Request {
		req := attach(t)
		req.ContainerID = fmt.Sprint("c", i)
		return req
	}
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if _, err := r.Add(t.Context(), set, request(i)); err != nil {
				t.Error(err)
			}
			if err := r.Check(t.Context(), set.Plugins, request(i)); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				if err := r.Del(t.Context(), set.Plugins, request(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var living []types.GCAttachment
	for i := range 100 {
		if i%4 == 1 {
			living = append(living, types.GCAttachment{ContainerID: fmt.Sprint("c", i), IfName: "eth0"})
		}
	}
	list, err := r.List("outer")
	stale, err2 := r.Stale("outer", living)
	if err != nil || err2 != nil || len(list) != 50 || len(stale) != 25 || len(l.all) != 50*5 {
		t.Errorf("%v, %v: %d records, %d stale, %d leases", err, err2, len(list), len(stale), len(l.all))
	}
}

// A file that its holder removes, or replaces, between the opening and the lock is not the record.
func TestRecordThatIsReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	add(t, r, set, attach(t))
	path := filepath.Join(r.Dir, file)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if taken, err := flock.Try(f); !taken || err != nil {
		t.Fatalf("taken %v, %v", taken, err)
	}
	s.said()
	done := waits(t, func(ctx context.Context) error { return r.Del(ctx, set.Plugins, bare(t)) })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || s.said() != "" {
		t.Errorf("%v: a removed record was used", err)
	}
}

// An ADD whose record is removed under it fails, and is undone: nothing would be known to its DEL. What another has put in
// the record's place stays.
func TestRecordThatIsRemovedDuringAnAdd(t *testing.T) {
	t.Parallel()
	for name, instead := range map[string]string{"removed": "", "replaced": "another's"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := records(t)
			path := filepath.Join(r.Dir, file)
			s := &spy{answer: func(ctx context.Context, name string, req *netconf.Request) error {
				if name == "b" && req.Command == netconf.Add {
					if err := os.Remove(path); err != nil {
						t.Error(err)
					}
					if instead != "" {
						write(t, path, instead, 0o600)
					}
				}
				return grow(ctx, name, req)
			}}
			_, err := r.Add(t.Context(), four(t, s), attach(t))
			wants(t, err, 105, file, "was removed")
			if got := s.said(); got != "a ADD, b ADD, b DEL, a DEL" {
				t.Error(got)
			}
			if instead == "" {
				wantNames(t, r)
			} else if got := read(t, path); got != instead {
				t.Errorf("%q", got)
			}
		})
	}
}

// A listing that looks at a record is no call at work on it: another listing at that moment, GC's say, would keep the stale.
func TestListingsAtOnce(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	add(t, r, set, attach(t))
	for _, other := range []struct {
		lock func(*os.File) (bool, error)
		busy bool
	}{{flock.Idle, false}, {flock.Try, true}} {
		f, err := os.Open(filepath.Join(r.Dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := other.lock(f); err != nil || !got {
			t.Fatal(got, err)
		}
		all, err := r.List("")
		if err != nil || len(all) != 1 || all[0].Busy != other.busy || all[0].Err != nil {
			t.Errorf("%+v, %v: expected busy %v", all, err, other.busy)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
