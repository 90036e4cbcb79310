package link_test

import (
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
	"golang.org/x/sys/unix"
)

// advertise has a namespace send router advertisements for a prefix out of a link, every 2 ms, until stop is called.
func advertise(t *testing.T, ns *skeltest.NS, dev, prefix string) (stop func()) {
	t.Helper()
	// RFC 4861, section 4.2: type, code, checksum (the kernel's), hop limit, flags, lifetime of the router, two times; then
	// the prefix, on the link and for addresses (section 4.6.2).
	ra := []byte{134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 64, 0xc0}
	ra = binary.BigEndian.AppendUint32(ra, 3600)
	ra = binary.BigEndian.AppendUint32(ra, 1800)
	ra = append(ra, 0, 0, 0, 0)
	ra = append(ra, net.ParseIP(prefix)...)
	var fd, index int
	var err error
	ns.Do(func() {
		if fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6); err != nil {
			return
		}
		var i *net.Interface
		if i, err = net.InterfaceByName(dev); err != nil {
			return
		}
		index = i.Index
		err = errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255), unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, index))
	})
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		to := &unix.SockaddrInet6{ZoneId: uint32(index), Addr: [16]byte{0: 0xff, 1: 2, 15: 1}}
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			select {
			case <-end:
				tick.Stop()
				return
			case <-tick.C:
				_ = unix.Sendto(fd, ra, 0, to) // the link is down at first
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(end)
		done.Wait()
		_ = unix.Close(fd) // nothing is lost
	})
	t.Cleanup(stop)
	return stop
}

// TestAddressesAmongRouterAdvertisements: a neighbour advertises himself and the subnet while ADD is at work, and after. IPAM's
// default route is the one in use, alone, and CHECK passes; without one by IPAM the advertised one is the container's affair.
func TestAddressesAmongRouterAdvertisements(t *testing.T) {
	parallelNS(t)
	for _, test := range []struct {
		name string
		step link.Addresses
		ipam string
		ra   bool // the advertised default route comes
	}{
		{"with a default route", link.Addresses{}, `"ips":[{"address":"fd00::2/64","gateway":"fd00::1"}],"routes":[{"dst":"::/0"}]`, false},
		{"own, with a default route", link.Addresses{DAD: link.DADOwn}, `"ips":[{"address":"fd00::2/64","gateway":"fd00::1"}],"routes":[{"dst":"::/0"}]`, false},
		{"point to point", link.Addresses{PointToPoint: true}, `"ips":[{"address":"fd00::2/64","gateway":"fd00::1"}],"routes":[{"dst":"::/0"}]`, false},
		{"without", link.Addresses{}, `"ips":[{"address":"fd00::2/64"}]`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			container, neighbour := pair(t, "fd00::1/64")
			neighbour.Run("sysctl", "-qw", "net.ipv6.conf.p0.forwarding=1") // else nobody believes a host
			stop := advertise(t, neighbour, "p0", "fd00::")
			c := newCall(t, container, test.ipam)
			c.add(t, test.step)
			skeltest.Eventually(t, "the container has heard of the router", func() bool {
				return strings.Contains(container.Run("ip", "-6", "address", "show", "dev", "eth0"), "mngtmpaddr") ||
					strings.Contains(container.Run("ip", "-6", "address", "show", "dev", "eth0"), "dynamic")
			})
			container.Ping("fd00::1")
			routes := container.Run("ip", "-6", "route", "show", "default")
			if strings.Contains(routes, "proto ra") != test.ra || strings.Contains(routes, "nexthop") || !test.ra && strings.Count(routes, "default") != 1 {
				t.Errorf("default routes: %s", routes)
			}
			if !test.ra {
				container.Ping("2001:db8::99")
			}
			c.check(t, test.step)
			stop()
			c.del(t, test.step)
			if routes := container.Run("ip", "-6", "route", "show", "proto", "67"); strings.TrimSpace(routes) != "" {
				t.Errorf("left: %s", routes)
			}
		})
	}
}

// TestAddressesWithoutIPv6: a kernel that was started with ipv6.disable=1 has no such files. IPv4 does not mind; IPv6 is
// said not to be available, and nothing is left.
func TestAddressesWithoutIPv6(t *testing.T) {
	parallelNS(t)
	container, _ := pair(t, "10.1.1.1/24")
	container.Run("mount", "-t", "tmpfs", "none", "/proc/sys/net/ipv6") // of this namespace, in the tests' mounts
	t.Cleanup(func() { container.Run("umount", "/proc/sys/net/ipv6") })
	if out, err := container.Try("cat", "/proc/sys/net/ipv6/conf/eth0/disable_ipv6"); err == nil {
		t.Fatalf("the file is there: %s", out)
	}
	before := layer3(container)
	c := newCall(t, container, `"ips":[{"address":"10.1.1.2/24"},{"address":"fd00::2/64"}]`)
	err := link.Addresses{}.Add(t.Context(), c.Request)
	if !errors.Is(err, link.ErrNotSupported) || netconf.Code(err) != netconf.CodeNotSupported || !strings.Contains(err.Error(), "IPv6 is not available") {
		t.Errorf("error %v (code %d)", err, netconf.Code(err))
	}
	c.del(t, link.Addresses{})
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
	c = newCall(t, container, `"ips":[{"address":"10.1.1.2/24","gateway":"10.1.1.1"}],"routes":[{"dst":"0.0.0.0/0"}]`)
	c.add(t, link.Addresses{})
	container.Ping("192.0.2.99")
	c.check(t, link.Addresses{})
	c.del(t, link.Addresses{})
}

// TestSecondDefaultRouteAtOnce: both look before either has made its own. One gets it; the other one's error names the link.
func TestSecondDefaultRouteAtOnce(t *testing.T) {
	parallelNS(t)
	for _, ipam := range []string{default4, default6} {
		for range 5 {
			container, _ := pair(t, "10.1.1.1/24", "fd00::1/64")
			another(container, "net1")
			container.Run("ip", "link", "set", "eth0", "addrgenmode", "none")
			ipam := strings.Replace(ipam, "%s", "", 1)
			first, second := newCall(t, container, ipam), newCall(t, container, strings.NewReplacer("10.1.1.", "10.2.2.", "fd00::", "fd02::").Replace(ipam))
			second.IfName = "net1"
			second.Result.Interfaces[0].Name = "net1"
			var errs [2]error
			var both sync.WaitGroup
			for i, c := range []*call{first, second} {
				both.Go(func() { errs[i] = link.Addresses{}.Add(t.Context(), c.Request) })
			}
			both.Wait()
			lost, words := errs[0], "net1"
			if errs[0] == nil {
				lost, words = errs[1], "eth0"
			}
			if (errs[0] == nil) == (errs[1] == nil) || netconf.Code(lost) != netconf.CodeInvalidNetworkConfig || !strings.Contains(lost.Error(), words) {
				t.Errorf("%v; %v: expected that one wins, and the other says so", errs[0], errs[1])
			}
			for _, family := range []string{"-4", "-6"} {
				if routes := container.Run("ip", family, "route", "show", "default"); strings.Count(routes, "via") > 1 {
					t.Errorf("two default routes: %s", routes)
				}
			}
		}
	}
}
