package netconf

import (
	"errors"
	"fmt"
	"io"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// MaxConfig is the size, in bytes, above which a configuration is refused (code 6) instead of read:
// four times the largest that is known to work in the field (an etcd object and its prevResult), so
// that garbage on stdin cannot eat the node's memory.
const MaxConfig = 16 << 20

// Parse decodes one call from its environment and its standard input. All that is wrong with it is in
// the error, and nothing but the two arguments is touched, so it can be used under upstream's
// skel and in daemons. The variables that each verb needs are the specification's (SPEC, section 2):
// CNI_PATH only for GC.
//
// On DEL only CNI_COMMAND, CNI_CONTAINERID and CNI_IFNAME can fail. What else is wrong is in
// Request.Warnings, and the request holds what could be read; it must not keep an attachment alive.
//
// The returned request is never nil: with an error it holds what could be read, so that the error can
// be reported in the version of the caller.
func Parse(getenv func(string) string, stdin io.Reader) (*Request, error) {
	req := &Request{
		Command:     Command(getenv("CNI_COMMAND")),
		ContainerID: getenv("CNI_CONTAINERID"),
		Netns:       getenv("CNI_NETNS"),
		IfName:      getenv("CNI_IFNAME"),
		Result:      &types100.Result{},
		Warn:        func(string, ...any) {},
		local:       &locals{},
	}
	for _, dir := range strings.Split(getenv("CNI_PATH"), pathListSeparator) {
		if dir != "" {
			req.Path = append(req.Path, dir)
		}
	}
	err := req.checkEnv(getenv("CNI_ARGS"))
	// The configuration is read even then: an error document carries its cniVersion.
	if confErr := req.readConfig(stdin); err == nil {
		err = confErr
	}
	return req, err
}

// checkEnv reports all that is wrong with the environment together.
func (r *Request) checkEnv(cniArgs string) error {
	var errs, later []error
	bad := func(list *[]error, variable string, err error) {
		if err != nil {
			*list = append(*list, &Error{Op: "environment", Path: variable, Code: CodeInvalidEnvironment, Err: err})
		}
	}
	switch r.Command {
	case Add, Check, Del:
		bad(&errs, "CNI_CONTAINERID", checkName(r.ContainerID))
		bad(&errs, "CNI_IFNAME", CheckIfName(r.IfName))
		if r.Netns == "" && r.Command != Del {
			bad(&errs, "CNI_NETNS", errors.New("missing"))
		}
		args, err := ParseArgs(cniArgs)
		r.Args = args
		later = append(later, err)
	case GC:
		if len(r.Path) == 0 {
			bad(&errs, "CNI_PATH", errors.New("missing"))
		}
	case Status, Version:
	case "":
		bad(&errs, "CNI_COMMAND", errors.New("missing: expected ADD, CHECK, DEL, GC, STATUS or VERSION"))
	default:
		bad(&errs, "CNI_COMMAND", fmt.Errorf("unknown verb %q: expected ADD, CHECK, DEL, GC, STATUS or VERSION", string(r.Command)))
	}
	return Join(append(errs, r.unlessDel(later...))...)
}

// unlessDel returns the errors, joined; on DEL it keeps them as warnings instead.
func (r *Request) unlessDel(errs ...error) error {
	if r.Command != Del {
		return Join(errs...)
	}
	for _, err := range errs {
		if err != nil {
			r.warnings = append(r.warnings, err)
		}
	}
	return nil
}

// Warnings is what was wrong with a DEL but no reason for it to fail.
func (r *Request) Warnings() error { return Join(r.warnings...) }

// readConfig reads stdin, the specification's keys, and the prevResult.
func (r *Request) readConfig(stdin io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(stdin, MaxConfig+1))
	if err != nil {
		return r.unlessDel(&Error{Op: "stdin", Code: CodeIOFailure, Err: err})
	}
	r.Config = data
	if len(data) > MaxConfig {
		return r.unlessDel(&Error{Op: "configuration", Code: CodeDecodingFailure, Err: fmt.Errorf("larger than %d bytes", MaxConfig)})
	}
	if r.Command == Version && len(strings.TrimSpace(string(data))) == 0 {
		return nil // before 1.0.0 a runtime need not send anything
	}
	var errs []error
	r.Network, err = ParseNetwork(data)
	errs = append(errs, err)
	if err == nil && r.Command != Version {
		errs = append(errs, r.checkNetwork())
	}
	if len(r.Network.PrevResult) > 0 && r.Command != Version {
		if r.Prev, err = ParseResult(r.Network.PrevResult, r.Network.CNIVersion); err != nil {
			errs = append(errs, r.at(Code(err), "prevResult", err))
		} else {
			r.prevRaw = r.Network.PrevResult
		}
	}
	return r.unlessDel(errs...)
}

// checkNetwork checks what every plugin needs of its configuration.
func (r *Request) checkNetwork() error {
	var errs []error
	if err := checkName(r.Network.Name); err != nil {
		errs = append(errs, r.Invalid("name", "network name: %w", err))
	}
	if r.Command != GC {
		return Join(errs...)
	}
	if r.Network.ValidAttachments == nil {
		errs = append(errs, r.Invalid("cni.dev/valid-attachments", "missing: GC without the list of living attachments would destroy all of them"))
	}
	for i, a := range r.Network.ValidAttachments {
		path := fmt.Sprintf("cni.dev/valid-attachments[%d]", i)
		if err := checkName(a.ContainerID); err != nil {
			errs = append(errs, r.Invalid(path+".containerID", "%w", err))
		}
		if err := CheckIfName(a.IfName); err != nil {
			errs = append(errs, r.Invalid(path+".ifname", "%w", err))
		}
	}
	return Join(errs...)
}
