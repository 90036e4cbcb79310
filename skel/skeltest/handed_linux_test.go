package skeltest

import (
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// Each thing that a plugin of a chain may lose is missed, and what it adds is not.
func TestWhatIsNotHandedOnIsNamed(t *testing.T) {
	t.Parallel()
	const whole = `{"cniVersion":"1.1.0","interfaces":[{"name":"a"},{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"/ns"}],
		"ips":[{"address":"10.1.0.2/24","gateway":"10.1.0.1","interface":1}],
		"routes":[{"dst":"0.0.0.0/0"},{"dst":"192.0.2.0/24","gw":"10.1.0.1"}],
		"dns":{"nameservers":["192.0.2.53"],"domain":"example.com","search":["a.example.com"],"options":["ndots:5"]}}`
	prev, err := netconf.ParseResult([]byte(whole), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ old, new, lost string }{
		{"", "", ""},
		{`{"name":"a"}`, `{"name":"more"},{"name":"a"}`, `the address 10.1.0.2/24`}, // its index is another's now
		{`"routes":[`, `"routes":[{"dst":"198.51.100.0/24"},`, ""},
		{`"mac":"02:00:00:00:00:01"`, `"mac":"02:00:00:00:00:02"`, ""},
		{`{"name":"a"}`, `{"name":"b"}`, `the interface "a"`},
		{`"sandbox":"/ns"`, `"sandbox":"/other"`, `the interface "eth0"`},
		{`10.1.0.2/24`, `10.1.0.3/24`, "the address 10.1.0.2/24"},
		{`,"gateway":"10.1.0.1"`, ``, "the address 10.1.0.2/24"},
		{`,"interface":1`, ``, "the address 10.1.0.2/24"},
		{`"interface":1`, `"interface":0`, "the address 10.1.0.2/24"},
		{`{"dst":"0.0.0.0/0"}`, `{"dst":"198.51.100.0/24"}`, "the route to 0.0.0.0/0"},
		{`"gw":"10.1.0.1"`, `"gw":"10.1.0.9"`, "the route to 192.0.2.0/24"},
		{`["192.0.2.53"]`, `["192.0.2.54"]`, `the nameserver "192.0.2.53"`},
		{`"example.com"`, `""`, `the domain "example.com"`},
		{`["a.example.com"]`, `[]`, `the search domain`},
		{`["ndots:5"]`, `[]`, `the option`},
	} {
		now, err := netconf.ParseResult([]byte(strings.Replace(whole, test.old, test.new, 1)), "")
		if err != nil {
			t.Fatalf("%q: %v", test.new, err)
		}
		lost := strings.Join(notHandedOn(prev, now), "\n")
		if (lost == "") != (test.lost == "") || !strings.Contains(lost, test.lost) {
			t.Errorf("%q for %q: %q, expected %q", test.new, test.old, lost, test.lost)
		}
	}
}
