package netconf_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// oddConf has a field of each kind of number, and what can be nested.
type oddConf struct {
	Int    int                    `json:"int"`
	Uint   uint16                 `json:"uint"`
	Float  float64                `json:"float"`
	Text   string                 `json:"text"`
	List   []string               `json:"list"`
	Sub    struct{ A, B string }  `json:"sub"`
	Any    any                    `json:"any"`
	ByName map[string]netconf.MAC `json:"byName"`
}

// oddCase is a configuration that parsers of JSON differ on.
type oddCase struct {
	name    string
	members string // behind those of a minimal configuration; one that begins with '!' is the whole text
	code    uint   // of ADD, by Parse or by Decode
	words   string // in its error, or in the warnings
	want    func(c *oddConf) bool
}

// oddKeys are keys that are given twice, or in another case.
func oddKeys() []oddCase {
	return []oddCase{
		{"key twice", `"text":"a","text":"b"`, 0, `key "text" is given again: the last one counts`, func(c *oddConf) bool { return c.Text == "b" }},
		{"key twice, the first is wrong", `"text":5,"text":"b"`, 0, "given again", func(c *oddConf) bool { return c.Text == "b" }},
		{"key twice, the last is null", `"text":"a","text":null`, 0, "given again", func(c *oddConf) bool { return c.Text == "" }},
		{"key twice, once with an escape", `"text":"a","t\u0065xt":"b"`, 0, "given again", func(c *oddConf) bool { return c.Text == "b" }},
		{"key twice inside", `"sub":{"A":"a","A":"b"}`, 0, `key "sub.A" is given again`, func(c *oddConf) bool { return c.Sub.A == "b" }},
		{"key twice in a map", `"byName":{"x":"02:00:00:00:00:01","x":"02:00:00:00:00:02"}`, 0, `key "byName.x" is given again: the last one counts`, func(c *oddConf) bool { return c.ByName["x"][5] == 2 }},
		{"key in two cases", `"TEXT":"a","text":"b","Text":"c"`, 0, `unknown key "TEXT"`, func(c *oddConf) bool { return c.Text == "b" }},
		{"key in another case alone", `"TEXT":"a"`, 0, `key "TEXT" is taken for "text"`, func(c *oddConf) bool { return c.Text == "a" }},
		{"key in two other cases", `"TEXT":"a","Text":"b"`, 0, `taken for "text"`, func(c *oddConf) bool { return c.Text == "b" }},
		{"name twice", `"name":"m"`, 0, `key "name" is given again`, nil},
		{"prevResult twice", `"prevResult":{"ips":[{}]},"prevResult":{}`, 0, `key "prevResult" is given again`, nil},
		{"ipam twice", `"ipam":{"type":"a"},"ipam":5`, 6, "ipam (line 1, column 72): expected an object, got the number 5", nil},
	}
}

// oddNumbers are numbers in the wrong place, of the wrong form or size.
func oddNumbers() []oddCase {
	const number = "expected an integer of 64 bits, got the number "
	return []oddCase{
		{"number as text", `"int":"5"`, 6, "int (line 1, column 51): expected an integer of 64 bits, got a string", nil},
		{"text as number", `"text":5`, 6, "text (line 1, column 52): expected a string, got the number 5", nil},
		{"fraction", `"int":1.5`, 6, number + "1.5", nil},
		{"fraction of nothing", `"int":1.0`, 6, number + "1.0", nil},
		{"exponent", `"int":1e3`, 6, number + "1e3", nil},
		{"exponent below 0", `"int":10E-1`, 6, number + "10E-1", nil},
		{"exponent without end", `"int":1e400`, 6, number + "1e400", nil},
		{"-0", `"int":-0`, 0, "", func(c *oddConf) bool { return c.Int == 0 }},
		{"-0 where nothing is negative", `"uint":-0`, 6, "expected a non-negative integer of 16 bits, got the number -0", nil},
		{"too large", `"int":9223372036854775808`, 6, number + "9223372036854775808", nil},
		{"too large for its size", `"uint":65536`, 6, "got the number 65536", nil},
		{"endless digits", `"int":` + strings.Repeat("9", 1<<20), 6, number + strings.Repeat("9", 24), nil},
		{"float", `"float":1e308`, 0, "", func(c *oddConf) bool { return c.Float == 1e308 }},
		{"float without end", `"float":1e400`, 6, "expected a number, got the number 1e400", nil},
		{"leading zero", `"int":01`, 6, "not JSON", nil},
		{"plus", `"int":+1`, 6, "not JSON", nil},
		{"hexadecimal", `"int":0x10`, 6, "not JSON", nil},
		{"NaN", `"float":NaN`, 6, "line 1, column 53): not JSON", nil},
		{"Infinity", `"float":-Infinity`, 6, "not JSON", nil},
		{"above 2^53", `"any":9007199254740993`, 0, "", func(c *oddConf) bool { return c.Any == 9007199254740992.0 }}, // any is a float64; Config keeps the digits
	}
}

// oddTexts are characters that are none.
func oddTexts() []oddCase {
	return []oddCase{
		{"NUL in a text", `"text":"a\u0000b"`, 0, "", func(c *oddConf) bool { return c.Text == "a\x00b" }},
		{"NUL in a name", `"name":"a\u0000b"`, 7, `name (line 1, column 52): network name: "a\x00b" has an invalid character`, nil},
		{"NUL in a key", `"text\u0000":"x"`, 0, `unknown key "text\x00"`, func(c *oddConf) bool { return c.Text == "" }},
		{"NUL itself", "\"text\":\"a\x00b\"", 6, "not JSON", nil},
		{"bad UTF-8", "\"text\":\"a\xffb\"", 0, "", func(c *oddConf) bool { return c.Text == "a\ufffdb" }},
		{"bad UTF-8 in a key", "\"te\xffxt\":\"a\"", 0, `unknown key`, func(c *oddConf) bool { return c.Text == "" }},
		{"lone surrogate", `"text":"a\ud800b"`, 0, "", func(c *oddConf) bool { return c.Text == "a\ufffdb" }},
		{"surrogates the wrong way round", `"text":"\ude00\ud83d"`, 0, "", func(c *oddConf) bool { return c.Text == "\ufffd\ufffd" }},
		{"bad escape", `"text":"\x41"`, 6, "not JSON", nil},
		{"line end in a text", "\"text\":\"a\nb\"", 6, "line 1, column 54): not JSON", nil},
	}
}

// oddSyntax are what people write that is not JSON, and depth and size.
func oddSyntax() []oddCase {
	return []oddCase{
		{"comment", "/* x */ \"text\":\"a\"", 6, "JSON has no comments", nil},
		{"comma at the end", `"text":"a",`, 6, "a comma too many", nil},
		{"comma at the end of a list", `"list":["a",]`, 6, "a comma too many", nil},
		{"two commas", `"list":["a",,"b"]`, 6, "not JSON", nil},
		{"key without quotes", `text:"a"`, 6, "not JSON", nil},
		{"100 levels", `"any":` + nest(100), 0, "", func(c *oddConf) bool { return c.Any != nil }},
		{"9,999 levels", `"any":` + nest(9_999), 0, "", func(c *oddConf) bool { return c.Any != nil }},
		{"10,000 levels", `"any":` + nest(10_000), 6, "exceeded max depth", nil}, // of encoding/json; the object around them is one more
		{"1,000,000 levels", `"any":` + nest(1_000_000), 6, "exceeded max depth", nil},
		{"10 MB of text", `"text":"` + strings.Repeat("x", 10<<20) + `"`, 0, "", func(c *oddConf) bool { return len(c.Text) == 10<<20 }},
		{"17 MB of text", `"text":"` + strings.Repeat("x", 17<<20) + `"`, 6, "configuration: larger than 16777216 bytes", nil},
		{"200,000 keys", numbered(200_000) + `"text":"a"`, 0, "there is more to warn of", func(c *oddConf) bool { return c.Text == "a" }},
		{"1,000,000 keys", numbered(1_000_000) + `"text":"a"`, 6, "configuration: more than 262144 values", nil},
		{"1,000,000 elements", `"list":[` + strings.Repeat(`"",`, 999_999) + `""]`, 6, "more than 262144 values", nil},
		{"1,000,000 commas in a text", `"text":"` + strings.Repeat(`,[{`, 333_334) + `"`, 0, "", func(c *oddConf) bool { return len(c.Text) == 1_000_002 }},
	}
}

// oddWhole are texts that are not one object.
func oddWhole() []oddCase {
	return []oddCase{
		{"byte-order mark", "!\xef\xbb\xbf" + minimal, 6, "(line 1, column 1): a byte-order mark", nil},
		{"data behind it", "!" + minimal + "x", 6, "nothing after it", nil},
		{"a second object", "!" + minimal + minimal, 6, "nothing after it", nil},
		{"blanks behind it", "!" + minimal + " \t\r\n", 0, "", nil},
		{"NUL behind it", "!" + minimal + "\x00", 6, "nothing after it", nil},
		{"empty", "!", 6, "configuration: empty: expected a JSON object", nil},
		{"blanks alone", "! \n", 6, "empty", nil},
		{"null", "!null", 6, "expected an object, got null", nil},
		{"a list", "![{}]", 6, "expected an object, got an array", nil},
		{"a number", "!1e400", 6, "expected an object, got the number 1e400", nil},
		{"a text", `!"{}"`, 6, "expected an object, got a string", nil},
	}
}

// TestOddJSON is what package netconf does with JSON on which parsers differ. The package comment says it in short.
func TestOddJSON(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(oddKeys(), oddNumbers(), oddTexts(), oddSyntax(), oddWhole()) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config, whole := strings.CutPrefix(c.members, "!")
			if !whole {
				config = strings.TrimSuffix(minimal, "}") + "," + config + "}"
			}
			conf, warnings, err := odd(t, "ADD", config)
			if c.code != 0 {
				check(t, err, c.code, c.words)
			} else if check(t, err, 0); !strings.Contains(warnings, c.words) || c.words == "" && warnings != "" {
				t.Errorf("warnings %.200q, expected %q", warnings, c.words)
			}
			if c.want != nil && !c.want(conf) {
				t.Errorf("decoded as %.200v", conf)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if _, _, err := odd(t, "DEL", config); err != nil {
				t.Errorf("DEL: %v", err)
			}
		})
	}
}

// The last list alone would have GC destroy what the first calls alive.
func TestGCListGivenTwiceIsRefused(t *testing.T) {
	t.Parallel()
	const list = `[{"containerID":"c","ifname":"eth0"}]`
	for _, key := range []string{"cni.dev/valid-attachments", "cni.dev/attachments"} {
		config := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"n","type":"t",%q:%s,%q:[]}`, key, list, key)
		_, err := netconf.Parse(with("GC").get, strings.NewReader(config))
		check(t, err, 7, key, "given 2 times")
	}
	both := `{"cniVersion":"1.1.0","name":"n","type":"t","cni.dev/valid-attachments":` + list + `,"cni.dev/attachments":` + list + `}`
	_, err := netconf.Parse(with("GC").get, strings.NewReader(both))
	check(t, err, 0) // libcni sends both keys
}

func nest(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"key` + strconv.Itoa(i) + `":1,`)
	}
	return b.String()
}

// odd is Parse and Decode.
func odd(t *testing.T, verb, config string) (conf *oddConf, warnings string, err error) {
	t.Helper()
	req, err := netconf.Parse(with(verb).get, strings.NewReader(config))
	if err != nil {
		return new(oddConf), "", err
	}
	if !bytes.Equal(req.Config, []byte(config)[:len(req.Config)]) {
		t.Error("Config is not what came in")
	}
	req.Warn = func(msg string, _ ...any) { warnings += msg + "\n" }
	conf, err = netconf.Decode[oddConf](req, nil)
	return conf, warnings, err
}

// hungry are texts that cost as much memory as can be had for their size.
func hungry() map[string]string {
	const n = 262_000
	list := func(key, item string) string {
		return strings.TrimSuffix(minimal, "}") + `,"` + key + `":[` + strings.Repeat(item+",", n) + item + "]}"
	}
	var args, keys strings.Builder
	for i := range n {
		fmt.Fprintf(&args, `"%d":1,`, i)
		fmt.Fprintf(&keys, `"unknown key %d":1,`, i)
	}
	return map[string]string{
		"attachments":   list("cni.dev/valid-attachments", "5"),
		"args":          strings.TrimSuffix(minimal, "}") + `,"args":{` + args.String() + `"x":1}}`,
		"runtimeConfig": strings.TrimSuffix(minimal, "}") + `,"runtimeConfig":{` + args.String() + `"x":1}}`,
		"keys":          strings.TrimSuffix(minimal, "}") + "," + keys.String() + `"x":1}`,
		"interfaces":    strings.TrimSuffix(minimal, "}") + `,"prevResult":{"interfaces":[` + strings.Repeat(`{},`, n/2) + `{}]}}`,
		"text":          strings.TrimSuffix(minimal, "}") + `,"text":"` + strings.Repeat("x", 15<<20) + `"}`,
		"too many":      list("list", "0,0,0,0,0,0,0,0,0,0,0,0"),
	}
}

// perByte and perValue are how many bytes a call may allocate in all for one of its input, and for one of its
// values, most of which the collector takes back on the way. Measured: 3 for each byte, 740 for each value.
const perByte, perValue = 8, 1500

// What comes on stdin must not eat the node's memory. The sum of all that is allocated is told, so this holds for
// any collector.
func TestMemoryIsBounded(t *testing.T) { // not parallel: it reads the process's counters
	for name, config := range hungry() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		whole(t, config)
		runtime.ReadMemStats(&after)
		values := min(strings.Count(config, ",")+1, 262_144)
		got, limit := after.TotalAlloc-before.TotalAlloc, uint64(perByte*len(config)+perValue*values)
		t.Logf("%-14s %9d bytes, %6d values: %4d MB allocated", name, len(config), values, got>>20)
		if got > limit {
			t.Errorf("%s: %d bytes are allocated for %d, expected at most %d", name, got, len(config), limit)
		}
	}
}

// whole is all that reads a configuration.
func whole(t testing.TB, config string) {
	req, err := netconf.Parse(with("ADD").get, strings.NewReader(config))
	if err == nil {
		_, err = netconf.Decode[oddConf](req, nil)
		req.Runtime()
		req.CNIArgs()
	}
	if err != nil && len(err.Error()) > 10_000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func BenchmarkHungry(b *testing.B) {
	for name, config := range hungry() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(config)))
			b.ReportAllocs()
			for b.Loop() {
				whole(b, config)
			}
		})
	}
}

// "STATUS does not exist in version garbage" says of a version that nobody knows what it does not have.
func TestAnUnknownVersionIsSaidToBeUnknown(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"CHECK", "GC", "STATUS"} {
		for _, v := range []string{"garbage", "v1.1.0", "0.3.5", "0.0.0", "x y"} {
			_, err := netconf.Parse(with(verb).get, strings.NewReader(fmt.Sprintf(`{"name":"n","type":"t","cniVersion":%q,"cni.dev/valid-attachments":[]}`, v)))
			check(t, err, 1, fmt.Sprintf("cniVersion (line 1, column 37): version %q is unknown: expected one of [0.1.0", v))
		}
	}
	_, err := netconf.Parse(with("STATUS").get, strings.NewReader(`{"name":"n","type":"t","cniVersion":"1.0.0"}`))
	check(t, err, 1, `STATUS does not exist in version "1.0.0": it came with 1.1.0`)
}
