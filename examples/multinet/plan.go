package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/examples/multinet/device"
	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/examples/multinet/selection"
	"github.com/cnikit/cnikit/netconf"
)

// definitions is where NetworkAttachmentDefinitions are read: the API server, a daemon's informers, or files.
type definitions interface {
	Definition(ctx context.Context, namespace, name string) (*kube.Definition, error)
}

// network is one network that a pod gets.
type network struct {
	Name     string            // as the status has it
	Asked    selection.Element // what the pod asks of it; the zero value where it did not ask
	Network  *delegate.Network // as it is defined
	Resource string            // of which it gets a device; empty: none
}

// source reads a network; nil without an error: there is none.
type source func(ctx context.Context) (*network, error)

// networks finds out what a pod gets, the default network first, and checks all that needs no device. pod is nil where
// there is no API server, or the container is no pod; from is nil where there is no API server.
func (c *config) networks(ctx context.Context, req *netconf.Request, pod *kube.Pod, from definitions) ([]network, error) {
	sources := c.defaultNetworks(req, from)
	if pod != nil {
		chosen, asked, err := c.asked(pod)
		if err != nil {
			return nil, err
		}
		if chosen != nil {
			sources[0] = c.defined(req, *chosen, from)
		}
		for _, e := range asked {
			sources = append(sources, c.defined(req, e, from))
		}
	}
	if c.AuxiliaryChain != "" {
		sources = append(sources, func(context.Context) (*network, error) { return c.auxiliary(req) })
	}
	all, err := readAll(ctx, sources)
	for _, n := range all {
		if len(n.Network.CNIVersions) == 0 { // a file names none; 0.1.0, which that means to CNI, knows of no interfaces
			n.Network.CNIVersion = req.Network.CNIVersion
		}
		err = netconf.Join(err, n.check(req.Network.Type))
	}
	return all, err
}

// check refuses a version that does not exist (a definition's was found before, a file's was not), and a network that this
// plugin would serve: it would find the same annotation again, and call itself until the node has no process left.
func (n network) check(own string) error {
	if err := selection.CheckVersion(n.Network); err != nil {
		return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "network %q: %w", n.Name, err)
	}
	for i, plugin := range n.Network.Plugins {
		if conf, err := netconf.ParseNetwork(plugin); err == nil && conf.Type == own {
			return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "network %q: plugins[%d]: it is of type %q, this plugin itself", n.Name, i, own)
		}
	}
	return nil
}

// asked is what the pod's annotations ask for: a network in the default network's place (nil: none), and more.
func (c *config) asked(pod *kube.Pod) (chosen *selection.Element, more []selection.Element, err error) {
	if chosen, err = c.chosenDefault(pod); err != nil {
		return nil, nil, err
	}
	more, err = selection.Parse(pod.Annotations[selection.Annotation], pod.Namespace)
	errs := []error{err}
	all := more
	if chosen != nil {
		all = append([]selection.Element{*chosen}, more...)
	}
	errs = append(errs, selection.Routes(all))
	for _, e := range more {
		errs = append(errs, c.fence().Check(pod.Namespace, e))
	}
	if err := netconf.Join(errs...); err != nil {
		return nil, nil, fmt.Errorf("annotation %q: %w", selection.Annotation, err)
	}
	return chosen, more, nil
}

// chosenDefault is the network that the pod wants in the default network's place, by its other annotation.
func (c *config) chosenDefault(pod *kube.Pod) (*selection.Element, error) {
	text := pod.Annotations[selection.DefaultAnnotation]
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	e, err := selection.ParseOne(text, c.MultusNamespace)
	if err == nil {
		err = c.fence().Check(pod.Namespace, e, c.MultusNamespace)
	}
	if err != nil {
		return nil, fmt.Errorf("annotation %q: %w", selection.DefaultAnnotation, err)
	}
	e.Interface = "" // it is CNI_IFNAME
	return &e, nil
}

// defaultNetworks are those that a pod gets unasked. from is nil where there is no API server.
func (c *config) defaultNetworks(req *netconf.Request, from definitions) []source {
	var sources []source
	if c.ClusterNetwork != "" {
		sources = append(sources, c.named(req, c.ClusterNetwork, from))
	} else {
		for i := range c.Delegates {
			sources = append(sources, func(context.Context) (*network, error) { return c.inline(req, i) })
		}
	}
	if k8s, _ := req.Pod(); slices.Contains(c.SystemNamespaces, k8s.Namespace) {
		return sources
	}
	for _, name := range c.DefaultNetworks {
		sources = append(sources, c.named(req, name, from))
	}
	return sources
}

// inline is an element of delegates.
func (c *config) inline(req *netconf.Request, i int) (*network, error) {
	n, err := selection.Network(c.Delegates[i], "", req.Network.CNIVersion)
	if err != nil {
		return nil, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "delegates[%d]: %w", i, err)
	}
	return &network{Name: n.Name, Network: n}, nil
}

// named is a network that the configuration names: a definition, or else a network of confDir; with a slash a path.
func (c *config) named(req *netconf.Request, name string, from definitions) source {
	return func(ctx context.Context) (n *network, err error) {
		if strings.Contains(name, "/") {
			return fromPath(req, name)
		}
		missing := errors.New("there is no API server") // why it is not a definition
		if from != nil {
			n, missing = c.defined(req, selection.Element{Namespace: c.MultusNamespace, Name: name}, from)(ctx)
			if missing == nil || !errors.Is(missing, kube.ErrNotFound) {
				return n, missing
			}
		}
		found, err := delegate.LoadNetwork(c.ConfDir, name)
		if err != nil {
			return nil, inFile("network %q: no definition in namespace %q (%v); %w", name, c.MultusNamespace, missing, err)
		}
		return &network{Name: found.Name, Network: found}, nil
	}
}

// inFile is the error of a network in a file, the last of args. One that is no JSON is a wrong network: the code that the
// reader gives is that of a call's own configuration.
func inFile(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if netconf.Code(err) == netconf.CodeDecodingFailure {
		return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "%w", err)
	}
	return err
}

// fromPath is the network of a file, or the first one of a folder. What describes this plugin itself is passed over: in
// the folder of the runtime's networks it is the first, and would delegate to itself for ever.
func fromPath(req *netconf.Request, path string) (*network, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, netconf.Errorf(netconf.CodeTryAgainLater, "network %q: %w", path, err) // the default network's daemon writes it
	}
	if !info.IsDir() {
		n, err := delegate.LoadFile(path)
		if err != nil {
			return nil, inFile("network %w", err)
		}
		return &network{Name: n.Name, Network: n}, nil
	}
	files, err := delegate.ListNetworks(path)
	if err != nil {
		return nil, err
	}
	passed := ""
	for _, f := range files {
		switch {
		case f.Err != nil:
			passed += "; " + f.Err.Error()
		case f.Network.Name == req.Network.Name:
			passed += fmt.Sprintf("; %q: it is this network itself", f.Path)
		default:
			return &network{Name: f.Network.Name, Network: f.Network}, nil
		}
	}
	return nil, netconf.Errorf(netconf.CodeTryAgainLater, "folder %q has no network yet%s", path, passed)
}

// defined is the network of a definition.
func (c *config) defined(req *netconf.Request, e selection.Element, from definitions) source {
	return func(ctx context.Context) (*network, error) {
		d, err := from.Definition(ctx, e.Namespace, e.Name)
		if err != nil {
			return nil, fmt.Errorf("network %q: %w", e, err)
		}
		n := &network{Name: e.String(), Asked: e, Resource: d.Annotations[device.Annotation]}
		if strings.TrimSpace(d.Config) == "" {
			n.Network, err = delegate.LoadNetwork(c.ConfDir, d.Name)
		} else {
			n.Network, err = selection.Network([]byte(d.Config), d.Name, req.Network.CNIVersion)
		}
		if err != nil {
			return nil, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "network %q: %w", e, err)
		}
		return n, nil
	}
}

// auxiliary is the list of the plugins in the folder beside clusterNetwork's file, behind a plugin that makes nothing; nil
// if there are none.
func (c *config) auxiliary(req *netconf.Request) (*network, error) {
	beside := filepath.Dir(c.ClusterNetwork)
	if info, err := os.Stat(c.ClusterNetwork); err == nil && info.IsDir() {
		beside = c.ClusterNetwork
	}
	dir := filepath.Join(beside, c.AuxiliaryChain)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, netconf.Errorf(netconf.CodeIOFailure, "auxiliaryCNIChainName: %w", err)
	}
	plugins := []json.RawMessage{json.RawMessage(`{"type":"passthru"}`)}
	for _, entry := range entries { // in order
		if filepath.Ext(entry.Name()) != ".conf" {
			continue
		}
		text, err := readPlugin(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "auxiliaryCNIChainName: %q: %w", entry.Name(), err)
		}
		if text != nil {
			plugins = append(plugins, text)
		}
	}
	if len(plugins) == 1 {
		return nil, nil
	}
	n := &delegate.Network{Name: c.AuxiliaryChain, CNIVersion: req.Network.CNIVersion, Plugins: plugins}
	return &network{Name: n.Name, Network: n}, nil
}

// readPlugin reads a plugin's configuration. It follows symbolic links, which are all there is in a mounted ConfigMap; a
// folder has none, and is nil.
func readPlugin(path string) (json.RawMessage, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, nil
	case !info.Mode().IsRegular(): // a FIFO would be waited for
		return nil, errors.New("not a regular file")
	case info.Size() > netconf.MaxConfig:
		return nil, fmt.Errorf("%d bytes: expected at most %d", info.Size(), netconf.MaxConfig)
	}
	text, err := os.ReadFile(path)
	if err == nil && !json.Valid(text) {
		err = errors.New("not JSON")
	}
	return text, err
}

// readAll reads the networks at once: a pod with four of them waits for the API server once.
func readAll(ctx context.Context, sources []source) ([]network, error) {
	found := make([]*network, len(sources))
	errs := make([]error, len(sources))
	var running sync.WaitGroup
	for i, read := range sources {
		running.Go(func() {
			defer func() {
				if r := recover(); r != nil { // in a goroutine it would end the process, without a word to the runtime
					errs[i] = netconf.Errorf(netconf.CodeInternal, "panic: %v\n%s", r, debug.Stack())
				}
			}()
			found[i], errs[i] = read(ctx)
		})
	}
	running.Wait()
	var all []network
	for _, n := range found {
		if n != nil {
			all = append(all, *n)
		}
	}
	return all, netconf.Join(errs...)
}
