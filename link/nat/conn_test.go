package nat

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/link"
)

// script plays the kernel: each request gets the next of its answers, of which the first number is the request's own.
type script struct {
	answers [][]message
	queue   [][]byte
}

func (s *script) send(b []byte) error {
	asked, _, ok := cut(b)
	if !ok || len(s.answers) == 0 {
		return syscall.EPROTO
	}
	for _, m := range s.answers[0] {
		if m.seq == 0 {
			m.seq = asked.seq
		}
		if m.kind == nlError || m.kind == nlDone { // no header of its own
			b := binary.NativeEndian.AppendUint32(nil, uint32(16+len(m.body)))
			b = binary.NativeEndian.AppendUint16(b, m.kind)
			b = binary.NativeEndian.AppendUint16(b, m.flags)
			b = binary.NativeEndian.AppendUint32(b, m.seq)
			s.queue = append(s.queue, append(append(b, 0, 0, 0, 0), m.body...))
			continue
		}
		s.queue = append(s.queue, m.append(nil))
	}
	s.answers = s.answers[1:]
	return nil
}

func (s *script) receive() ([]byte, error) {
	if len(s.queue) == 0 {
		return nil, syscall.EAGAIN
	}
	b := s.queue[0]
	s.queue = s.queue[1:]
	return b, nil
}

func answered(errno syscall.Errno) attrs {
	return binary.NativeEndian.AppendUint32(nil, uint32(-int32(errno)))
}

// A list that was interrupted, at whichever of its parts, is begun again and never used half; what an abandoned
// request left to read is nobody's answer.
func TestDump(t *testing.T) {
	t.Parallel()
	part := func(name string, flags uint16) message {
		return message{kind: newElement, flags: flags, body: *new(attrs).text(2, name)}
	}
	done := message{kind: nlDone, body: answered(0)}
	endless := make([][]message, maxDumps)
	for i := range endless {
		endless[i] = []message{part("a", flagInterrupted), done}
	}
	for name, c := range map[string]struct {
		answers [][]message
		want    int
		err     error
	}{
		"whole":                     {[][]message{{part("a", 0), part("b", 0), done}}, 2, nil},
		"empty":                     {[][]message{{done}}, 0, nil},
		"interrupted at the first":  {[][]message{{part("a", flagInterrupted), part("b", 0), done}, {part("a", 0), done}}, 1, nil},
		"interrupted at the end":    {[][]message{{part("a", 0), {kind: nlDone, flags: flagInterrupted, body: answered(0)}}, {done}}, 0, nil},
		"interrupted each time":     {endless, 0, syscall.EINTR},
		"refused":                   {[][]message{{{kind: nlError, body: answered(syscall.ENOENT)}}}, 0, syscall.ENOENT},
		"cannot go on":              {[][]message{{part("a", 0), {kind: nlDone, body: answered(syscall.ENOMEM)}}}, 0, syscall.ENOMEM},
		"behind what was abandoned": {[][]message{{{kind: newElement, seq: 5}, {kind: nlDone, seq: 5}, part("a", 0), done}}, 1, nil},
		"no answer":                 {[][]message{{}}, 0, syscall.EAGAIN},
	} {
		list, err := (&conn{s: &script{answers: c.answers}, seq: 6}).dump(message{kind: getElement})
		if len(list) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %d parts, %v", name, len(list), err)
		}
	}
}

// The first error of a batch is the batch's, with what it was about. A part that the kernel lacks is told from an element that
// is not there.
func TestCommit(t *testing.T) {
	t.Parallel()
	ops := []op{{message{kind: newRule}, "add rule to x"}, {message{kind: delElement}, "delete from y"}}
	for name, c := range map[string]struct {
		seq   uint32
		errno syscall.Errno
		text  string
		lacks bool
	}{
		"made":               {3, 0, "", false},
		"somebody was there": {1, errChanged, "nft batch", false},
		"no such expression": {2, syscall.ENOENT, "add rule to x", true},
		"no such element":    {3, syscall.ENOENT, "delete from y", false},
	} {
		answers := []message{{kind: nlError, seq: c.seq, body: answered(c.errno)}, {kind: nlError, seq: 3, body: answered(0)}}
		err := (&conn{s: &script{answers: [][]message{answers}}}).commit(ops, 7, false)
		var e *link.Error
		switch {
		case c.errno == 0 && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.errno != 0 && (!errors.As(err, &e) || e.Op+e.Name != c.text && e.Name != c.text || !errors.Is(err, c.errno) || errors.Is(err, link.ErrNotSupported) != c.lacks):
			t.Errorf("%s: %v", name, err)
		}
	}
}
