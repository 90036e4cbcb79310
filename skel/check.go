package skel

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// check does all that can be done before any work: the version, the verb, prevResult, the namespace, the
// configuration. It describes the attachment.
func (c *core) check(req *netconf.Request) (Steps, error) {
	if c.broken != nil {
		return nil, c.broken
	}
	var steps Steps
	err := protect(req, "Plugin.Validate or Steps", func() error {
		describe, err := c.decode(req)
		if err == nil {
			steps = describe()
		}
		return err
	})
	var fatal []error
	for _, found := range []error{c.checkVersion(req, steps), err, c.rejected(req), c.checkPrev(req), checkNetns(req, c.kind)} {
		switch {
		case found == nil:
		case req.Command != netconf.Del || netconf.Code(found) == netconf.CodeInternal:
			fatal = append(fatal, found)
		default:
			req.Warn("goes on: " + found.Error())
		}
	}
	if len(fatal) > 0 {
		return nil, netconf.Join(fatal...)
	}
	return steps, nil
}

func (c *core) checkVersion(req *netconf.Request, steps Steps) error {
	versions := c.supported(steps)
	v := req.Network.CNIVersion
	if !slices.Contains(versions, v) {
		details := "supported: " + strings.Join(versions, ", ")
		if slices.Contains(c.versions, v) {
			details += fmt.Sprintf("; its steps do not have %v, which that version has", steps.lacks())
		}
		return &netconf.Error{Op: "configuration", Path: "cniVersion", Code: netconf.CodeIncompatibleVersion,
			Err: fmt.Errorf("version %.64q is not supported by %s", v, c.name), Details: details}
	}
	return req.CheckVerb()
}

// supported lists the announced versions, without those that have a verb the steps lack.
func (c *core) supported(steps Steps) []string {
	lacks := steps.lacks()
	return slices.DeleteFunc(slices.Clone(c.versions), func(v string) bool {
		return slices.ContainsFunc(lacks, func(verb netconf.Command) bool {
			return netconf.Network{CNIVersion: v}.Is(verb.Since())
		})
	})
}

// rejected is what the description of the attachment noted with Reject; GC has no use for it.
func (c *core) rejected(req *netconf.Request) error {
	err := req.Rejected()
	if err != nil && req.Command == netconf.GC {
		req.Warn("goes on: " + err.Error())
		return nil
	}
	return err
}

func (c *core) checkPrev(req *netconf.Request) error {
	if req.Prev == nil && (req.Command == netconf.Check || req.Command == netconf.Add && c.kind == Chained) {
		return req.Invalid("prevResult", "missing: %s of %s needs it", req.Command, c.name)
	}
	if req.Prev != nil && req.Command == netconf.Add && c.kind != IPAM && req.Network.Is("0.1.0") && !req.Network.Is("0.3.0") {
		return c.checkRoom(req)
	}
	return nil
}

// checkRoom refuses, before any work, what could not be printed after it: below 0.3.0 a result has one address of each
// family and no interfaces, and there was no prevResult. Nothing can be put beside the addresses of one, and of a family it
// has one at most, which a chained plugin hands on.
func (c *core) checkRoom(req *netconf.Request) error {
	most, families := 1, [2]int{}
	if c.kind != Chained {
		most = 0
	}
	for _, ip := range req.Prev.IPs {
		i := 0
		if ip.Address.IP.To4() == nil {
			i = 1
		}
		if families[i]++; families[i] > most {
			return req.Invalid("prevResult", "version %q has room for one address of each family, and is of single plugins: a list of them needs 0.3.0 or later", req.Network.CNIVersion)
		}
	}
	return nil
}

// checkResult holds an ADD's result against the plugin's kind: what fails here is the author's fault.
func (c *core) checkResult(req *netconf.Request) error {
	switch c.kind {
	case Interface:
		i := netconf.Attached(req.Result, req.IfName)
		if i < 0 {
			return netconf.Errorf(netconf.CodeInternal, "%s: the result does not name the interface %q of the container: "+
				"a step calls req.AddInterface with that Name and with Sandbox = req.Netns, or the plugin is of another Kind", c.name, req.IfName)
		}
		if !req.Network.DNS.IsEmpty() {
			req.Result.DNS = req.Network.DNS
		}
	case IPAM:
		if len(req.Result.Interfaces) > 0 {
			return netconf.Errorf(netconf.CodeInternal, "%s: the result of an IPAM plugin has no interfaces", c.name)
		}
	}
	return nil
}

// gone makes the error for a namespace that does not exist. Code 3 tells the runtime that no DEL is
// needed, so it is only for an ADD or CHECK before which nothing can have been made.
func gone(req *netconf.Request, err error) error {
	code := netconf.CodeUnknownContainer
	if req.Prev != nil {
		code = netconf.CodeInvalidNetworkConfig
	}
	return &netconf.Error{Op: "environment", Path: "CNI_NETNS", Code: code, Err: fmt.Errorf("namespace %q: %w", req.Netns, err)}
}

// checkNetns refuses, on ADD and CHECK, a namespace that does not exist or is our own. On DEL a
// namespace of our own becomes none: after a process id was used again it is the host that is named, whose
// links are not the attachment's.
func checkNetns(req *netconf.Request, kind Kind) error {
	if kind == IPAM || req.Netns == "" || req.Command == netconf.GC || req.Command == netconf.Status {
		return nil
	}
	own, err := ownNetns(req.Netns)
	switch {
	case req.Command == netconf.Del && own && !overridden(req):
		req.Netns = ""
		req.Warn("CNI_NETNS is the plugin's own namespace: goes on as if there were none")
		return nil
	case req.Command == netconf.Del && errors.Is(err, errNotNetns):
		req.Netns = "" // a delegate might open it, and a FIFO has no end
		req.Warn("CNI_NETNS is not a network namespace: goes on as if there were none")
		return nil
	case req.Command == netconf.Del:
		return nil // the steps know a namespace that is gone
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errStale):
		return gone(req, err)
	case err != nil: // also one that may not be read: it is there
		return &netconf.Error{Op: "environment", Path: "CNI_NETNS", Code: netconf.CodeInvalidEnvironment, Err: fmt.Errorf("%q: %w", req.Netns, err)}
	case own && !overridden(req):
		return &netconf.Error{Op: "environment", Path: "CNI_NETNS", Code: netconf.CodeInvalidEnvironment,
			Err: fmt.Errorf("%q is the plugin's own namespace, the host's: expected the container's", req.Netns)}
	}
	return nil
}

// overridden tells whether the caller wants to work in its own namespace, as upstream's skel allows.
func overridden(req *netconf.Request) bool {
	v := lookup(req.Environ, "CNI_NETNS_OVERRIDE")
	return v == "1" || strings.EqualFold(v, "true")
}

var (
	errNotNetns = errors.New("not a network namespace")
	errStale    = errors.New("stale: its mount is gone")
)
