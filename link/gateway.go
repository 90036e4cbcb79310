package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// Gateway makes a bridge the gateway of what is attached to it. As a step it follows the IPAM step and
// comes before [Addresses]. The addresses of the bridge are shared: they stay when an attachment goes,
// and are not rolled back.
type Gateway struct {
	Bridge  string // default: cni0
	Default bool   // the container's default routes lead to the gateways, unless the result has others; false: IPAM's routes alone
	VLAN    int    // the VLAN of the bridge that it is the gateway of, 1 to 4094, by a link BRIDGE.VLAN, which the first attachment makes and which stays; 0: the bridge has the addresses itself
	Force   bool   // another address of the same family on the bridge is replaced; else it is an error
}

// flagNoDAD is IFA_F_NODAD of linux/if_addr.h: usable at once, an allocator owns the address.
const flagNoDAD = 0x02

// Name is "gateway".
func (g Gateway) Name() string { return "gateway" }

func (g Gateway) bridge() Bridge { return Bridge{Name: g.Bridge} }

// Ensure gives the bridge the gateway of each address, with the address's prefix length, and turns
// forwarding on for the families that there are. An address of the same family that is none of these is an
// error with code 7, before any change, unless g.Force is set; link-local ones do not count, nor do those of other IPv6
// subnets: several networks may share a bridge. So is IPv6 on a bridge whose MTU is below 1280.
func (g Gateway) Ensure(ctx context.Context, host *NS, ips []*types100.IPConfig) error {
	want, err := gateways(ips)
	if err != nil {
		return err
	}
	l, bridge, err := g.links(ctx, host, want)
	if err != nil {
		return err
	}
	missing, others, err := g.compare(host, l, want)
	if err != nil {
		return err
	}
	if len(others) > 0 && !g.Force {
		return badLink(l.Attrs().Name, "the bridge has the address %v, and %v is to be its gateway address", others[0], missing[0])
	}
	if err := fitsIPv6(l, missing); err != nil {
		return err
	}
	if err := g.raise(ctx, host, bridge, l); err != nil {
		return err
	}
	for _, p := range others { // first, for the kernel takes secondary addresses of the subnet away with the primary one
		if err := deleteFrom(ctx, host, l, p); err != nil {
			return err
		}
	}
	for _, p := range missing {
		if err := addTo(ctx, host, l, p); err != nil {
			return err
		}
	}
	if err := joined(ctx, host, l, missing); err != nil { // whom containers ask for at once
		return err
	}
	return forward(ctx, host, want)
}

// links are the link that is to have the addresses, made if it is not there, and the bridge.
func (g Gateway) links(ctx context.Context, host *NS, want []netip.Prefix) (l, bridge netlink.Link, err error) {
	if err := g.checkVLAN(); err != nil {
		return nil, nil, err
	}
	if bridge, err = (Veth{Bridge: g.bridge().name()}).bridge(host); err != nil {
		return nil, nil, err
	}
	if g.VLAN == 0 || len(want) == 0 { // then there is nothing to be a gateway for
		return bridge, bridge, nil
	}
	if err := fitsIPv6(bridge, want); err != nil {
		return nil, nil, err
	}
	l, err = g.hold(ctx, host, bridge)
	return l, bridge, err
}

// compare sorts out which of the wanted addresses the bridge lacks, and which it has in their families
// beside them. It has no others for a family that lacks none.
func (g Gateway) compare(host *NS, l netlink.Link, want []netip.Prefix) (missing, others []netip.Prefix, err error) {
	for _, family := range []int{familyV4, familyV6} {
		ours := slices.DeleteFunc(slices.Clone(want), func(p netip.Prefix) bool { return p.Addr().Is4() != (family == familyV4) })
		if len(ours) == 0 {
			continue
		}
		have, err := prefixes(host, l, family)
		if err != nil {
			return nil, nil, err
		}
		lacks := slices.DeleteFunc(slices.Clone(ours), func(p netip.Prefix) bool { return slices.Contains(have, p) })
		if len(lacks) == 0 {
			continue
		}
		missing = append(missing, lacks...)
		others = append(others, slices.DeleteFunc(have, func(p netip.Prefix) bool {
			apart := p.Addr().Is6() && !slices.ContainsFunc(ours, p.Overlaps) // another network's: a link has many
			return apart || p.Addr().IsLinkLocalUnicast() || slices.Contains(ours, p)
		})...)
	}
	return missing, others, nil
}

// Verify compares what Ensure made. A difference Is netconf.ErrDifferent.
func (g Gateway) Verify(ctx context.Context, host *NS, ips []*types100.IPConfig) error {
	want, err := gateways(ips)
	if err != nil {
		return err
	}
	name := g.bridge().name()
	if err := g.bridge().Verify(ctx, host, Owner{}); err != nil {
		return err
	}
	l, err := find(host, name)
	if err != nil || l == nil {
		return netconf.Join(err, different(name, "the bridge", "there", "gone"))
	}
	if g.VLAN != 0 && len(want) > 0 {
		bridge := l
		if l, err = g.holder(host, bridge); err == nil {
			err = g.verifyVLAN(host, bridge, l)
		}
		if err != nil {
			return err
		}
		name = l.Attrs().Name
	}
	missing, _, err := g.compare(host, l, want)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range missing {
		errs = append(errs, different(name, "the gateway address", p, "missing"))
	}
	return netconf.Join(append(errs, verifyForward(host, want))...)
}

// Add is Ensure for the addresses of the result. Where IPAM gave none, the gateway is the first
// address of the subnet, and is noted in the result; so are the default routes.
func (g Gateway) Add(ctx context.Context, req *netconf.Request) error {
	ips := addressesOf(req.Result, req.IfName)
	for _, ip := range ips {
		if hasGateway(ip) {
			continue
		}
		first, err := firstOf(ip)
		if err != nil {
			return err
		}
		ip.Gateway = first.AsSlice()
	}
	host, err := Host(req)
	if err != nil {
		return err
	}
	if err := g.Ensure(ctx, host, ips); err != nil {
		return err
	}
	if g.Default {
		addDefaults(req, ips)
	}
	return g.note(req, host, ips)
}

// note puts the VLAN's link into the result, as the reference plugin does.
func (g Gateway) note(req *netconf.Request, host *NS, ips []*types100.IPConfig) error {
	if g.VLAN == 0 || len(ips) == 0 {
		return nil
	}
	l, err := find(host, g.vlanName())
	if err == nil && l != nil {
		req.AddInterface(describe(l, ""))
	}
	return err
}

// hasGateway: some IPAM plugins write 0.0.0.0 for none.
func hasGateway(ip *types100.IPConfig) bool {
	return len(ip.Gateway) > 0 && !ip.Gateway.IsUnspecified()
}

// firstOf is the first address of an address's subnet.
func firstOf(ip *types100.IPConfig) (netip.Addr, error) {
	p, ok := prefixOf(ip.Address)
	first := p.Masked().Addr().Next()
	if !ok || p.Bits() > p.Addr().BitLen()-2 || first == p.Addr() {
		return netip.Addr{}, &Error{Op: "gateway of", Name: ip.Address.String(), Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig,
			"the IPAM plugin gave none, and the first address of the subnet cannot be it")}
	}
	return first, nil
}

// addDefaults notes a default route for each family of the addresses that has none in the result.
func addDefaults(req *netconf.Request, ips []*types100.IPConfig) {
	for _, ip := range ips {
		v4 := ip.Address.IP.To4() != nil
		dst := net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
		if v4 {
			dst = net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
		}
		there := slices.ContainsFunc(req.Result.Routes, func(r *types.Route) bool {
			ones, _ := r.Dst.Mask.Size()
			return ones == 0 && (r.Dst.IP.To4() != nil) == v4 && (r.Table == nil || *r.Table == TableMain)
		})
		if !there {
			req.AddRoute(&types.Route{Dst: dst, GW: ip.Gateway})
		}
	}
}

// Check is Verify for the addresses of the prevResult.
func (g Gateway) Check(ctx context.Context, req *netconf.Request) error {
	host, err := Host(req)
	if err != nil {
		return err
	}
	return g.Verify(ctx, host, addressesOf(req.Prev, req.IfName))
}

// Del does nothing: the addresses stay for the others.
func (g Gateway) Del(context.Context, *netconf.Request) error { return nil }

// addressesOf lists the addresses of a result that are, or will be, on the attachment's interface.
func addressesOf(result *types100.Result, ifname string) []*types100.IPConfig {
	if result == nil {
		return nil
	}
	own := netconf.Attached(result, ifname)
	return slices.DeleteFunc(slices.Clone(result.IPs), func(ip *types100.IPConfig) bool {
		return ip == nil || ip.Interface != nil && *ip.Interface != own
	})
}

// gateways lists the gateways of addresses, each once, with the prefix length of the subnet. Without one
// an address counts for nothing.
func gateways(ips []*types100.IPConfig) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, ip := range ips {
		p, ok := prefixOf(ip.Address)
		if !ok || !hasGateway(ip) {
			continue
		}
		gw, ok := addrOf(ip.Gateway)
		if !ok || gw.Is4() != p.Addr().Is4() {
			return nil, &Error{Op: "gateway of", Name: ip.Address.String(), Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, "%v is of another family", ip.Gateway)}
		}
		if with := netip.PrefixFrom(gw, p.Bits()); !slices.Contains(out, with) {
			out = append(out, with)
		}
	}
	return out, nil
}

// forwardKeys are the sysctls that let a host forward, by family.
var forwardKeys = [...]struct {
	v4  bool
	key string
}{{true, "net/ipv4/ip_forward"}, {false, "net/ipv6/conf/all/forwarding"}}

// forward turns forwarding on for the families of the addresses.
func forward(ctx context.Context, host *NS, of []netip.Prefix) error {
	for _, k := range forwardKeys {
		if slices.ContainsFunc(of, func(p netip.Prefix) bool { return p.Addr().Is4() == k.v4 }) {
			if err := host.Sysctl(ctx, k.key, "1"); err != nil {
				return err
			}
		}
	}
	return nil
}

func verifyForward(host *NS, of []netip.Prefix) error {
	var errs []error
	for _, k := range forwardKeys {
		if !slices.ContainsFunc(of, func(p netip.Prefix) bool { return p.Addr().Is4() == k.v4 }) {
			continue
		}
		value, err := host.ReadSysctl(k.key)
		if err == nil && value == "0" {
			err = different(k.key, "the sysctl", 1, value)
		}
		errs = append(errs, err)
	}
	return netconf.Join(errs...)
}

// prefixes lists the addresses of a link.
func prefixes(n *NS, l netlink.Link, family int) ([]netip.Prefix, error) {
	list, err := whole(func() ([]netlink.Addr, error) { return n.Handle().AddrList(l, family) })
	if err != nil {
		return nil, &Error{Op: "address list", Name: l.Attrs().Name, Err: err}
	}
	var out []netip.Prefix
	for _, a := range list {
		if a.IPNet == nil {
			continue
		}
		if p, ok := prefixOf(*a.IPNet); ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// addTo puts an address on a link of the host; that it is there already is no error.
func addTo(ctx context.Context, host *NS, l netlink.Link, p netip.Prefix) error {
	n := ipNet(p)
	a := &netlink.Addr{IPNet: &n}
	if p.Addr().Is6() {
		a.Flags = flagNoDAD
		// An administrator's default may be 1, and then the kernel refuses the address.
		if err := host.Sysctl(ctx, "net/ipv6/conf/"+l.Attrs().Name+"/disable_ipv6", "0"); err != nil {
			return err
		}
	}
	err := alter(ctx, "address add", fmt.Sprintf("%s dev %s", p, l.Attrs().Name), func() error { return host.Handle().AddrAdd(l, a) })
	if errors.Is(err, syscall.EEXIST) {
		return nil
	}
	return err
}

// deleteFrom takes an address off a link of the host; that it is gone already is no error.
func deleteFrom(ctx context.Context, host *NS, l netlink.Link, p netip.Prefix) error {
	n := ipNet(p)
	err := alter(ctx, "address del", fmt.Sprintf("%s dev %s", p, l.Attrs().Name), func() error {
		return host.Handle().AddrDel(l, &netlink.Addr{IPNet: &n})
	})
	if Gone(err) {
		return nil
	}
	return err
}
