package skel

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/cnikit/cnikit/netconf"
)

const (
	leaveAfter     = time.Second      // how long a step may go on after its context has ended
	rollbackBudget = 10 * time.Second // for all of a rollback: kubelet's and containerd's own patience is minutes
)

// guard calls one verb of a step. A panic becomes an error with code 999, its stack a warning. When
// the context has ended and the step does not return within leaveAfter, it is left behind: its goroutine
// goes on until the process ends, and what it did is for the rollback to take away.
func guard(ctx context.Context, req *netconf.Request, step Step, verb func(Step, context.Context, *netconf.Request) error) error {
	if inner, ok := step.(Steps); ok {
		return verb(inner, ctx, req) // guards each of its own steps
	}
	name := nameOf(step)
	ctx, rolling := withRolling(ctx)
	err := await(ctx, rolling, func() error {
		return protect(req, name, func() error { return verb(step, ctx, req) })
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// await runs f in a goroutine of its own and waits for it, until leaveAfter past the context's end.
// While a rollback runs inside f, it has its own budget and is waited for.
func await(ctx context.Context, rolling *atomic.Int32, f func() error) error {
	outside := rolling.Load() // a rollback that f is itself a part of
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	for {
		timer := time.NewTimer(leaveAfter)
		select {
		case err := <-done:
			timer.Stop()
			return err
		case <-timer.C:
		}
		if rolling.Load() <= outside {
			return fmt.Errorf("still running %v after its end, left behind: %w", leaveAfter, context.Cause(ctx))
		}
	}
}

// protect turns a panic of f, and a runtime.Goexit, into an error.
func protect(req *netconf.Request, name string, f func() error) (err error) {
	returned := false
	defer func() {
		if p := recover(); p != nil {
			req.Warn("panic", "step", name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = netconf.Errorf(netconf.CodeInternal, "panic: %v", p)
		} else if !returned {
			err = netconf.Errorf(netconf.CodeInternal, "the goroutine was ended by runtime.Goexit")
		}
	}()
	err = f()
	returned = true
	return err
}

type rollingKey struct{}

// withRolling returns the call's counter of rollbacks that are under way, carried by the context so
// that an outer guard knows of an inner step's.
func withRolling(ctx context.Context) (context.Context, *atomic.Int32) {
	if n, ok := ctx.Value(rollingKey{}).(*atomic.Int32); ok {
		return ctx, n
	}
	n := new(atomic.Int32)
	return context.WithValue(ctx, rollingKey{}, n), n
}

// rollback runs Del of the steps in reverse; the context's end does not reach it.
func (s Steps) rollback(ctx context.Context, req *netconf.Request) error {
	ctx, rolling := withRolling(ctx)
	rolling.Add(1)
	defer rolling.Add(-1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackBudget)
	defer cancel()
	return s.Del(ctx, req.As(netconf.Del))
}

// addError is why an ADD failed. It unwraps to the cause alone: neither the code nor errors.Is may
// see what went wrong in the rollback, but its text is there.
type addError struct{ cause, rollback error }

func rolledBack(cause, rollback error) error {
	if rollback == nil {
		return cause
	}
	return &addError{cause, rollback}
}

func (e *addError) Error() string {
	return fmt.Sprintf("%v; then the rollback: %v", e.cause, e.rollback)
}

func (e *addError) Unwrap() error { return e.cause }
