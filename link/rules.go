package link

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

// RulePriority is the priority of a [Rule] that names none: before the main table (32766), and behind what
// administrators number from 0 up, and vrfs (1000).
const RulePriority = 30000

// Rule has what it matches looked up in a routing table. From or To must be there, of one family.
type Rule struct {
	From     netip.Prefix // source; the zero value: any
	To       netip.Prefix // destination; the zero value: any
	Table    int          // 1 to 2^32-1; 0 is TableMain
	Priority int          // lower ones are asked first, 1 to 32765; 0 is RulePriority
}

// String writes the rule as iproute2 does.
func (r Rule) String() string {
	text := ""
	if r.From.IsValid() {
		text += fmt.Sprintf("from %s ", r.From)
	}
	if r.To.IsValid() {
		text += fmt.Sprintf("to %s ", r.To)
	}
	return text + fmt.Sprintf("lookup %d priority %d", r.whole().Table, r.whole().Priority)
}

// whole is the rule with its defaults.
func (r Rule) whole() Rule {
	if r.Table == 0 {
		r.Table = TableMain
	}
	if r.Priority == 0 {
		r.Priority = RulePriority
	}
	return r
}

func (r Rule) check() error {
	bad := func(format string, args ...any) error {
		return &Error{Op: "rule", Name: r.String(), Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, format, args...)}
	}
	switch {
	case !r.From.IsValid() && !r.To.IsValid():
		return bad("a rule needs a source or a destination")
	case r.From.IsValid() && r.To.IsValid() && r.From.Addr().Is4() != r.To.Addr().Is4():
		return bad("source and destination are of two families")
	case r.Table < 0 || int64(r.Table) > math.MaxUint32:
		return bad("table %d: expected 1 to %d", r.Table, uint32(math.MaxUint32))
	case r.Priority < 0 || r.Priority > 32765:
		return bad("priority %d: expected 1 to 32765", r.Priority)
	}
	return nil
}

func (r Rule) family() int {
	if r.From.IsValid() {
		return familyOf(r.From)
	}
	return familyOf(r.To)
}

// request is the rule as the kernel wants to have it, with our protocol number.
func (r Rule) request() *netlink.Rule {
	w, req := r.whole(), netlink.NewRule()
	req.Family, req.Table, req.Priority, req.Protocol = r.family(), w.Table, w.Priority, Protocol
	if r.From.IsValid() {
		from := ipNet(r.From.Masked())
		req.Src = &from
	}
	if r.To.IsValid() {
		to := ipNet(r.To.Masked())
		req.Dst = &to
	}
	return req
}

// ensure adds the rule; that it is there already is no error, and added is false.
func (r Rule) ensure(ctx context.Context, n *NS) (added bool, err error) {
	err = alter(ctx, "rule add", r.String(), func() error { return n.Handle().RuleAdd(r.request()) })
	if errors.Is(err, syscall.EEXIST) {
		return false, nil
	}
	return err == nil, err
}

// remove deletes the rule, if it has our protocol number; that it is gone is no error.
func (r Rule) remove(ctx context.Context, n *NS) error {
	err := alter(ctx, "rule del", r.String(), func() error { return n.Handle().RuleDel(r.request()) })
	if Gone(err) {
		return nil
	}
	return err
}

// ourRules lists the rules of both families that have our protocol number and that keep accepts.
func ourRules(n *NS, keep func(Rule) bool) ([]Rule, error) {
	var out []Rule
	for _, family := range []int{familyV4, familyV6} {
		list, err := whole(func() ([]netlink.Rule, error) { return n.Handle().RuleList(family) })
		if err != nil && !unsupported(err) {
			return nil, &Error{Op: "rule list", Err: err}
		}
		for _, k := range list {
			r := Rule{Table: k.Table, Priority: k.Priority}
			if k.Src != nil {
				r.From, _ = prefixOf(*k.Src) // the kernel's own is right
			}
			if k.Dst != nil {
				r.To, _ = prefixOf(*k.Dst)
			}
			if k.Family == family && k.Protocol == Protocol && keep(r) { // a kernel without IPv6 answers with all that it has
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// Rules are routing rules of an attachment. The kernel keeps no owner with a rule, only our [Protocol], so two
// attachments cannot have the same one. What Add made is kept in req.State: DEL takes it away whatever the configuration
// says by then, and GC what is left on the host of attachments that are no more. A plugin has one of these steps for each
// of the two places.
type Rules struct {
	OnHost bool   // they are the host's; default: the container's
	Rules  []Rule // each is another one
}

// Name is "rules".
func (Rules) Name() string { return "rules" }

func (r Rules) check() error {
	var errs []error
	for _, one := range r.Rules {
		errs = append(errs, one.check())
	}
	return netconf.Join(errs...)
}

// Create adds the rules. One that is there is an error that Is netconf.ErrExists. After any error those that were added
// are taken away again: nobody can tell later which of the rules were there before. No rule is listed, so that the
// thousands of a host do not slow it.
func (r Rules) Create(ctx context.Context, n *NS) error {
	if err := r.check(); err != nil {
		return err
	}
	for i, one := range r.Rules {
		added, err := one.ensure(ctx, n)
		if err == nil && !added {
			err = &Error{Op: "rule add", Name: one.String(), Err: netconf.ErrExists}
		}
		if err == nil {
			continue
		}
		if undo := (Rules{Rules: r.Rules[:i]}).Delete(context.WithoutCancel(ctx), n); undo != nil {
			return netconf.Errorf(netconf.Code(err), "%v; and the rules before it are still there: %v", err, undo) // something was changed
		}
		return netconf.Unchanged(err)
	}
	return nil
}

// Ensure adds the rules that are not there.
func (r Rules) Ensure(ctx context.Context, n *NS) error {
	if err := r.check(); err != nil {
		return err
	}
	for _, one := range r.Rules {
		if _, err := one.ensure(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// Verify looks for the rules; each that is missing is a difference, which Is netconf.ErrDifferent.
func (r Rules) Verify(_ context.Context, n *NS) error {
	if len(r.Rules) == 0 {
		return nil
	}
	have, err := ourRules(n, func(Rule) bool { return true })
	if err != nil {
		return err
	}
	var errs []error
	for _, want := range r.Rules {
		w := want.whole()
		w.From, w.To = w.From.Masked(), w.To.Masked()
		if !slices.Contains(have, w) {
			errs = append(errs, different(want.String(), "the rule", "there", "not there"))
		}
	}
	return netconf.Join(errs...)
}

// Delete takes the rules away, as far as they have our protocol number. What is gone is no error.
func (r Rules) Delete(ctx context.Context, n *NS) error {
	var errs []error
	for _, one := range r.Rules {
		if one.check() == nil { // else it was never made
			errs = append(errs, one.remove(ctx, n))
		}
	}
	return netconf.Join(errs...)
}

// key is what the rules are kept under.
func (r Rules) key() string {
	if r.OnHost {
		return hostRules
	}
	return "link.rules.container"
}

const hostRules = "link.rules.host"

func (r Rules) place(req *netconf.Request) (*NS, error) {
	if r.OnHost {
		return Host(req)
	}
	return Container(req)
}

// Add is Create. The rules are written down before.
func (r Rules) Add(ctx context.Context, req *netconf.Request) error {
	if len(r.Rules) == 0 {
		return nil
	}
	n, err := r.prepare(ctx, req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	return r.Create(ctx, n)
}

func (r Rules) prepare(ctx context.Context, req *netconf.Request) (*NS, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	n, err := r.place(req)
	if err != nil {
		return nil, err
	}
	var before []Rule
	there, err := kept(req, r.key(), &before)
	if there && (Rules{Rules: before}).Verify(ctx, n) == nil {
		err = done("rule add", req.IfName)
	}
	if err != nil {
		return nil, err
	}
	return n, keep(req, r.key(), r.Rules)
}

// Check is Verify.
func (r Rules) Check(ctx context.Context, req *netconf.Request) error {
	if len(r.Rules) == 0 {
		return nil
	}
	n, err := r.place(req)
	if err != nil {
		return err
	}
	return r.Verify(ctx, n)
}

// Del is Delete for the rules that Add has written down. Where nothing is written no Add has made any: those in the
// configuration may be another attachment's. A request without State, or with one that cannot be read, goes by the configuration.
func (r Rules) Del(ctx context.Context, req *netconf.Request) error {
	there, _, err := left(req, r.key(), &r.Rules)
	if err != nil || !there && req.State != nil {
		return err
	}
	if r.OnHost || req.Netns != "" {
		n, err := r.place(req)
		if err == nil {
			err = r.Delete(ctx, n)
		}
		if err != nil && !Gone(err) {
			return err
		}
	}
	if !there {
		return nil
	}
	return forget(req, r.key())
}

// GC takes away the host's rules that were written down for attachments that are no more.
func (r Rules) GC(ctx context.Context, req *netconf.Request) error {
	stale, ok := req.State.(netconf.StaleRecorder)
	if !r.OnHost || !ok {
		return nil
	}
	host, err := Host(req)
	if err != nil {
		return err
	}
	return stale.Each(func(containerID, ifname string, record netconf.Recorder) error {
		stale := Rules{OnHost: true}
		of := netconf.Request{ContainerID: containerID, IfName: ifname, State: record, Warn: req.Warn}
		if _, known, err := left(&of, hostRules, &stale.Rules); err != nil || !known {
			return err
		}
		return stale.Delete(ctx, host)
	})
}
