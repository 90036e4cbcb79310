package link

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/cnikit/cnikit/netconf"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// What the steps of all kinds have in common: to find out where, and for whom, a call works.

// place is where a step works, and for whom.
type place struct {
	claim
	host      *NS
	container *NS // on DEL nil if there is none (any more)
}

// attempt is what an ADD remembers for its rollback, which is a DEL in the same call: that DEL takes away
// what this ADD made and nothing else. An ADD that ended before it knew whether the name is free
// made nothing; what has the name then may be the live attachment of an ADD that came before.
type attempt struct{ made atomic.Bool }

// Close does nothing: netconf.Local keeps what can be closed.
func (*attempt) Close() error { return nil }

// attemptKey keeps the attempt of a kind for an attachment: a meta plugin makes several in one call.
type attemptKey struct {
	kind string
	Owner
}

// entering begins the Add of a kind that makes the link CNI_IFNAME in the container. A link of that name is
// an error that Is netconf.ErrExists.
func entering(req *netconf.Request, kind string) (*place, error) {
	try, err := netconf.Local(req, attemptKey{kind, OwnerOf(req)}, func() (*attempt, error) { return &attempt{}, nil })
	if err != nil {
		return nil, err
	}
	if err := checkName(req.IfName); err != nil {
		return nil, err
	}
	p, err := inside(req)
	if err != nil {
		return nil, err
	}
	there, err := find(p.container, req.IfName)
	if err != nil {
		return nil, err
	}
	if there != nil {
		return nil, taken(req.IfName, there)
	}
	try.made.Store(true)
	return p, nil
}

// inside opens both namespaces of a call that needs both.
func inside(req *netconf.Request) (*place, error) {
	container, err := Container(req)
	if err != nil {
		return nil, err
	}
	host, err := Host(req)
	if err != nil {
		return nil, err
	}
	return &place{claim: claim{Owner: OwnerOf(req), prev: req.Prev}, host: host, container: container}, nil
}

// checking begins the Check of such a kind: want is the link in the prevResult.
func checking(req *netconf.Request) (p *place, want *types100.Interface, err error) {
	if p, err = inside(req); err != nil {
		return nil, nil, err
	}
	if want = named(req.Prev, req.IfName, true); want == nil {
		return nil, nil, different(req.IfName, "the prevResult", "one with this interface", "without it")
	}
	if want.Sandbox == req.Netns {
		return p, want, nil
	}
	// Another path may lead to the same namespace, or nowhere since the runtime has moved it.
	other, err := Open(want.Sandbox)
	switch {
	case err == nil:
		same := other.Is(p.container)
		if err = other.Close(); err == nil && !same {
			err = different(req.IfName, "the namespace", want.Sandbox, req.Netns)
		}
	case Gone(err):
		err = nil
	}
	return p, want, err
}

// leaving begins the Del of such a kind. It is nil if there is nothing to do.
func leaving(req *netconf.Request, kind string) (*place, error) {
	try, _ := netconf.Local(req, attemptKey{kind, OwnerOf(req)}, func() (*attempt, error) { return nil, errNoAttempt }) // the error is ours: no ADD in this call
	if try != nil && !try.made.Load() {
		return nil, nil
	}
	host, err := Host(req)
	if err != nil {
		return nil, err
	}
	p := &place{claim: claim{Owner: OwnerOf(req), prev: req.Prev, marked: try != nil}, host: host}
	if req.Netns == "" {
		return p, nil
	}
	container, err := Container(req)
	switch {
	case Gone(err):
		return p, nil
	case err != nil:
		return nil, err
	}
	p.container = container
	p.marked = p.marked || container.Is(host) // on the host only the mark counts: its eth0 is not ours
	return p, nil
}

var errNoAttempt = netconf.Errorf(netconf.CodeInternal, "no ADD in this call")

// collect is the GC of the kinds that have links on the host: it takes away those of the network whose
// attachment is not in the list. Shared links carry no attachment and stay. What a killed ADD left
// without an alias stays too: its group tells whose it is only to who knows the attachment, as DEL does.
func collect(ctx context.Context, req *netconf.Request) error {
	host, links, err := staleLabels(req)
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range links {
		if _, moved := l.label.from(); !moved { // a device is brought back, not taken away
			errs = append(errs, collectOne(ctx, host, l.Link))
		}
	}
	return netconf.Join(errs...)
}

// labelledLink is a link with its label.
type labelledLink struct {
	netlink.Link
	label
}

// staleLabels lists the links on the host that carry the label of an attachment of the network that is not in the list.
func staleLabels(req *netconf.Request) (host *NS, stale []labelledLink, err error) {
	network, valid := req.Network.Name, req.Network.ValidAttachments
	if network == "" || valid == nil {
		return nil, nil, &Error{Op: "collect", Name: network, Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, "the network's name and its list of valid attachments are needed")}
	}
	if host, err = Host(req); err != nil {
		return nil, nil, err
	}
	links, err := whole(host.Handle().LinkList)
	if err != nil {
		return nil, nil, &Error{Op: "link list", Err: err}
	}
	for _, l := range links {
		lab, ok := parseAlias(l.Attrs().Alias)
		if ok && lab.in(network) && !alive(lab, network, valid) {
			stale = append(stale, labelledLink{l, lab})
		}
	}
	return host, stale, nil
}

func alive(lab label, network string, valid []types.GCAttachment) bool {
	for _, v := range valid {
		if lab.of(Owner{Network: network, ContainerID: v.ContainerID, IfName: v.IfName}) {
			return true
		}
	}
	return false
}

// collectOne removes a stale link. Of a pair the other end may have taken it along since it was listed.
func collectOne(ctx context.Context, host *NS, l netlink.Link) error {
	if err := remove(ctx, host, l); err != nil {
		return fmt.Errorf("stale link: %w", err)
	}
	return nil
}
