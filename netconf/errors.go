package netconf

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/containernetworking/cni/pkg/types"
)

// The codes of a CNI error document. 1 to 99 are the specification's (SPEC, section 5 "Error"),
// 100 and above are the plugin's own; these mean the same in every plugin built with this module.
const (
	CodeIncompatibleVersion  uint = 1   // cniVersion not supported, or the verb does not exist in it
	CodeUnsupportedField     uint = 2   // an unknown key, where the plugin is strict
	CodeUnknownContainer     uint = 3   // the namespace is gone and nothing remains: the runtime need not call DEL
	CodeInvalidEnvironment   uint = 4   // an environment variable is missing or wrong
	CodeIOFailure            uint = 5   // stdin, stdout, files
	CodeDecodingFailure      uint = 6   // not JSON, or a value of the wrong type
	CodeInvalidNetworkConfig uint = 7   // a configuration that decodes but is wrong
	CodeTryAgainLater        uint = 11  // time-out, signal, lock, daemon or API not there
	CodePluginNotAvailable   uint = 50  // STATUS: ADD cannot be served
	CodeLimitedConnectivity  uint = 51  // STATUS: as 50, and live containers may be limited
	CodeExists               uint = 100 // exists already
	CodeExhausted            uint = 101 // no addresses left
	CodeDifferent            uint = 102 // CHECK found a difference
	CodeNotSupported         uint = 103 // the kernel lacks it
	CodeBadDelegate          uint = 104 // a delegate gave no valid answer
	CodeBadStore             uint = 105 // a store or a record cannot be used
	CodeInternal             uint = 999 // never for something that has a better code
)

// ErrExists is what a step's Add returns (wrapped) when its part is there already and it therefore
// changed nothing. Such a step is not rolled back: what it found belongs to somebody. Code 100.
var ErrExists error = &Error{Code: CodeExists, Err: errors.New("exists already")}

// ErrDifferent is what a step's Check returns (wrapped) when the part is not what the prevResult
// says. Code 102.
var ErrDifferent error = &Error{Code: CodeDifferent, Err: errors.New("differs from what ADD made")}

// Error is an error of this room, and the way for the other rooms to give an error a code.
type Error struct {
	Op           string // what was read: "environment", "configuration", "prevResult", "result"; may be empty
	Path         string // the JSON path ("ipam.ranges[0]") or the variable ("CNI_IFNAME"); may be empty
	Line, Column int    // where in the configuration, from 1; 0 when not known
	Code         uint   // one of the Code constants; 0 means that of Err, or 999
	Details      string // more for the reader of the error document: a list of what is allowed, a delegate's own details
	Err          error  // what is wrong; never nil
}

// maxPath is how much of a path an error tells, in bytes: a key may be a megabyte long.
const maxPath = 256

// Error names what was read, the place in it, and what is wrong.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op)
		b.WriteString(": ")
	}
	if path := e.Path; len(path) > maxPath {
		b.WriteString(path[:maxPath] + "...")
	} else {
		b.WriteString(path)
	}
	if e.Line > 0 {
		if e.Path != "" {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "(line %d, column %d)", e.Line, e.Column)
	}
	if e.Path != "" || e.Line > 0 {
		b.WriteString(": ")
	}
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// As gives the error as a [*types.Error], which is how upstream's skel and ours find the code.
func (e *Error) As(target any) bool {
	t, ok := target.(**types.Error)
	if !ok || e.Code == 0 {
		return false
	}
	*t = types.NewError(e.Code, e.Error(), e.Details)
	return true
}

// Errorf is fmt.Errorf with a CNI code: the error wraps what %w names, and Code finds the code.
func Errorf(code uint, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// Unchanged wraps an error to say that the step which returns it has changed nothing: its Del is then left
// out of the rollback. It is for what goes wrong in an Add before the step knows whether its part is
// there already (a parent that is missing, say): in a second ADD that part is alive, and Del would take it
// away. ErrExists says the same by itself. Unchanged(nil) is nil.
//
// It is found anywhere in the chain of an error. A step that has made something and then calls another
// step's Add must not hand that one's error on as it is: fmt.Errorf with %v instead of %w, or skel.Steps.
func Unchanged(err error) error {
	if err == nil {
		return nil
	}
	return &unchanged{err}
}

type unchanged struct{ error }

func (e *unchanged) Unwrap() error { return e.error }

// IsUnchanged tells whether an error says that nothing was changed: by Unchanged, or as ErrExists.
func IsUnchanged(err error) bool {
	var u *unchanged
	return errors.As(err, &u) || errors.Is(err, ErrExists)
}

// Code returns the CNI code of err: the one that an error in its chain carries, 11 for a context that ended, and for
// a process or machine that has no file descriptor left, else 999. It is 0 for nil.
func Code(err error) uint {
	var coded *types.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded) && coded.Code != 0:
		return coded.Code
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return CodeTryAgainLater
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE): // a busy node's, or a daemon's: it passes
		return CodeTryAgainLater
	}
	return CodeInternal
}

// Join is errors.Join on one line: nil for no error, the error itself for one, else all of them
// with "; " between. The code of the first that carries one is the code of the whole.
func Join(errs ...error) error {
	var all joined
	for _, err := range errs {
		if err != nil {
			all = append(all, err)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

// Split lists what Join, or errors.Join, joined: one error by itself, none for nil. An error that wraps several in a text
// of its own is one.
func Split(err error) []error {
	if err == nil {
		return nil
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		errs := all.Unwrap()
		if text := err.Error(); text == texts(errs, "; ") || text == texts(errs, "\n") {
			return errs
		}
	}
	return []error{err}
}

func texts(errs []error, between string) string {
	all := make([]string, len(errs))
	for i, err := range errs {
		all[i] = err.Error()
	}
	return strings.Join(all, between)
}

type joined []error

func (j joined) Error() string { return texts(j, "; ") }

func (j joined) Unwrap() []error { return j }
