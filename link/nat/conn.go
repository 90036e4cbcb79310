package nat

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// errChanged is what the kernel says of a batch for a generation of the ruleset that is gone: ERESTART, which
// package syscall does not name on every system.
const errChanged = syscall.Errno(85)

// maxDumps is how often an interrupted dump is begun again: one of 5,000 elements takes 3 ms here, and a
// machine makes some hundred changes a second at most.
const maxDumps = 50

// carrier takes messages to the kernel and answers back: a socket, and in tests what plays the kernel.
type carrier interface {
	send(b []byte) error
	receive() ([]byte, error)
}

// conn speaks with a namespace's netfilter.
type conn struct {
	s    carrier
	seq  uint32
	rest []byte // what was received and not yet read
}

// dial opens a conn in a namespace and lends it to f.
func dial(n *link.NS, f func(c *conn) error) error {
	s, err := openSocket(n)
	if err != nil {
		return err
	}
	return netconf.Join(f(&conn{s: s}), s.close())
}

// send sends messages, which get their numbers here.
func (c *conn) send(messages []message) error {
	var b []byte
	for i := range messages {
		c.seq++
		messages[i].seq = c.seq
		b = messages[i].append(b)
	}
	c.rest = nil
	return c.s.send(b)
}

// next returns the next answer to a request of first or later: what a request before it left unread is passed over.
func (c *conn) next(first uint32) (message, error) {
	for {
		m, rest, ok := cut(c.rest)
		if !ok {
			b, err := c.s.receive()
			if err != nil {
				return message{}, err
			}
			c.rest = b
			continue
		}
		if c.rest = rest; int32(m.seq-first) < 0 {
			continue
		}
		if m.kind == nlError {
			return m, errno(m.body)
		}
		return m, nil
	}
}

// errno is the error of an answer; nil for an acknowledgement.
func errno(body []byte) error {
	if len(body) < 4 {
		return syscall.EPROTO
	}
	if n := int32(binary.NativeEndian.Uint32(body)); n != 0 {
		return syscall.Errno(-n)
	}
	return nil
}

// get asks for one thing, and returns its attributes.
func (c *conn) get(m message) ([]byte, error) {
	one := []message{m}
	if err := c.send(one); err != nil {
		return nil, err
	}
	answer, err := c.next(one[0].seq)
	if err == nil && answer.kind == nlError {
		err = syscall.EPROTO // an acknowledgement that nobody asked for
	}
	return answer.body, err
}

// dump lists things; what was interrupted is begun again and never used half.
func (c *conn) dump(m message) (list [][]byte, err error) {
	m.flags |= flagDump
	for range maxDumps {
		if list, err = c.dumpOnce(m); !errors.Is(err, syscall.EINTR) {
			return list, err
		}
	}
	return nil, err
}

func (c *conn) dumpOnce(m message) (list [][]byte, err error) {
	one := []message{m}
	if err := c.send(one); err != nil {
		return nil, err
	}
	interrupted := false
	for {
		answer, err := c.next(one[0].seq)
		if err != nil {
			return nil, err
		}
		interrupted = interrupted || answer.flags&flagInterrupted != 0
		if answer.kind == nlDone {
			if err := errno(answer.body); err != nil { // it began well and could not go on
				return nil, err
			}
			break
		}
		list = append(list, slices.Clone(answer.body))
	}
	if interrupted {
		return nil, syscall.EINTR
	}
	return list, nil
}

// generation is the number of the ruleset, which grows with each change that anybody makes to any table.
func (c *conn) generation() (uint32, error) {
	body, err := c.get(message{kind: getGen})
	if errors.Is(err, syscall.EINVAL) { // nobody answers for nf_tables
		err = link.ErrNotSupported
	}
	if err != nil {
		return 0, &link.Error{Op: "nft generation", Err: err}
	}
	return word(inside(body, 1)), nil
}

// settled is the generation of a ruleset that nobody is about to change. The kernel counts a generation before it
// shows all of its elements, a set with ranges last of all, so that who reads may see an old element under a new
// number. An empty batch waits for the one before it to end. (One with a change that is not made would do so too, but
// to undo it the kernel waits for all of its readers, 10 ms and more.)
func (c *conn) settled() (uint32, error) {
	generation, err := c.generation()
	if err != nil {
		return 0, err
	}
	begin := message{kind: batchBegin, resource: subsysTables}
	begin.body.u32(batchGenID, generation)
	end := message{kind: batchEnd, resource: subsysTables}
	batch := []message{begin, end, {kind: getGen}} // of the batch there is no answer but an error
	if err := c.send(batch[:2]); err != nil {
		return 0, &link.Error{Op: "nft batch", Err: err}
	}
	first := batch[0].seq
	if err := c.send(batch[2:]); err != nil {
		return 0, &link.Error{Op: "nft generation", Err: err}
	}
	answer, err := c.next(first)
	if err == nil && word(inside(answer.body, 1)) != generation {
		err = errChanged
	}
	if err != nil {
		return 0, &link.Error{Op: "nft generation", Err: err}
	}
	return generation, nil
}

// op is one change of a batch, with words for an error.
type op struct {
	message
	what string
}

// commit makes changes, all of them or none, if the ruleset is still of the generation; 0 is any. With dry set it
// makes none and says what the kernel would have said.
func (c *conn) commit(ops []op, generation uint32, dry bool) error {
	begin := message{kind: batchBegin, resource: subsysTables}
	if generation != 0 {
		begin.body.u32(batchGenID, generation)
	}
	batch := []message{begin}
	for _, o := range ops {
		batch = append(batch, o.message)
	}
	batch[len(ops)].flags |= flagAck // errors come by themselves
	if !dry {
		batch = append(batch, message{kind: batchEnd, resource: subsysTables})
	}
	if err := c.send(batch); err != nil {
		return &link.Error{Op: "nft batch", Err: err}
	}
	for {
		m, err := c.next(batch[0].seq)
		if err == nil && m.seq == batch[len(ops)].seq {
			return nil
		}
		if err == nil {
			continue
		}
		if i := int(m.seq - batch[0].seq); m.seq != 0 && i >= 1 && i <= len(ops) {
			return &link.Error{Op: "nft", Name: ops[i-1].what, Err: lacking(ops[i-1].kind, err)}
		}
		return &link.Error{Op: "nft batch", Err: err}
	}
}

// lacking: of what is made with its parts in the same batch, ENOENT means a kind of chain, set or expression that the
// kernel has not.
func lacking(kind uint16, err error) error {
	switch kind {
	case newTable, newChain, newRule, newSet:
		if errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("%w: %w", link.ErrNotSupported, err)
		}
	}
	return err
}

// transact makes the changes that plan finds to be made after a look at the ruleset, if nobody changed
// anything in between; else it looks again. That is what makes "if it is free" and "if it is still ours" hold
// with others at work. Without changes nothing is sent.
func (c *conn) transact(ctx context.Context, what string, plan func() ([]op, error)) error {
	for try := 0; ; try++ {
		generation, err := c.settled()
		if err == nil {
			var ops []op
			if ops, err = plan(); err != nil || len(ops) == 0 {
				return err
			}
			if err := netconf.Before(ctx, what); err != nil {
				return &link.Error{Op: what, Err: err}
			}
			err = c.commit(ops, generation, false)
		}
		if !errors.Is(err, errChanged) {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return fmt.Errorf("%s: others change the ruleset all the time: %w", what, err)
		}
	}
}

// pause waits before another try: not at all at first, then up to 10 ms, each its own time.
func pause(ctx context.Context, try int) error {
	if try < 3 {
		return ctx.Err()
	}
	t := time.NewTimer(rand.N(time.Duration(min(try, 10)) * time.Millisecond))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
