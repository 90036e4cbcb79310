package delegate

import (
	"context"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
)

// undoTime is how long the DELs that clear up after a failed ADD may take together. They have a budget of their own,
// since the ADD may have failed because the context ended; skel's rollback has as much for all steps.
const undoTime = 10 * time.Second

// Plugin is another plugin: a program ([Exec]) or a Go value ([InProcess]).
type Plugin interface {
	// Call runs the verb of req.Command. The result is that of an ADD, the caller's own, checked as
	// netconf.ParseResult does; it is nil for the other verbs. Errors are of type *Error. CHECK below
	// version 0.4.0 and GC and STATUS below 1.1.0 are not sent (nil, nil).
	Call(ctx context.Context, req *netconf.Request) (*types100.Result, error)
}

// Add calls the plugin's ADD and, if it fails, the DEL of the same plugin, as the specification
// wants it of who delegates (SPEC, section 4 "Delegated plugin execution procedure"), see [Undo]. It is for
// callers without skel: a step of skel's takes Call alone, for skel calls the step's Del after a failed Add.
//
// There is no DEL if nothing has run (see [NotRun]), nor if a Go value says that it changed nothing
// (netconf.IsUnchanged): a DEL would destroy what is there. No code of a program says that: from 100 on they are
// each plugin's own, and azure-vnet-ipam's 100 is any error.
func Add(ctx context.Context, p Plugin, req *netconf.Request) (*types100.Result, error) {
	result, err := p.Call(ctx, req.As(netconf.Add))
	switch {
	case err == nil:
		return result, nil
	case NotRun(err), netconf.IsUnchanged(err):
		return nil, err
	}
	return nil, Undo(ctx, p, req, err)
}

// Undo runs the plugin's DEL because of cause, an error after its ADD, and returns cause, with the text
// of the DEL's error if it has one: code and errors.Is are the cause's alone. The DEL runs even if ctx
// has ended, for at most 10 s.
func Undo(ctx context.Context, p Plugin, req *netconf.Request, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	_, err := p.Call(ctx, req.As(netconf.Del))
	if err != nil {
		return &undone{cause, err}
	}
	return cause
}

// exists tells whether the verb can be sent: whether the configuration's version has it. ADD and
// DEL are in all versions, and must not be lost to a cniVersion that does not even parse. A verb that
// is none is an error.
func exists(req *netconf.Request) (bool, error) {
	switch req.Command {
	case netconf.Add, netconf.Del:
		return true, nil
	case netconf.Check, netconf.GC, netconf.Status:
		return req.Network.Is(req.Command.Since()), nil
	}
	return false, netconf.Errorf(netconf.CodeInvalidEnvironment, "verb %q: expected ADD, CHECK, DEL, GC or STATUS", string(req.Command))
}
