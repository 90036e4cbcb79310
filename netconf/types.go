package netconf

import (
	"net"
	"strconv"
	"strings"
)

// MAC is a unicast Ethernet address of six bytes, as a field of a configuration: "02:00:00:00:00:01",
// also with '-' or in Cisco's notation. nil is none.
type MAC net.HardwareAddr

// Expects says what a value looks like.
func (MAC) Expects() string { return "an Ethernet address such as 02:00:00:00:00:01" }

// UnmarshalText reads an address; an empty text is none. A multicast address is an error (the kernel
// refuses it with "cannot assign requested address"), and so is one that is all zero. The code is 7.
func (m *MAC) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*m = nil
		return nil
	}
	hw, err := net.ParseMAC(string(text))
	switch {
	case err != nil || len(hw) != 6:
		return wrong("%s is not an Ethernet address: expected six bytes as in 02:00:00:00:00:01", shown(text))
	case hw[0]&1 != 0:
		return wrong("%s is a multicast address: expected a unicast one, with an even first byte", shown(text))
	case hw[0]|hw[1]|hw[2]|hw[3]|hw[4]|hw[5] == 0:
		return wrong("%s is all zero: expected a unicast address", shown(text))
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

// OneOf reads one of the words that a key allows, for the UnmarshalText of an enumeration:
//
//	func (m *Mode) UnmarshalText(text []byte) (err error) {
//		*m, err = netconf.OneOf(text, L2, L3, L3S)
//		return err
//	}
//
// Words are compared as they are, case included. Any other text is an error with code 7 that lists the
// allowed ones, and names the nearest.
func OneOf[T ~string](text []byte, allowed ...T) (T, error) {
	words := make([]string, len(allowed))
	for i, word := range allowed {
		if string(text) == string(word) {
			return word, nil
		}
		words[i] = string(word)
	}
	return "", notOneOf(text, words)
}

func notOneOf(text []byte, words []string) error {
	near := nearest(string(text[:min(len(text), 64)]), words)
	value, hint := strconv.Quote(string(text)), ""
	if near != "" {
		hint = "; did you mean " + strconv.Quote(near) + "?"
	} else if len(text) > maxWord {
		value = unsaid(text) // a secret in the wrong place, perhaps
	}
	return wrong("unknown value %s: expected %s%s", value, Choice(words...), hint)
}

// Choice writes words as a person would list them: "a, b or c".
func Choice(words ...string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " or " + words[n]
	}
	return strings.Join(words, "")
}
