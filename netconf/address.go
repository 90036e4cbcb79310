package netconf

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Prefix is an IP prefix as a field of a configuration: "10.0.0.0/8", "fd00::1/64". The host part is
// kept, because for some keys it is the address; a key that names a network compares with Masked. The
// zero value, and an empty text, are none (IsValid is false). Refused, with code 7: no length, a length
// that the family does not have, a zone, octets with leading zeros, and an IPv4 address written as IPv6
// ("::ffff:10.0.0.1/120"), of which nobody knows whether its length counts from 32 or from 128.
type Prefix struct{ netip.Prefix }

// Expects says what a value looks like.
func (Prefix) Expects() string { return "an IP prefix such as 10.0.0.0/8 or fd00::/64" }

// UnmarshalText reads a prefix; an empty text is none.
func (p *Prefix) UnmarshalText(text []byte) error {
	ip := IP{}
	err := ip.read(text, p.Expects())
	if err == nil && ip.Addr.IsValid() && !ip.Prefix.IsValid() {
		err = wrong("%s has no prefix length: expected %s", shown(text), p.Expects())
	}
	if err == nil {
		p.Prefix = ip.Prefix
	}
	return err
}

// Addr is an IP address as a field of a configuration: "10.0.0.1", "fd00::1". The zero value, and an
// empty text, are none (IsValid is false). An IPv4 address written as IPv6 ("::ffff:10.0.0.1") is taken for the IPv4
// address that it is, as by the reference plugins: only of a length it is not known what it means. Refused, with code 7, is
// what else Prefix refuses of an address, and a length.
type Addr struct{ netip.Addr }

// Expects says what a value looks like.
func (Addr) Expects() string { return "an IP address such as 10.0.0.1 or fd00::1" }

// UnmarshalText reads an address; an empty text is none.
func (a *Addr) UnmarshalText(text []byte) error {
	ip := IP{}
	err := ip.read(text, a.Expects())
	if err == nil && ip.Prefix.IsValid() {
		err = wrong("%s has a prefix length: expected %s", shown(text), a.Expects())
	}
	if err == nil {
		a.Addr = ip.Addr
	}
	return err
}

// IP is an address that is asked for, with or without the length of its prefix: "10.0.0.5/24",
// "10.0.0.5". The zero value, and an empty text, are none. What Prefix refuses with a length, and Addr without one, is
// refused.
type IP struct {
	Addr   netip.Addr
	Prefix netip.Prefix // Addr with its length; not valid where none was given
}

// Expects says what a value looks like.
func (IP) Expects() string {
	return "an IP address with or without a prefix length, such as 10.0.0.5/24 or fd00::5"
}

// UnmarshalText reads an address; an empty text is none.
func (ip *IP) UnmarshalText(text []byte) error {
	var read IP
	err := read.read(text, ip.Expects())
	if err == nil {
		*ip = read
	}
	return err
}

// MarshalText writes the address, with its length if it has one.
func (ip IP) MarshalText() ([]byte, error) { return []byte(ip.String()), nil }

// String writes the address, with its length if it has one; none is "".
func (ip IP) String() string {
	switch {
	case ip.Prefix.IsValid():
		return ip.Prefix.String()
	case ip.Addr.IsValid():
		return ip.Addr.String()
	}
	return ""
}

func (ip *IP) read(text []byte, expected string) error {
	if len(text) == 0 {
		return nil
	}
	s, _, long := strings.Cut(string(text), "/")
	addr, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return wrong("%s is not an IP address: expected %s", shown(text), expected)
	case addr.Zone() != "":
		return wrong("%s has a zone: expected %s", shown(text), expected)
	case addr.Is4In6() && long:
		return wrong("%s is an IPv4 address written as IPv6: expected it in the form of %s", shown(text), addr.Unmap())
	}
	ip.Addr = addr.Unmap()
	if !long {
		return nil
	}
	if ip.Prefix, err = netip.ParsePrefix(string(text)); err != nil {
		return wrong("%s has a bad prefix length: expected 0 to %d", shown(text), addr.BitLen())
	}
	return nil
}

// wrong is an error about a value that is of the right JSON kind, and wrong.
func wrong(format string, args ...any) error {
	return Errorf(CodeInvalidNetworkConfig, format, args...)
}

// shown quotes a text that may be said aloud: one that could be an address, gone wrong. Anything else may
// be a secret that stands in the wrong place, and of that only the length is told: the error says
// where it stands. An address has at most four hexadecimal digits between its separators.
func shown(text []byte) string {
	const digits, separators = "0123456789abcdefABCDEF", ".:/-% "
	run := 0
	ok := bytes.IndexFunc(text, func(r rune) bool {
		if run++; strings.ContainsRune(separators, r) {
			run = 0
		}
		return run > 4 || run > 0 && !strings.ContainsRune(digits, r)
	}) < 0
	if ok && len(text) <= 64 {
		return strconv.Quote(string(text))
	}
	return unsaid(text)
}

func unsaid(text []byte) string { return fmt.Sprintf("a text of %d bytes", len(text)) }
