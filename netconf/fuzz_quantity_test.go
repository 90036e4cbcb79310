package netconf_test

import (
	"encoding/json"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

var quantityForm = regexp.MustCompile(`^([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([numkMGTPE])|([KMGTPE])i|[eE]([+-]?[0-9]+))?$`)

// exact is a quantity by exact arithmetic; not ok if it is refused.
func exact(text string) (n uint64, ok bool) {
	part := quantityForm.FindStringSubmatch(text)
	if text == "" {
		return 0, true
	}
	if part == nil || part[2]+part[3] == "" || len(strings.TrimLeft(part[2]+strings.TrimRight(part[3], "0"), "0")) > 18 {
		return 0, false
	}
	exponent, factor := int64(-len(part[3])), int64(1)
	switch {
	case part[4] != "":
		exponent += int64(map[string]int{"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}[part[4]])
	case part[5] != "":
		factor <<= 10 * (1 + strings.Index("KMGTPE", part[5]))
	case part[6] != "":
		e, err := strconv.ParseInt(part[6], 10, 16)
		if err != nil {
			return 0, false
		}
		exponent += e
	}
	value, _ := new(big.Int).SetString(part[2]+part[3], 10)
	if value.Sign() == 0 {
		return 0, true
	}
	value.Mul(value, big.NewInt(factor))
	ten := big.NewInt(10)
	if exponent >= 0 {
		value.Mul(value, ten.Exp(ten, big.NewInt(exponent), nil))
	} else {
		rest := new(big.Int)
		if value.DivMod(value, ten.Exp(ten, big.NewInt(-exponent), nil), rest); rest.Sign() > 0 {
			value.Add(value, big.NewInt(1))
		}
	}
	if part[1] == "-" || !value.IsInt64() {
		return 0, false
	}
	return value.Uint64(), true
}

// FuzzQuantity holds a quantity against exact arithmetic.
func FuzzQuantity(f *testing.F) {
	for _, text := range []string{
		"1", "-1", "0.5k", "7.5Ei", "0.1Ki", "9.2E", "8Ei", "1e-400", "1e32767", "12e-1", "1.1", ".5", "1.", "+1", "0e999",
		"0." + strings.Repeat("0", 45) + "1234Ei", "0." + strings.Repeat("0", 19) + "1Ei", "0." + strings.Repeat("0", 18) + "999999999999999999Ei",
		"0." + strings.Repeat("0", 36) + "1Ki", strings.Repeat("0", 40) + "." + strings.Repeat("0", 40), "999999999999999999.0Ei", strconv.FormatInt(math.MaxInt64, 10),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value, err := json.Marshal(text)
		if err != nil || len(text) > 1000 {
			return
		}
		const before = 77
		q := netconf.Quantity(before)
		err = json.Unmarshal(value, &q)
		want, ok := exact(text)
		switch {
		case ok && (err != nil || uint64(q) != want):
			t.Errorf("%q: %d, expected %d (%v)", text, q, want, err)
		case !ok && (err == nil || q != before):
			t.Errorf("%q: %d, expected an error", text, q)
		}
	})
}

// A fraction of more digits than a divisor of 64 bits has made 0 of a divisor, and a panic or nonsense of the quantity.
func TestALongFractionWithABinarySuffixIsNoOverflow(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0." + strings.Repeat("0", 45) + "1234Ei", "0." + strings.Repeat("0", 64) + "1Ki", "0." + strings.Repeat("0", 18) + "5Ei", "0." + strings.Repeat("0", 17) + "5Ei"} {
		var q netconf.Quantity
		want, _ := exact(text)
		if err := q.UnmarshalJSON([]byte(`"` + text + `"`)); err != nil || uint64(q) != want {
			t.Errorf("%q: %d, expected %d (%v)", text, q, want, err)
		}
	}
}
