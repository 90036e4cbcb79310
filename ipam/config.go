package ipam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// Step is the addresses of an attachment. It is a step of package skel, with all that is optional
// there, without this package knowing that one.
type Step interface {
	// Name is "ipam", for errors and logs.
	Name() string
	// Add gets addresses, routes and DNS settings and appends them to req.Result; the addresses have no
	// interface yet. With an error nothing is appended, but an address may be taken: the caller then calls
	// Del, as skel does, unless netconf.IsUnchanged(err) (the program is missing, a Go value said so).
	// A step that did something before it called this one returns the text of such an error, not the error: it
	// would say of the whole step that nothing was changed.
	Add(ctx context.Context, req *netconf.Request) error
	// Check asks whether the addresses of the prevResult are still held for this attachment.
	Check(ctx context.Context, req *netconf.Request) error
	// Del releases them. It needs neither a namespace nor a prevResult, and is the rollback of Add, also
	// of one that failed.
	Del(ctx context.Context, req *netconf.Request) error
	// GC releases what is held for none of the network's living attachments.
	GC(ctx context.Context, req *netconf.Request) error
	// Status tells whether an ADD could be given addresses now.
	Status(ctx context.Context, req *netconf.Request) error
}

// FromConfig returns the step for the IPAM plugin that the configuration's ipam section names. That is
// a program in CNI_PATH, unless one of inProcess has its name (its Type):
//
//	ipam.FromConfig(req, hostlocal.InProcess())
//
// Without an ipam section it returns nil: there are no addresses to give. On an ADD below 0.3.0 that
// is rejected, since a result of these versions cannot be without an address, and better now than when
// all the work is done. Also rejected, with code 7, are a section that has keys and no type, a type
// that cannot be a program's name, and the calling plugin's own type, which would call itself without
// end; see [netconf.Request.Reject]. So is what the Validate of one of inProcess finds. A DEL or GC only warns, and
// releases nothing: with such a section no ADD was served. Nor was one with a network's name that is none. Of a type that
// is one or two letters off that of one of inProcess the call is warned: a program of that name may be meant.
func FromConfig(req *netconf.Request, inProcess ...delegate.InProcess) Step {
	name := req.Network.IPAM.Type
	if name == "" {
		refuse(req, withoutType(req))
		return nil
	}
	if err := delegate.CheckType(name); err != nil {
		refuse(req, req.Invalid("ipam.type", "%w", err))
		return nil
	}
	if err := netconf.CheckName(req.Network.Name); err != nil && req.Command == netconf.Del {
		refuse(req, err)
		return nil
	}
	for _, p := range inProcess {
		if p.Type == name {
			s := &step{name: name, plugin: p}
			s.validate(req, p)
			return s
		}
	}
	if name == req.Network.Type {
		refuse(req, req.Invalid("ipam.type", "%q is the plugin itself: expected the name of an IPAM plugin", name))
		return nil
	}
	hint(req, name, inProcess)
	return &step{name: name, plugin: delegate.Exec{Type: name}}
}

// validate asks a Go value what is wrong with its section. What it warns of, the value would warn of once more in the call.
func (s *step) validate(req *netconf.Request, p delegate.InProcess) {
	if p.Validate == nil || req.Lenient() || req.Command == netconf.Version {
		return
	}
	own := req.As(req.Command)
	own.Warn = func(msg string, args ...any) {
		s.said = append(s.said, msg)
		warn(req, msg, args...)
	}
	err := p.Validate(own)
	for _, noted := range netconf.Split(own.Rejected()) {
		req.Reject(noted)
	}
	req.Reject(err)
}

// hint warns of a type that is nearly one of those that are compiled in.
func hint(req *netconf.Request, name string, inProcess []delegate.InProcess) {
	var known []string
	for _, p := range inProcess {
		known = append(known, p.Type)
	}
	near := netconf.Nearest(name, known...)
	if near == "" || req.Command == netconf.Version {
		return
	}
	text := fmt.Sprintf("%q is not compiled in, and looked for in CNI_PATH; did you mean %q?", name, near)
	var at *netconf.Error
	if errors.As(req.Invalid("ipam.type", "%s", text), &at) && at.Line > 0 { // as netconf.Decode tells places
		text = fmt.Sprintf("configuration: line %d, column %d: ipam.type: %s", at.Line, at.Column, text)
	}
	warn(req, text)
}

// withoutType says what is wrong with a configuration that names no IPAM plugin; nil if it wants none.
func withoutType(req *netconf.Request) error {
	conf, err := netconf.DecodeJSON[struct {
		IPAM map[string]json.RawMessage `json:"ipam"`
	}](req.Config, nil)
	switch {
	case req.Command == netconf.Version:
		return nil // it is asked without a configuration
	case err != nil:
		return err
	case len(conf.IPAM) > 1, len(conf.IPAM) == 1 && conf.IPAM["type"] == nil:
		return req.Invalid("ipam.type", "missing: expected the name of an IPAM plugin (no ipam section at all means no addresses)")
	case req.Command == netconf.Add && !req.Network.Is("0.3.0"):
		return req.Invalid("cniVersion", "a result of version %s cannot be without an address, and there is no ipam section: use cniVersion 0.3.0 or later", req.Network.CNIVersion)
	}
	return nil
}

// refuse rejects the call for a reason, if there is one; a call that must go on is told about it.
func refuse(req *netconf.Request, err error) {
	switch {
	case err == nil:
	case !req.Lenient():
		req.Reject(err)
	default:
		warn(req, "no addresses are released: "+err.Error())
	}
}

func warn(req *netconf.Request, msg string, args ...any) {
	if req.Warn != nil { // a request made by hand may have none
		req.Warn(msg, args...)
	}
}
