package delegate

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/cnikit/cnikit/netconf"
)

// notes are told what becomes of attachments, by their place in the Set; nil is for nobody. added may be called by
// several goroutines at once; its error is that attachment's.
type notes struct {
	added func(place int, result Result) error
	gone  func(place int) // nothing is left of it
}

// addition is the ADD of one attachment.
type addition struct {
	result Result // the last good answer of its plugins
	made   int    // how many of its plugins may have made something
}

// Add runs ADD of all attachments and returns their answers in the order of Attachments.
//
// The names of the interfaces and all that can be told of networks and request without running anything are
// checked first, and told together: the code is 7 (a name that is none, is given twice or is "lo"; no attachments; a
// network that is wrong), 1 or 4. At the first failure no further attachment is begun, those that run are cancelled
// and waited for, and then the DEL of all that were begun runs in reverse, also when ctx has ended, for at most
// 10 s in all. The error is the first one's; what those say that were cancelled is not told.
//
// The error says by netconf.Unchanged that nothing was run: no DEL is due then, which in a second ADD
// would take away what lives.
func (s Set) Add(ctx context.Context, req *netconf.Request) ([]Result, error) {
	req = req.As(netconf.Add)
	if err := s.check(req); err != nil {
		return nil, netconf.Unchanged(err)
	}
	return s.add(ctx, req, notes{})
}

// add is Add of a Set that was checked.
func (s Set) add(ctx context.Context, req *netconf.Request, n notes) ([]Result, error) {
	all := make([]addition, len(s.Attachments))
	err := s.addAll(ctx, req, all, n)
	if err == nil {
		results := make([]Result, len(all))
		for i, a := range all {
			results[i] = a.result
		}
		return results, nil
	}
	if slices.ContainsFunc(all, func(a addition) bool { return a.made > 0 }) {
		err = &afterwards{err}
	} else {
		err = netconf.Unchanged(err)
	}
	if failed := s.undo(ctx, req.As(netconf.Del), all, n); failed != nil {
		err = &undone{err, failed}
	}
	return nil, err
}

// addAll runs the ADDs up to the first failure.
func (s Set) addAll(ctx context.Context, req *netconf.Request, all []addition, n notes) error {
	ahead := len(all)
	if s.Parallel > 1 {
		ahead = max(0, min(s.Ahead, len(all)))
	}
	for i := range ahead {
		if err := s.addOne(ctx, req, i, &all[i], n); err != nil {
			return err
		}
	}
	return s.addBeside(ctx, req, ahead, all, n)
}

// addBeside runs the ADDs from a place on, as many at once as Parallel says. A panic, which a Go value's cannot be
// but a fault hook's may, goes on in the caller's goroutine, where skel finds it: in another it would end the process.
func (s Set) addBeside(ctx context.Context, req *netconf.Request, from int, all []addition, n notes) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	var mu sync.Mutex
	var first error
	var panicked any
	whole := true
	free := make(chan struct{}, max(s.Parallel, 1))
	for i := from; i < len(all); i++ {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
		}
		if whole = ctx.Err() == nil; !whole {
			break
		}
		running.Go(func() {
			defer func() {
				<-free
				if r := recover(); r != nil {
					warn(req, "panic in an ADD of several at once", "panic", r, "stack", string(debug.Stack()))
					mu.Lock()
					defer mu.Unlock()
					panicked = r
					cancel(errors.New("another attachment's ADD panicked"))
				}
			}()
			err := s.addOne(ctx, req, i, &all[i], n)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
				cancel(errors.New("another attachment's ADD failed"))
			}
		})
	}
	running.Wait()
	switch {
	case panicked != nil:
		panic(panicked)
	case first == nil && !whole: // what was begun was done before it heard of the end
		return ended(ctx)
	}
	return first
}

// addOne runs the ADD of one attachment.
func (s Set) addOne(ctx context.Context, req *netconf.Request, place int, to *addition, n notes) (err error) {
	a := s.Attachments[place]
	if to.result, to.made, err = a.Network.add(ctx, s.Plugins, s.request(req, a)); err != nil {
		return named(a, err)
	}
	if n.added != nil {
		if err := n.added(place, to.result); err != nil {
			return named(a, err)
		}
	}
	return nil
}

// undo runs the DEL of all that was begun, in reverse.
func (s Set) undo(ctx context.Context, req *netconf.Request, all []addition, n notes) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	left := 0
	for _, one := range all {
		left += min(one.made, 1)
	}
	budget := split(ctx, left)
	var errs []error
	for i, one := range slices.Backward(all) {
		var err error
		if a := s.Attachments[i]; one.made > 0 {
			part, cancel := budget.part(ctx, left)
			err = s.undoOne(part, s.request(req, a), a, one)
			cancel()
			left--
		}
		if err != nil {
			errs = append(errs, err)
		} else if n.gone != nil {
			n.gone(i)
		}
	}
	return netconf.Join(errs...)
}

func (s Set) undoOne(ctx context.Context, req *netconf.Request, a Attachment, one addition) error {
	prev, err := one.result.in(a.Network.version())
	if err != nil {
		warn(req, "the DELs of an ADD that failed go without a prevResult", "network", a.Network.Name, "error", err.Error())
	}
	if err := a.Network.del(ctx, s.Plugins, req, one.made, prev); err != nil {
		return named(a, err)
	}
	return nil
}

// Del runs DEL of all attachments in reverse, each with its Result as the prevResult. All are tried, whatever the others
// answer, each within its part of the time, as in [Network.Del]; the errors are joined. After an error the same call may
// be made again. An attachment without a network is warned about.
func (s Set) Del(ctx context.Context, req *netconf.Request) error {
	return s.del(ctx, req.As(netconf.Del), notes{})
}

func (s Set) del(ctx context.Context, req *netconf.Request, n notes) error {
	budget := split(ctx, len(s.Attachments))
	var errs []error
	for i, a := range slices.Backward(s.Attachments) {
		if a.Network == nil {
			warn(req, "DEL passes over an attachment without a network", "interface", a.IfName)
			continue
		}
		own := s.request(req, a)
		if err := own.SetPrev(a.Result); err != nil {
			warn(req, "DEL goes on without a prevResult", "interface", a.IfName, "network", a.Network.Name, "error", err.Error())
		}
		part, cancel := budget.part(ctx, i+1)
		err := a.Network.Del(part, s.Plugins, own)
		cancel()
		if err != nil {
			errs = append(errs, named(a, err))
		} else if n.gone != nil {
			n.gone(i)
		}
	}
	return netconf.Join(errs...)
}
