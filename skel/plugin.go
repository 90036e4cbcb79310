package skel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
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
	// IPAM gives addresses: the netns need not exist; the result has no interfaces.
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
	// defaults is a fresh C, for the help.
	defaults func() reflect.Value
}

func (p Plugin[C]) core() *core {
	c := &core{config: reflect.TypeFor[C](), name: p.Name, about: p.About, runDir: p.RunDir, kind: p.Kind, versions: p.Versions, timeout: p.Timeout, timeouts: p.Timeouts, strict: p.Strict}
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
	if err == nil || cause == nil || errors.Is(err, cause) || !untyped(err) && netconf.Code(err) != netconf.CodeTryAgainLater {
		return err
	}
	return netconf.Errorf(netconf.CodeTryAgainLater, "%w: %w", cause, err)
}

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
			err = rolledBack(err, steps.rollback(ctx, req))
		}
	}
	var failed *addError
	if err != nil && !errors.As(err, &failed) {
		undo(req)
	}
	return err
}

// check does all that can be done before any work: the version, the verb, prevResult, the namespace, the
// configuration. It describes the attachment.
func (c *core) check(req *netconf.Request) (Steps, error) {
	if c.broken != nil {
		return nil, c.broken
	}
	var steps Steps
	err := protect(req, "Plugin.Validate or Steps", func() error {
		describe, err := c.decode(req)
		if err == nil {
			steps = describe()
		}
		return err
	})
	for _, found := range []error{c.checkVersion(req, steps), err, c.rejected(req), c.checkPrev(req), checkNetns(req, c.kind)} {
		if found == nil {
			continue
		}
		if req.Command != netconf.Del || netconf.Code(found) == netconf.CodeInternal {
			return nil, found
		}
		req.Warn("goes on: " + found.Error())
	}
	return steps, nil
}

func (c *core) checkVersion(req *netconf.Request, steps Steps) error {
	versions := c.supported(steps)
	v := req.Network.CNIVersion
	if !slices.Contains(versions, v) {
		details := "supported: " + strings.Join(versions, ", ")
		if slices.Contains(c.versions, v) {
			details += fmt.Sprintf("; its steps do not have %v, which that version has", steps.lacks())
		}
		return &netconf.Error{Op: "configuration", Path: "cniVersion", Code: netconf.CodeIncompatibleVersion,
			Err: fmt.Errorf("version %.64q is not supported by %s", v, c.name), Details: details}
	}
	return req.CheckVerb()
}

// supported lists the announced versions, without those that have a verb the steps lack.
func (c *core) supported(steps Steps) []string {
	lacks := steps.lacks()
	return slices.DeleteFunc(slices.Clone(c.versions), func(v string) bool {
		return slices.ContainsFunc(lacks, func(verb netconf.Command) bool {
			return netconf.Network{CNIVersion: v}.Is(verb.Since())
		})
	})
}

// rejected is what the description of the attachment noted with Reject; GC has no use for it.
func (c *core) rejected(req *netconf.Request) error {
	err := req.Rejected()
	if err != nil && req.Command == netconf.GC {
		req.Warn("goes on: " + err.Error())
		return nil
	}
	return err
}

func (c *core) checkPrev(req *netconf.Request) error {
	if req.Prev == nil && (req.Command == netconf.Check || req.Command == netconf.Add && c.kind == Chained) {
		return req.Invalid("prevResult", "missing: %s of %s needs it", req.Command, c.name)
	}
	return nil
}

// checkResult holds an ADD's result against the plugin's kind: what fails here is the author's fault.
func (c *core) checkResult(req *netconf.Request) error {
	switch c.kind {
	case Interface:
		i := netconf.Attached(req.Result, req.IfName)
		if i < 0 {
			return netconf.Errorf(netconf.CodeInternal, "%s: the result does not name the interface %q of the container: "+
				"a step calls req.AddInterface with that Name and with Sandbox = req.Netns, or the plugin is of another Kind", c.name, req.IfName)
		}
		if !req.Network.DNS.IsEmpty() {
			req.Result.DNS = req.Network.DNS
		}
	case IPAM:
		if len(req.Result.Interfaces) > 0 {
			return netconf.Errorf(netconf.CodeInternal, "%s: the result of an IPAM plugin has no interfaces", c.name)
		}
	}
	return nil
}

// gone makes the error for a namespace that does not exist. Code 3 tells the runtime that no DEL is
// needed, so it is only for an ADD or CHECK before which nothing can have been made.
func gone(req *netconf.Request, err error) error {
	code := netconf.CodeUnknownContainer
	if req.Prev != nil {
		code = netconf.CodeInvalidNetworkConfig
	}
	return &netconf.Error{Op: "environment", Path: "CNI_NETNS", Code: code, Err: fmt.Errorf("namespace %q: %w", req.Netns, err)}
}

// checkNetns refuses, on ADD and CHECK, a namespace that does not exist or is our own. On DEL a
// namespace of our own becomes none: after a process id was used again it is the host that is named, whose
// links are not the attachment's.
func checkNetns(req *netconf.Request, kind Kind) error {
	if kind == IPAM || req.Netns == "" || req.Command == netconf.GC || req.Command == netconf.Status {
		return nil
	}
	own, err := ownNetns(req.Netns)
	switch {
	case req.Command == netconf.Del && own && !overridden(req):
		req.Netns = ""
		req.Warn("CNI_NETNS is the plugin's own namespace: goes on as if there were none")
		return nil
	case req.Command == netconf.Del && errors.Is(err, errNotNetns):
		req.Netns = "" // a delegate might open it, and a FIFO has no end
		req.Warn("CNI_NETNS is not a network namespace: goes on as if there were none")
		return nil
	case req.Command == netconf.Del:
		return nil // the steps know a namespace that is gone
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errStale):
		return gone(req, err)
	case err != nil: // also one that may not be read: it is there
		return &netconf.Error{Op: "environment", Path: "CNI_NETNS", Code: netconf.CodeInvalidEnvironment, Err: fmt.Errorf("%q: %w", req.Netns, err)}
	case own && !overridden(req):
		return &netconf.Error{Op: "environment", Path: "CNI_NETNS", Code: netconf.CodeInvalidEnvironment,
			Err: fmt.Errorf("%q is the plugin's own namespace, the host's: expected the container's", req.Netns)}
	}
	return nil
}

// overridden tells whether the caller wants to work in its own namespace, as upstream's skel allows.
func overridden(req *netconf.Request) bool {
	v := lookup(req.Environ, "CNI_NETNS_OVERRIDE")
	return v == "1" || strings.EqualFold(v, "true")
}

var (
	errNotNetns = errors.New("not a network namespace")
	errStale    = errors.New("stale: its mount is gone")
)
