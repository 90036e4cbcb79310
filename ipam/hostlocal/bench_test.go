package hostlocal_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// full makes a store of n leases, as the reference plugin would have: the first n addresses of 10.0.0.0/15.
func full(b testing.TB, n int) (dir string) {
	b.Helper()
	dir = b.TempDir()
	a := netip.MustParseAddr("10.0.0.1")
	for i := range n {
		a = a.Next()
		write(b, filepath.Join(dir, "net", a.String()), fmt.Sprintf("%064x\r\neth0", i))
	}
	write(b, filepath.Join(dir, "net", "last_reserved_ip.0"), a.String())
	return dir
}

// BenchmarkLeases is one call over a store of so many leases, in the four states that it can be in: "own" after a call
// of ours; "first" without an index; "mixed" after a change that the index does not know; "wrapped" where the last address
// given is the last of the range, and the search begins at the first one.
func BenchmarkLeases(b *testing.B) {
	for _, n := range []int{10, 1000, 50000} {
		in := call{dir: full(b, n), config: config(`"subnet":"10.0.0.0/15"`)}
		index := filepath.Join(in.dir, "net", "last_reserved_ip.cnikit-index")
		last := filepath.Join(in.dir, "net", "last_reserved_ip.0")
		for _, state := range []struct {
			name    string
			prepare func(b *testing.B)
		}{
			{"own", func(*testing.B) {}},
			{"first", func(b *testing.B) { _ = os.Remove(index) }}, // there may be none yet
			{"mixed", func(b *testing.B) {
				write(b, filepath.Join(in.dir, "net", "10.1.200.1"), "foreign\r\neth0")
				if err := os.Remove(filepath.Join(in.dir, "net", "10.1.200.1")); err != nil {
					b.Fatal(err)
				}
			}},
			{"wrapped", func(b *testing.B) { write(b, last, "10.1.255.254") }},
		} {
			in.id = "none"
			in.ok(b, netconf.Del) // the index is there
			measure := func(verb string, before, f, after func()) {
				b.Run(fmt.Sprintf("%s/%s/%d", verb, state.name, n), func(b *testing.B) {
					for range b.N {
						b.StopTimer()
						before()
						state.prepare(b)
						b.StartTimer()
						f()
						b.StopTimer()
						after()
						b.StartTimer()
					}
				})
			}
			mine := in
			mine.id = "mine"
			var got string
			measure("ADD", func() {}, func() { got = mine.add(b) }, func() { mine.ok(b, netconf.Del) })
			with := mine
			measure("DEL", func() {
				got = mine.add(b)
				with.config = strings.Replace(in.config, `"name"`, `"prevResult":{"cniVersion":"1.1.0","ips":[{"address":"`+got+`/15"}]},"name"`, 1)
			}, func() { with.ok(b, netconf.Del) }, func() {})
			measure("nothing", func() {}, func() { in.ok(b, netconf.Del) }, func() {})
		}
	}
}
