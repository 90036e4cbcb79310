package nat

import "encoding/binary"

// The expressions of the rules of base.go, in the form that the program nft gives them, so that "nft list
// ruleset" shows rules that can be read. A register of 16 bytes is four of 4 bytes; a
// key of several fields lies in consecutive ones, each field in as many as it needs.

const (
	verdictRegister = 0
	register1       = 1  // 16 bytes
	register2       = 2  // the next 16
	register32      = 8  // the first 4 bytes of register1; +n is the n-th four after them
	valueAttr       = 1  // NFTA_DATA_VALUE
	verdictAttr     = 2  // NFTA_DATA_VERDICT
	equal           = 0  // of cmp
	unequal         = 1  // of cmp
	metaMark        = 3  // of meta
	metaIIF         = 4  // of meta: the index of the link that the packet came by
	metaNFProto     = 15 // of meta: 2 for IPv4, 10 for IPv6
	metaL4Proto     = 16 // of meta
	networkHeader   = 1  // of payload
	transportHeader = 2  // of payload
	jump            = -3
	back            = -5 // the end of this chain
	drop            = 0
)

// exprs are the expressions of a rule, in order. Its methods append.
type exprs struct{ list attrs }

func (e *exprs) add(name string, data *attrs) *exprs {
	var one attrs
	one.text(1, name)
	if data != nil {
		one.nest(2, data)
	}
	e.list.nest(1, &one)
	return e
}

func (e *exprs) meta(key, register uint32) *exprs {
	return e.add("meta", new(attrs).u32(2, key).u32(1, register))
}

func (e *exprs) cmp(operator uint32, value ...byte) *exprs {
	data := new(attrs).put(valueAttr, value)
	return e.add("cmp", new(attrs).u32(1, register1).u32(2, operator).nest(3, data))
}

func (e *exprs) payload(base, offset, length, register uint32) *exprs {
	return e.add("payload", new(attrs).u32(1, register).u32(2, base).u32(3, offset).u32(4, length))
}

// bits makes register (register & mask) ^ xor.
func (e *exprs) bits(register uint32, mask, xor []byte) *exprs {
	a := new(attrs).u32(1, register).u32(2, register).u32(3, uint32(len(mask)))
	a.nest(4, new(attrs).put(valueAttr, mask)).nest(5, new(attrs).put(valueAttr, xor))
	return e.add("bitwise", a)
}

// in ends the rule for a packet whose key, in register1, is not in the set.
func (e *exprs) in(set string) *exprs {
	return e.add("lookup", new(attrs).text(1, set).u32(2, register1))
}

// from is in, and puts what the map has for the key into register1.
func (e *exprs) from(set string) *exprs {
	return e.add("lookup", new(attrs).text(1, set).u32(2, register1).u32(3, register1))
}

func (e *exprs) verdict(code int32, chain string) *exprs {
	v := new(attrs).u32(1, uint32(code))
	if chain != "" {
		v.text(2, chain)
	}
	data := new(attrs).nest(verdictAttr, v)
	return e.add("immediate", new(attrs).u32(1, verdictRegister).nest(2, data))
}

// dnat translates the destination to the address in register1 and the port in another register.
func (e *exprs) dnat(family, port uint32) *exprs {
	a := new(attrs).u32(1, 1).u32(2, family).u32(3, register1).u32(4, register1).u32(5, port).u32(6, port)
	return e.add("nat", a)
}

func (e *exprs) masquerade() *exprs { return e.add("masq", nil) }

// local ends the rule for a packet that is not to an address of the host.
func (e *exprs) local() *exprs {
	e.add("fib", new(attrs).u32(1, register1).u32(2, 3).u32(3, 2)) // daddr type
	return e.cmp(equal, native(2)...)                              // RTN_LOCAL
}

// family ends the rule for a packet of another family.
func (e *exprs) family(f byte) *exprs { return e.meta(metaNFProto, register1).cmp(equal, f) }

// setMark keeps the bits of mask in the packet's mark and puts in those of add.
func (e *exprs) setMark(mask, add uint32) *exprs {
	e.meta(metaMark, register1).bits(register1, native(mask), native(add))
	return e.add("meta", new(attrs).u32(2, metaMark).u32(3, register1))
}

// native is a number as the kernel has it in a register.
func native(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
