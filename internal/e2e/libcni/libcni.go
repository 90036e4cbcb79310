// Package libcni drives plugins through the runtimes' own library, containernetworking/cni/libcni, for what no
// runtime at hand calls: CHECK, and GC with the list of the attachments that are valid. (cnitool's gc passes no
// list, upon which libcni takes every attachment away that it remembers.)
//
// Plugins run in the namespaces of the test process: its TestMain is skeltest.Main. libcni's memory of
// attachments is in a folder of the test's.
package libcni

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// Network is a network of a runtime.
type Network struct {
	ctx   context.Context
	cni   *libcni.CNIConfig
	list  *libcni.NetworkConfigList
	cache string
	t     testing.TB
}

// New makes a network of a configuration list; the folders are CNI_PATH.
func New(t testing.TB, conflist string, bin ...string) *Network {
	t.Helper()
	list, err := libcni.NetworkConfFromBytes([]byte(conflist))
	if err != nil {
		t.Fatalf("libcni: %v", err)
	}
	cache := t.TempDir()
	// A test's cleanup, too, may call GC and DEL: its context is cancelled then.
	return &Network{ctx: context.WithoutCancel(t.Context()), cni: libcni.NewCNIConfigWithCacheDir(bin, cache, nil), list: list, cache: cache, t: t}
}

// Attachment is what an ADD made.
type Attachment struct {
	ContainerID, Netns, IfName string
	Result                     *types100.Result
}

func (a *Attachment) runtimeConf() *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: a.ContainerID, NetNS: a.Netns, IfName: a.IfName}
}

// Add attaches a container. As a runtime does, it calls DEL after an ADD that failed.
func (n *Network) Add(containerID, netns, ifname string) (*Attachment, error) {
	a := &Attachment{ContainerID: containerID, Netns: netns, IfName: ifname}
	result, err := n.cni.AddNetworkList(n.ctx, n.list, a.runtimeConf())
	if err != nil {
		if del := n.Del(a); del != nil {
			return nil, fmt.Errorf("%w; and the DEL after it: %w", err, del)
		}
		return nil, err
	}
	a.Result, err = types100.NewResultFromResult(result)
	return a, err
}

// Check checks an attachment, with the result that libcni remembers.
func (n *Network) Check(a *Attachment) error {
	return n.cni.CheckNetworkList(n.ctx, n.list, a.runtimeConf())
}

// Del takes an attachment away, with the result that libcni remembers, if it does.
func (n *Network) Del(a *Attachment) error {
	return n.cni.DelNetworkList(n.ctx, n.list, a.runtimeConf())
}

// GC takes everything away but these attachments. libcni calls DEL for those that it remembers, and then GC,
// which is for those that nobody remembers: see Forget.
func (n *Network) GC(valid ...*Attachment) error {
	args := &libcni.GCArgs{ValidAttachments: []types.GCAttachment{}} // an empty list is one, a nil one is none
	for _, a := range valid {
		args.ValidAttachments = append(args.ValidAttachments, types.GCAttachment{ContainerID: a.ContainerID, IfName: a.IfName})
	}
	return n.cni.GCNetworkList(n.ctx, n.list, args)
}

// Status asks whether the network can serve an ADD.
func (n *Network) Status() error { return n.cni.GetStatusNetworkList(n.ctx, n.list) }

// Forget makes libcni forget an attachment, as after the loss of its cache.
func (n *Network) Forget(a *Attachment) {
	n.t.Helper()
	file := filepath.Join(n.cache, "results", fmt.Sprintf("%s-%s-%s", n.list.Name, a.ContainerID, a.IfName))
	if err := os.Remove(file); err != nil {
		n.t.Fatalf("libcni: %v", err)
	}
}
