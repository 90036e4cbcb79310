package hostlocal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cnikit/cnikit/internal/flock"
	"github.com/cnikit/cnikit/netconf"
)

// store is the folder of a network's leases, locked.
type store struct {
	dir   string
	warn  func(msg string, args ...any)
	lock  *os.File
	index *index
	made  version // of the new lease
	wrong bool    // the index was seen to be: nothing of it is kept when it is made anew
}

// small is the number of files up to which an index that is not trusted is made anew by any call. Above it an ADD
// does not wait for that. It is above the largest /24.
const small = 300

// open locks the folder, which create makes first. Without create, a folder that is not there is no error: the
// store is nil.
func open(ctx context.Context, req *netconf.Request, dir string, create bool) (*store, error) {
	s := &store{dir: dir, warn: req.Warn}
	if s.warn == nil { // a request made by hand
		s.warn = func(string, ...any) {}
	}
	for range 100 { // tries: others may remove the folder
		if there, err := s.folder(ctx, create); err != nil || !there {
			return nil, err
		}
		if taken, err := s.take(ctx); err != nil {
			return nil, err
		} else if taken {
			s.index = openIndex(dir, s.path(indexName))
			whole := context.WithoutCancel(ctx) // a call that ends need not leave half an index
			s.index.before = func() error { return netconf.Before(whole, "index write") }
			return s, nil
		}
	}
	return nil, s.unusable(errors.New("its lock is another file each time"))
}

// folder tells whether there is one; create makes it.
func (s *store) folder(ctx context.Context, create bool) (there bool, err error) {
	_, err = os.Stat(s.dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return true, nil // what else is wrong is found by the lock
	}
	if !create {
		return false, nil
	}
	if err := netconf.Before(ctx, "mkdir "+s.dir); err != nil {
		return false, err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return false, s.unusable(err)
	}
	return true, nil
}

// take waits for the lock until the context ends. A holder that was killed holds nothing. taken is false if the file
// was replaced in the meantime. It may be a link, which the reference plugin follows too.
func (s *store) take(ctx context.Context) (taken bool, err error) {
	path := s.path(lockName)
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return false, s.unusable(errors.New("its lock is not a regular file")) // to open a FIFO may take for ever
	}
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, s.unusable(err)
	}
	if taken, err = flock.Try(f); err == nil && !taken {
		done := make(chan error, 1)
		go func() { done <- wait(f) }()
		select {
		case err = <-done:
		case <-ctx.Done():
			go func() { // whoever holds it may take long; the lock must not stay with us then
				<-done
				_ = f.Close() // nothing was written
			}()
			return false, netconf.Errorf(netconf.CodeTryAgainLater, "the store %q is locked: %w", s.dir, context.Cause(ctx))
		}
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return false, s.unusable(err)
	}
	locked, err1 := f.Stat()
	there, err2 := os.Stat(path)
	if err1 != nil || err2 != nil || !os.SameFile(locked, there) {
		_ = f.Close() // nothing was written
		return false, nil
	}
	s.lock = f
	return true, nil
}

// close gives the lock back. What the index lacks is only slow.
func (s *store) close() {
	if err := s.index.close(); err != nil {
		s.warn("the index of leases", "error", err.Error())
	}
	_ = s.lock.Close() // nothing was written
}

// finish writes the index. A call whose leases are right does not fail for it.
func (s *store) finish(ctx context.Context) error {
	if !s.index.changed {
		return nil
	}
	if err := netconf.Before(ctx, "write "+s.index.path); err != nil {
		return err
	}
	if err := s.index.finish(); err != nil {
		s.warn("the index of leases cannot be written: the next call reads them all", "error", err.Error())
	}
	return nil
}

func (s *store) unusable(err error) error {
	return netconf.Errorf(netconf.CodeBadStore, "the store %q cannot be used: %w", s.dir, err)
}

// settle makes the index complete, if it is not; of a store that is large only if it has to be.
func (s *store) settle(ctx context.Context, must bool) error {
	if s.index.trusted {
		return nil
	}
	if !must {
		names, err := s.names(small + 1)
		if err != nil || len(names) > small {
			return err
		}
	}
	return s.rebuild(ctx, nil)
}

// names lists files of the folder, at most n of them; n < 0: all.
func (s *store) names(n int) ([]string, error) {
	f, err := os.Open(s.dir)
	if err != nil {
		return nil, s.unusable(err)
	}
	defer f.Close()
	names, err := f.Readdirnames(n)
	if err != nil && len(names) == 0 && n < 0 {
		return nil, s.unusable(err)
	}
	return names, nil
}

// rebuild reads all leases into a new index. Those of owners that are stale are removed, and so is what was left by a
// process that was killed: under the lock nobody is about to write into an empty file. It goes on after an error of
// a removal.
func (s *store) rebuild(ctx context.Context, stale func(who string) bool) error {
	names, err := s.names(-1)
	if err != nil {
		return err
	}
	slots := uint64(minSlots)
	for slots < uint64(3*len(names)) {
		slots *= 2
	}
	var known map[netip.Addr]slot
	if stale == nil && !s.wrong { // else it is owners that are wanted, not their hashes
		known = s.index.known()
	}
	s.index.clear(slots)
	var errs []error
	var leases []netip.Addr
	for _, name := range names {
		if a, ok := addressOf(name); ok {
			leases = append(leases, a)
		} else if name == newName {
			errs = append(errs, s.discard(ctx, name))
		}
	}
	for part := range slices.Chunk(leases, 8192) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for i, found := range s.holders(part, known) {
			errs = append(errs, s.note(ctx, part[i], found, stale))
		}
	}
	if s.index.err == nil {
		s.index.trusted = true
	}
	return netconf.Join(errs...)
}

// holding is what is found out about the lease of an address: who has it, or the hash of that.
type holding struct {
	who     string
	same    bool // it was not read: key is the owner's
	key     uint64
	version version
	err     error
}

// holders finds out about many, some at once. A file that is the same as in a known slot is not read.
func (s *store) holders(of []netip.Addr, known map[netip.Addr]slot) []holding {
	found, now := make([]holding, len(of)), time.Now()
	read := func(from, step int) {
		for i := from; i < len(of); i += step {
			path, h := s.path(fileName(of[i])), &found[i]
			if k, ok := known[of[i]]; ok {
				if v, err := versionOf(path); err == nil && v == k.version() {
					h.same, h.key, h.version = true, k.key(), v
					continue
				}
			}
			content, v, err := readLease(path)
			h.who, h.version, h.err = owner(content), v.settled(now), err
		}
	}
	if len(of) < 64 {
		read(0, 1)
		return found
	}
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() { read(i, readers) })
	}
	wg.Wait()
	return found
}

// readers is how many files are read at once: more do not make it faster, since they are in one folder.
const readers = 4

// missing tells whether an address has no file, nor a link to nowhere in its place.
func (s *store) missing(a netip.Addr) bool {
	_, err := os.Lstat(s.path(fileName(a)))
	return errors.Is(err, fs.ErrNotExist)
}

// note puts a lease into the index, or removes it.
func (s *store) note(ctx context.Context, a netip.Addr, found holding, stale func(who string) bool) error {
	switch {
	case errors.Is(found.err, fs.ErrNotExist) && s.missing(a):
		return nil
	case found.same:
		s.index.addKey(found.key, a, found.version)
		return nil
	case found.err != nil: // a folder, perhaps: not ours, and nobody can have the address
		s.index.take(a)
		s.warn("a lease cannot be read: its address is not given", "address", a.String(), "error", found.err.Error())
		return nil
	case found.who == "" || stale != nil && stale(found.who):
		if err := s.discard(ctx, fileName(a)); err != nil {
			s.index.take(a)
			return err
		}
		return nil
	}
	s.index.add(found.who, a, found.version)
	return nil
}

// discard removes a file. An empty one that cannot be removed, as in a store that is read-only, fails nothing.
func (s *store) discard(ctx context.Context, name string) error {
	if err := netconf.Before(ctx, "remove "+s.path(name)); err != nil {
		return err
	}
	if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.unusable(err)
	}
	if s.index.err == nil {
		s.index.changed = true // the folder has another time now
	}
	return nil
}

// held lists the addresses that an attachment has, by the index. What that says is held against the files; if it is
// wrong where it was trusted, somebody wrote behind its back, and it is made anew.
func (s *store) held(ctx context.Context, who ...string) (map[netip.Addr]string, error) {
	found := map[netip.Addr]string{}
	for _, w := range who {
		for _, a := range s.index.owned(w) {
			is, _, err := s.holder(a)
			if err == nil && is == w {
				found[a] = w
				continue
			}
			if s.index.trusted && !s.wrong {
				s.wrong = true
				if err := s.rebuild(ctx, nil); err != nil {
					return nil, err
				}
				return s.held(ctx, who...)
			}
			s.index.remove(w, a)
			if is != "" || err != nil {
				s.index.take(a) // somebody else's
			}
		}
	}
	if s.index.err != nil {
		cause := s.index.err
		if err := s.rebuild(ctx, nil); err != nil {
			return nil, fmt.Errorf("%w (the index: %w)", err, cause)
		}
		return s.held(ctx, who...)
	}
	return found, nil
}
