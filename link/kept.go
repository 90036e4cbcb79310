package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

// What the steps have in common that change a link another plugin made: to find it, and to keep in req.State how it was.

// chained finds the link that such a step works on. One that is not there is an error with code 7.
func chained(req *netconf.Request, name string) (*NS, netlink.Link, error) {
	n, err := Container(req)
	if err != nil {
		return nil, nil, err
	}
	l, err := find(n, name)
	if err == nil && l == nil {
		err = badLink(name, "there is no such link in the container: the plugin that makes it comes first in the chain")
	}
	return n, l, err
}

// begin finds the link that the Add of such a step works on; one whose part an Add of this attachment has made on this very link
// is an error that Is netconf.ErrExists.
func begin(req *netconf.Request, key, op, name string) (*NS, netlink.Link, error) {
	n, l, err := chained(req, name)
	if err != nil {
		return nil, nil, err
	}
	var before linkID // of whatever else was kept
	there, err := kept(req, key, &before)
	if err == nil && there && before.is(n, l) {
		err = done(op, name)
	}
	return n, l, err
}

// undo is the Del of such a step: it reads what was kept into old, of which id is a part, has it given back if the link is
// still the one, and forgets it. What is gone is no error.
func undo[T any](req *netconf.Request, key, name string, old *T, id *linkID, back func(*NS, netlink.Link) error) error {
	there, known, err := left(req, key, old)
	if err != nil || !there {
		return err
	}
	if !known {
		return forget(req, key)
	}
	err = onLink(req, name, func(n *NS, l netlink.Link) error {
		if !id.is(n, l) {
			return nil
		}
		return back(n, l)
	})
	if err != nil && !Gone(err) {
		return err
	}
	return forget(req, key)
}

// onLink calls f for a link of the container's, if both are there.
func onLink(req *netconf.Request, name string, f func(*NS, netlink.Link) error) error {
	if req.Netns == "" {
		return nil
	}
	n, err := Container(req)
	if err != nil {
		return err
	}
	l, err := find(n, name)
	if err != nil || l == nil {
		return err
	}
	return f(n, l)
}

// mustBe turns a link that was not found into an error.
func mustBe(l netlink.Link, err error, name string) (netlink.Link, error) {
	if err == nil && l == nil {
		err = &Error{Op: "link get", Name: name, Err: syscall.ENODEV}
	}
	return l, err
}

// ifName is the name of the link that a step works on.
func ifName(req *netconf.Request, own string) string {
	if own != "" {
		return own
	}
	return req.IfName
}

// keep writes down what DEL has to know, before anything is changed. A request without State, as a daemon may make
// it, keeps nothing.
func keep(req *netconf.Request, key string, v any) error {
	if req.State == nil {
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return req.State.Save(key, data) // it asks the fault hook by itself
}

// kept reads what keep wrote; ok tells whether there was anything. What does not decode is an error with code 105, and into
// stays as it was.
func kept[T any](req *netconf.Request, key string, into *T) (ok bool, err error) {
	data, err := load(req, key)
	if err != nil || data == nil {
		return false, err
	}
	var fresh T // of one that breaks off in the middle nothing counts
	if err := json.Unmarshal(data, &fresh); err != nil {
		return false, netconf.Errorf(netconf.CodeBadStore, "state %q: %w", key, err)
	}
	*into = fresh
	return true, nil
}

// left is kept for DEL and GC, which read less than ADD: what does not decode, since another version of the plugin has written
// it, is a warning, and known is false. It is the same the next time, and a DEL that failed for it would fail for ever.
func left[T any](req *netconf.Request, key string, into *T) (there, known bool, err error) {
	data, err := load(req, key)
	if err != nil || data == nil {
		return false, false, err
	}
	var fresh T
	if err := json.Unmarshal(data, &fresh); err != nil {
		warn(req, "what was kept cannot be read, goes on without it", "state", key, "error", err.Error())
		return true, false, nil
	}
	*into = fresh
	return true, true, nil
}

// load is the bytes that keep wrote, nil if there are none.
func load(req *netconf.Request, key string) ([]byte, error) {
	if req.State == nil {
		return nil, nil
	}
	return req.State.Load(key)
}

// forget drops what keep wrote.
func forget(req *netconf.Request, key string) error { return req.State.Forget(key) }

// done is the error of a second ADD of a part that leaves no mark in the kernel: what the first one kept says that it
// is there.
func done(op, name string) error {
	return &Error{Op: op, Name: name, Err: fmt.Errorf("%w: an ADD of this attachment has done it", netconf.ErrExists)}
}

// idle tells whether an ADD of the same call has made nothing: its rollback then leaves alone what is there.
func idle(req *netconf.Request, key attemptKey) bool {
	try, _ := netconf.Local(req, key, func() (*attempt, error) { return nil, errNoAttempt }) // the error is ours: no ADD in this call
	return try != nil && !try.made.Load()
}

// linkID is by what a link is known again: by a second ADD, and by DEL. A namespace at the same path may be another
// container's by now, or a new one of this container's whose DEL never came, and links have the same few indexes in all of
// them. The kernel numbers namespaces since 5.14, no number twice; before that a label of another attachment must do.
type linkID struct {
	Netns uint64 // the number of the namespace; 0: not known
	Index int
	Alias string
}

func idOf(n *NS, l netlink.Link) linkID {
	return linkID{cookie(n), l.Attrs().Index, l.Attrs().Alias}
}

// is tells whether a link is the one that an Add worked on.
func (id linkID) is(n *NS, l netlink.Link) bool {
	if l.Attrs().Index != id.Index {
		return false
	}
	if now := cookie(n); now != 0 && id.Netns != 0 {
		return now == id.Netns
	}
	_, labelled := parseAlias(l.Attrs().Alias)
	return !labelled || l.Attrs().Alias == id.Alias
}

// hopeless tells whether the kernel will refuse the same again: a driver does not take the value. A DEL that fails for it
// would be called for ever.
func hopeless(err error) bool {
	for _, errno := range []error{syscall.EINVAL, syscall.ERANGE, syscall.EOPNOTSUPP, syscall.EPERM, syscall.EACCES, syscall.EROFS} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// warn is req.Warn, which may be nil in a request made by hand.
func warn(req *netconf.Request, msg string, args ...any) {
	if req.Warn != nil {
		req.Warn(msg, args...)
	}
}
