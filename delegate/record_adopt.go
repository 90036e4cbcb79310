package delegate

import (
	"context"

	"github.com/cnikit/cnikit/netconf"
)

// Adopt writes the record of attachments that somebody else has made, with the Results that they have, and runs nothing:
// for a program that takes over from another one, whose own records it can read, while the containers live. From then on
// CHECK, DEL and GC are as if Add had made them.
//
// Errors are those of Add: a container that has a record is refused with one that Is netconf.ErrExists. One that
// comes after the record was made, code 105, is of a Result that could not be noted: the DEL goes without it.
func (r Records) Adopt(ctx context.Context, attachments []Attachment, req *netconf.Request) error {
	req = req.As(netconf.Add)
	set := Set{Attachments: attachments}
	if err := netconf.Join(r.check(), ownerOf(req).check(), set.check(req)); err != nil {
		return netconf.Unchanged(err)
	}
	head, err := newHeader(set, req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	j, err := r.create(ctx, req, head)
	if err != nil {
		return err
	}
	defer j.release()
	var errs []error
	for _, a := range attachments {
		if len(a.Result) == 0 {
			continue
		}
		if _, err := netconf.ParseResult(a.Result, a.Network.version()); err != nil {
			errs = append(errs, named(a, netconf.Errorf(netconf.CodeBadStore, "its result is left out: %w", err)))
			continue
		}
		errs = append(errs, j.note(ctx, event{IfName: a.IfName, Result: a.Result}))
	}
	return netconf.Join(errs...)
}
