package delegate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
)

// ErrNotFound is in the error of a call whose program is in none of CNI_PATH's folders.
var ErrNotFound = errors.New("no such program in CNI_PATH")

// NotRun tells whether the error of a call says that nothing has run, so that no DEL is due: the plugin's
// own program was not found, and not one that the plugin called in its turn, nor one of a list of which others ran.
func NotRun(err error) bool {
	var e, inner *Error
	var later *afterwards
	return !errors.As(err, &later) && errors.As(err, &e) && errors.Is(e.Err, ErrNotFound) && !errors.As(e.Err, &inner)
}

// Error is a call of a plugin, or of a network's list of them, that failed.
//
// Its CNI code is the one that the plugin gave, except 3 ("the container is unknown, no DEL is
// needed"), which becomes 11: it would be said of the caller's own work too. What the plugin did not
// say itself has these:
//
//	5   the program is not there or cannot be started. Not 11: that says the same call may succeed if
//	    it is merely made again, and a missing file stays missing until somebody installs it
//	1   a network's version is unknown
//	4   a network is called without a container ID or an interface name that is one
//	7   the plugin's name is none; a network has no name, no plugins, or on GC no list of what lives
//	11  the context ended; the machine has no process, memory or file descriptor left; the program is being written
//	50  STATUS and the program is not there: an ADD could not be served
//	104 no valid answer
//	999 a Go value panicked
type Error struct {
	Op      netconf.Command // the verb
	Plugin  string          // the plugin's name; empty where it is the whole network that is wrong
	Network string          // the network's name; may be empty
	Program string          // the path of the program that was run; empty for a Go value, and if none was found
	Stderr  string          // the end of what the plugin wrote to stderr, at most 4 KiB
	Err     error           // what is wrong; a *types.Error where the plugin said it
}

// Error names the plugin, the verb, the network and what is wrong.
func (e *Error) Error() string {
	if e.Plugin == "" {
		return fmt.Sprintf("network %q %s: %v", e.Network, e.Op, e.Err)
	}
	network := ""
	if e.Network != "" {
		network = fmt.Sprintf(", network %q", e.Network)
	}
	return fmt.Sprintf("delegate %q %s%s: %v", e.Plugin, e.Op, network, e.Err)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// As gives the error as a [*types.Error], which is how upstream's skel and ours find the code; its
// details are the plugin's, then the program's path and the end of its stderr.
func (e *Error) As(target any) bool {
	t, ok := target.(**types.Error)
	if !ok {
		return false
	}
	var details []string
	var said *types.Error
	if errors.As(e.Err, &said) && said.Details != "" {
		details = append(details, said.Details)
	}
	if e.Program != "" {
		details = append(details, "program: "+e.Program)
	}
	if text := strings.TrimSpace(e.Stderr); text != "" {
		details = append(details, "stderr: "+text)
	}
	*t = types.NewError(e.code(), e.Error(), strings.Join(details, "; "))
	return true
}

func (e *Error) code() uint {
	switch code := netconf.Code(e.Err); {
	case code == netconf.CodeUnknownContainer:
		return netconf.CodeTryAgainLater
	case e.Op == netconf.Status && errors.Is(e.Err, ErrNotFound):
		return netconf.CodePluginNotAvailable
	default:
		return code
	}
}

// undone is why an ADD failed, when the DEL that followed failed too. It unwraps to the cause alone:
// a DEL that found its program missing, say, must not make the ADD one that never ran.
type undone struct{ cause, undo error }

func (e *undone) Error() string { return fmt.Sprintf("%v; then: %v", e.cause, e.undo) }

func (e *undone) Unwrap() error { return e.cause }

// As gives the cause's code and details with the whole text.
func (e *undone) As(target any) bool {
	t, ok := target.(**types.Error)
	var said *types.Error
	if !ok || !errors.As(e.cause, &said) {
		return false
	}
	*t = types.NewError(said.Code, e.Error(), said.Details)
	return true
}
