package route

import (
	"context"
	"net/netip"

	"github.com/cnikit/cnikit/delegate"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// Attachment is an interface of the pod, as far as default routes are concerned.
type Attachment struct {
	IfName   string
	Result   *types100.Result // what its plugins answered; only its addresses are looked at
	Asked    bool             // it has the key default-route
	Gateways []netip.Addr     // its value; none: what its plugins made is kept
}

// Owner says who has the default routes of one family.
type Owner struct {
	IfName   string
	V6       bool
	Gateways []netip.Addr // in order of preference; none: as its plugins made them
}

// Changes is what has to be done: at most one owner for each family; none where nobody asked.
type Changes []Owner

// Plan says what follows from what the attachments ask for. That no two ask for one family has been checked before; the
// first one has it.
func Plan(attachments []Attachment) Changes { return nil }

// Changed is what was done.
type Changed struct{}

// Apply makes it so, in the namespace of that path, and reads back what the kernel has then. After an error the routes are
// as they were. A gateway that the interface has no way to is an error with code 7.
func (c Changes) Apply(ctx context.Context, netns string) (*Changed, error) { return nil, nil }

// Undo gives everybody his routes back, as far as the links are still there.
func (c *Changed) Undo(ctx context.Context) error { return nil }

// Result is an attachment's result with the default routes that it has now; all else stays, byte for byte where the
// result's version has a list of routes. A nil Changed changes nothing.
func (c *Changed) Result(ifname string, result delegate.Result) (delegate.Result, error) {
	return result, nil
}
