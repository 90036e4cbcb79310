package link_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// TestBandwidthTCP: TCP hands the link 64 KiB at once, which is more than the burst. The bucket takes it apart; if it did not,
// nothing would come through but what is small. The kernel's counter at the bucket has all that came.
func TestBandwidthTCP(t *testing.T) {
	const size = 400_000
	step := link.Bandwidth{Ingress: link.Rate{Rate: 16 * mbit, Burst: 8 * 5000}, Egress: link.Rate{Rate: 16 * mbit, Burst: 8 * 5000}}
	container, p, call := shaped(t, step)
	a := call.Run(t.Context(), t, p).OK(t)
	var server net.Listener
	var err error
	container.Do(func() { server, err = net.Listen("tcp", "10.1.1.2:7") })
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() { // sends back what it gets
		c, err := server.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, c) // what is missing the other end sees
	}()
	c, err := net.Dial("tcp", "10.1.1.2:7")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	go func() {
		_, _ = c.Write(make([]byte, size)) // as above
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	n, err := io.Copy(io.Discard, c)
	took := time.Since(begun)
	if err != nil || n != size {
		t.Errorf("%d of %d bytes came back: %v", n, size, err)
	}
	if least := time.Duration(size-5000-60_000) * time.Second / (16 * mbit / 8); took < least { // the queues' limit may be under way
		t.Errorf("%d bytes there and back in %v, expected at least %v", size, took, least)
	}
	for _, dev := range []string{"vh", a.Result.Interfaces[2].Name} {
		if show := skeltest.Host(t, "tc", "-s", "qdisc", "show", "dev", dev, "root"); strings.Contains(show, "overlimits 0 ") {
			t.Errorf("nothing was held back at %s: %s", dev, show)
		}
	}
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
}
