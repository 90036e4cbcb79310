package netconf

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time as a field of a configuration: a text with its unit ("10s", "1m30s",
// "500ms"), or a JSON number, which is whole seconds. 0, and an empty text, are none. Refused: what is
// negative, what is longer than 292 years, a text without a unit, and a number with a fraction or an
// exponent (write "500ms").
type Duration time.Duration

// Expects says what a value looks like.
func (Duration) Expects() string { return `a duration such as "10s" or "1m30s", or whole seconds` }

// UnmarshalJSON reads a text or a number.
func (d *Duration) UnmarshalJSON(value []byte) error {
	if value[0] != '"' {
		n, err := strconv.ParseUint(string(value), 10, 64)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange):
			return wrongType(d.Expects(), value)
		case err != nil || n > math.MaxInt64/uint64(time.Second):
			return wrong("the number of seconds is too large: expected at most %d", math.MaxInt64/int64(time.Second))
		}
		*d = Duration(n) * Duration(time.Second)
		return nil
	}
	text := unquote(value)
	if text == "" {
		*d = 0
		return nil
	}
	read, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return wrong("%s is not a duration: expected %s", numeric(text), d.Expects())
	case read < 0:
		return wrong("%s is negative: expected %s", numeric(text), d.Expects())
	}
	*d = Duration(read)
	return nil
}

// MarshalText writes it as text with its unit; none is "0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String writes it as text with its unit.
func (d Duration) String() string { return time.Duration(d).String() }

// Quantity is a size or a rate as a field of a configuration, in the unit that the key says (of a
// bandwidth: bits per second): a JSON number, or a text with a suffix, as Kubernetes writes its
// quantities: n u m k M G T P E are powers of 1000, Ki Mi Gi Ti Pi Ei powers of 1024, "3e6" and "3E6"
// exponents. A fraction is rounded up, as there. 0, and an empty text, are none. Refused: what is
// negative, what is above 2^63-1, and more than 18 digits.
type Quantity uint64

// Expects says what a value looks like.
func (Quantity) Expects() string { return `a quantity such as 1000000, "10M" or "1Gi"` }

// UnmarshalJSON reads a text or a number.
func (q *Quantity) UnmarshalJSON(value []byte) error {
	text := string(value)
	switch value[0] {
	case '"':
		text = unquote(value)
	case '{', '[', 't', 'f':
		return wrongType(q.Expects(), value)
	}
	if text == "" {
		*q = 0
		return nil
	}
	n, err := parseQuantity(text)
	if err != nil {
		return wrong("%s %w: expected %s", numeric(text), err, q.Expects())
	}
	*q = Quantity(n)
	return nil
}

var (
	errNoQuantity = errors.New("is not a quantity")
	errTooLarge   = errors.New("is too large")
)

// parseQuantity reads SIGN DIGITS[.DIGITS] SUFFIX.
func parseQuantity(s string) (uint64, error) {
	number := strings.TrimLeft(s, "+-")
	minus := s[0] == '-'
	if len(s)-len(number) > 1 {
		return 0, errNoQuantity
	}
	end := strings.IndexFunc(number, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(number)
	}
	whole, fraction, _ := strings.Cut(number[:end], ".")
	fraction = strings.TrimRight(fraction, "0")
	digits := strings.TrimLeft(whole+fraction, "0")
	if end == 0 || number[:end] == "." || strings.Contains(fraction, ".") || len(digits) > 18 {
		return 0, errNoQuantity
	}
	binary, exponent, ok := suffix(number[end:])
	if !ok {
		return 0, errNoQuantity
	}
	if digits == "" {
		return 0, nil
	}
	if minus {
		return 0, errors.New("is negative")
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, errNoQuantity
	}
	return scale(n, binary, exponent-len(fraction))
}

// suffix is what stands behind the digits: a power of 2, a power of 10.
func suffix(s string) (binary, exponent int, ok bool) {
	const powers = "kMGTPE"
	switch {
	case s == "":
		return 0, 0, true
	case len(s) == 1 && strings.Contains("num", s):
		return 0, map[string]int{"n": -9, "u": -6, "m": -3}[s], true
	case len(s) == 1 && strings.Contains(powers, s):
		return 0, 3 * (1 + strings.Index(powers, s)), true
	case len(s) == 2 && s[1] == 'i' && strings.Contains("KMGTPE", s[:1]):
		return 10 * (1 + strings.Index("KMGTPE", s[:1])), 0, true
	case s[0] == 'e' || s[0] == 'E':
		n, err := strconv.ParseInt(s[1:], 10, 16)
		return 0, int(n), err == nil
	}
	return 0, 0, false
}

// scale is n * 2^binary * 10^exponent, rounded up. n is not 0 and has at most 18 digits, binary is at most 60.
func scale(n uint64, binary, exponent int) (uint64, error) {
	for ; exponent > 0; exponent-- {
		if n > math.MaxInt64/10 {
			return 0, errTooLarge
		}
		n *= 10
	}
	hi, lo := bits.Mul64(n, 1<<binary)
	for ; exponent < 0 && (hi > 0 || lo > 1); exponent++ { // rounded up ten times or once, it is the same
		var rest, carry uint64
		lo, rest = bits.Div64(hi%10, lo, 10)
		lo, carry = bits.Add64(lo, min(rest, 1), 0)
		hi = hi/10 + carry
	}
	if hi > 0 || lo > math.MaxInt64 {
		return 0, errTooLarge
	}
	return lo, nil
}

// numeric quotes a text that begins as a number does, and is as short as one; see shown.
func numeric(text string) string {
	if len(text) <= 24 && strings.IndexByte("+-.0123456789", text[0]) >= 0 {
		return strconv.Quote(text)
	}
	return unsaid([]byte(text))
}
