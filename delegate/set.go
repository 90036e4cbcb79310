package delegate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
)

// Attachment is one interface of a container: a network under a name.
type Attachment struct {
	Network *Network
	IfName  string // of the interface in the container
	// Args are pairs of CNI_ARGS that the network's plugins get beside the request's, in place of those of the same key.
	// Add refuses what would be read as another pair (netconf.CheckArg); the other verbs leave it out and warn.
	Args netconf.Args
	// RuntimeConfig is what the network's plugins get by the capabilities that they declare. The request's own is not
	// passed on: a port mapping that came for one interface would be made on each. Who wants it here puts it here.
	RuntimeConfig map[string]json.RawMessage
	// Result is the answer of the ADD, for CHECK and DEL; empty if it is not known. Add does not look at it.
	Result json.RawMessage
}

// Set is all attachments of one container, for a plugin that attaches it to several networks.
//
// Its verbs take from the request what the container has of its own: ContainerID, Netns, Args, Path, Environ, Stderr,
// and on GC Network.ValidAttachments. IfName, Prev and Network.RuntimeConfig of the request are not looked at: each
// attachment has its own. Errors name interface and network. The request stays as it was.
//
// A Set keeps nothing between its calls; [Records] does. Where all containers have the same networks there is
// nothing to be kept: the Set follows from the configuration, and only the Results are missing to a DEL.
type Set struct {
	Attachments []Attachment
	// Parallel is how many ADDs may run at once; 0 and 1 is one after the other, in the order of Attachments. All
	// other verbs do one after the other.
	Parallel int
	// Ahead is how many of the Attachments, from the first on, are added one after the other before the others start,
	// where Parallel is more than 1: a default network, say, whose routes the others' plugins look at.
	Ahead   int
	Plugins Registry // which types are Go values; nil: all are programs
}

// check says what is wrong with an ADD before anything is run.
func (s Set) check(req *netconf.Request) error {
	if err := netconf.CheckName(req.ContainerID); err != nil {
		return netconf.Errorf(netconf.CodeInvalidEnvironment, "container ID: %w", err)
	}
	var errs []error
	bad := func(a Attachment, format string, args ...any) {
		errs = append(errs, named(a, netconf.Errorf(netconf.CodeInvalidNetworkConfig, format, args...)))
	}
	if len(s.Attachments) == 0 {
		errs = append(errs, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "no networks to attach the container to"))
	}
	first := map[string]*Network{} // by the name of an interface
	for _, a := range s.Attachments {
		if a.Network == nil {
			bad(a, "it has no network")
			continue
		}
		if err := netconf.CheckIfName(a.IfName); err != nil {
			bad(a, "network %q: interface name: %w", a.Network.Name, err)
			continue
		}
		if other := first[a.IfName]; other != nil {
			bad(a, "network %q: the name is that of network %q already", a.Network.Name, other.Name)
		}
		first[a.IfName] = a.Network
		if a.IfName == "lo" {
			bad(a, "network %q: the name is the loopback interface's", a.Network.Name)
		}
		for _, key := range slices.Sorted(maps.Keys(a.Args)) {
			if err := netconf.CheckArg(key, a.Args[key]); err != nil {
				bad(a, "network %q: args: %w", a.Network.Name, err)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(a.RuntimeConfig)) {
			if !json.Valid(a.RuntimeConfig[key]) {
				bad(a, "network %q: runtimeConfig %q is not JSON", a.Network.Name, key)
			}
		}
		if err := a.Network.check(s.request(req, a)); err != nil {
			errs = append(errs, named(a, err))
		}
	}
	return netconf.Join(errs...)
}

// named says whose an error is. The network is named by those of [Network].
func named(a Attachment, err error) error { return fmt.Errorf("interface %q: %w", a.IfName, err) }

// request makes an attachment's own request of the container's. There is no prevResult in it.
func (s Set) request(req *netconf.Request, a Attachment) *netconf.Request {
	own := req.As(req.Command)
	own.IfName, own.Network.RuntimeConfig = a.IfName, a.RuntimeConfig
	own.Prev = nil
	if len(a.Args) > 0 {
		own.Args = maps.Clone(req.Args)
		if own.Args == nil {
			own.Args = netconf.Args{}
		}
		for key, value := range a.Args {
			if err := netconf.CheckArg(key, value); err != nil { // Add has refused it
				warn(req, "a pair of CNI_ARGS is left out", "interface", a.IfName, "error", err.Error())
				continue
			}
			own.Args[key] = value
		}
	}
	return own
}

// Check runs CHECK of all attachments, each with its Result as the prevResult. All are tried, each within its part
// of the time, as in [Network.Del]; the errors are joined.
func (s Set) Check(ctx context.Context, req *netconf.Request) error {
	return s.each(ctx, req.As(netconf.Check), func(ctx context.Context, a Attachment, own *netconf.Request) error {
		if err := own.SetPrev(a.Result); err != nil {
			return &Error{Op: netconf.Check, Network: a.Network.Name, Err: err}
		}
		return a.Network.Check(ctx, s.Plugins, own)
	})
}

// Status runs STATUS of the networks, of each once; the errors are joined.
func (s Set) Status(ctx context.Context, req *netconf.Request) error {
	req = req.As(netconf.Status)
	networks := distinct(s.networks())
	budget := split(ctx, len(networks))
	var errs []error
	for i, n := range networks {
		part, cancel := budget.part(ctx, len(networks)-i)
		errs = append(errs, n.Status(part, s.Plugins, req))
		cancel()
	}
	return netconf.Join(errs...)
}

// GC runs GC of the networks, of each once, for a Set that all containers have: what lives of a network is,
// for each container of req.Network.ValidAttachments, the network's interfaces in this Set. All are tried; the errors are
// joined. A list that is nil is an error with code 7.
func (s Set) GC(ctx context.Context, req *netconf.Request) error {
	lives := map[string][]types.GCAttachment{}
	for _, a := range s.Attachments {
		for _, l := range req.Network.ValidAttachments {
			if a.Network != nil {
				lives[a.Network.Name] = append(lives[a.Network.Name], types.GCAttachment{ContainerID: l.ContainerID, IfName: a.IfName})
			}
		}
	}
	return collect(ctx, s.Plugins, req, s.networks(), lives)
}

func (s Set) networks() (all []*Network) {
	for _, a := range s.Attachments {
		all = append(all, a.Network)
	}
	return all
}

// collect runs GC of networks. lives is what is known to live, by the network's name. What the runtime says is added to each: a
// container that was attached to the network by the runtime itself, under the name that it knows, is not
// destroyed for not being ours.
func collect(ctx context.Context, plugins Registry, req *netconf.Request, networks []*Network, lives map[string][]types.GCAttachment) error {
	req = req.As(netconf.GC)
	said := req.Network.ValidAttachments
	if said == nil {
		return errNoList(req.Network.Name)
	}
	networks = distinct(networks)
	budget := split(ctx, len(networks))
	var errs []error
	for i, n := range networks {
		list := make([]types.GCAttachment, 0, len(lives[n.Name])+len(said)) // not nil: an empty list is one
		have := map[types.GCAttachment]bool{}
		for _, a := range slices.Concat(lives[n.Name], said) {
			if !have[a] {
				have[a], list = true, append(list, a)
			}
		}
		own := req.As(netconf.GC)
		own.Network.ValidAttachments = list
		part, cancel := budget.part(ctx, len(networks)-i)
		errs = append(errs, n.GC(part, plugins, own))
		cancel()
	}
	return netconf.Join(errs...)
}

func errNoList(network string) error {
	return &Error{Op: netconf.GC, Network: network, Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig,
		"the list of living attachments is missing: GC would destroy all of them")}
}

// distinct leaves out networks that are the same as one before, whatever their address, and nil. Two that have only the
// name in common both stay: the configuration was changed, and each has a store of its own, perhaps.
func distinct(networks []*Network) (out []*Network) {
	var seen [][]byte
	for _, n := range networks {
		if n == nil || slices.Contains(out, n) {
			continue
		}
		document, err := n.Bytes()
		if err == nil && slices.ContainsFunc(seen, func(b []byte) bool { return bytes.Equal(b, document) }) {
			continue
		}
		if err == nil { // else its verbs say what is wrong
			seen = append(seen, document)
		}
		out = append(out, n)
	}
	return out
}

// each runs a verb of all attachments in order, each within its part of the time, and joins the errors.
func (s Set) each(ctx context.Context, req *netconf.Request, run func(context.Context, Attachment, *netconf.Request) error) error {
	budget := split(ctx, len(s.Attachments))
	var errs []error
	for i, a := range s.Attachments {
		if a.Network == nil {
			errs = append(errs, named(a, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "it has no network")))
			continue
		}
		part, cancel := budget.part(ctx, len(s.Attachments)-i)
		if err := run(part, a, s.request(req, a)); err != nil {
			errs = append(errs, named(a, err))
		}
		cancel()
	}
	return netconf.Join(errs...)
}
