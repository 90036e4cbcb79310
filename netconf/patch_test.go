package netconf_test

import (
	"encoding/json"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

func TestPatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, config, key, value, want string }{
		{"replace the first", `{"k":1,"b":2,"c":3}`, "k", `9`, `{"b":2,"c":3,"k":9}`},
		{"replace the middle", `{"a":1,"k":2,"c":3}`, "k", `9`, `{"a":1,"c":3,"k":9}`},
		{"replace the last", `{"a":1,"b":2,"k":3}`, "k", `9`, `{"a":1,"b":2,"k":9}`},
		{"replace the only one", `{"k":1}`, "k", `9`, `{"k":9}`},
		{"add", `{"a":1}`, "k", `9`, `{"a":1,"k":9}`},
		{"add to nothing", `{}`, "k", `9`, `{"k":9}`},
		{"add to blanks", " {\n} ", "k", `9`, " {\"k\":9\n} "},
		{"remove the first", `{"k":1,"b":2,"c":3}`, "k", ``, `{"b":2,"c":3}`},
		{"remove the middle", `{"a":1,"k":2,"c":3}`, "k", ``, `{"a":1,"c":3}`},
		{"remove the last", `{"a":1,"b":2,"k":3}`, "k", ``, `{"a":1,"b":2}`},
		{"remove the only one", `{"k":1}`, "k", ``, `{}`},
		{"remove what is not there", `{"a":1}`, "k", ``, `{"a":1}`},
		{"remove from nothing", `{}`, "k", ``, `{}`},
		{"given again", `{"k":1,"a":1,"k":{"k":2},"k":[3]}`, "k", `9`, `{"a":1,"k":9}`},
		{"remove all of them", `{"k":1,"k":2}`, "k", ``, `{}`},
		{"written with an escape", `{"\u006b":1,"a":2}`, "k", `9`, `{"a":2,"k":9}`},
		{"another case is another key", `{"K":1}`, "k", `9`, `{"K":1,"k":9}`},
		{"inside is another place", `{"a":{"k":1}}`, "k", ``, `{"a":{"k":1}}`},
		{"white space stays", "{ \"z\" : 1 ,\n\t\"a\" : [ 1 , 2 ] \n}\n", "k", `9`, "{ \"z\" : 1 ,\n\t\"a\" : [ 1 , 2 ],\"k\":9 \n}\n"},
		{"numbers stay", `{"n":9007199254740993,"f":1.0,"e":1E+2,"m":-0}`, "k", `18446744073709551617`, `{"n":9007199254740993,"f":1.0,"e":1E+2,"m":-0,"k":18446744073709551617}`},
		{"order and escapes stay", `{"b":"\u003c/\u0061","a":"<&>","é":"\ud83d\ude00"}`, "k", `"<"`, `{"b":"\u003c/\u0061","a":"<&>","é":"\ud83d\ude00","k":"<"}`},
		{"brackets in texts", `{"a":"}],{\"","k":"]}\\","b":1}`, "k", ``, `{"a":"}],{\"","b":1}`},
		{"a key that needs quotes", `{}`, "a\"b\n", `null`, `{"a\"b\n":null}`},
	} {
		var value json.RawMessage
		if c.value != "" {
			value = json.RawMessage(c.value)
		}
		config := []byte(c.config)
		got, err := netconf.Patch(config, c.key, value)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s\n got %q (%v)\nwant %q", c.name, c.config, got, err, c.want)
		}
		if string(config) != c.config {
			t.Errorf("%s: the original is changed: %q", c.name, config)
		}
	}
}

func TestPatchErrors(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"", "[]", "null", `{"a":1,}`, "{}{}"} {
		_, err := netconf.Patch([]byte(config), "k", json.RawMessage("1"))
		check(t, err, 6, "configuration: ")
	}
	for _, value := range []string{"{", "1 2", " "} {
		_, err := netconf.Patch([]byte("{}"), "k", json.RawMessage(value))
		check(t, err, 6, `patch "k": the value is not JSON`)
	}
	_, err := netconf.Patch([]byte("{}"), "k", json.RawMessage{})
	check(t, err, 6)
}
