package delegate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
)

// Exec is a plugin's program. The zero value is the plugin that the request's configuration names,
// looked up in the request's Path.
type Exec struct {
	Type string // the program's name; empty: the configuration's "type"
	// Stderr gets what the program writes to its stderr, line by line as it comes, each with the plugin's name
	// and ": " before it. nil is the request's Stderr, and that of this process where the request has none. A call
	// writes whole lines, from one goroutine at a time, and begins no write after it has returned; what calls that
	// run side by side share must be safe for that. A write that fails, or does not return, does not fail the call.
	Stderr io.Writer
	// Grace is how long a program and its children may take to end after SIGTERM before they are killed. 0
	// means 500 ms: skel leaves a step behind a second after its context's end.
	Grace time.Duration
}

// Call runs the program with the verb of req.Command; see [Plugin]. It takes req.Config as it is, with or
// without a prevResult: a plugin in a chain is called by a [Network] or a [Step].
func (e Exec) Call(ctx context.Context, req *netconf.Request) (*types100.Result, error) {
	result, err := e.result(ctx, req)
	return result.Result, err
}

func (e Exec) result(ctx context.Context, req *netconf.Request) (Result, error) {
	name := e.name(req)
	out, err := e.call(ctx, name, req)
	var result Result
	if err == nil {
		result, err = out.answer(req)
	}
	if err != nil {
		return Result{}, &Error{Op: req.Command, Plugin: name, Network: req.Network.Name, Program: out.program, Stderr: out.stderr, Err: err}
	}
	return result, nil
}

func (e Exec) name(req *netconf.Request) string {
	if e.Type != "" {
		return e.Type
	}
	return req.Network.Type
}

func (e Exec) stderr(req *netconf.Request) io.Writer {
	switch {
	case e.Stderr != nil:
		return e.Stderr
	case req.Stderr != nil:
		return req.Stderr
	}
	return os.Stderr
}

// call finds the program and runs it to its end. It returns an error where there is no use in
// looking at the output.
func (e Exec) call(ctx context.Context, name string, req *netconf.Request) (output, error) {
	if sent, err := exists(req); err != nil || !sent {
		return output{skipped: true}, err
	}
	return e.send(ctx, name, req)
}

// send is call for any verb.
func (e Exec) send(ctx context.Context, name string, req *netconf.Request) (output, error) {
	path, err := find(name, req.Path)
	if err != nil {
		return output{}, err
	}
	if err := netconf.Before(ctx, "exec "+name+" "+string(req.Command)); err != nil {
		return output{}, netconf.Unchanged(err) // not begun: in a second ADD, a DEL would take away what lives
	}
	out, err := e.run(ctx, path, name, req)
	out.program = path
	return out, err
}

// output is what a program left.
type output struct {
	program string // its path
	skipped bool   // it was not run: the version does not have the verb
	tooMuch bool   // stdout is cut
	stdout  []byte // at most maxStdout
	stderr  string // the end of it
	exit    error  // nil for exit status 0; else an *exec.ExitError
}

// how says how the program ended: "exit status 1", "signal: killed".
func (o output) how() string {
	if o.exit == nil {
		return "exit status 0"
	}
	return o.exit.Error()
}

// ended makes the error of a context that ended before the program did. Both the context's error and
// its cause are in it, so that errors.Is finds context.DeadlineExceeded in any case.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("stopped: %w", cause)
	}
	return fmt.Errorf("stopped: %w: %w", err, cause)
}

func isExit(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit)
}
