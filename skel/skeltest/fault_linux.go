package skeltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// ErrInjected is the failure that Walk injects.
var ErrInjected = errors.New("injected failure")

// Harm is what happens to a call at a chosen place.
type Harm int

// The kinds of harm.
const (
	Fail   Harm = iota // the operation fails with ErrInjected
	Panic              // the operation panics
	Cancel             // the call is cancelled, as by a signal or a time-out, and the operation fails with it
)

// String is the name of the harm.
func (h Harm) String() string { return [...]string{"Fail", "Panic", "Cancel"}[h] }

// counter harms the n-th operation of a call and remembers what it was.
type counter struct {
	mu     sync.Mutex
	n      int // which one to harm; 0 none
	harm   Harm
	seen   []string
	cancel context.CancelFunc
}

func (c *counter) before(ctx context.Context, op string) error {
	c.mu.Lock()
	c.seen = append(c.seen, op)
	hit := len(c.seen) == c.n
	c.mu.Unlock()
	switch {
	case !hit:
		return nil
	case c.harm == Panic:
		panic("injected panic before " + op)
	case c.harm == Cancel:
		c.cancel()
		return context.Canceled
	}
	return fmt.Errorf("%w before %s", ErrInjected, op)
}

// harmed makes a call whose n-th operation is harmed; hit is what that operation was, "" when the
// call had fewer.
func harmed(t testing.TB, p Plugin, call Call, harm Harm, n int) (a Answer, hit string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := &counter{n: n, harm: harm, cancel: cancel}
	a = call.Run(netconf.WithFault(ctx, c.before), t, p)
	if len(c.seen) >= n {
		hit = c.seen[n-1]
	}
	return a, hit
}

// Walk harms an attachment at each of its operations (kernel requests, processes, writes) in turn,
// in each of the ways: first ADD at its first, second, ... operation, until it gets through unharmed,
// then DEL likewise. Host and namespace must then be as before: after an ADD that failed, at once; after
// one that got over the harm, when it has been DELeted; after a DEL that failed, when it has been called
// again. also lists what else must be as before (an IPAM plugin's store), a line each. It returns how
// many operations an ADD has.
//
// One unharmed ADD and DEL come first: what is shared by a network's attachments and stays (a bridge)
// is made there. Then the same ADD is made twice, the second time harmed at each operation: the
// live attachment must stay as it is.
//
// A step that does not call netconf.Before has no operations for Walk to harm: see to it that the number
// counts yours. Where IPv6 addresses wait for duplicate address detection (a second or two each), so
// does each of the ADDs.
func Walk(t testing.TB, p Plugin, call Call, ns *NS, also func() []string) (operations int) {
	t.Helper()
	operations, err := walk(t, p, call, func() Snapshot {
		s := append(ns.Snapshot(), HostSnapshot(t)...)
		if also != nil {
			s = append(s, also()...)
		}
		return s
	})
	if err != nil {
		t.Fatal(err)
	}
	return operations
}

func walk(t testing.TB, p Plugin, call Call, look func() Snapshot) (operations int, err error) {
	t.Helper()
	add, del := call.With(netconf.Add), call.With(netconf.Del)
	add.Run(t.Context(), t, p).OK(t)
	del.Run(t.Context(), t, p).OK(t)
	before := look()
	if err := walkSecond(t, p, add, look); err != nil {
		return 0, err
	}
	del.Run(t.Context(), t, p).OK(t)
	for _, harm := range []Harm{Fail, Panic, Cancel} {
		for n := 1; ; n++ {
			a, hit := harmed(t, p, add, harm, n)
			if a.Exit == 0 {
				del.WithPrev(a).Run(t.Context(), t, p).OK(t)
			}
			if diff := before.Diff(look()); diff != "" {
				return n, fmt.Errorf("%v of ADD before operation %d, %q (exit status %d, %s): not as before:\n%s", harm, n, hit, a.Exit, a.Err.Msg, diff)
			}
			if hit == "" {
				operations = n - 1
				break
			}
		}
		for n := 1; ; n++ {
			a := add.Run(t.Context(), t, p).OK(t)
			d, hit := harmed(t, p, del.WithPrev(a), harm, n)
			del.Run(t.Context(), t, p).OK(t)
			if diff := before.Diff(look()); diff != "" {
				return n, fmt.Errorf("%v of DEL before operation %d, %q (exit status %d, %s), and DEL again: not as before:\n%s", harm, n, hit, d.Exit, d.Err.Msg, diff)
			}
			if hit == "" {
				break
			}
		}
	}
	return operations, nil
}

// walkSecond makes an attachment, and again and again tries to make it a second time.
func walkSecond(t testing.TB, p Plugin, add Call, look func() Snapshot) error {
	add.Run(t.Context(), t, p).OK(t)
	alive := look()
	for _, harm := range []Harm{Fail, Panic, Cancel} {
		for n, hit := 1, "?"; hit != ""; n++ {
			var a Answer
			a, hit = harmed(t, p, add, harm, n)
			if diff := alive.Diff(look()); diff != "" {
				return fmt.Errorf("%v of a second ADD before operation %d, %q (exit status %d, %s): the live attachment is not as before:\n%s", harm, n, hit, a.Exit, a.Err.Msg, diff)
			}
		}
	}
	return nil
}
