package hostlocal

import (
	"encoding/binary"
	"hash/fnv"
	"math/bits"
	"net/netip"
	"time"
)

// slot is an entry: 8 bytes key, 8 bytes kind, 16 bytes address; of a block 32 bytes that say which of its 256 addresses are
// taken; of a lease 16 bytes that identify the file that was read.
type slot [slotSize]byte

const (
	slotSize = 64

	noKind    = 0 // empty
	ownerKind = 1 // a lease: key is the owner's hash
	blockKind = 2 // 256 addresses that differ in the last byte: key is the first one's hash
)

func (s *slot) key() uint64      { return binary.LittleEndian.Uint64(s[:]) }
func (s *slot) kind() uint64     { return binary.LittleEndian.Uint64(s[8:]) }
func (s *slot) addr() netip.Addr { return netip.AddrFrom16([16]byte(s[16:32])).Unmap() }

func (s *slot) version() version {
	return version{binary.LittleEndian.Uint64(s[32:]), int64(binary.LittleEndian.Uint64(s[40:]))}
}

// version identifies a lease's file with its content: inode and modification time. A file system gives the inode of a file that was
// removed to the next one, but nobody gives that a time before the removal. The zero value is no known one.
type version struct {
	inode uint64
	mtime int64 // ns
}

// settled is the version if a file that is made from now on cannot have the same.
func (v version) settled(now time.Time) version {
	if v.mtime >= now.Add(-time.Second).UnixNano() {
		return version{}
	}
	return v
}

func newSlot(kind, key uint64, a netip.Addr) (s slot) {
	binary.LittleEndian.PutUint64(s[:], key)
	binary.LittleEndian.PutUint64(s[8:], kind)
	a16 := a.As16()
	copy(s[16:], a16[:])
	return s
}

func sum(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	x := h.Sum64()
	return x ^ x>>32 // the low bits choose the slot
}

// blockOf is the first of the 256 addresses that one slot keeps, and which of them this one is.
func blockOf(a netip.Addr) (first netip.Addr, key uint64, n int) {
	b := a.As16()
	n = int(b[15])
	b[15] = 0
	return netip.AddrFrom16(b).Unmap(), sum(b[:]), n
}

// firstFree is the first bit from n on that is not set; 256 if there is none.
func firstFree(s *slot, n int) int {
	for n < 256 {
		word := binary.LittleEndian.Uint64(s[32+n/64*8:]) >> (n % 64)
		if free := bits.TrailingZeros64(^word); free < 64-n%64 {
			return n + free
		}
		n += 64 - n%64
	}
	return 256
}
