package link_test

import (
	"context"
	"fmt"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// vxlan is a step that makes a kind of link which package link does not have.
type vxlan struct {
	Parent string // on the host
	VNI    int
}

// Add looks first: until it knows that there is no such link, its errors are ErrExists or Unchanged, for
// after any other one the link is deleted, which in a second ADD lives.
func (v vxlan) Add(ctx context.Context, req *netconf.Request) error {
	container, err := link.Container(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	switch _, err := container.Handle().LinkByName(req.IfName); {
	case err == nil:
		return fmt.Errorf("link %q: %w", req.IfName, netconf.ErrExists)
	case !link.Gone(err):
		return netconf.Unchanged(err)
	}
	host, err := link.Host(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	parent, err := host.Handle().LinkByName(v.Parent)
	if err != nil {
		return netconf.Unchanged(netconf.Errorf(netconf.CodeInvalidNetworkConfig, "parent %q: %w", v.Parent, err))
	}
	if err := netconf.Before(ctx, "link add "+req.IfName); err != nil { // before each change
		return netconf.Unchanged(err)
	}
	owner, attrs := link.OwnerOf(req), netlink.NewLinkAttrs()
	attrs.Name, attrs.Namespace = req.IfName, netlink.NsFd(container.Fd())
	attrs.Group = owner.Group() // marks it from birth; the alias follows, for the kernel does not take it here
	err = host.Handle().LinkAdd(&netlink.Vxlan{LinkAttrs: attrs, VxlanId: v.VNI, VtepDevIndex: parent.Attrs().Index, Port: 4789})
	if err != nil {
		return fmt.Errorf("link add %q: %w", req.IfName, err)
	}
	made, err := container.Handle().LinkByName(req.IfName)
	if err == nil {
		err = netconf.Before(ctx, "link alias "+req.IfName)
	}
	if err == nil {
		err = container.Handle().LinkSetAlias(made, owner.Alias(""))
	}
	if err != nil {
		return fmt.Errorf("link alias %q: %w", req.IfName, err)
	}
	a := made.Attrs()
	req.AddInterface(&types100.Interface{Name: a.Name, Mac: a.HardwareAddr.String(), Mtu: a.MTU, Sandbox: req.Netns})
	return nil
}

// Check compares what is there with what Add makes.
func (v vxlan) Check(_ context.Context, req *netconf.Request) error {
	container, err := link.Container(req)
	if err != nil {
		return err
	}
	l, err := container.Handle().LinkByName(req.IfName)
	if err != nil && !link.Gone(err) {
		return err
	}
	if have, ok := l.(*netlink.Vxlan); !ok || have.VxlanId != v.VNI {
		return fmt.Errorf("link %q: %w: expected a vxlan with VNI %d", req.IfName, netconf.ErrDifferent, v.VNI)
	}
	return nil
}

// Del knows the owner alone: v may be empty, the configuration unreadable, the namespace gone.
func (v vxlan) Del(ctx context.Context, req *netconf.Request) error {
	container, err := link.Container(req)
	if err == nil {
		l, lookErr := container.Handle().LinkByName(req.IfName)
		if err = lookErr; err == nil && link.OwnerOf(req).Owns(l) {
			if err = netconf.Before(ctx, "link del "+req.IfName); err == nil {
				err = container.Handle().LinkDel(l)
			}
		}
	}
	if link.Gone(err) {
		return nil
	}
	return err
}

// A kind of link that this package does not have is a step of one's own. What it needs of this package:
// the namespaces of the call, the owner's marks, and Gone.
func Example_customStep() {
	type config struct {
		Master string `json:"master"`
		VNI    int    `json:"vni"`
	}
	skel.Main(skel.Plugin[config]{
		Name: "vxlan",
		Steps: func(_ *netconf.Request, c *config) skel.Steps {
			return skel.Steps{vxlan{Parent: c.Master, VNI: c.VNI}, link.Addresses{}}
		},
	})
}
