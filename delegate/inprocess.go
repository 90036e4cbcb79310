package delegate

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net"
	"runtime/debug"
	"slices"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
)

// InProcess is a plugin that is a Go value of this process: no second process, which is half of an
// ADD's time. Do is skel's Plugin.Do, or any function that serves the verb of req.Command and, on ADD,
// fills req.Result.
//
// It is treated as a program is: Do gets a request of its own (a copy of the configuration and the
// prevResult, an empty Result, no State, which skel sets), and its result is encoded in the
// configuration's version and read back, so nothing is shared with the caller and what a program
// could not print is an error here too. A panic is an error with code 999; the stack goes to req.Warn.
//
// The difference: a function cannot be killed. It has to return when its context ends.
type InProcess struct {
	Type string // the plugin's name in errors; empty: the configuration's "type"
	// Do serves the call. Its error keeps its chain: by netconf.ErrExists or netconf.Unchanged in it an ADD
	// says that no DEL is due. On VERSION, by which Network.Validate asks, it is nil where Do serves configurations of
	// req.Network.CNIVersion; skel's Do says so, and a function that does not know the verb says yes to all.
	Do func(ctx context.Context, req *netconf.Request) error
	// Validate finds what is wrong with a configuration, without any work: ipam.FromConfig asks it on ADD, CHECK and
	// STATUS, so that it is said before a link is made, and PLUGIN validate finds it. req is a copy; what it warns of is told
	// then, and not again where Do warns of it in the same words. Do does not rely on it. nil: nothing is checked before.
	Validate func(req *netconf.Request) error
}

// Call runs Do with the verb of req.Command; see [Plugin].
func (p InProcess) Call(ctx context.Context, req *netconf.Request) (*types100.Result, error) {
	result, err := p.result(ctx, req)
	return result.Result, err
}

func (p InProcess) result(ctx context.Context, req *netconf.Request) (Result, error) {
	name := p.name(req)
	result, err := p.call(ctx, name, req)
	if err != nil {
		return Result{}, &Error{Op: req.Command, Plugin: name, Network: req.Network.Name, Err: err}
	}
	return result, nil
}

func (p InProcess) name(req *netconf.Request) string {
	if p.Type != "" {
		return p.Type
	}
	return req.Network.Type
}

func (p InProcess) call(ctx context.Context, name string, req *netconf.Request) (Result, error) {
	if sent, err := exists(req); err != nil || !sent {
		return Result{}, err
	}
	out, err := p.send(ctx, name, req)
	if err != nil || req.Command != netconf.Add {
		return Result{}, err
	}
	result, err := newResult(bytes.TrimSpace(out), req.Network.CNIVersion)
	if err != nil {
		return Result{}, netconf.Errorf(netconf.CodeBadDelegate, "not a valid result: %s", err.Error())
	}
	return result, nil
}

// send is call for any verb.
func (p InProcess) send(ctx context.Context, name string, req *netconf.Request) (out []byte, err error) {
	if err := netconf.Before(ctx, "call "+name+" "+string(req.Command)); err != nil {
		return nil, netconf.Unchanged(err) // not begun, as in Exec
	}
	return p.do(ctx, req)
}

// do calls Do and returns its result as a program would print it.
func (p InProcess) do(ctx context.Context, req *netconf.Request) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			if req.Warn != nil { // a request made by hand may have none
				req.Warn("panic in a delegate", "panic", r, "stack", string(debug.Stack()))
			}
			err = netconf.Errorf(netconf.CodeInternal, "panic: %v", r)
		}
	}()
	own := req.For(req.Network, "")
	own.Config = bytes.Clone(req.Config)
	own.Args = maps.Clone(req.Args)
	own.Path, own.Environ = slices.Clone(req.Path), slices.Clone(req.Environ)
	unshare(&own.Network)
	takePrev(own, req)
	if err := p.Do(ctx, own); err != nil || req.Command != netconf.Add {
		return nil, err
	}
	var b bytes.Buffer
	if err := own.EncodeResult(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// unshare copies what a copy of a Network has in common with it; nil, which on GC is not an empty list, stays nil.
func unshare(n *netconf.Network) {
	n.Capabilities, n.DNS = maps.Clone(n.Capabilities), *n.DNS.Copy()
	n.RuntimeConfig, n.Args = cloneTexts(n.RuntimeConfig), cloneTexts(n.Args)
	n.PrevResult, n.Log = bytes.Clone(n.PrevResult), bytes.Clone(n.Log)
	n.ValidAttachments, n.Attachments = slices.Clone(n.ValidAttachments), slices.Clone(n.Attachments)
}

func cloneTexts(m map[string]json.RawMessage) map[string]json.RawMessage {
	own := maps.Clone(m)
	for key, text := range own {
		own[key] = bytes.Clone(text)
	}
	return own
}

// takePrev gives a copy of the prevResult, with the fields that types100 does not know, as a program would find
// it in the configuration. What is there as Prev alone, in a request made by hand, is copied.
func takePrev(own, req *netconf.Request) {
	if req.Prev == nil {
		return
	}
	if raw := req.Network.PrevResult; len(raw) == 0 || own.SetPrev(raw) != nil {
		own.Prev = clone(req.Prev)
	}
}

// clone copies a result so that nothing is shared. (The Copy methods of upstream's types share the
// bytes of the addresses and a route's scope.)
func clone(r *types100.Result) *types100.Result {
	if r == nil {
		return nil
	}
	c := &types100.Result{CNIVersion: r.CNIVersion, DNS: *r.DNS.Copy()}
	for _, i := range r.Interfaces {
		c.Interfaces = append(c.Interfaces, i.Copy())
	}
	for _, ip := range r.IPs {
		if ip = ip.Copy(); ip != nil {
			ip.Address, ip.Gateway = cloneNet(ip.Address), slices.Clone(ip.Gateway)
		}
		c.IPs = append(c.IPs, ip)
	}
	for _, route := range r.Routes {
		if route = route.Copy(); route != nil {
			route.Dst, route.GW = cloneNet(route.Dst), slices.Clone(route.GW)
			if route.Scope != nil {
				route.Scope = types100.Int(*route.Scope)
			}
		}
		c.Routes = append(c.Routes, route)
	}
	return c
}

func cloneNet(n net.IPNet) net.IPNet {
	return net.IPNet{IP: slices.Clone(n.IP), Mask: slices.Clone(n.Mask)}
}
