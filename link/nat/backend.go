package nat

import (
	"errors"

	"github.com/cnikit/cnikit/netconf"
)

// Backend is a word of the reference plugins' keys "backend" and "ipMasqBackend".
type Backend string

// The backends. Empty is nftables.
const (
	NFTables Backend = "nftables"
	IPTables Backend = "iptables" // known, and not served
)

// UnmarshalText reads one of the words; any other is an error with code 7 that lists them.
func (b *Backend) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*b = ""
		return nil
	}
	*b, err = netconf.OneOf(text, NFTables, IPTables)
	return err
}

// Check is an error with the reason for a backend that is not served.
func (b Backend) Check() error {
	if b == IPTables {
		return errors.New("iptables is a program, and none is started: expected nftables, which works beside the rules of iptables")
	}
	return nil
}
