package nat

import (
	"net/netip"

	"github.com/cnikit/cnikit/netconf"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// addressesOf lists the addresses of the container's interface: those of the result, if it has any for it, else those
// of the prevResult.
func addressesOf(req *netconf.Request) []netip.Prefix {
	if own := addressesIn(req.Result, req.IfName); len(own) > 0 {
		return own
	}
	return addressesIn(req.Prev, req.IfName)
}

// addressesIn takes the addresses that a result has for the interface, and those that it has for none: old versions
// of the specification have no interfaces.
func addressesIn(result *types100.Result, ifname string) (out []netip.Prefix) {
	if result == nil {
		return nil
	}
	at := netconf.Attached(result, ifname)
	for _, ip := range result.IPs {
		if ip == nil || ip.Interface != nil && *ip.Interface != at {
			continue
		}
		a, ok := netip.AddrFromSlice(ip.Address.IP)
		ones, bits := ip.Address.Mask.Size()
		if a = a.Unmap(); ok && bits > 0 {
			out = append(out, netip.PrefixFrom(a, ones-bits+a.BitLen()))
		}
	}
	return out
}
