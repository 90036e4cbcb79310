package skel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/cnikit/cnikit/netconf"
)

// Kind is what a plugin does, and so what its netns, prevResult and result must be like.
type Kind int

// The kinds (SPEC, sections 1 and 4).
const (
	// Interface makes the interface CNI_IFNAME in CNI_NETNS, which must exist and must not be our own;
	// the result must name it. The configuration's dns, if any, goes into the result.
	Interface Kind = iota
	// Chained changes what plugins before it made: ADD needs a prevResult too.
	Chained
	// IPAM gives addresses: the netns need not exist; the result has no interfaces. The configuration is its caller's: where
	// it has a section ipam, unknown keys are looked for in that alone.
	IPAM
	// Meta calls other plugins, which make the interfaces and the result.
	Meta
)

// DefaultRunDir holds the locks and the per-attachment state of all plugins made with this package.
const DefaultRunDir = "/run/cnikit"

// Plugin describes a plugin whose configuration is a C. The zero value of each field but Name and
// Steps is useful.
type Plugin[C any] struct {
	Name     string                                    // the program's name, the "type" of a configuration; it is in errors, logs and lock files
	About    string                                    // one line for people
	Kind     Kind                                      // default Interface
	Defaults func() C                                  // a fresh value each call (a shared one would leak slices and maps between calls); nil: the zero C
	Validate func(req *netconf.Request, conf *C) error // ADD, CHECK, STATUS only; never DEL, GC
	Steps    func(req *netconf.Request, conf *C) Steps // pure: no kernel, no network, no clock, no error (see netconf.Request.Reject)
	Versions []string                                  // the versions of the specification it announces; nil: all
	Timeout  time.Duration                             // of a verb, with the reading of stdin and the wait for the lock; 0 means 90 s for ADD, 60 s else. Rollback has 10 s of its own
	Timeouts map[netconf.Command]time.Duration         // of single verbs, before Timeout
	Strict   bool                                      // an unknown key of the configuration is an error with code 2, not a warning
	RunDir   string                                    // for locks and state; default DefaultRunDir
	// Log says what stands for the key "log" of a configuration that has none, for a plugin that takes the place of another one,
	// with that one's keys: {"level": ..., "file": ...} made of them, or nil. It is pure, and what is wrong in its answer is left out.
	Log func(config json.RawMessage) json.RawMessage
}

// Do serves one call in-process, for daemons, delegates and tests: everything that Main does but
// reading the call and printing the answer. On ADD the result is in req.Result (and req.Prev). On VERSION it says, with
// code 1, that it does not serve req.Network.CNIVersion, as a delegate.Registry asks it. req.State
// is set where it is nil, and so is req.Warn. It logs where the context says ([WithLogger], or the call that it is
// made in), whatever the configuration has under "log". The caller closes the request.
func (p Plugin[C]) Do(ctx context.Context, req *netconf.Request) error {
	c := p.core()
	log := &callLog{to: handlerOf(ctx), plugin: c.name, req: req, begun: time.Now()}
	if req.Warn == nil {
		req.Warn = log.warn
	}
	ctx, cancel := c.bounded(log.in(ctx), req.Command)
	defer cancel()
	err := c.do(ctx, req, func() error { return nil })
	log.end(ctx, err)
	return err
}

// core is a Plugin without its type parameter, so that the machinery is compiled once.
type core struct {
	broken              error        // what is wrong with the Plugin itself
	config              reflect.Type // C
	name, about, runDir string
	kind                Kind
	versions            []string
	timeout             time.Duration
	timeouts            map[netconf.Command]time.Duration
	strict              bool
	// decode reads and validates the configuration; describe then lists the steps.
	decode func(req *netconf.Request) (describe func() Steps, err error)
	// announced describes it for a call without a configuration.
	announced func(req *netconf.Request) Steps
	logKeys   func(config json.RawMessage) json.RawMessage
	// defaults is a fresh C, for the help.
	defaults func() reflect.Value
}

func (p Plugin[C]) core() *core {
	c := &core{config: reflect.TypeFor[C](), name: p.Name, about: p.About, runDir: p.RunDir, kind: p.Kind, versions: p.Versions, timeout: p.Timeout, timeouts: p.Timeouts, strict: p.Strict, logKeys: p.Log}
	if c.runDir == "" {
		c.runDir = DefaultRunDir
	}
	if c.versions == nil {
		c.versions = version.All.SupportedVersions()
	}
	switch {
	case p.Name == "" || p.Steps == nil:
		c.broken = netconf.Errorf(netconf.CodeInternal, "skel.Plugin %q: Name and Steps are needed", p.Name)
	case c.config.Kind() != reflect.Struct:
		c.broken = netconf.Errorf(netconf.CodeInternal, "skel.Plugin %q: the configuration is a %v: expected a struct", p.Name, c.config)
	}
	c.decode = func(req *netconf.Request) (func() Steps, error) {
		if req.Section = ""; c.kind == IPAM {
			req.Section = "ipam"
		}
		conf, err := netconf.Decode(req, p.Defaults)
		err = netconf.Join(err, c.checkLog(req))
		if err == nil && p.Validate != nil && !req.Lenient() {
			if err = p.Validate(req, conf); err != nil {
				err = usable(err)
			}
		}
		return func() Steps { return p.Steps(req, conf) }, err
	}
	fresh := func() *C {
		conf := new(C)
		if p.Defaults != nil {
			*conf = p.Defaults()
		}
		return conf
	}
	c.announced = func(req *netconf.Request) Steps { return p.Steps(req, fresh()) }
	c.defaults = func() reflect.Value { return reflect.ValueOf(fresh()).Elem() }
	return c
}

// limit is how long a verb may take.
func (c *core) limit(command netconf.Command) time.Duration {
	switch {
	case c.timeouts[command] > 0:
		return c.timeouts[command]
	case c.timeout > 0:
		return c.timeout
	case command == netconf.Add:
		return 90 * time.Second
	}
	return 60 * time.Second
}

// bounded gives a call its time.
func (c *core) bounded(ctx context.Context, command netconf.Command) (context.Context, context.CancelFunc) {
	limit := c.limit(command)
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s did not end within %v: %w", command, limit, context.DeadlineExceeded))
}

// do serves a call within the context's time. finish is what remains to be done of an ADD when the steps
// are done (print the result); if it fails they are rolled back.
func (c *core) do(ctx context.Context, req *netconf.Request, finish func() error) error {
	if req.Result == nil { // a request made by hand

		req.Result = &types100.Result{}
	}
	if req.Command == netconf.Version {
		return c.serves(req)
	}
	req.Strict = req.Strict || c.strict
	c.named(ctx, req)
	steps, err := c.check(req)
	if err != nil {
		return err
	}
	err = c.locked(ctx, req, func(ctx context.Context) error {
		switch req.Command {
		case netconf.Add:
			return c.add(ctx, req, steps, finish)
		case netconf.Check:
			return steps.Check(ctx, req)
		case netconf.Del:
			err := steps.Del(ctx, req)
			if err == nil {
				forget(req)
			}
			return err
		case netconf.GC:
			err := steps.GC(ctx, req)
			if err == nil {
				c.forgetStale(ctx, req)
			}
			return err
		}
		return unavailable(steps.Status(ctx, req))
	})
	return interrupted(ctx, err)
}

// interrupted says of an error that it came from the end of the context, where that is so: what has a
// code of its own happened before, or besides.
func interrupted(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	var known *settledError
	if errors.As(err, &known) {
		return err
	}
	if err == nil || cause == nil || errors.Is(err, cause) || !untyped(err) && netconf.Code(err) != netconf.CodeTryAgainLater {
		return err
	}
	return netconf.Errorf(netconf.CodeTryAgainLater, "%w: %w", cause, err)
}

// settled is interrupted for what is rolled back next: once the rollback has outlived the deadline, it no longer shows
// what the deadline was the reason for.
func settled(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return &settledError{interrupted(ctx, err)}
}

// settledError is an error of which it is known whether it came from the end of the context.
type settledError struct{ error }

func (e *settledError) Unwrap() error { return e.error }

// untyped tells whether nothing in the chain gives the error a code.
func untyped(err error) bool {
	var coded *types.Error
	return !errors.As(err, &coded)
}

// unavailable gives a STATUS error without a code of its own the code 50.
func unavailable(err error) error {
	if err != nil && untyped(err) && netconf.Code(err) == netconf.CodeInternal {
		return netconf.Errorf(netconf.CodePluginNotAvailable, "%w", err)
	}
	return err
}

// add runs the steps and then finish, which is watched as a step is: a stdout that nobody reads hangs it.
func (c *core) add(ctx context.Context, req *netconf.Request, steps Steps, finish func() error) error {
	err := steps.Add(ctx, req)
	if err == nil {
		if err = context.Cause(ctx); err == nil {
			err = c.checkResult(req)
		}
		if err == nil {
			var rolling *atomic.Int32
			ctx, rolling = withRolling(ctx)
			err = await(ctx, rolling, "result", func() error { return protect(req, "result", finish) })
		}
		if err != nil {
			err = settled(ctx, err)
			err = rolledBack(err, steps.rollback(ctx, req))
		}
	}
	var failed *addError
	if err != nil && !errors.As(err, &failed) {
		undo(req)
	}
	return err
}
