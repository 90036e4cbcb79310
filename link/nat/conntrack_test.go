package nat

import (
	"errors"
	"net/netip"
	"testing"
)

// The routes are asked once for each address that flows go to, and not for each flow.
func TestRoutesAreAskedOnceForEachDestination(t *testing.T) {
	t.Parallel()
	host, other, to := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.9"), netip.MustParseAddrPort("10.1.0.2:53")
	asked := map[netip.Addr]int{}
	stale := arriving(func(a netip.Addr) (bool, error) {
		asked[a]++
		return a == host, nil
	})
	for i := range 30000 {
		for _, c := range []struct {
			of   mapping
			f    flow
			want bool
		}{
			{mapping{to: to}, flow{to: netip.AddrPortFrom(host, 53)}, true},
			{mapping{to: to}, flow{to: netip.AddrPortFrom(other, 53)}, false},
			{mapping{to: to}, flow{to: netip.AddrPortFrom(host, 53), replyFrom: to}, false},
			{mapping{to: to, host: other}, flow{to: netip.AddrPortFrom(host, 53)}, false},
			{mapping{to: to, host: other}, flow{to: netip.AddrPortFrom(other, 53)}, true},
		} {
			if is, err := stale(c.of, c.f); is != c.want || err != nil {
				t.Fatalf("flow %d, %+v: %v, %v", i, c, is, err)
			}
		}
	}
	if len(asked) != 2 || asked[host] != 1 || asked[other] != 1 {
		t.Errorf("asked %v", asked)
	}
	broken := errors.New("no routes")
	failing := arriving(func(netip.Addr) (bool, error) { return false, broken })
	if _, err := failing(mapping{to: to}, flow{to: netip.AddrPortFrom(host, 53)}); !errors.Is(err, broken) {
		t.Error(err)
	}
}
