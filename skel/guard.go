package skel

import (
	"context"
	"fmt"
	"os"
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
func guard(ctx context.Context, req *netconf.Request, step Step, verb verb) error {
	if inner, ok := step.(Steps); ok {
		return verb(inner, ctx, req) // guards each of its own steps
	}
	name := nameOf(step)
	ctx, rolling := withRolling(ctx)
	return logged(ctx, req, name, func(ctx context.Context) error {
		return await(ctx, rolling, name, func() error {
			return protect(req, name, func() error {
				if err := verb(step, ctx, req); err != nil {
					return usable(fmt.Errorf("%s: %w", name, err))
				}
				return nil
			})
		})
	})
}

// usable asks an error, where a panic is caught, what it will be asked later: one whose methods panic, as those of
// a nil *netconf.Error that was returned as an error do, would end the process in the middle of an ADD.
func usable(err error) error {
	_, _ = netconf.Code(err), netconf.IsUnchanged(err) // see above
	return err
}

// share gives one of the steps that are left to undo its part of the time: at least leaveAfter, also after
// the context's end, and no more than that once it ends.
func share(ctx context.Context, left int) (context.Context, context.CancelFunc) {
	part := leaveAfter
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	if end, ok := ctx.Deadline(); ok {
		part = max(part, time.Until(end)/time.Duration(left))
	} else if ctx.Err() == nil {
		part = rollbackBudget // a caller of Steps.Del without a deadline of its own
	}
	own, stop := context.WithTimeout(own, part)
	unhook := context.AfterFunc(ctx, func() {
		time.AfterFunc(leaveAfter, func() { cancel(context.Cause(ctx)) })
	})
	return own, func() { unhook(); stop(); cancel(nil) }
}

// await runs f in a goroutine of its own and waits for it, until leaveAfter past the context's end.
// While a rollback runs inside f, it has its own budget and is waited for.
func await(ctx context.Context, rolling *atomic.Int32, name string, f func() error) error {
	outside := rolling.Load() // a rollback that f is itself a part of
	done := inBackground(name, f)
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
			return fmt.Errorf("%s: still running %v after its end, left behind: %w", name, leaveAfter, context.Cause(ctx))
		}
	}
}

// errGoexit is what is wrong with a goroutine that neither returned nor panicked.
var errGoexit = netconf.Errorf(netconf.CodeInternal, "the goroutine was ended by runtime.Goexit")

// inBackground runs f in a goroutine of its own. What it returns is sent also when runtime.Goexit ends the goroutine, as
// t.FailNow does in a step: nobody would return then, and the call would be waited for until its time is over.
func inBackground(name string, f func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		err := errGoexit
		if name != "" {
			err = fmt.Errorf("%s: %w", name, errGoexit)
		}
		defer func() { done <- err }()
		err = f()
	}()
	return done
}

// protect turns a panic of f into an error.
func protect(req *netconf.Request, name string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			req.Warn(panicked, "in", name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = netconf.Errorf(netconf.CodeInternal, "%s: panic: %v", name, p)
		}
	}()
	return f()
}

// caught turns a panic of f into an error, for goroutines of ours that call what is not ours.
func caught(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = netconf.Errorf(netconf.CodeInternal, "panic: %v", p)
		}
	}()
	return f()
}

// within runs f and waits for it no longer than a time; then it is left behind, and the error is
// os.ErrDeadlineExceeded.
func within(limit time.Duration, f func() error) error {
	done := inBackground("", func() error { return caught(f) })
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return os.ErrDeadlineExceeded
	}
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
