package nat_test

import (
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
)

// What is expected is what is taken: the error about a wrong word, and so a plugin's help, offered iptables, which is refused.
func TestABackendThatIsRefusedIsNotExpected(t *testing.T) {
	t.Parallel()
	for word, c := range map[string]struct {
		decodes bool
		refused string
	}{
		"":         {true, ""},
		"nftables": {true, ""},
		"iptables": {true, `"iptables" is a program, and none is started: expected nftables`},
		"nftable":  {false, `expected nftables; did you mean "nftables"?`},
		"IPTables": {false, "expected nftables"},
		"?":        {false, "expected nftables"},
	} {
		var b nat.Backend
		err := b.UnmarshalText([]byte(word))
		if (err == nil) != c.decodes || err != nil && netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
			t.Errorf("%q: %v", word, err)
		}
		if err == nil {
			err = b.Check()
		}
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%q: %v", word, err)
		}
		if err != nil && strings.Contains(strings.SplitAfter(err.Error(), "expected ")[1][:8], "iptables") {
			t.Errorf("%q: iptables is offered: %v", word, err)
		}
	}
}
