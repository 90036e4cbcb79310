package ipam

import (
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
)

// ErrBadAnswer is in the error of an ADD whose IPAM plugin gave no usable addresses. Code 104.
var ErrBadAnswer error = &netconf.Error{Code: netconf.CodeBadDelegate, Err: errors.New("the answer cannot be used")}

// Error is what this package itself finds wrong. What an IPAM plugin said is a *delegate.Error. The
// CNI code is that of Err.
type Error struct {
	Op      netconf.Command // the verb
	Plugin  string          // the IPAM plugin's name
	Network string          // the network's name; may be empty
	Err     error           // what is wrong
}

// Error names the plugin, the verb, the network and what is wrong.
func (e *Error) Error() string {
	network := ""
	if e.Network != "" {
		network = fmt.Sprintf(", network %q", e.Network)
	}
	return fmt.Sprintf("ipam %q %s%s: %v", e.Plugin, e.Op, network, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// As gives the error as a [*types.Error], which is how upstream's skel and ours find the code.
func (e *Error) As(target any) bool {
	t, ok := target.(**types.Error)
	if !ok {
		return false
	}
	*t = types.NewError(netconf.Code(e.Err), e.Error(), "")
	return true
}
