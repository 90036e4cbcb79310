package nat_test

import (
	"net/netip"
	"testing"

	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
)

// A mapping on an address that no packet for the host can have was made, and nobody was told.
func TestAddressesThatLeadNowhereAreRefused(t *testing.T) {
	t.Parallel()
	for address, c := range map[string]struct{ fine, withoutSNAT bool }{
		"":                 {true, true},
		"0.0.0.0":          {true, true},
		"::":               {true, true},
		"::ffff:0.0.0.0":   {true, true},
		"192.0.2.1":        {true, true},
		"::ffff:192.0.2.1": {true, true},
		"169.254.0.1":      {true, true},
		"2001:db8::1":      {true, true},
		"127.0.0.1":        {true, false},
		"::ffff:127.9.9.9": {true, false},
		"::1":              {false, false},
		"224.0.0.1":        {false, false},
		"239.255.255.250":  {false, false},
		"::ffff:224.0.0.1": {false, false},
		"ff02::1":          {false, false},
		"ff02::1%eth0":     {false, false},
		"255.255.255.255":  {false, false},
		"fe80::1":          {false, false},
		"fe80::1%eth0":     {false, false},
	} {
		var a netip.Addr
		if address != "" {
			a = netip.MustParseAddr(address)
		}
		for noSNAT, fine := range map[bool]bool{false: c.fine, true: c.withoutSNAT} {
			err := nat.PortMap{NoSNAT: noSNAT}.CheckHostIP(a)
			if (err == nil) != fine || err != nil && netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
				t.Errorf("%q, NoSNAT %v: %v", address, noSNAT, err)
			}
		}
	}
}
