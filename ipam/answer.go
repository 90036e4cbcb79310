package ipam

import (
	"errors"
	"fmt"
	"net"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
)

// checkAnswer finds what the kernel would refuse later, or take and not work with. All that is wrong is
// told together.
func checkAnswer(result *types100.Result) error {
	if len(result.IPs) == 0 {
		return fmt.Errorf("%w: it has no address", ErrBadAnswer)
	}
	var errs []error // of very many the first are told
	bad := func(i int, key string, value fmt.Stringer, why error) {
		errs = append(errs, fmt.Errorf("%w: ips[%d].%s %q %w", ErrBadAnswer, i, key, value, why))
	}
	seen := map[string]int{}
	for i, ip := range result.IPs {
		if len(errs) >= maxErrors {
			break
		}
		if err := checkAddress(ip.Address); err != nil {
			bad(i, "address", &ip.Address, err)
		} else if first, again := seen[string(ip.Address.IP.To16())]; again {
			bad(i, "address", &ip.Address, fmt.Errorf("is that of ips[%d]", first))
		} else {
			seen[string(ip.Address.IP.To16())] = i
		}
		if err := checkGateway(ip.Gateway, ip.Address.IP); err != nil {
			bad(i, "gateway", ip.Gateway, err)
		}
	}
	return netconf.Join(errs...)
}

// checkAddress says why an interface cannot have the address. The network's own and the broadcast
// address of an IPv4 subnet were handed out by allocators that counted wrong: such a container
// answers nobody. A /31 and a /32 have neither (RFC 3021); nor has IPv6, where an all-zero host part is
// the routers' but works.
func checkAddress(n net.IPNet) error {
	ip, v4 := n.IP, n.IP.To4()
	ones, bits := n.Mask.Size()
	switch {
	case v4 == nil && len(ip) != net.IPv6len || v4 != nil && bits != 32 || v4 == nil && bits != 128:
		return errors.New("has an address of one family and a prefix length of the other")
	case ones == 0:
		return errors.New("has a prefix of length 0: it would make every address a neighbour")
	case ip.IsUnspecified(), ip.IsMulticast(), ip.IsLoopback(), ip.Equal(net.IPv4bcast):
		return errors.New("is no address of a host")
	case v4 == nil || ones > 30:
		return nil
	}
	zeros, all := true, true
	for i := range v4 {
		host := ^n.Mask[i]
		zeros, all = zeros && v4[i]&host == 0, all && v4[i]&host == host
	}
	if zeros || all {
		return errors.New("is its subnet's network or broadcast address")
	}
	return nil
}

func checkGateway(gw, address net.IP) error {
	switch {
	case len(gw) == 0:
		return nil
	case (gw.To4() != nil) != (address.To4() != nil):
		return fmt.Errorf("is of another family than its address %q", address)
	case gw.IsUnspecified(), gw.IsMulticast(), gw.IsLoopback():
		return errors.New("is no address of a router")
	}
	return nil
}
