package selection

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	cniversion "github.com/containernetworking/cni/pkg/version"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// Network reads the configuration of a definition: that of one plugin, or a list. What it lacks of name and cniVersion
// is the definition's name and version, the caller's own. The code of all errors is 7: a definition that is wrong, or of a
// version that does not exist, is not the caller's JSON, nor the caller's version.
func Network(config []byte, name, version string) (*delegate.Network, error) {
	text := bytes.TrimSpace(config)
	if bytes.HasPrefix(text, []byte("{")) && json.Valid(text) {
		for _, put := range []struct {
			key, value string
			unless     []string
		}{{"name", name, []string{"name"}}, {"cniVersion", version, []string{"cniVersion", "cniVersions"}}} {
			if put.value == "" || slices.ContainsFunc(put.unless, func(key string) bool { return has(text, key) }) {
				continue
			}
			value, err := json.Marshal(put.value)
			if err != nil {
				return nil, err // cannot be: a string always encodes
			}
			if text, err = netconf.Patch(text, put.key, value); err != nil {
				return nil, err // as above: it is an object
			}
		}
	}
	network, err := delegate.ParseNetwork(text)
	if err != nil {
		return nil, invalid("%s", err) // not %w: its code is another
	}
	if err := CheckVersion(network); err != nil {
		return nil, err
	}
	return network, nil
}

// CheckVersion refuses a version that does not exist, with code 7.
func CheckVersion(network *delegate.Network) error {
	if known := cniversion.All.SupportedVersions(); network.CNIVersion != "" && netconf.Newest([]string{network.CNIVersion}, known) == "" {
		return invalid("cniVersion %q: expected one of %s", clip(network.CNIVersion), netconf.Choice(known...))
	}
	return nil
}

// has tells whether an object has a key with a value that says something.
func has(object []byte, key string) bool {
	value := member(object, key)
	return len(value) > 0 && string(value) != "null" && string(value) != `""`
}

// member is the value of a key; of one that is there twice the last.
func member(object []byte, key string) json.RawMessage {
	var value json.RawMessage
	for _, m := range netconf.Members(object, 0) {
		if m.Key == key {
			value = m.Value(object)
		}
	}
	return value
}

// Options are what an attachment gets beside what the pod asks for.
type Options struct {
	Device         string // the device that the kubelet gave to the pod for this network; empty: none
	DeviceInfoFile string // where the plugin may describe the device, see package device; empty: nowhere
	DefaultMetric  int    // args.cni.defaultMetric of plugins whose definition has none, see netconf.Request; 0: none
	Legacy         bool   // ips and mac go as IP and MAC in CNI_ARGS where no plugin has the capability
}

// Attach makes the attachment of one pod: the network with the element's requests, arguments and device in it. What is
// asked for and no plugin of the network declares as a capability is an error, as the standard has it: a pod that
// runs with another address than it was promised is worse than one that does not start. The network stays as it was.
func (e Element) Attach(network *delegate.Network, ifname string, o Options) (delegate.Attachment, error) {
	own := *network
	own.Plugins = slices.Clone(network.Plugins)
	a := delegate.Attachment{Network: &own, IfName: ifname, RuntimeConfig: maps.Clone(e.Requests)}
	if o.Device != "" {
		if err := e.giveDevice(&a, o); err != nil {
			return a, err
		}
	}
	for i := range own.Plugins {
		var err error
		if own.Plugins[i], err = withArgs(own.Plugins[i], e.Args); err != nil {
			return a, invalid("network %q: plugins[%d]: %w", e, i, err)
		}
	}
	if o.DefaultMetric != 0 {
		giveMetric(&own, o.DefaultMetric)
	}
	return a, e.checkCapabilities(&a, o.Legacy)
}

// giveMetric says to the plugins where their default routes come. Args that cannot take it are left as they are.
func giveMetric(network *delegate.Network, metric int) {
	args := map[string]json.RawMessage{"defaultMetric": json.RawMessage(strconv.Itoa(metric))}
	for i, plugin := range network.Plugins {
		if has(member(member(plugin, "args"), "cni"), "defaultMetric") {
			continue
		}
		if with, err := withArgs(plugin, args); err == nil {
			network.Plugins[i] = with
		}
	}
}

func (e Element) checkCapabilities(a *delegate.Attachment, legacy bool) error {
	able := a.Network.Capabilities()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(e.Requests)) {
		switch {
		case slices.Contains(able, key):
		case key == "deviceID" && has(a.Network.Plugins[0], "deviceID"): // the network's own is taken, as by multus
			delete(a.RuntimeConfig, key)
		case legacy && (key == "ips" || key == "mac"):
			delete(a.RuntimeConfig, key)
			if err := e.asArg(a, key); err != nil {
				errs = append(errs, err)
			}
		default:
			errs = append(errs, invalid("network %q: the pod asks for %q, and no plugin of the definition has that capability", e, key))
		}
	}
	return netconf.Join(errs...)
}

// asArg puts a request into CNI_ARGS, as multus did before there were capabilities.
func (e Element) asArg(a *delegate.Attachment, key string) error {
	if a.Args == nil {
		a.Args = netconf.Args{}
	}
	var ips []string
	var mac string
	var err error
	if key == "ips" {
		err = json.Unmarshal(e.Requests[key], &ips)
		a.Args["IP"] = strings.Join(ips, ",")
	} else {
		err = json.Unmarshal(e.Requests[key], &mac)
		a.Args["MAC"] = mac
	}
	return err
}

// giveDevice puts the device where plugins look for it: multus' two keys in the first plugin, and the capabilities.
func (e Element) giveDevice(a *delegate.Attachment, o Options) error {
	id, err := json.Marshal(o.Device)
	if err != nil {
		return err // cannot be: a string always encodes
	}
	for _, key := range []string{"deviceID", "pciBusID"} {
		if a.Network.Plugins[0], err = netconf.Patch(a.Network.Plugins[0], key, id); err != nil {
			return err // cannot be: it is an object
		}
	}
	if a.RuntimeConfig == nil {
		a.RuntimeConfig = map[string]json.RawMessage{}
	}
	a.RuntimeConfig["deviceID"] = id
	if o.DeviceInfoFile != "" {
		if a.RuntimeConfig["CNIDeviceInfoFile"], err = json.Marshal(o.DeviceInfoFile); err != nil {
			return err // as above
		}
	}
	return nil
}

// withArgs merges args into args.cni of a plugin's configuration, and changes no other byte.
func withArgs(plugin json.RawMessage, args map[string]json.RawMessage) (json.RawMessage, error) {
	if len(args) == 0 {
		return plugin, nil
	}
	outer, err := object(member(plugin, "args"), "args")
	if err != nil {
		return nil, err
	}
	inner, err := object(member(outer, "cni"), "args.cni")
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(args)) {
		if inner, err = netconf.Patch(inner, key, args[key]); err != nil {
			return nil, err
		}
	}
	if outer, err = netconf.Patch(outer, "cni", inner); err != nil {
		return nil, err
	}
	return netconf.Patch(plugin, "args", outer)
}

// object is a value that has to be one; nothing, and null, is an empty one.
func object(value json.RawMessage, path string) (json.RawMessage, error) {
	if len(value) == 0 || string(value) == "null" {
		return json.RawMessage("{}"), nil
	}
	if value[0] != '{' {
		return nil, fmt.Errorf("%s is no object, and the pod's cni-args cannot be merged into it", path)
	}
	return value, nil
}
