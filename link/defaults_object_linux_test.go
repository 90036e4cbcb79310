package link_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// families are both, with the neighbours of twoLinks.
func families() []family {
	return []family{
		{"-4", "10.1.1.1", "10.2.2.1", "0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "203.0.113.7"},
		{"-6", "fd01::1", "fd02::1", "::/0", "::/1", "8000::/1", "2001:db8:7::1"},
	}
}

// replaced writes a family's addresses into commands of ip.
func (f family) replaced(commands string) string {
	return strings.NewReplacer("FLAG", f.flag, "FIRST", f.first, "SECOND", f.second, "LOW", f.low, "HIGH", f.high).Replace(commands)
}

// TestDefaultRoutesOfAnObject: a default route by a nexthop object that names no link stood in front of the one that was given, and
// Ensure said that all was well. Nor is it deleted: it could not be given back. The kernel deletes IPv6's by its link and gateway.
func TestDefaultRoutesOfAnObject(t *testing.T) {
	parallelNS(t)
	for _, f := range families() {
		for name, d := range map[string]link.DefaultRoutes{"its own too": defaultRoutes(f.flag == "-6", f.second), "others": defaultRoutes(f.flag == "-6")} {
			for compat, holder := range map[string]string{"0": "", "1": "eth0"} {
				t.Run(f.flag+" "+name+", compat mode "+compat, func(t *testing.T) {
					container, _, _, _ := twoLinks(t, everything)
					otherDefault(container, object, f)
					container.Run("sysctl", "-qw", "net.ipv4.nexthop_compat_mode="+compat)
					container.Run("ip", f.flag, "route", "add", "default", "via", f.second, "dev", "net1", "metric", "2000")
					before := layer3(container)
					_, n := spaces(t, container)
					done, err := d.Ensure(t.Context(), n)
					if f.flag == "-6" && compat == "1" {
						if route := container.Run("ip", "route", "get", f.far); err != nil || !strings.Contains(route, "dev net1") {
							t.Errorf("%v; what leads out is %s", err, route)
						}
						if err := done.Restore(t.Context(), n); err != nil || !strings.Contains(shown(container, true), "via "+f.first+" dev eth0") {
							t.Errorf("%v; given back: %s", err, shown(container, true))
						}
						return
					}
					if netconf.Code(err) != netconf.CodeNotSupported || !errors.Is(err, link.ErrNotSupported) || !strings.Contains(err.Error(), "nexthop object") {
						t.Errorf("%v (code %d): expected 103", err, netconf.Code(err))
					}
					if diff := before.Diff(layer3(container)); diff != "" {
						t.Errorf("changed:\n%s", diff)
					}
					listed, err := link.Defaults(n, f.flag == "-6")
					if err != nil || len(listed) != 2 || listed[0].Link != holder || listed[1].Link != "net1" {
						t.Errorf("listed %v, %v; expected one of %q, one of net1", listed, err, holder)
					}
				})
			}
		}
	}
}

// TestDefaultRoutesOfTwoHalves: those of another link stood in front of the default route that was given, whatever their metrics,
// and Ensure said that all was well. A single one, and one in a table of its own, is no default route. Wherever it breaks off
// all is as it was.
func TestDefaultRoutesOfTwoHalves(t *testing.T) {
	parallelNS(t)
	for _, f := range families() {
		for name, c := range map[string]struct {
			setup string
			stays string // the link of a route to LOW that is no half of a pair
		}{
			"both of one link":   {"ip FLAG route add LOW via FIRST; ip FLAG route add HIGH via FIRST", ""},
			"each of another":    {"ip FLAG route add LOW via FIRST; ip FLAG route add HIGH via SECOND", ""},
			"of several metrics": {"ip FLAG route add LOW via FIRST metric 5; ip FLAG route add LOW via FIRST metric 7; ip FLAG route add HIGH via FIRST metric 9", ""},
			"one alone":          {"ip FLAG route add LOW via FIRST", "eth0"},
			"in two tables":      {"ip FLAG route add LOW via FIRST; ip FLAG route add HIGH via FIRST table 77", "eth0"},
			"its own":            {"ip FLAG route add LOW via SECOND; ip FLAG route add HIGH via SECOND", "net1"},
		} {
			t.Run(f.flag+" "+name, func(t *testing.T) {
				container, _, _, _ := twoLinks(t, everything)
				container.Run("sh", "-ec", f.replaced(c.setup+"; ip FLAG route add default via SECOND metric 2000"))
				before := layer3(container)
				_, n := spaces(t, container)
				broken, ended := errors.New("broken off"), false
				for at := 1; !ended; at++ {
					calls := 0
					done, err := defaultRoutes(f.flag == "-6").Ensure(netconf.WithFault(t.Context(), func(context.Context, string) error {
						if calls++; calls == at {
							return broken
						}
						return nil
					}), n)
					ended = err == nil
					switch {
					case ended:
						low := container.Run("ip", f.flag, "route", "show", f.low)
						if !strings.Contains(low, c.stays) || c.stays == "" && low != "" {
							t.Errorf("left: %q, expected %q", low, c.stays)
						}
						if route := container.Run("ip", "route", "get", f.far); c.stays == "" && !strings.Contains(route, "dev net1") {
							t.Errorf("what leads out is not net1: %s", route)
						}
						if err := done.Restore(t.Context(), n); err != nil {
							t.Error(err)
						}
					case !errors.Is(err, broken):
						t.Fatal(err)
					}
					if diff := before.Diff(layer3(container)); diff != "" {
						t.Fatalf("request %d: not given back:\n%s", at, diff)
					}
				}
			})
		}
	}
}

// TestDefaultRoutesOfAHalfByAnObject: of IPv4 the kernel takes the other half away and not this one, which then is no half of a pair
// any more: it has to be noticed that it is left.
func TestDefaultRoutesOfAHalfByAnObject(t *testing.T) {
	parallelNS(t)
	f := families()[0]
	container, _, _, _ := twoLinks(t, everything)
	container.Run("sh", "-ec", f.replaced("ip FLAG nexthop add id 7 via FIRST dev eth0; ip FLAG route add LOW nhid 7; ip FLAG route add HIGH via FIRST"))
	before := layer3(container)
	_, n := spaces(t, container)
	if _, err := defaultRoutes(false, f.second).Ensure(t.Context(), n); netconf.Code(err) != netconf.CodeNotSupported {
		t.Errorf("%v (code %d): expected 103", err, netconf.Code(err))
	}
	if diff := before.Diff(layer3(container)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}
