package delegate

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/containernetworking/cni/pkg/version"

	"github.com/cnikit/cnikit/netconf"
)

// ParseNetwork reads a network: a list of plugins (a "conflist"), which has the key plugins, or the configuration
// of one plugin, which has a type and becomes a list of one. The bytes of each plugin's configuration stay as they
// are. Of cniVersion and cniVersions together the highest that this library knows is chosen (see
// [Network.Choose]); in the configuration of one plugin cniVersions is a key of the plugin's own.
//
// All errors are told together, with JSON path, line and column. They carry code 6 for what is not JSON and for a
// value of the wrong type, and 7 for a list that is none: plugins that is absent, null, empty or not a list, an
// entry that is no object or has no type, a name that is missing or none.
func ParseNetwork(data []byte) (*Network, error) {
	n, errs := parse(data)
	if len(n.Plugins) == 0 && len(errs) == 0 {
		errs = append(errs, keyError(data, netconf.CodeInvalidNetworkConfig, "plugins", `missing: expected a list of plugins, or the key "type" of one plugin%s`, didYouMean(data)))
	}
	if err := netconf.Join(errs...); err != nil {
		return nil, err
	}
	return n.Network, nil
}

// didYouMean names the key that may be meant for "plugins", or for the "type" of one plugin, in a text that has neither.
func didYouMean(data []byte) string {
	for _, m := range netconf.Members(data, 0) {
		if near := netconf.Nearest(m.Key, "plugins", "type", "name"); near == "plugins" || near == "type" { // "nam" is a name
			line, column := (&netconf.Lines{Text: data}).Place(m.At)
			return fmt.Sprintf("; did you mean %q, where it has %.32q (line %d, column %d)?", near, m.Key, line, column)
		}
	}
	return ""
}

// parsed is a network as far as it could be read. A list without the key plugins has none yet: they may be in
// files beside it.
type parsed struct {
	*Network
	inline bool // loadOnlyInlinedPlugins, or the configuration of one plugin: no files are added
}

func parse(data []byte) (parsed, []error) {
	n := parsed{Network: &Network{}}
	if _, err := netconf.DecodeJSON[struct{}](data, nil); err != nil {
		if json.Valid(data) { // null, a list, a number
			err = netconf.Errorf(netconf.CodeInvalidNetworkConfig, "%s", err.Error())
		}
		return n, []error{err}
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return n, []error{netconf.Errorf(netconf.CodeDecodingFailure, "configuration: %w", err)}
	}
	l := &list{data: data, keys: keys}
	n.Name, n.CNIVersion = l.text("name"), l.text("cniVersion")
	if err := netconf.CheckName(n.Name); err != nil && !l.failed("name") {
		l.note(netconf.CodeInvalidNetworkConfig, "name", "network name: %w", err)
	}
	if n.CNIVersion != "" {
		n.CNIVersions = []string{n.CNIVersion}
	}
	_, several := keys["plugins"]
	if _, one := keys["type"]; one && !several {
		n.Plugins, n.inline = []json.RawMessage{slices.Clone(data)}, true
		l.plugin("", data)
		return n, l.errs
	}
	n.source = slices.Clone(data)
	n.DisableCheck, n.DisableGC, n.inline = l.switched("disableCheck"), l.switched("disableGC"), l.switched("loadOnlyInlinedPlugins")
	l.versions(n.Network)
	if several {
		n.Plugins = l.plugins()
	} else if n.inline {
		l.note(netconf.CodeInvalidNetworkConfig, "loadOnlyInlinedPlugins", `set, and there is no key "plugins"`)
	}
	return n, l.errs
}

// list is a walk over the keys of a list.
type list struct {
	data []byte
	keys map[string]json.RawMessage
	errs []error
}

// maxErrors is how many errors a list gets: each costs a walk to learn its line, and a list of 100,000 numbers would
// keep a caller busy for minutes.
const maxErrors = 20

func (l *list) note(code uint, path, format string, args ...any) {
	if len(l.errs) >= maxErrors {
		return
	}
	l.errs = append(l.errs, keyError(l.data, code, path, format, args...))
}

// keyError makes an error about a key, with its line and column.
func keyError(data []byte, code uint, path, format string, args ...any) error {
	err := (&netconf.Request{Config: data}).Invalid(path, format, args...)
	if e, ok := err.(*netconf.Error); ok {
		e.Code = code
	}
	return err
}

// failed tells whether an error about the key is noted.
func (l *list) failed(key string) bool {
	return slices.ContainsFunc(l.errs, func(err error) bool {
		e, ok := err.(*netconf.Error)
		return ok && e.Path == key
	})
}

func (l *list) text(key string) (s string) {
	if value, ok := l.keys[key]; ok && (string(value) == "null" || json.Unmarshal(value, &s) != nil) {
		l.note(netconf.CodeDecodingFailure, key, "expected a string")
	}
	return s
}

// switched reads a boolean, which may be a string, as libcni takes it.
func (l *list) switched(key string) bool {
	value, ok := l.keys[key]
	if !ok {
		return false
	}
	var on netconf.Switch
	if err := on.UnmarshalJSON(value); err != nil {
		l.note(netconf.CodeDecodingFailure, key, "%w", err)
	}
	return bool(on)
}

// versions reads cniVersions and chooses one.
func (l *list) versions(n *Network) {
	value, ok := l.keys["cniVersions"]
	if !ok {
		return
	}
	var all []*string
	if json.Unmarshal(value, &all) != nil || all == nil {
		l.note(netconf.CodeDecodingFailure, "cniVersions", "expected a list of strings")
		return
	}
	for i, v := range all {
		if v == nil {
			l.note(netconf.CodeDecodingFailure, fmt.Sprintf("cniVersions[%d]", i), "expected a string, got null")
			return
		}
		if _, _, _, err := version.ParseVersion(*v); err != nil || *v == "" {
			l.note(netconf.CodeInvalidNetworkConfig, fmt.Sprintf("cniVersions[%d]", i), "%q is no version: expected three numbers as in 1.1.0", *v)
			return
		}
		if !slices.Contains(n.CNIVersions, *v) {
			n.CNIVersions = append(n.CNIVersions, *v)
		}
	}
	if n.Choose(version.All.SupportedVersions()...) != nil && n.CNIVersion == "" && len(n.CNIVersions) > 0 {
		n.CNIVersion = n.CNIVersions[0] // the verbs say that it is unknown; none would be taken to be 0.1.0
	}
}

// plugins reads the list's entries. An error's place is that in the whole text.
func (l *list) plugins() (plugins []json.RawMessage) {
	value := l.keys["plugins"]
	if len(value) > 0 && value[0] != '[' || json.Unmarshal(value, &plugins) != nil {
		l.note(netconf.CodeInvalidNetworkConfig, "plugins", "expected a list of plugins")
		return nil
	}
	if len(plugins) == 0 {
		l.note(netconf.CodeInvalidNetworkConfig, "plugins", "empty: expected at least one plugin")
	}
	for i, plugin := range plugins {
		l.plugin(fmt.Sprintf("plugins[%d]", i), plugin)
	}
	return plugins
}

// plugin checks an entry: its type, and those keys that the specification defines.
func (l *list) plugin(path string, plugin json.RawMessage) {
	if _, err := typeOf(plugin); err != nil {
		l.note(netconf.CodeInvalidNetworkConfig, join(path, err.Path), "%w", err.Err)
		return
	}
	_, err := netconf.ParseNetwork(plugin)
	for _, err := range netconf.Split(err) {
		e, ok := err.(*netconf.Error)
		switch {
		case !ok:
			l.errs = append(l.errs, err)
		case path != "" || !l.failed(e.Path): // of one plugin the name is read above
			l.note(e.Code, join(path, e.Path), "%w", e.Err)
		}
	}
}

func join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

// Choose sets CNIVersion to the highest version that the configuration names and that is among the supported ones
// (SPEC, section 1 "Version considerations"). A configuration that names none is of 0.1.0. If there is no such
// version nothing is changed and the error has code 1. ParseNetwork has chosen among all that this library knows;
// a caller chooses again whose own peers know less.
func (n *Network) Choose(supported ...string) error {
	named := n.CNIVersions
	if len(named) == 0 {
		named = []string{n.version()}
	}
	best := netconf.Newest(named, supported)
	if best == "" {
		return netconf.Errorf(netconf.CodeIncompatibleVersion, "network %q has the versions %q: expected one of %q", n.Name, named, supported)
	}
	n.CNIVersion = best
	return nil
}

// Bytes is the network as one document, for a record: ParseNetwork makes the same network of it, also when this
// library knows further versions, or the folder that plugins were read from holds others. The plugins' bytes
// are as they were, and so is what else the list had; the chosen version is the only one it names. The error is
// that of a plugin that is no JSON object.
func (n *Network) Bytes() (json.RawMessage, error) {
	for i, plugin := range n.Plugins {
		if _, err := typeOf(plugin); err != nil {
			return nil, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "network %q: plugins[%d]: %w", n.Name, i, err)
		}
	}
	document := n.source
	if document == nil {
		document = json.RawMessage(`{}`)
	}
	name, err := json.Marshal(n.Name)
	if err != nil {
		return nil, err // cannot be: a string always encodes
	}
	chosen, err := json.Marshal(n.version())
	if err != nil {
		return nil, err // as above
	}
	plugins := []byte("[")
	for i, plugin := range n.Plugins {
		if i > 0 {
			plugins = append(plugins, ',')
		}
		plugins = append(plugins, plugin...)
	}
	on := map[bool]json.RawMessage{true: json.RawMessage("true")} // false: the key is left out
	for _, put := range []struct {
		key   string
		value json.RawMessage
	}{
		{"cniVersion", chosen}, {"cniVersions", nil}, {"name", name}, {"disableCheck", on[n.DisableCheck]}, {"disableGC", on[n.DisableGC]},
		{"loadOnlyInlinedPlugins", on[true]}, {"plugins", append(plugins, ']')},
	} {
		if document, err = netconf.Patch(document, put.key, put.value); err != nil {
			return nil, err
		}
	}
	return document, nil
}
