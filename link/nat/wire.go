package nat

import (
	"encoding/binary"
	"iter"
)

// The messages of nfnetlink, as in linux/netfilter/nfnetlink.h, nf_tables.h and nfnetlink_conntrack.h. They are
// here and not taken from x/sys, which has them for Linux alone: all but the socket builds everywhere.

const (
	subsysConntrack = 1
	subsysTables    = 10

	batchBegin = 0x10
	batchEnd   = 0x11
	batchGenID = 1 // attribute of batchBegin: the batch is for this generation of the ruleset alone

	newTable   = subsysTables << 8
	getTable   = subsysTables<<8 | 1
	newChain   = subsysTables<<8 | 3
	getChain   = subsysTables<<8 | 4
	delChain   = subsysTables<<8 | 5
	newRule    = subsysTables<<8 | 6
	getRule    = subsysTables<<8 | 7
	delRule    = subsysTables<<8 | 8
	newSet     = subsysTables<<8 | 9
	getSet     = subsysTables<<8 | 10
	newElement = subsysTables<<8 | 12
	getElement = subsysTables<<8 | 13
	delElement = subsysTables<<8 | 14
	getGen     = subsysTables<<8 | 16

	ctGet    = subsysConntrack<<8 | 1
	ctDelete = subsysConntrack<<8 | 2
)

// The header of a message, as in linux/netlink.h.
const (
	nlError = 2
	nlDone  = 3

	flagRequest     = 0x1
	flagAck         = 0x4
	flagInterrupted = 0x10 // of an answer: what was listed has changed meanwhile
	flagDump        = 0x300
	flagExclusive   = 0x200 // of a change: what is there already is an error
	flagCreate      = 0x400
	flagAppend      = 0x800

	headerLen = 16 + 4 // nlmsghdr, nfgenmsg

	nested   = 0x8000
	typeMask = 0x3fff
)

// Families of nfgenmsg.
const (
	familyInet = 1
	familyIPv4 = 2
	familyIPv6 = 10
)

// attrs is a run of netlink attributes. Its methods append.
type attrs []byte

func (a *attrs) put(kind uint16, value []byte) *attrs {
	b := binary.NativeEndian.AppendUint16(*a, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	*a = b
	return a
}

func (a *attrs) u32(kind uint16, value uint32) *attrs {
	return a.put(kind, binary.BigEndian.AppendUint32(nil, value))
}

func (a *attrs) text(kind uint16, value string) *attrs {
	return a.put(kind, append([]byte(value), 0))
}

func (a *attrs) nest(kind uint16, inner *attrs) *attrs { return a.put(kind|nested, *inner) }

// walk goes through the attributes of a message; it ends at one that is cut off.
func walk(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= 4 {
			n := int(binary.NativeEndian.Uint16(b))
			if n < 4 || n > len(b) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(b[2:])&typeMask, b[4:n]) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}

// inside returns the value of the attribute that a path of kinds leads to; nil if there is none.
func inside(b []byte, path ...uint16) []byte {
	for _, want := range path {
		var found []byte
		for kind, value := range walk(b) {
			if kind == want {
				found = value
			}
		}
		if found == nil {
			return nil
		}
		b = found
	}
	return b
}

// word reads a number of an attribute; 0 if it is too short.
func word(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// str reads a text of an attribute, without the NUL at its end.
func str(b []byte) string {
	if n := len(b); n > 0 && b[n-1] == 0 {
		b = b[:n-1]
	}
	return string(b)
}

// message is a request, or an answer.
type message struct {
	kind, flags uint16
	seq         uint32
	family      byte
	resource    uint16 // nfgenmsg.res_id: the subsystem of a batch
	body        attrs
}

// append writes the message behind b.
func (m message) append(b []byte) []byte {
	start := len(b)
	b = binary.NativeEndian.AppendUint32(b, uint32(headerLen+len(m.body)))
	b = binary.NativeEndian.AppendUint16(b, m.kind)
	b = binary.NativeEndian.AppendUint16(b, m.flags|flagRequest)
	b = binary.NativeEndian.AppendUint32(b, m.seq)
	b = binary.NativeEndian.AppendUint32(b, 0) // the port: the kernel's
	b = append(b, m.family, 0)
	b = binary.BigEndian.AppendUint16(b, m.resource)
	b = append(b, m.body...)
	for (len(b)-start)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// cut reads the first message of b; ok is false if there is no whole one. The body of an error keeps
// its first four bytes, the number.
func cut(b []byte) (m message, rest []byte, ok bool) {
	if len(b) < 16 {
		return m, nil, false
	}
	n := int(binary.NativeEndian.Uint32(b))
	if n < 16 || n > len(b) {
		return m, nil, false
	}
	m.kind = binary.NativeEndian.Uint16(b[4:])
	m.flags = binary.NativeEndian.Uint16(b[6:])
	m.seq = binary.NativeEndian.Uint32(b[8:])
	start := headerLen
	if m.kind == nlError || m.kind == nlDone {
		start = 16
	}
	m.body = b[min(start, n):n]
	return m, b[min((n+3)&^3, len(b)):], true
}
