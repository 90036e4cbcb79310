package link

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// gratuitousARP is an ARP request (RFC 826) in which the address asks for itself.
func gratuitousARP(mac net.HardwareAddr, addr netip.Addr) []byte {
	b := []byte{0, 1, 0x08, 0, 6, 4, 0, 1} // Ethernet, IPv4, lengths of both, request
	b = append(b, mac...)
	b = append(b, addr.AsSlice()...)
	b = append(b, make([]byte, 6)...)
	return append(b, addr.AsSlice()...)
}

// advertisement is an IPv6 packet from the address to all nodes, with a neighbour advertisement (RFC 4861,
// section 4.4) that says the address is at the MAC, and overrides what was known. The router flag is not set: a
// neighbour who uses the address as a router takes it off its list, and the container is none.
func advertisement(mac net.HardwareAddr, addr netip.Addr) []byte {
	const icmpv6, override, targetLinkLayer = 58, 0x20, 2
	allNodes := netip.MustParseAddr("ff02::1")
	icmp := []byte{136, 0, 0, 0, override, 0, 0, 0}
	icmp = append(icmp, addr.AsSlice()...)
	icmp = append(icmp, targetLinkLayer, 1)
	icmp = append(icmp, mac...)

	addresses := append(addr.AsSlice(), allNodes.AsSlice()...)
	pseudo := append(addresses, 0, 0, 0, byte(len(icmp)), 0, 0, 0, icmpv6)
	binary.BigEndian.PutUint16(icmp[2:], checksum(append(pseudo, icmp...)))

	packet := []byte{0x60, 0, 0, 0, 0, byte(len(icmp)), icmpv6, 255} // a hop limit below 255 is thrown away
	packet = append(packet, addresses...)
	return append(packet, icmp...)
}

// checksum is the Internet's (RFC 1071) over an even number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
