package kube

import (
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
)

// What an error of this package may be, for errors.Is.
var (
	ErrNone         = errors.New("no kubeconfig and no service account") // there is no API server to speak to
	ErrNotFound     = errors.New("not found")                            // 404
	ErrUnauthorized = errors.New("the credentials are not valid")        // 401
	ErrForbidden    = errors.New("not allowed")                          // 403
	ErrConflict     = errors.New("it is another one by now")             // a patch for another UID, an event whose name is there
	ErrUnavailable  = errors.New("the API server cannot be used now")    // not reached, 429, 5xx, or too slow
)

// Error is a kubeconfig that cannot be used, or a request that failed.
//
// Its CNI code is 11, by which a runtime tries again, for what may be otherwise then: no answer, 429, 5xx, a pod that
// is not there (yet, or any more), credentials and rights, which an API server that has just started does not know
// yet. It is 5 for a file that cannot be read, and 7 for the rest: a kubeconfig that is wrong, an object that does not exist.
type Error struct {
	Op      string // "get pod", "read kubeconfig"
	Object  string // "namespace/name", or the file's path
	Status  int    // of HTTP; 0 if there was no answer
	Reason  string // the server's word for the status, such as NotFound; may be empty
	Message string // what the server said; may be empty
	Tries   int    // how often it was asked; 0 of a file
	Err     error  // a sentinel, with what went wrong below it
	code    uint
}

// Error names the operation, the object and what is wrong.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s %q: %v", e.Op, e.Object, e.Err)
	if e.Status != 0 {
		text += fmt.Sprintf(": %d %s", e.Status, e.Reason)
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Tries > 1 {
		text += fmt.Sprintf(" (asked %d times)", e.Tries)
	}
	return text
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// As gives the error as a *types.Error, by which skel finds its code.
func (e *Error) As(target any) bool {
	t, ok := target.(**types.Error)
	if ok {
		*t = types.NewError(e.code, e.Error(), "")
	}
	return ok
}

// fileError is about a file: the kubeconfig, or one that it names.
func fileError(op, path string, code uint, err error) error {
	return &Error{Op: op, Object: path, Err: err, code: code}
}

// kinds has the sentinel of each status that the package tells apart.
var kinds = map[int]error{401: ErrUnauthorized, 403: ErrForbidden, 404: ErrNotFound, 409: ErrConflict, 429: ErrUnavailable}

// classify completes the error of an answer: what it is, and its code.
func classify(e *Error) {
	kind := kinds[e.Status]
	if e.Status >= 500 {
		kind = ErrUnavailable
	}
	e.code = netconf.CodeTryAgainLater
	switch {
	case kind == nil:
		e.Err, e.code = errors.New("refused"), netconf.CodeInvalidNetworkConfig
	case kind == ErrNotFound && e.Op != "get pod" && e.Op != "patch status of pod":
		e.Err, e.code = kind, netconf.CodeInvalidNetworkConfig
	default:
		e.Err = kind
	}
}
