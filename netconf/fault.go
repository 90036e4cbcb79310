package netconf

import "context"

// Fault is asked before every change that a step makes outside the process: op names the kernel
// request, the process or the write that is about to happen ("link add eth0", "exec host-local
// ADD"). An error is returned by that operation as if it had failed by itself. A Fault may also
// panic, cancel the context or kill the process: that is how tests break a call at each place in turn.
type Fault func(ctx context.Context, op string) error

type faultKey struct{}

// WithFault returns a context that carries the fault hook. Only tests do this.
func WithFault(ctx context.Context, f Fault) context.Context {
	return context.WithValue(ctx, faultKey{}, f)
}

// Before is called by every room before it changes something: it returns the context's own error if
// it has ended, else what the fault hook says, nil where there is none. The hook may be called
// from several goroutines.
func Before(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f, _ := ctx.Value(faultKey{}).(Fault); f != nil {
		return f(ctx, op)
	}
	return nil
}
