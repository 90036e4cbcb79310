package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/cnikit/cnikit/netconf"
)

// Validate says whether the network can be used at all: whether each of its plugins is there and serves the network's
// version (VERSION), before a container waits for it. It is what libcni's ValidateNetworkList does; the capabilities that
// this returns are in [Network.Capabilities]. Of the request Path, Environ and Stderr are looked at. All plugins
// are asked, each within its part of the time, as in Del; the errors are joined: code 1 for a version that a
// plugin does not serve, else those of a call.
func (n *Network) Validate(ctx context.Context, plugins Registry, req *netconf.Request) error {
	req = detached(req.As(netconf.Version))
	if err := n.check(req); err != nil {
		return err
	}
	budget := split(ctx, len(n.Plugins))
	var errs []error
	for i, plugin := range n.Plugins {
		name, wrong := typeOf(plugin)
		if wrong != nil {
			return wrong // cannot be: it was checked
		}
		own := req.As(netconf.Version)
		own.Network = netconf.Network{CNIVersion: n.version(), Name: n.Name, Type: name}
		part, cancel := budget.part(ctx, len(n.Plugins)-i)
		errs = append(errs, plugins.plugin(name).serves(part, own))
		cancel()
	}
	return netconf.Join(errs...)
}

// serves asks the program for its versions, by libcni's question. What plugins of before 0.2.0 say, which do not know
// VERSION and want all variables for any verb, is no error.
func (e Exec) serves(ctx context.Context, req *netconf.Request) error {
	name, known := e.name(req), version.All.SupportedVersions()
	own := req.As(netconf.Version)
	own.Netns, own.IfName = "dummy", "dummy"
	own.Config = fmt.Appendf(nil, `{"cniVersion":%q}`, known[len(known)-1])
	out, err := e.send(ctx, name, own)
	var versions []string
	if err == nil {
		versions, err = out.versions()
	}
	if asked := req.Network.CNIVersion; err == nil && !slices.Contains(versions, asked) {
		err = netconf.Errorf(netconf.CodeIncompatibleVersion, "it does not serve version %q: its versions are %s", asked, strings.Join(versions, ", "))
	}
	if err != nil {
		return &Error{Op: netconf.Version, Plugin: name, Network: req.Network.Name, Program: out.program, Stderr: out.stderr, Err: err}
	}
	return nil
}

// versions reads the answer to VERSION (SPEC, section 5 "VERSION Success").
func (o output) versions() ([]string, error) {
	if o.tooMuch {
		return nil, netconf.Errorf(netconf.CodeBadDelegate, "%w", errTooMuch)
	}
	docs, last, err := documents(o.stdout)
	if o.exit != nil {
		err := o.failure(last, docs, err)
		var said *types.Error
		if errors.As(err, &said) && said.Msg == "unknown CNI_COMMAND: VERSION" {
			return []string{oldest}, nil
		}
		return nil, err
	}
	if err != nil || len(docs) != 1 {
		return nil, o.bad("expected one JSON document with its versions, got %s", excerpt(o.stdout))
	}
	var v struct {
		CNIVersion string   `json:"cniVersion"`
		Supported  []string `json:"supportedVersions"`
	}
	switch err := json.Unmarshal(docs[0], &v); {
	case err != nil:
		return nil, o.bad("not its versions: %w", err)
	case len(v.Supported) > 0:
		return v.Supported, nil
	case v.CNIVersion == "0.2.0": // whose plugins had no list yet
		return []string{oldest, "0.2.0"}, nil
	}
	return nil, o.bad("without supportedVersions: %s", excerpt(o.stdout))
}

// serves asks the Go value, which answers for the version of the configuration.
func (p InProcess) serves(ctx context.Context, req *netconf.Request) error {
	name := p.name(req)
	own := req.As(netconf.Version)
	own.Config = fmt.Appendf(nil, `{"cniVersion":%q}`, req.Network.CNIVersion)
	if _, err := p.send(ctx, name, own); err != nil {
		return &Error{Op: netconf.Version, Plugin: name, Network: req.Network.Name, Err: err}
	}
	return nil
}
