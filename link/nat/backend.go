package nat

import (
	"errors"

	"github.com/cnikit/cnikit/netconf"
)

// Backend is a word of the reference plugins' keys "backend" and "ipMasqBackend". Empty is nftables.
type Backend string

// The backends.
const (
	NFTables Backend = "nftables"
	IPTables Backend = "iptables" // known, and not served: see Check
)

// UnmarshalText reads a word. One that is none is an error with code 7 that says what is allowed. "iptables" is read, for
// where nothing is to be masqueraded a configuration of the reference plugins may have it: see Check.
func (b *Backend) UnmarshalText(text []byte) (err error) {
	switch *b = Backend(text); *b {
	case "", IPTables:
		return nil
	}
	*b, err = netconf.OneOf(text, NFTables)
	return err
}

// Check is an error with the reason for a backend that is not served.
func (b Backend) Check() error {
	if b == IPTables {
		return errors.New(`"iptables" is a program, and none is started: expected nftables, which works beside the rules of iptables`)
	}
	return nil
}
