package netconf_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/netconf"
)

func TestMACText(t *testing.T) {
	t.Parallel()
	out, err := json.Marshal(struct{ A, B netconf.MAC }{netconf.MAC{2, 0, 0, 0, 0, 0xff}, nil})
	if err != nil || string(out) != `{"A":"02:00:00:00:00:ff","B":""}` {
		t.Errorf("%s, %v", out, err)
	}
	var m netconf.MAC
	if err := m.UnmarshalText([]byte("0200.0000.0001")); err != nil || m.String() != "02:00:00:00:00:01" {
		t.Errorf("%v, %v", m, err)
	}
}

func TestUnserved(t *testing.T) {
	t.Parallel()
	type config struct {
		VLAN   netconf.Unserved `json:"vlan"`
		Trunk  netconf.Unserved `json:"vlanTrunk"`
		IPMasq netconf.Unserved `json:"ipMasq"` // the specification's key is the plugin's too
	}
	for _, harmless := range []string{`null`, `false`, `0`, `""`, `[]`, `{}`} {
		_, err := netconf.DecodeJSON[config]([]byte(`{"vlan":`+harmless+`}`), nil)
		check(t, err, 0)
	}
	_, err := netconf.DecodeJSON[config]([]byte(`{"vlan":5,"vlanTrunk":[{"id":5}],
"ipMasq":true}`), nil)
	check(t, err, 7, "vlan (line 1, column 9): not served by this plugin", "vlanTrunk (line 1, column 23)", "ipMasq (line 2, column 10)")
}

// fields is a configuration with one key of each type.
type fields struct {
	Prefix   netconf.Prefix   `json:"prefix"`
	Addr     netconf.Addr     `json:"addr"`
	IP       netconf.IP       `json:"ip"`
	MAC      netconf.MAC      `json:"mac"`
	Duration netconf.Duration `json:"duration"`
	Quantity netconf.Quantity `json:"quantity"`
	Mode     mode             `json:"mode"`
	ModePtr  *mode            `json:"modePtr"`
}

type mode string

func (m *mode) UnmarshalText(text []byte) (err error) {
	*m, err = netconf.OneOf[mode](text, "l2", "l3", "l3s")
	return err
}

func (mode) Expects() string { return netconf.Choice("l2", "l3", "l3s") }

func TestFieldTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ member, want string }{ // want is the field printed
		{`"prefix":"10.0.0.0/8"`, "10.0.0.0/8"},
		{`"prefix":"10.1.2.3/8"`, "10.1.2.3/8"}, // the host part is kept
		{`"prefix":"0.0.0.0/0"`, "0.0.0.0/0"},
		{`"prefix":"FD00:0::1/64"`, "fd00::1/64"},
		{`"prefix":"::/0"`, "::/0"},
		{`"prefix":""`, ""},
		{`"prefix":null`, ""},
		{`"addr":"192.0.2.1"`, "192.0.2.1"},
		{`"addr":"fe80::1"`, "fe80::1"},
		{`"addr":"::ffff:192.0.2.1"`, "192.0.2.1"},
		{`"addr":""`, ""},
		{`"ip":"192.0.2.1"`, "192.0.2.1"},
		{`"ip":"::ffff:192.0.2.1"`, "192.0.2.1"},
		{`"ip":"192.0.2.1/24"`, "192.0.2.1/24"},
		{`"ip":"fd00::5/128"`, "fd00::5/128"},
		{`"ip":""`, ""},
		{`"mac":"02-00-00-00-00-FF"`, "02:00:00:00:00:ff"},
		{`"duration":"10s"`, "10s"},
		{`"duration":"1h1m1.5s"`, "1h1m1.5s"},
		{`"duration":30`, "30s"},
		{`"duration":0`, "0s"},
		{`"duration":""`, "0s"},
		{`"duration":"0"`, "0s"},
		{`"duration":9223372036`, "2562047h47m16s"},
		{`"duration":null`, "0s"},
		{`"quantity":10`, "10"},
		{`"quantity":1e6`, "1000000"},
		{`"quantity":1.5`, "2"},
		{`"quantity":-0`, "0"},
		{`"quantity":"10M"`, "10000000"},
		{`"quantity":"1.5Gi"`, "1610612736"},
		{`"quantity":"100m"`, "1"},
		{`"quantity":null`, "0"},
		{`"mode":"l3"`, "l3"},
		{`"modePtr":"l3s"`, "l3s"},
	} {
		got, err := netconf.DecodeJSON[fields]([]byte("{"+c.member+"}"), nil)
		check(t, err, 0)
		if printed := printed(t, got, c.member); printed != c.want {
			t.Errorf("%s: %q, expected %q", c.member, printed, c.want)
		}
	}
}

// printed is the field that a member sets.
func printed(t *testing.T, f *fields, member string) string {
	t.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	key, _, _ := strings.Cut(strings.TrimPrefix(member, `"`), `"`)
	if n, ok := all[key].(float64); ok {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprint(all[key])
}

func TestFieldTypeErrors(t *testing.T) {
	t.Parallel()
	const aPrefix, anAddr, aDuration, aQuantity = "an IP prefix such as 10.0.0.0/8 or fd00::/64", "an IP address such as 10.0.0.1 or fd00::1",
		`a duration such as "10s" or "1m30s", or whole seconds`, `a quantity such as 1000000, "10M" or "1Gi"`
	for _, c := range []struct {
		member string
		code   uint
		words  string
	}{
		{`"prefix":5`, 6, "prefix (line 1, column 11): expected " + aPrefix + ", got the number 5"},
		{`"prefix":[]`, 6, "expected " + aPrefix + ", got an array"},
		{`"prefix":{}`, 6, "got an object"},
		{`"prefix":true`, 6, "got a boolean"},
		{`"prefix":"10.0.0.1"`, 7, `prefix (line 1, column 11): "10.0.0.1" has no prefix length: expected ` + aPrefix},
		{`"prefix":"10.0.0.0/33"`, 7, `"10.0.0.0/33" has a bad prefix length: expected 0 to 32`},
		{`"prefix":"fd00::/129"`, 7, "expected 0 to 128"},
		{`"prefix":"10.0.0.0/08"`, 7, "bad prefix length"},
		{`"prefix":"10.0.0.0/+8"`, 7, "bad prefix length"},
		{`"prefix":"10.0.0.0/"`, 7, "bad prefix length"},
		{`"prefix":"10.0.0.0/-1"`, 7, "bad prefix length"},
		{`"prefix":"10.0.0.0/255.0.0.0"`, 7, "bad prefix length"},
		{`"prefix":"/8"`, 7, `"/8" is not an IP address: expected ` + aPrefix},
		{`"prefix":"::ffff:10.0.0.1/120"`, 7, "is an IPv4 address written as IPv6: expected it in the form of 10.0.0.1"},
		{`"prefix":"fe80::1%eth0/64"`, 7, "has a zone"},
		{`"prefix":" 10.0.0.0/8"`, 7, `" 10.0.0.0/8" is not an IP address`},
		{`"prefix":"010.0.0.0/8"`, 7, "is not an IP address"},
		{`"addr":"10.0.0.1/8"`, 7, `"10.0.0.1/8" has a prefix length: expected ` + anAddr},
		{`"addr":"10.0.0.256"`, 7, `"10.0.0.256" is not an IP address: expected ` + anAddr},
		{`"addr":"::ffff:10.0.0.1/120"`, 7, "expected it in the form of 10.0.0.1"},
		{`"addr":"fe80::1%1"`, 7, `has a zone`},
		{`"addr":"localhost"`, 7, "a text of 9 bytes is not an IP address: expected " + anAddr},
		{`"addr":false`, 6, "expected " + anAddr + ", got a boolean"},
		{`"ip":"10.0.0.1/"`, 7, "bad prefix length"},
		{`"ip":5`, 6, "expected an IP address with or without a prefix length, such as 10.0.0.5/24 or fd00::5, got the number 5"},
		{`"mac":"01:00:00:00:00:01"`, 7, `mac (line 1, column 8): "01:00:00:00:00:01" is a multicast address`},
		{`"mac":"00:00:00:00:00:00"`, 7, `is all zero`},
		{`"mac":"02:00:00:00:00:00:00:01"`, 7, `is not an Ethernet address`},
		{`"mac":"` + strings.Repeat("02:", 1000) + `"`, 7, "a text of 3000 bytes is not an Ethernet address"},
		{`"duration":"10"`, 7, `duration (line 1, column 13): "10" is not a duration: expected ` + aDuration},
		{`"duration":"10 s"`, 7, "is not a duration"},
		{`"duration":"-1s"`, 7, `"-1s" is negative`},
		{`"duration":"soon"`, 7, "a text of 4 bytes is not a duration"},
		{`"duration":"300y"`, 7, "is not a duration"},
		{`"duration":"9999999h"`, 7, `"9999999h" is not a duration`},
		{`"duration":-1`, 6, "expected " + aDuration + ", got the number -1"},
		{`"duration":1.5`, 6, "got the number 1.5"},
		{`"duration":1e3`, 6, "got the number 1e3"},
		{`"duration":9223372037`, 7, "the number of seconds is too large: expected at most 9223372036"},
		{`"duration":99999999999999999999`, 7, "too large"},
		{`"duration":true`, 6, "got a boolean"},
		{`"quantity":-1`, 7, `quantity (line 1, column 13): "-1" is negative: expected ` + aQuantity},
		{`"quantity":1e400`, 7, `"1e400" is too large`},
		{`"quantity":"10Q"`, 7, `"10Q" is not a quantity`},
		{`"quantity":"plenty"`, 7, "a text of 6 bytes is not a quantity"},
		{`"quantity":[1]`, 6, "expected " + aQuantity + ", got an array"},
		{`"quantity":true`, 6, "got a boolean"},
		{`"mode":"l4"`, 7, `mode (line 1, column 9): unknown value "l4": expected l2, l3 or l3s; did you mean "l2"?`},
		{`"mode":"L3"`, 7, `unknown value "L3": expected l2, l3 or l3s; did you mean "l3"?`},
		{`"mode":"bridge"`, 7, `unknown value "bridge": expected l2, l3 or l3s`},
		{`"mode":""`, 7, `unknown value "": expected l2, l3 or l3s`},
		{`"mode":"` + strings.Repeat("x", 1<<20) + `"`, 7, "unknown value a text of 1048576 bytes: expected l2, l3 or l3s"},
		{`"mode":3`, 6, "mode (line 1, column 9): expected l2, l3 or l3s, got the number 3"},
		{`"modePtr":3`, 6, "expected l2, l3 or l3s, got the number 3"},
	} {
		got, err := netconf.DecodeJSON[fields]([]byte("{"+c.member+"}"), nil)
		check(t, err, c.code, c.words)
		if got.ModePtr = nil; !reflect.DeepEqual(*got, fields{}) {
			t.Errorf("%s: half decoded: %+v", c.member, *got)
		}
	}
}

// TestQuantity holds the grammar of Kubernetes' quantities to what its documentation says of each form.
func TestQuantity(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"0": 0, "1": 1, "+1": 1, "-0": 0, "007": 7, "1.": 1, ".5": 1, "1.0": 1, "1.1": 2, "0.0": 0, "2.50": 3,
		"1k": 1000, "1M": 1e6, "1G": 1e9, "1T": 1e12, "1P": 1e15, "1E": 1e18, "9.2E": 9200000000000000000, "0.5k": 500, "1.0005k": 1001,
		"1Ki": 1024, "1Mi": 1 << 20, "1Gi": 1 << 30, "1Ti": 1 << 40, "1Pi": 1 << 50, "1Ei": 1 << 60, "7.5Ei": 15 << 59, "0.1Ki": 103, "0.000000000000000001Ei": 2,
		"1n": 1, "1u": 1, "1m": 1, "1000m": 1, "1001m": 2, "1500000u": 2, "0m": 0,
		"1e3": 1000, "1E3": 1000, "1e+3": 1000, "1e-3": 1, "12e-1": 2, "0e999": 0, "1e-400": 1, "100000000000000000e-17": 1, "1e18": 1e18,
		"123456789012345678": 123456789012345678, "000000000000000000000000001": 1,
	} {
		var q netconf.Quantity
		if err := q.UnmarshalJSON([]byte(`"` + text + `"`)); err != nil || uint64(q) != want {
			t.Errorf("%q: %d, expected %d (%v)", text, q, want, err)
		}
	}
	for text, word := range map[string]string{
		"-1": "negative", "-1k": "negative", "10E": "too large", "9.3E": "too large", "8Ei": "too large", "1e19": "too large", "1e32767": "too large", "17Ei": "too large",
		"1234567890123456789": "not a quantity", "0.1234567890123456789": "not a quantity", "1e40000": "not a quantity",
		"+": "not a quantity", "--1": "not a quantity", "+-1": "not a quantity", ".": "not a quantity", "1.2.3": "not a quantity", "k": "not a quantity", "1K": "not a quantity", "1ki": "not a quantity", "1kb": "not a quantity",
		"1 M": "not a quantity", " 1": "not a quantity", "1e": "not a quantity", "1e1.5": "not a quantity", "0x10": "not a quantity", "1_000": "not a quantity", "NaN": "not a quantity", "Inf": "not a quantity", "1EE": "not a quantity", "1i": "not a quantity", "\u0000": "not a quantity",
	} {
		q := netconf.Quantity(7)
		if err := q.UnmarshalJSON([]byte(`"` + text + `"`)); err == nil || !strings.Contains(err.Error(), word) || q != 7 {
			t.Errorf("%q: %d, error %v, expected %q in it", text, q, err, word)
		}
	}
}

// What is written is read again as the same.
func TestFieldTypesRoundTrip(t *testing.T) {
	t.Parallel()
	const text = `{"prefix":"10.1.2.3/8","addr":"fd00::1","ip":"10.0.0.1/24","mac":"02:00:00:00:00:01","duration":"1m30s","quantity":10,"mode":"l2","modePtr":"l3"}`
	for _, config := range []string{text, `{"mode":"l2"}`} {
		first, err := netconf.DecodeJSON[fields]([]byte(config), nil)
		check(t, err, 0)
		data, err := json.Marshal(first)
		check(t, err, 0)
		if config == text && string(data) != text {
			t.Errorf("%s", data)
		}
		if again, err := netconf.DecodeJSON[fields](data, nil); err != nil || !reflect.DeepEqual(again, first) {
			t.Errorf("%s: %+v, %v", data, again, err)
		}
	}
	if d := netconf.Duration(90 * time.Second); d.String() != "1m30s" {
		t.Errorf("%s", d)
	}
}

func TestChoice(t *testing.T) {
	t.Parallel()
	for want, words := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := netconf.Choice(words...); got != want {
			t.Errorf("%q: %q", words, got)
		}
	}
}
