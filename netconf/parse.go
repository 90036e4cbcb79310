package netconf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
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
// GC fails also without a name, a version, or the list of what lives (code 7, nothing is destroyed).
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
	confErr := req.readConfig(stdin)
	if !req.Command.known() {
		return req, err // what a configuration must have depends on the verb
	}
	return req, Join(err, confErr)
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
		bad(&errs, "CNI_CONTAINERID", CheckName(r.ContainerID))
		bad(&errs, "CNI_IFNAME", CheckIfName(r.IfName))
		if r.Netns == "" && r.Command != Del {
			bad(&errs, "CNI_NETNS", errors.New("missing"))
		}
		later = append(later, r.SetArgs(cniArgs))
	case GC:
		if len(r.Path) == 0 {
			bad(&errs, "CNI_PATH", errors.New("missing"))
		}
	case Status, Version:
	case "":
		bad(&errs, "CNI_COMMAND", errors.New("missing: expected ADD, CHECK, DEL, GC, STATUS or VERSION"))
	default:
		bad(&errs, "CNI_COMMAND", fmt.Errorf("unknown verb %s: expected ADD, CHECK, DEL, GC, STATUS or VERSION", quoteShort(string(r.Command))))
	}
	return Join(append(errs, r.tolerate(later))...)
}

// tolerate returns those of the errors that are a reason to refuse the call, joined, and keeps the
// others as warnings: on DEL all; on GC those that are not about the name, the version and the list
// of what lives.
func (r *Request) tolerate(errs []error) error {
	var fatal []error
	for _, err := range errs {
		var e *Error
		switch {
		case err == nil:
		case r.Command == Del, r.Command == GC && errors.As(err, &e) && e.Path != "" && e.Path != "name" &&
			e.Path != "cniVersion" && !strings.HasPrefix(e.Path, "cni.dev/"):
			r.warnings = append(r.warnings, err)
		default:
			fatal = append(fatal, err)
		}
	}
	return Join(fatal...)
}

// Warnings is what was wrong with a DEL or a GC but no reason for it to fail.
func (r *Request) Warnings() error { return Join(r.warnings...) }

// readConfig reads stdin, the specification's keys, and the prevResult.
func (r *Request) readConfig(stdin io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(stdin, MaxConfig+1))
	if err == nil && r.Command == Version && len(bytes.TrimSpace(data)) == 0 {
		return nil // before 1.0.0 a runtime need not send anything
	}
	r.Config, r.Network = data, Network{CNIVersion: oldest, bytes: data}
	if err != nil {
		return r.tolerate([]error{&Error{Op: "stdin", Code: CodeIOFailure, Err: err}})
	}
	if len(data) > MaxConfig {
		return r.tolerate([]error{&Error{Op: "configuration", Code: CodeDecodingFailure, Err: fmt.Errorf("larger than %d bytes", MaxConfig)}})
	}
	var errs []error
	r.Network, errs = parseNetwork(data)
	if r.Command != Version && (len(errs) == 0 || checkJSON("configuration", data) == nil) {
		errs = append(errs, r.checkList(), r.CheckVerb(), r.checkName(errs), r.checkAttachments(errs), r.readPrev())
	}
	return r.tolerate(errs)
}

// readPrev decodes the prevResult, which is null or left out where there is none.
func (r *Request) readPrev() error {
	raw := r.Network.PrevResult
	if len(raw) == 0 {
		return nil
	}
	prev, err := ParseResult(raw, r.Network.CNIVersion)
	if err != nil {
		return r.within("prevResult", Split(err))
	}
	r.Prev, r.prevRaw = prev, raw
	return nil
}

// CheckVerb says, with code 1, that the configuration's version does not have the verb, or is none that is known to
// have it. Parse calls it.
func (r *Request) CheckVerb() error {
	since := r.Command.Since()
	if since == oldest || r.Network.Is(since) {
		return nil
	}
	if known := version.All.SupportedVersions(); !slices.Contains(known, r.Network.CNIVersion) { // no number, perhaps
		return r.at(CodeIncompatibleVersion, "cniVersion", fmt.Errorf("version %.64q is unknown: expected one of %v", r.Network.CNIVersion, known))
	}
	return r.at(CodeIncompatibleVersion, "cniVersion", fmt.Errorf("%s does not exist in version %q: it came with %s", r.Command, r.Network.CNIVersion, since))
}

// checkList refuses a list of plugins, which a person who runs a plugin by hand may give it.
func (r *Request) checkList() error {
	if r.Network.Type != "" {
		return nil
	}
	if _, list := locate(r.Config, "plugins"); !list {
		return nil
	}
	return r.Invalid("plugins", "this is a list of plugins (a conflist): a plugin is given one of them, as libcni and cnitool do it")
}

// checkName checks the network's name, unless it is among what did not decode.
func (r *Request) checkName(failed []error) error {
	if about(failed, "name") {
		return nil
	}
	if err := CheckName(r.Network.Name); err != nil {
		return r.Invalid("name", "network name: %w", err)
	}
	return nil
}

// checkAttachments checks the list that GC needs, under either of its names.
func (r *Request) checkAttachments(failed []error) error {
	const key, oldKey = "cni.dev/valid-attachments", "cni.dev/attachments"
	switch {
	case r.Command != GC || !r.Network.Is(GC.Since()): // CheckVerb says so
		return nil
	case about(failed, key) || about(failed, oldKey):
		return nil
	case r.Network.ValidAttachments == nil:
		return r.Invalid(key, "missing: GC without the list of living attachments would destroy all of them")
	}
	path := func(i int) string {
		for _, k := range []string{key, oldKey} {
			if off, ok := locate(r.Config, k); ok {
				if n := len(elements(r.Config, off)); i < n {
					return fmt.Sprintf("%s[%d]", k, i)
				}
			}
		}
		return oldKey // only there, at another index
	}
	var errs []error
	for _, k := range []string{key, oldKey} {
		if n := countMembers(r.Config, k); n > 1 {
			errs = append(errs, r.Invalid(k, "given %d times: GC would destroy what only one of the lists calls alive", n))
		}
	}
	errs = append(errs, r.checkRepeated(key, oldKey)...)
	for i, a := range r.Network.ValidAttachments {
		if err := CheckName(a.ContainerID); err != nil {
			errs = append(errs, r.Invalid(path(i)+".containerID", "%w", err))
		}
		if err := CheckIfName(a.IfName); err != nil {
			errs = append(errs, r.Invalid(path(i)+".ifname", "%w", err))
		}
		if len(errs) >= maxErrors {
			break // each costs a walk through the text
		}
	}
	return Join(errs...)
}

// checkRepeated refuses an entry of the lists that names its container, or its interface, more than once, in whatever
// case: the other one is alive, perhaps, and GC would free what it has.
func (r *Request) checkRepeated(lists ...string) (errs []error) {
	for _, list := range lists {
		off, ok := locate(r.Config, list)
		if !ok {
			continue
		}
		for i, entry := range elements(r.Config, off) {
			ms := members(r.Config, entry.start)
			for _, key := range []string{"containerID", "ifname"} {
				n := 0
				for _, m := range ms {
					if strings.EqualFold(m.key, key) {
						n++
					}
				}
				if n > 1 {
					errs = append(errs, r.Invalid(fmt.Sprintf("%s[%d].%s", list, i, key), "given %d times: GC would destroy what only one of them calls alive", n))
				}
			}
			if len(errs) >= maxErrors {
				return errs
			}
		}
	}
	return errs
}

// about tells whether one of the errors is about the key, or something in it.
func about(errs []error, key string) bool {
	return slices.ContainsFunc(errs, func(err error) bool {
		var e *Error
		return errors.As(err, &e) && strings.HasPrefix(e.Path, key)
	})
}
