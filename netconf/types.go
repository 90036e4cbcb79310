package netconf

import (
	"fmt"
	"net"
)

// MAC is a unicast Ethernet address of six bytes, as a field of a configuration: "02:00:00:00:00:01",
// also with '-' or in Cisco's notation. nil is none.
type MAC net.HardwareAddr

// UnmarshalText reads an address; an empty text is none. A multicast address is an error (the kernel
// refuses it with "cannot assign requested address"), and so is one that is all zero.
func (m *MAC) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*m = nil
		return nil
	}
	hw, err := net.ParseMAC(string(text))
	switch {
	case err != nil || len(hw) != 6:
		return fmt.Errorf("%q is not an Ethernet address: expected six bytes as in 02:00:00:00:00:01", text)
	case hw[0]&1 != 0:
		return fmt.Errorf("%q is a multicast address: expected a unicast one, with an even first byte", text)
	case hw[0]|hw[1]|hw[2]|hw[3]|hw[4]|hw[5] == 0:
		return fmt.Errorf("%q is all zero: expected a unicast address", text)
	}
	*m = MAC(hw)
	return nil
}

// MarshalText writes the address with ':' between the bytes.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// String writes the address with ':' between the bytes; none is "".
func (m MAC) String() string { return net.HardwareAddr(m).String() }

// Unserved is a key that the plugin knows and does not serve: what a plugin cannot do it says before any
// work. Null, false, 0 and what is empty are taken, as if the key were not there; another value is
// an error with code 7.
type Unserved struct{}

// UnmarshalJSON refuses a value that asks for something.
func (*Unserved) UnmarshalJSON(value []byte) error {
	switch string(value) {
	case "null", "false", "0", `""`, "[]", "{}":
		return nil
	}
	return Errorf(CodeInvalidNetworkConfig, "not served by this plugin")
}
