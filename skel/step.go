package skel

import (
	"context"
	"fmt"
	"reflect"

	"github.com/cnikit/cnikit/netconf"
)

// Step is one part of an attachment. It calls netconf.Before before each change that it makes outside
// the process: that is how skeltest.Walk breaks it, and how it notices that the call has ended.
type Step interface {
	// Add makes the part and records it in req.Result. If the part is there already it changes
	// nothing and returns an error that Is netconf.ErrExists: it looks for the part first. What goes
	// wrong before it has looked is wrapped by netconf.Unchanged, for any other error is rolled back
	// by Del, and in a second ADD there is a live part for Del to find.
	Add(ctx context.Context, req *netconf.Request) error
	// Check compares the part with req.Prev; a difference is an error that Is netconf.ErrDifferent.
	Check(ctx context.Context, req *netconf.Request) error
	// Del takes the part away, if it is this attachment's. What is gone already is no error. It works
	// without a netns, without a prevResult, and when Add never ran or died half-way. It is also what
	// rolls an Add back: req.Result then is what the Add had recorded. Of a configuration that no longer decodes not
	// even req.Network.Name is sure: it is empty, unless something is in req.State, by which skel finds it. What is known
	// by the network's name alone is then left, with a warning, to a later DEL or to GC; what is known by container and
	// interface is taken.
	Del(ctx context.Context, req *netconf.Request) error
}

// Collector is a Step that leaves something behind which GC can find: it removes what belongs to the
// network and to none of req.Network.ValidAttachments, goes on after an error and joins them. What was saved in
// req.State for attachments that are not in that list is there to be read: req.State then is a
// [netconf.StaleRecorder], and when the GC of all steps has succeeded, skel drops it. A step without this method has nothing
// to collect: all it makes goes with the namespace, or what a dead container leaves is never taken away.
type Collector interface {
	GC(ctx context.Context, req *netconf.Request) error
}

// Prober is a Step that knows whether an ADD could be served now: nil, or an error with code 50 or 51. It is for what
// depends on something that can be missing or used up: a daemon, a pool, a parent link. A step without it is always ready.
type Prober interface {
	Status(ctx context.Context, req *netconf.Request) error
}

// Namer is a Step that names itself in errors and logs; others are called by their type.
type Namer interface{ Name() string }

// Unchecked is a Step that hands a part of the configuration to a program, which alone can check it. PLUGIN validate tells
// what it returns, such as `ipam, which the program "dhcp" checks`, beside the ok that it says of the rest; "" is nothing.
type Unchecked interface{ Unchecked() string }

// Steps is a sequence that is itself a Step: Add in order, and back in reverse if one fails; Check
// and Status in order; Del and GC in reverse, all of them. Nil steps are skipped.
type Steps []Step

// Add runs the steps in order. If one fails, panics or does not return within a second of the
// context's end, Del of that step and of all before it runs in reverse, with a context that is not
// cancelled and a budget of its own (10 s). The Del of the failed step itself is left out if its error says
// that it changed nothing (netconf.ErrExists, netconf.Unchanged): what it found belongs to somebody.
func (s Steps) Add(ctx context.Context, req *netconf.Request) error {
	for i, step := range s {
		if isNil(step) {
			continue
		}
		err := ctx.Err()
		made := i // how many steps there are to roll back
		if err == nil {
			err = settled(ctx, guard(ctx, req, step, Step.Add))
			if !netconf.IsUnchanged(err) {
				made++
			}
		}
		if err != nil {
			return rolledBack(err, s[:made].rollback(ctx, req))
		}
	}
	return nil
}

// Check runs all steps in order and joins their errors.
func (s Steps) Check(ctx context.Context, req *netconf.Request) error {
	var errs []error
	for _, step := range s {
		if !isNil(step) {
			errs = append(errs, guard(ctx, req, step, Step.Check))
		}
	}
	return netconf.Join(errs...)
}

// Del runs all steps in reverse, goes on after an error, and joins the errors. A step that hangs cannot
// keep the others from their work: each gets an equal share of the time that is left, and a second
// at least, even when the context has ended.
func (s Steps) Del(ctx context.Context, req *netconf.Request) error {
	return s.backwards(ctx, req, func(Step) verb { return Step.Del })
}

// GC runs the steps that are Collectors as Del runs all.
func (s Steps) GC(ctx context.Context, req *netconf.Request) error {
	return s.backwards(ctx, req, func(step Step) verb {
		if _, ok := step.(Collector); !ok {
			return nil
		}
		return func(s Step, ctx context.Context, req *netconf.Request) error { return s.(Collector).GC(ctx, req) }
	})
}

// verb is one of a step's methods.
type verb func(Step, context.Context, *netconf.Request) error

// backwards runs a verb of the steps that have it (which is not nil then), in reverse.
func (s Steps) backwards(ctx context.Context, req *netconf.Request, which func(Step) verb) error {
	var todo []Step
	for _, step := range s {
		if !isNil(step) && which(step) != nil {
			todo = append(todo, step)
		}
	}
	var errs []error
	for left := len(todo); left > 0; left-- {
		step := todo[left-1]
		share, cancel := share(ctx, left)
		errs = append(errs, guard(share, req, step, which(step)))
		cancel()
	}
	return netconf.Join(errs...)
}

// Status asks the steps that are Probers in order and returns the first error.
func (s Steps) Status(ctx context.Context, req *netconf.Request) error {
	for _, step := range s {
		if _, ok := step.(Prober); !ok || isNil(step) {
			continue
		}
		err := guard(ctx, req, step, func(s Step, ctx context.Context, req *netconf.Request) error {
			return s.(Prober).Status(ctx, req)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isNil also knows a nil pointer in the interface, as a constructor that returns *T for "nothing to do" gives.
func isNil(s Step) bool {
	if s == nil {
		return true
	}
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

func nameOf(s Step) string {
	name := ""
	if n, ok := s.(Namer); ok {
		_ = caught(func() error { name = n.Name(); return nil }) // one that panics has none
	}
	if name == "" {
		return fmt.Sprintf("%T", s)
	}
	return name
}

// Funcs is a Step made of functions, for who prefers to write the verbs by hand. A nil Add or Del
// does nothing. Without Check, GC or Status the plugin announces, and accepts, only the versions
// that do not have the verb (below 0.4.0 and 1.1.0): never a success that was not earned.
type Funcs struct {
	Title                       string // the step's name in errors and logs; default "skel.Funcs"
	Add, Check, Del, GC, Status func(ctx context.Context, req *netconf.Request) error
}

// Step returns the functions as a Step. (Funcs cannot have methods of its fields' names.)
func (f Funcs) Step() Step { return funcs{f} }

type funcs struct{ f Funcs }

func (s funcs) Name() string {
	if s.f.Title == "" {
		return "skel.Funcs"
	}
	return s.f.Title
}

func (s funcs) Add(ctx context.Context, req *netconf.Request) error { return call(s.f.Add, ctx, req) }
func (s funcs) Check(ctx context.Context, req *netconf.Request) error {
	return call(s.f.Check, ctx, req)
}
func (s funcs) Del(ctx context.Context, req *netconf.Request) error { return call(s.f.Del, ctx, req) }
func (s funcs) GC(ctx context.Context, req *netconf.Request) error  { return call(s.f.GC, ctx, req) }
func (s funcs) Status(ctx context.Context, req *netconf.Request) error {
	return call(s.f.Status, ctx, req)
}

func call(f func(context.Context, *netconf.Request) error, ctx context.Context, req *netconf.Request) error {
	if f == nil {
		return nil
	}
	return f(ctx, req)
}

// unchecked lists what the steps do not check.
func (s Steps) unchecked() []string {
	var parts []string
	for _, step := range s {
		if inner, ok := step.(Steps); ok {
			parts = append(parts, inner.unchecked()...)
		} else if u, ok := step.(Unchecked); ok && !isNil(step) && u.Unchecked() != "" {
			parts = append(parts, u.Unchecked())
		}
	}
	return parts
}

// lacks returns the verbs that the steps, by functions left nil, do not have.
func (s Steps) lacks() []netconf.Command {
	var verbs []netconf.Command
	for _, step := range s {
		switch step := step.(type) {
		case Steps:
			verbs = append(verbs, step.lacks()...)
		case funcs:
			if step.f.Check == nil {
				verbs = append(verbs, netconf.Check)
			}
			if step.f.GC == nil {
				verbs = append(verbs, netconf.GC)
			}
			if step.f.Status == nil {
				verbs = append(verbs, netconf.Status)
			}
		}
	}
	return verbs
}
