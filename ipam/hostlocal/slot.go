package hostlocal

import (
	"encoding/binary"
	"hash/fnv"
	"math/bits"
	"net/netip"
)

// slot is an entry: 8 bytes key, 8 bytes kind, 16 bytes address, 32 bytes that say which of a block's 256 addresses
// are taken.
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
func (s *slot) taken(n int) bool { return s[32+n/8]>>(n%8)&1 == 1 }

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
