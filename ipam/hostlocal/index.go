package hostlocal

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/netip"
	"os"
	"slices"
)

// index is a hash table in one file beside the leases: who has which address, and which addresses are taken, found in
// a few reads whatever their number. It is a cache: the lease files are what counts, and whatever it says of one is
// held against that file before it is acted on.
//
// Whether it is complete is told by time stamps. After a change the folder and the index get, under the lock, the same
// modification time, which the index also contains, two seconds in the past: any other change to the folder, by the
// reference plugin or by hand, or by us when we are killed in the middle of one, gives it the present time. So there
// are no ties within a tick of the kernel's clock, and a clock that is set back would have to hit the nanosecond.
//
// If only the folder's time is another, what the index says was true once. It is a good guess then, is kept up as one, and saves
// the reading of those files that are still the same. If the index's own time is another, it was not finished, and it is
// thrown away; so is what another boot wrote: after a power cut any part of it may be old.
type index struct {
	dir, path string
	f         *os.File     // nil if there is none
	mem       []byte       // the slots, where they are new and not yet in the file
	slots     uint64       // a power of two
	used      uint64       // how many are not empty
	trusted   bool         // it is complete
	changed   bool         // something is to be written
	boot      uint64       // names the time since the machine was started; 0: that is not known
	err       error        // what went wrong with the file; lookups find nothing from then on
	before    func() error // asked before each write into the file; nil: nothing is

	chunk   [chunkSize]byte // the part of the file that was read last
	chunkAt int64           // 0: none
}

const (
	indexName = "last_reserved_ip.cnikit-index" // a prefix that the reference plugin's GC spares
	magic     = "cnikit1\n"
	headSize  = 64 // magic, boot, stamp, slots, used, and a sum of these; 8 bytes each
	chunkSize = 16 * slotSize
	minSlots  = 128
)

// openIndex opens the index of a folder that is locked. That there is none, or that it is damaged, is not an error.
func openIndex(dir, path string) *index {
	x := &index{dir: dir, path: path, slots: minSlots}
	if id := boot(); id != "" {
		x.boot = sum([]byte(id))
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		if f, err = os.Open(path); err != nil { // read-only
			x.clear(minSlots)
			return x
		}
	}
	x.f = f
	if !x.readHead() {
		x.clear(minSlots)
	}
	return x
}

// readHead reads what the table is like; false if it is none.
func (x *index) readHead() bool {
	var h [headSize]byte
	info, err := x.f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if _, err := x.f.ReadAt(h[:], 0); err != nil {
		return false
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(h[8*i:]) }
	x.slots, x.used = field(3), field(4)
	if string(h[:8]) != magic || field(5) != sum(h[:40]) || x.boot == 0 || field(1) != x.boot ||
		x.slots < minSlots || x.slots&(x.slots-1) != 0 || x.slots > 1<<40 || info.Size() != int64(headSize+slotSize*x.slots) {
		return false
	}
	stamp := int64(field(2))
	if info.ModTime().UnixNano() != stamp {
		return false // who wrote it did not come to the end, or was not us
	}
	dir, err := os.Stat(x.dir)
	x.trusted = err == nil && dir.ModTime().UnixNano() == stamp
	return true
}

// clear makes an empty table, in memory.
func (x *index) clear(slots uint64) {
	x.mem, x.slots, x.used, x.trusted, x.changed, x.err = make([]byte, slots*slotSize), slots, 0, false, true, nil
}

func (x *index) close() error {
	if x.f == nil {
		return nil
	}
	return x.f.Close()
}

// at reads a slot.
func (x *index) at(i uint64) (s slot) {
	if x.mem != nil {
		return slot(x.mem[i*slotSize:])
	}
	if x.err != nil {
		return s
	}
	off := int64(headSize + i*slotSize)
	first := off - int64(i%(chunkSize/slotSize))*slotSize
	if first != x.chunkAt {
		x.chunkAt = first
		if _, err := x.f.ReadAt(x.chunk[:], first); err != nil && err != io.EOF {
			x.fail(err)
			return s
		}
	}
	return slot(x.chunk[off-first:])
}

// put writes a slot.
func (x *index) put(i uint64, s slot) {
	x.changed = true
	if x.mem != nil {
		copy(x.mem[i*slotSize:], s[:])
		return
	}
	off := int64(headSize + i*slotSize)
	if x.err == nil {
		if err := x.write(s[:], off); err != nil {
			x.fail(err)
		}
	}
	if off >= x.chunkAt && off < x.chunkAt+chunkSize && x.chunkAt > 0 {
		copy(x.chunk[off-x.chunkAt:], s[:])
	}
}

// fail gives the file up: it is not trusted, and is made anew when next it is needed.
func (x *index) fail(err error) { x.err, x.trusted, x.chunkAt = err, false, 0 }

// each calls f for the slots of a kind and key until it says that it has seen enough; it returns the place of
// the last one, or of the empty one behind them. A table that is full of garbage ends too.
func (x *index) each(kind, key uint64, f func(i uint64, s *slot) bool) (empty uint64, ok bool) {
	mask := x.slots - 1
	for n := range x.slots {
		i := (key + n) & mask
		s := x.at(i)
		if s.kind() == noKind {
			return i, true
		}
		if s.kind() == kind && s.key() == key && !f(i, &s) {
			return 0, false
		}
	}
	return 0, false
}

// owned lists the addresses that an owner may have.
func (x *index) owned(owner string) (found []netip.Addr) {
	x.each(ownerKind, sum([]byte(owner)), func(_ uint64, s *slot) bool {
		found = append(found, s.addr())
		return true
	})
	return found
}

// add notes a lease; v is not valid if the file has to be read again when the index is made anew.
func (x *index) add(owner string, a netip.Addr, v version) { x.addKey(sum([]byte(owner)), a, v) }

func (x *index) addKey(key uint64, a netip.Addr, v version) {
	s := newSlot(ownerKind, key, a)
	binary.LittleEndian.PutUint64(s[32:], v.inode)
	binary.LittleEndian.PutUint64(s[40:], uint64(v.mtime))
	x.insert(s, func(s *slot) bool { return s.addr() == a })
	x.take(a)
}

// known lists the leases by address, as slots. There are none in a table that is not from the file.
func (x *index) known() map[netip.Addr]slot {
	if x.mem != nil || x.err != nil {
		return nil
	}
	all := make([]byte, x.slots*slotSize)
	if _, err := x.f.ReadAt(all, headSize); err != nil {
		return nil
	}
	leases := make(map[netip.Addr]slot, x.used)
	for one := range slices.Chunk(all, slotSize) {
		if s := slot(one); s.kind() == ownerKind && s.version() != (version{}) {
			leases[s.addr()] = s
		}
	}
	return leases
}

// take notes that an address is taken, by whomever.
func (x *index) take(a netip.Addr) {
	first, key, n := blockOf(a)
	s := newSlot(blockKind, key, first)
	s[32+n/8] |= 1 << (n % 8)
	x.insert(s, func(have *slot) bool {
		if have.addr() != first {
			return false
		}
		s = *have
		s[32+n/8] |= 1 << (n % 8)
		return true
	})
}

// insert writes a slot in the place of the one that same knows, or into an empty one. same may change it.
func (x *index) insert(s slot, same func(have *slot) bool) {
	if 2*(x.used+1) > x.slots {
		x.grow()
	}
	place, known := uint64(0), false
	empty, ok := x.each(s.kind(), s.key(), func(i uint64, have *slot) bool {
		if same(have) {
			place, known = i, true
		}
		return !known
	})
	switch {
	case known:
		if s.kind() == blockKind {
			have := x.at(place)
			for i := range s[32:] {
				s[32+i] |= have[32+i]
			}
		}
		x.put(place, s)
	case ok:
		x.used++
		x.put(empty, s)
	default: // full, because of a count that was not written
		x.fail(io.ErrShortBuffer)
	}
}

// remove takes a lease out.
func (x *index) remove(owner string, a netip.Addr) {
	x.each(ownerKind, sum([]byte(owner)), func(i uint64, s *slot) bool {
		if s.addr() == a {
			x.drop(i)
			return false
		}
		return true
	})
	first, key, n := blockOf(a)
	x.each(blockKind, key, func(i uint64, s *slot) bool {
		if s.addr() != first {
			return true
		}
		s[32+n/8] &^= 1 << (n % 8)
		if bytes.Count(s[32:], []byte{0}) == slotSize-32 {
			x.drop(i)
		} else {
			x.put(i, *s)
		}
		return false
	})
}

// drop empties a slot and moves those behind it that would not be found any more.
func (x *index) drop(i uint64) {
	mask := x.slots - 1
	for n, j := uint64(1), i; n < x.slots; n++ {
		j = (j + 1) & mask
		s := x.at(j)
		if s.kind() == noKind {
			break
		}
		if home := s.key() & mask; (j-home)&mask >= (j-i)&mask { // its own place is not between the hole and here
			x.put(i, s)
			i = j
		}
	}
	x.put(i, slot{})
	if x.used > 0 {
		x.used--
	}
}

// grow doubles the table, in memory: until finish the file stays as it is. It is the one call in thousands that costs
// more, 5 ms at 50,000 leases.
func (x *index) grow() {
	old := *x
	x.clear(2 * old.slots)
	x.trusted = old.trusted
	for i := range old.slots {
		s := old.at(i)
		if s.kind() != noKind {
			if empty, ok := x.each(noKind, s.key(), nil); ok {
				x.used++
				x.put(empty, s)
			}
		}
	}
	if old.err != nil {
		x.fail(old.err)
	}
}

// free is the first address from a to b that is not taken.
func (x *index) free(a, b netip.Addr) (netip.Addr, bool) {
	for a.IsValid() && a.Compare(b) <= 0 {
		first, key, n := blockOf(a)
		var in slot
		x.each(blockKind, key, func(_ uint64, s *slot) bool {
			if s.addr() == first {
				in = *s
				return false
			}
			return true
		})
		if n = firstFree(&in, n); n < 256 {
			b16 := first.As16()
			b16[15] = byte(n)
			a = netip.AddrFrom16(b16)
			if b.Is4() {
				a = a.Unmap()
			}
			return a, a.Compare(b) <= 0
		}
		b16 := first.As16()
		b16[15] = 255
		next := netip.AddrFrom16(b16)
		if b.Is4() {
			next = next.Unmap()
		}
		a = next.Next()
	}
	return netip.Addr{}, false
}
