package netconf

import (
	"fmt"
	"io"
	"slices"
	"sync"
)

// locals are what Local keeps for a call.
type locals struct {
	mu     sync.Mutex // guards the lists; not held while something is opened
	slots  map[any]*slot
	opened []io.Closer // in the order in which they were opened
}

type slot struct {
	mu    sync.Mutex // held while the value is opened: a second asker waits for it
	value io.Closer  // nil: not open
}

func (r *Request) locals() *locals {
	if r.local == nil {
		r.local = &locals{}
	}
	return r.local
}

func (l *locals) slot(key any) *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slots == nil {
		l.slots = map[any]*slot{}
	}
	if l.slots[key] == nil {
		l.slots[key] = &slot{}
	}
	return l.slots[key]
}

// Local returns the value kept under key for this call, opening it the first time: a netlink
// handle, a daemon's connection, shared by the steps of the call. skel closes it when the call is over.
// As with a context's values, key should be of a type of the caller's own. What did not open is
// tried again by the next; open may itself use Local, with another key.
func Local[T io.Closer](r *Request, key any, open func() (T, error)) (T, error) {
	l := r.locals()
	s := l.slot(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.value != nil {
		v, ok := s.value.(T)
		if !ok {
			return v, Errorf(CodeInternal, "the value kept under %v is a %T, not a %T", key, s.value, v)
		}
		return v, nil
	}
	v, err := open()
	if err != nil {
		var zero T
		return zero, err
	}
	s.value = v
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened = append(l.opened, v)
	return v, nil
}

// Close closes what Local kept, last opened first. skel calls it at the end of a call; who made the
// request with Parse does it himself. Again does nothing.
func (r *Request) Close() error {
	l := r.locals()
	l.mu.Lock()
	opened := l.opened
	l.opened, l.slots = nil, nil
	l.mu.Unlock()
	var errs []error
	for _, v := range slices.Backward(opened) {
		if err := v.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close what was kept for the call: %w", err))
		}
	}
	return Join(errs...)
}
