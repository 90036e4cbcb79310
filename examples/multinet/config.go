package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/examples/multinet/selection"
	"github.com/cnikit/cnikit/netconf"
)

// config is multus' configuration, and three keys of our own at the end.
type config struct {
	Delegates        []json.RawMessage `json:"delegates" doc:"the default network, and more that every pod gets: a plugin's configuration, or a list of plugins, each"`
	ClusterNetwork   string            `json:"clusterNetwork" example:"lan" doc:"the default network, in place of delegates: a definition in multusNamespace, else a network in confDir, by name; with a slash a file, or a folder, whose first network it is"`
	DefaultNetworks  []string          `json:"defaultNetworks" doc:"further networks, named as clusterNetwork, of every pod that is not in systemNamespaces"`
	MultusNamespace  string            `json:"multusNamespace" doc:"where the definitions of clusterNetwork and defaultNetworks are"`
	SystemNamespaces []string          `json:"systemNamespaces" doc:"pods of these get no defaultNetworks"`
	Kubeconfig       string            `json:"kubeconfig" doc:"how to reach the API server; default: as a pod does, if this is one, else there is none and every pod gets the default network alone"`
	ConfDir          string            `json:"confDir" doc:"networks in files"`
	CNIDir           string            `json:"cniDir" doc:"what the containers are attached to; must outlive a reboot"`
	BinDir           string            `json:"binDir" doc:"where plugins are looked for, before CNI_PATH"`
	Isolation        bool              `json:"namespaceIsolation" doc:"a pod may use the definitions of its own namespace, and of globalNamespaces, alone"`
	GlobalNamespaces names             `json:"globalNamespaces" doc:"namespaces whose definitions every pod may use, with commas between"`
	Readiness        string            `json:"readinessindicatorfile" doc:"a file that the default network's daemon makes when it is ready; ADD and GC wait for it, STATUS says that it is missing"`
	AuxiliaryChain   string            `json:"auxiliaryCNIChainName" doc:"a folder beside the file of clusterNetwork, whose plugins run last for every pod, as one list"`

	LegacyRequests bool     `json:"legacyRequests" doc:"ips and mac that no plugin declares as a capability are passed on in CNI_ARGS; default: such a pod fails"`
	Parallel       int      `json:"parallel" doc:"how many networks are attached at once, after the default network; 0 and 1 (default) is one after the other"`
	InProcess      []string `json:"inProcess" doc:"the types of plugins that are served by this program itself; default: all that it has in it; [] is none"`

	LogFile     string          `json:"logFile" doc:"multus' key: as log.file"`
	LogLevel    string          `json:"logLevel" doc:"multus' key: as log.level; verbose is info, panic is error"`
	LogToStderr *bool           `json:"logToStderr" doc:"multus' key: taken, warnings and errors always go to stderr"`
	LogOptions  json.RawMessage `json:"logOptions" doc:"multus' key: taken and not used, a log is rotated by logrotate"`
	RetryDelete bool            `json:"retryDeleteOnError" doc:"multus' key: taken, DEL tries all networks and keeps what failed for the next one"`
}

// names is a text of names with commas between.
type names []string

// Expects says what a value looks like.
func (names) Expects() string { return `namespaces with commas between such as "default,tenants"` }

// UnmarshalText reads the names.
func (n *names) UnmarshalText(text []byte) error {
	*n = names{}
	for name := range strings.SplitSeq(string(text), ",") {
		if name = strings.TrimSpace(name); name != "" {
			*n = append(*n, name)
		}
	}
	return nil
}

func defaults() config {
	return config{
		MultusNamespace:  "kube-system",
		SystemNamespaces: []string{"kube-system"},
		ConfDir:          "/etc/cni/multus/net.d",
		CNIDir:           "/var/lib/cni/multus",
		BinDir:           "/opt/cni/bin",
		GlobalNamespaces: names{"default"},
		InProcess:        slices.Sorted(maps.Keys(compiledIn())),
	}
}

// validate finds what is wrong with the configuration before any work.
func validate(req *netconf.Request, c *config) error {
	var errs []error
	for _, dir := range []struct{ key, value string }{
		{"confDir", c.ConfDir}, {"cniDir", c.CNIDir}, {"binDir", c.BinDir},
	} {
		if !filepath.IsAbs(dir.value) {
			errs = append(errs, req.Invalid(dir.key, "%q: expected an absolute path", dir.value))
		}
	}
	if c.ClusterNetwork == "" && len(c.Delegates) == 0 {
		errs = append(errs, req.Invalid("delegates", "expected a network here, or clusterNetwork"))
	}
	for i := range c.Delegates {
		if _, err := c.inline(req, i); err != nil && c.ClusterNetwork == "" {
			errs = append(errs, err)
		}
	}
	if c.AuxiliaryChain != "" && (!strings.Contains(c.ClusterNetwork, "/") || netconf.CheckName(c.AuxiliaryChain) != nil) {
		errs = append(errs, req.Invalid("auxiliaryCNIChainName", "%q: expected the name of a folder, and clusterNetwork to be a path", c.AuxiliaryChain))
	}
	for i, name := range c.InProcess {
		if _, ok := compiledIn()[name]; !ok {
			errs = append(errs, req.Invalid(fmt.Sprintf("inProcess[%d]", i), "%q is not compiled in: expected %s", name, netconf.Choice(slices.Sorted(maps.Keys(compiledIn()))...)))
		}
	}
	if c.Parallel < 0 {
		errs = append(errs, req.Invalid("parallel", "%d: expected 0 or more", c.Parallel))
	}
	return netconf.Join(errs...)
}

// plugins are the Go values that this configuration allows.
func (c *config) plugins() delegate.Registry { return compiledIn().Only(c.InProcess...) }

// path is where plugins are looked for, in this order, each folder once.
func (c *config) path(req *netconf.Request) []string {
	var all []string
	for _, dir := range append([]string{c.BinDir}, req.Path...) {
		if dir = filepath.Clean(dir); !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}

// fence is who may use whose definitions.
func (c *config) fence() selection.Fence {
	return selection.Fence{On: c.Isolation, Global: c.GlobalNamespaces}
}

// logConfig makes the SDK's key of multus' keys.
func logConfig(config json.RawMessage) json.RawMessage {
	keys, err := netconf.DecodeJSON[struct {
		File  string `json:"logFile"`
		Level string `json:"logLevel"`
	}](config, nil)
	if err != nil {
		return nil
	}
	if level, ok := map[string]string{"verbose": "info", "panic": "error"}[keys.Level]; ok {
		keys.Level = level
	}
	log := map[string]string{}
	for key, value := range map[string]string{"file": keys.File, "level": keys.Level} {
		if value != "" {
			log[key] = value
		}
	}
	text, err := json.Marshal(log)
	if err != nil {
		return nil // cannot be: texts always encode
	}
	return text
}
