package nat_test

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cnikit/cnikit/skel/skeltest"
)

// Chunks of SCTP, RFC 9260, section 3.2.
const (
	sctpInit    = 1
	sctpInitAck = 2
)

// sctp is a packet with an INIT, or the answer to one: its common header and the chunk. The kernel tracks and translates none
// whose checksum, a CRC-32C with the least byte first, is wrong.
func sctp(from, to uint16, chunk byte, tag uint32) []byte {
	b := binary.BigEndian.AppendUint16(nil, from)
	b = binary.BigEndian.AppendUint16(b, to)
	b = binary.BigEndian.AppendUint32(b, tag)
	b = append(b, 0, 0, 0, 0)
	b = append(b, chunk, 0, 0, 20)
	b = binary.BigEndian.AppendUint32(b, 0x01020304) // initiate tag
	b = binary.BigEndian.AppendUint32(b, 65536)      // window
	b = append(b, 0, 1, 0, 1, 0, 0, 0, 1)            // streams, sequence number
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// sctpSocket takes and sends whole packets of SCTP in a namespace; no kernel module answers in its place.
func sctpSocket(t *testing.T, ns *skeltest.NS, network string) *net.IPConn {
	t.Helper()
	var conn *net.IPConn
	var err error
	within(ns, func() { conn, err = net.ListenIP(network+":132", nil) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // a test's last act
	return conn
}

// receive returns the ports and the kind of chunk of the next packet, and whom it is from.
func receive(t *testing.T, conn *net.IPConn) (from netip.Addr, source, to uint16, chunk byte) {
	t.Helper()
	buf := make([]byte, 256)
	if err := conn.SetReadDeadline(time.Now().Add(long)); err != nil {
		t.Fatal(err)
	}
	n, addr, err := conn.ReadFromIP(buf)
	if err != nil || n < 32 {
		t.Fatalf("%d bytes from %v: %v", n, addr, err)
	}
	sum := binary.LittleEndian.Uint32(buf[8:])
	copy(buf[8:12], make([]byte, 4))
	if have := crc32.Checksum(buf[:n], crc32.MakeTable(crc32.Castagnoli)); have != sum {
		t.Errorf("the checksum of the packet from %v is %#x, expected %#x: whoever takes it drops it", addr, sum, have)
	}
	a, _ := netip.AddrFromSlice(addr.IP)
	return a.Unmap(), binary.BigEndian.Uint16(buf), binary.BigEndian.Uint16(buf[2:]), buf[12]
}

// A mapping of SCTP leads into the container, and what it answers comes from the port of the host, in both families. It is the
// kernel's nf_conntrack that decides whether it knows the ports of SCTP.
func TestSCTPLeadsIntoTheContainer(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	p := portMap("tcp:5000:6000")
	p.Mappings[0].Protocol = "sctp"
	create(t, l, a, p)
	for _, c := range []struct{ network, host, client string }{
		{"ip4", "192.0.2.1", "192.0.2.9"}, {"ip6", "2001:db8::1", "2001:db8::9"},
	} {
		client, server := sctpSocket(t, l.client, c.network), sctpSocket(t, a.NS, c.network)
		if _, err := client.WriteToIP(sctp(4321, 5000, sctpInit, 0), &net.IPAddr{IP: net.ParseIP(c.host)}); err != nil {
			t.Fatal(err)
		}
		from, source, to, chunk := receive(t, server)
		if from.String() != c.client || source != 4321 || to != 6000 || chunk != sctpInit {
			t.Fatalf("the container gets chunk %d from %s, %d to %d; expected an INIT from %s, 4321 to 6000", chunk, from, source, to, c.client)
		}
		if _, err := server.WriteToIP(sctp(to, source, sctpInitAck, 0x01020304), &net.IPAddr{IP: from.AsSlice()}); err != nil {
			t.Fatal(err)
		}
		from, source, to, chunk = receive(t, client)
		if from.String() != c.host || source != 5000 || to != 4321 || chunk != sctpInitAck {
			t.Errorf("the client gets chunk %d from %s, %d to %d; expected the answer from %s, 5000 to 4321", chunk, from, source, to, c.host)
		}
	}
}
