package delegate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/containernetworking/cni/pkg/version"

	"github.com/cnikit/cnikit/netconf"
)

// Network is a network as an administrator describes it (SPEC, section 1): a list of plugins that make one
// attachment together. It is read by [ParseNetwork], [LoadNetwork] and [LoadFile], or made as a value.
//
// Its verbs take all that is the call's own from the request: ContainerID, Netns, IfName, Args, Path, Environ,
// Stderr; Network.RuntimeConfig, of which each plugin gets what it declares in its capabilities; Prev. The rest
// of req.Network, and req.Config, are not looked at. What a plugin gets is its configuration with name, cniVersion,
// prevResult and runtimeConfig put in, and no other byte changed. The request stays as it was; values that
// in-process plugins keep for the call (netconf.Local) are closed by the request's Close.
//
// A network is not changed by its verbs and may be used by several calls at once.
type Network struct {
	Name         string            // as CNI's: a letter or digit, then letters, digits, '_', '.' and '-'
	CNIVersion   string            // the version it is called in; empty is "0.1.0", as everywhere in CNI
	CNIVersions  []string          // all that the configuration names, see [Network.Choose]
	Plugins      []json.RawMessage // their configurations, byte for byte; each has a "type"
	DisableCheck bool              // Check does nothing
	DisableGC    bool              // GC does nothing

	source json.RawMessage // the list that it was read from; nil for one plugin, and for a value
}

// Add runs the plugins' ADD in order, each with the answer of the one before it as its prevResult, and returns
// the last answer. The first one gets req.Prev: nil for a new attachment; what there is already where a list is added
// to it. If one fails, the DEL of that plugin and of all before it is run in reverse, also when ctx has ended,
// for at most 10 s; the DEL of the one that failed is left out where it did not run ([NotRun]) or is a Go
// value that says it changed nothing (netconf.IsUnchanged). Nothing is run with an error of code 1, 4 or 7 about the
// network or the request.
func (n *Network) Add(ctx context.Context, plugins Registry, req *netconf.Request) (Result, error) {
	result, made, err := n.add(ctx, plugins, req)
	if err == nil || made == 0 {
		return result, err
	}
	prev, later := result.in(n.version())
	if later != nil {
		warn(req, "the DELs of an ADD that failed go without a prevResult", "network", n.Name, "error", later.Error())
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if failed := n.del(undo, plugins, req, made, prev); failed != nil {
		err = &undone{err, failed}
	}
	return Result{}, err
}

// add is Add without the way back: with an error it returns the last answer that there was, and how many plugins,
// from the first on, may have made something.
func (n *Network) add(ctx context.Context, plugins Registry, req *netconf.Request) (last Result, made int, err error) {
	req = req.As(netconf.Add)
	if err := n.check(req); err != nil {
		return Result{}, 0, err
	}
	prev, err := n.prev(req)
	if err != nil {
		return Result{}, 0, err
	}
	for i, plugin := range n.Plugins {
		if i > 0 {
			if prev, err = last.in(n.version()); err != nil {
				err = &Error{Op: netconf.Add, Network: n.Name, Err: fmt.Errorf("the result of plugins[%d] as a prevResult: %w", i-1, err)}
				return last, made, &afterwards{err}
			}
		}
		result, ran, err := n.addOne(ctx, plugins, req, plugin, prev)
		if ran {
			made = i + 1
		}
		if err != nil && made > 0 {
			err = &afterwards{err}
		}
		if err != nil {
			return last, made, err
		}
		last = result
	}
	return last, made, nil
}

// addOne runs one plugin's ADD; ran tells that it may have made something.
func (n *Network) addOne(ctx context.Context, plugins Registry, req *netconf.Request, plugin, prev json.RawMessage) (result Result, ran bool, err error) {
	d, err := n.request(req, plugin, prev)
	if err != nil {
		return Result{}, false, err
	}
	result, err = plugins.plugin(d.Network.Type).result(ctx, d)
	return result, !NotRun(err) && !netconf.IsUnchanged(err), err
}

// Check runs the plugins' CHECK in order with req.Prev, the result of the ADD, and returns the first error. With
// DisableCheck, and below version 0.4.0, which has no CHECK, it does nothing.
func (n *Network) Check(ctx context.Context, plugins Registry, req *netconf.Request) error {
	if n.DisableCheck {
		return nil
	}
	return n.inOrder(ctx, plugins, req.As(netconf.Check), true)
}

// Del runs the plugins' DEL in reverse with req.Prev, the result of the ADD; nil if it is not known. All are
// tried, whatever the others answer, each within its part of the time: an equal one of what ctx leaves, or up to 5 s
// where the others still have half of theirs; the errors are joined.
// After an error the same call may be made again: DEL of what is gone succeeds. A plugin whose program is not there
// is such an error: when the program is back, the next call does its work. An entry that names no plugin cannot
// have made anything and is warned about.
func (n *Network) Del(ctx context.Context, plugins Registry, req *netconf.Request) error {
	req = req.As(netconf.Del)
	n = n.deletable(req)
	prev, err := n.prev(req)
	if err != nil {
		warn(req, "DEL goes on without a prevResult", "network", n.Name, "error", err.Error())
	}
	return n.del(ctx, plugins, req, len(n.Plugins), prev)
}

// del runs the DEL of the first of the plugins, as many as made says, in reverse.
func (n *Network) del(ctx context.Context, plugins Registry, req *netconf.Request, made int, prev json.RawMessage) error {
	req = req.As(netconf.Del)
	if !n.hasPrev(netconf.Del) {
		prev = nil
	}
	var errs []error
	budget := split(ctx, made)
	for left := made; left > 0; left-- {
		plugin := n.Plugins[left-1]
		if _, err := typeOf(plugin); err != nil {
			warn(req, "DEL passes over an entry that names no plugin", "network", n.Name, "error", err.Error())
			continue
		}
		part, cancel := budget.part(ctx, left)
		errs = append(errs, n.run(part, plugins, req, plugin, prev))
		cancel()
	}
	return netconf.Join(errs...)
}

// deletable is the network in the newest version, where its own is one that its plugins would refuse at each try:
// what was made before the configuration was changed is taken away all the same.
func (n *Network) deletable(req *netconf.Request) *Network {
	if n.known() {
		return n
	}
	known := version.All.SupportedVersions()
	other := *n
	other.CNIVersion = known[len(known)-1]
	warn(req, "the plugins are called in another version", "network", n.Name, "cniVersion", n.CNIVersion, "instead", other.CNIVersion)
	return &other
}

// GC runs the plugins' GC in order: what belongs to the network and to none of req.Network.ValidAttachments is
// removed. All are tried; the errors are joined. A list that is nil is an error with code 7, for it would
// be read as "nothing lives". With DisableGC, and below version 1.1.0, which has no GC, it does nothing.
func (n *Network) GC(ctx context.Context, plugins Registry, req *netconf.Request) error {
	switch {
	case n.DisableGC:
		return nil
	case req.Network.ValidAttachments == nil:
		return errNoList(n.Name)
	}
	return n.inOrder(ctx, plugins, detached(req.As(netconf.GC)), false)
}

// Status runs the plugins' STATUS in order and returns the first error: nil if an ADD could be served. Below
// version 1.1.0, which has no STATUS, it does nothing.
func (n *Network) Status(ctx context.Context, plugins Registry, req *netconf.Request) error {
	return n.inOrder(ctx, plugins, detached(req.As(netconf.Status)), true)
}

// detached takes the attachment out of a request: GC and STATUS are the network's.
func detached(req *netconf.Request) *netconf.Request {
	req.ContainerID, req.Netns, req.IfName, req.Args, req.Prev = "", "", "", nil, nil
	return req
}

// inOrder runs a verb that makes nothing.
func (n *Network) inOrder(ctx context.Context, plugins Registry, req *netconf.Request, toTheFirstError bool) error {
	if err := n.check(req); err != nil {
		return err
	}
	if !n.is(req.Command.Since()) {
		return nil
	}
	prev, err := n.prev(req)
	if err != nil {
		return err
	}
	var errs []error
	budget := split(ctx, len(n.Plugins))
	for i, plugin := range n.Plugins {
		part, cancel := ctx, context.CancelFunc(func() {})
		if !toTheFirstError {
			part, cancel = budget.part(ctx, len(n.Plugins)-i)
		}
		err := n.run(part, plugins, req, plugin, prev)
		cancel()
		if err != nil && toTheFirstError {
			return err
		}
		errs = append(errs, err)
	}
	return netconf.Join(errs...)
}

// run calls one plugin with a verb that has no answer.
func (n *Network) run(ctx context.Context, plugins Registry, req *netconf.Request, plugin, prev json.RawMessage) error {
	d, err := n.request(req, plugin, prev)
	if err != nil {
		return err
	}
	_, err = plugins.plugin(d.Network.Type).result(ctx, d)
	return err
}

// warn tells of what is wrong but no reason to fail; a request made by hand may have no Warn.
func warn(req *netconf.Request, msg string, args ...any) {
	if req.Warn != nil {
		req.Warn(msg, args...)
	}
}
