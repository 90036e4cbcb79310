package delegate

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/cnikit/cnikit/netconf"
)

// What a plugin of a network gets.

// oldest is the version of a configuration that names none.
const oldest = "0.1.0"

func (n *Network) version() string {
	if n.CNIVersion == "" {
		return oldest
	}
	return n.CNIVersion
}

func (n *Network) is(atLeast string) bool {
	return netconf.Network{CNIVersion: n.version()}.Is(atLeast)
}

func (n *Network) known() bool {
	return slices.Contains(version.All.SupportedVersions(), n.version())
}

// check says what is wrong with a call before anything is run. DEL is not checked: what can be taken away is.
func (n *Network) check(req *netconf.Request) error {
	var errs []error
	bad := func(code uint, format string, args ...any) {
		errs = append(errs, netconf.Errorf(code, format, args...))
	}
	if err := netconf.CheckName(n.Name); err != nil {
		bad(netconf.CodeInvalidNetworkConfig, "network name: %w", err)
	}
	if !n.known() {
		bad(netconf.CodeIncompatibleVersion, "cniVersion %q is unknown: expected one of %v", n.CNIVersion, version.All.SupportedVersions())
	}
	if len(n.Plugins) == 0 {
		bad(netconf.CodeInvalidNetworkConfig, "it has no plugins")
	}
	for i, plugin := range n.Plugins {
		if _, err := typeOf(plugin); err != nil {
			bad(netconf.CodeInvalidNetworkConfig, "plugins[%d]: %w", i, err)
		}
	}
	if req.Command == netconf.Add || req.Command == netconf.Check {
		if err := netconf.CheckName(req.ContainerID); err != nil {
			bad(netconf.CodeInvalidEnvironment, "container ID: %w", err)
		}
		if err := netconf.CheckIfName(req.IfName); err != nil {
			bad(netconf.CodeInvalidEnvironment, "interface name: %w", err)
		}
	}
	if err := netconf.Join(errs...); err != nil {
		return &Error{Op: req.Command, Network: n.Name, Err: err}
	}
	return nil
}

// typeOf is the type of a plugin's configuration. The error is about the key, or, with an empty path, about the
// whole; it has code 7.
func typeOf(plugin json.RawMessage) (string, *netconf.Error) {
	conf, err := netconf.DecodeJSON[struct {
		Type string `json:"type"`
	}](plugin, nil)
	wrong := &netconf.Error{Path: "type", Code: netconf.CodeInvalidNetworkConfig}
	var e *netconf.Error
	switch {
	case errors.As(err, &e):
		wrong.Path, wrong.Err = e.Path, e.Err // not its code 6, nor its place: this may be a part of a text
	case err != nil:
		wrong.Path, wrong.Err = "", err
	case conf.Type == "":
		wrong.Err = errors.New("missing: expected the plugin's name")
	default:
		if wrong.Err = CheckType(conf.Type); wrong.Err == nil {
			return conf.Type, nil
		}
	}
	return conf.Type, wrong
}

// hasPrev tells whether a plugin gets a prevResult with the verb: below 0.3.0 there is none for ADD, below 0.4.0 none
// for the others.
func (n *Network) hasPrev(verb netconf.Command) bool {
	if verb == netconf.Add {
		return n.is("0.3.0")
	}
	return n.is("0.4.0")
}

// prev is the prevResult that a verb begins with: what the request has, in the network's version.
func (n *Network) prev(req *netconf.Request) (json.RawMessage, error) {
	if req.Prev == nil || !n.hasPrev(req.Command) {
		return nil, nil
	}
	own := req.As(req.Command)
	own.Network.CNIVersion, own.Result = n.version(), nil
	prev, err := encode(own)
	if err != nil {
		return nil, &Error{Op: req.Command, Network: n.Name, Err: err}
	}
	return prev, nil
}

// request makes a plugin's own request. On DEL and GC what does not decode of the keys that the specification
// defines is the plugin's to judge; without a type there is no plugin.
func (n *Network) request(req *netconf.Request, plugin, prev json.RawMessage) (*netconf.Request, error) {
	name, wrong := typeOf(plugin)
	fail := func(err error) error { return &Error{Op: req.Command, Plugin: name, Network: n.Name, Err: err} }
	if wrong != nil {
		return nil, fail(wrong)
	}
	config, err := n.config(req, plugin, prev)
	if err != nil {
		return nil, fail(err)
	}
	network, err := netconf.ParseNetwork(config)
	if err != nil && !req.Lenient() {
		return nil, fail(err)
	}
	d := req.For(network, "")
	if err := d.SetPrev(prev); err != nil {
		return nil, fail(err)
	}
	return d, nil
}

// config derives a plugin's configuration from its entry in the list (SPEC, section 3 "Deriving request
// configuration from plugin configuration"). The key capabilities stays in it, as libcni leaves it: plugins that
// call others read it.
func (n *Network) config(req *netconf.Request, plugin, prev json.RawMessage) (json.RawMessage, error) {
	type put struct {
		key   string
		value json.RawMessage
	}
	name, err := json.Marshal(n.Name)
	if err != nil {
		return nil, err // cannot be: a string always encodes
	}
	puts := []put{{"name", name}, {"cniVersion", json.RawMessage(strconv.Quote(n.version()))}, {"prevResult", prev}}
	switch req.Command {
	case netconf.GC:
		list, err := json.Marshal(req.Network.ValidAttachments)
		if err != nil {
			return nil, err
		}
		// The second is what the specification called it until 2024.
		puts = append(puts, put{"cni.dev/valid-attachments", list}, put{"cni.dev/attachments", list})
	case netconf.Status:
	default:
		runtime, err := runtimeConfig(req, plugin)
		if err != nil {
			return nil, err
		}
		if runtime != nil {
			puts = append(puts, put{"runtimeConfig", runtime})
		}
	}
	for _, p := range puts {
		if plugin, err = netconf.Patch(plugin, p.key, p.value); err != nil {
			return nil, err
		}
	}
	return plugin, nil
}

// runtimeConfig is what the runtime has for the capabilities that the plugin declares; nil if there is nothing. On DEL what
// is not JSON is left out.
func runtimeConfig(req *netconf.Request, plugin json.RawMessage) (json.RawMessage, error) {
	has := req.Network.RuntimeConfig
	if len(has) == 0 {
		return nil, nil
	}
	network, _ := netconf.ParseNetwork(plugin) // what does not decode is told by request, and is no matter to DEL
	served := maps.Clone(has)
	maps.DeleteFunc(served, func(key string, value json.RawMessage) bool {
		if network.Capabilities[key] && req.Lenient() && !json.Valid(value) { // DEL would fail at each try
			warn(req, "runtimeConfig that is not JSON is left out", "plugin", network.Type, "key", key)
			return true
		}
		return !network.Capabilities[key]
	})
	if len(served) == 0 {
		return nil, nil
	}
	return json.Marshal(served)
}

// Capabilities lists what the plugins together declare that they can be given in runtimeConfig, in order of the
// names. An entry that does not decode declares nothing.
func (n *Network) Capabilities() []string {
	all := map[string]bool{}
	for _, plugin := range n.Plugins {
		network, _ := netconf.ParseNetwork(plugin) // see above
		for name, on := range network.Capabilities {
			if on {
				all[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// afterwards is an error of an ADD before which other plugins of the list, or the same one, have made something.
// That the one which failed did not run, or changed nothing, must not be taken for the whole list: who hears of it
// leaves out the DEL.
type afterwards struct{ err error }

func (e *afterwards) Error() string { return e.err.Error() }

// Is finds everything but netconf.ErrExists.
func (e *afterwards) Is(target error) bool {
	return target != netconf.ErrExists && errors.Is(e.err, target)
}

// As finds the code and the plugin. It does not look further, where netconf.Unchanged may be.
func (e *afterwards) As(target any) bool {
	switch target.(type) {
	case **types.Error, **Error:
		return errors.As(e.err, target)
	}
	return false
}
