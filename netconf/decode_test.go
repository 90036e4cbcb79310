package netconf_test

import (
	"encoding/json"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

type common struct {
	MTU  int    `json:"mtu"`
	Mode string `json:"mode"`
}

type inner struct {
	Name string `json:"name"`
	Port uint16 `json:"port"`
}

type pluginConf struct {
	common
	Master  string            `json:"master"`
	MAC     netconf.MAC       `json:"mac"`
	On      *bool             `json:"on"`
	Sub     *inner            `json:"sub"`
	List    []inner           `json:"list"`
	Matrix  [][]int           `json:"matrix"`
	Sysctl  map[string]string `json:"sysctl"`
	ByName  map[string]inner  `json:"byName"`
	IP      net.IP            `json:"ip"`
	Any     any               `json:"any"`
	Raw     json.RawMessage   `json:"raw"`
	Bytes   []byte            `json:"bytes"`
	Small   int8              `json:"small"`
	Float   float64           `json:"float"`
	Tagless string
	//lint:ignore U1000 a key must not reach it
	hidden  string
	Skipped string `json:"-"`
}

func defaults() pluginConf {
	yes := true
	return pluginConf{common: common{MTU: 1500, Mode: "bridge"}, On: &yes, Sysctl: map[string]string{"a": "1"}, List: []inner{{Name: "default"}}, Small: 7}
}

// decode decodes members added to a minimal configuration, and collects the warnings.
func decode(t *testing.T, verb, members string, strict bool) (*pluginConf, []string, error) {
	t.Helper()
	config := strings.TrimSuffix(gc(""), "}") + ",\n" + members + "}"
	req, err := netconf.Parse(with(verb).get, strings.NewReader(config))
	if err != nil && verb != "DEL" && verb != "GC" {
		t.Fatal(err)
	}
	var warnings []string
	req.Strict = strict
	req.Warn = func(msg string, args ...any) { warnings = append(warnings, msg) }
	conf, err := netconf.Decode(req, defaults)
	return conf, warnings, err
}

func TestDecodeValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		members string
		set     func(c *pluginConf)
	}{
		{`"x":0`, func(*pluginConf) {}},
		{`"mtu":9000,"mode":"vepa"`, func(c *pluginConf) { c.MTU, c.Mode = 9000, "vepa" }},
		{`"mtu":null,"mode":null,"on":null,"sysctl":null,"list":null,"mac":null,"sub":null,"any":null`, func(*pluginConf) {}},
		{`"on":false`, func(c *pluginConf) { no := false; c.On = &no }},
		{`"sub":{"name":"x","port":80}`, func(c *pluginConf) { c.Sub = &inner{"x", 80} }},
		{`"list":[{"name":"x"},{},null,{"port":1}]`, func(c *pluginConf) { c.List = []inner{{Name: "x"}, {}, {}, {Port: 1}} }},
		{`"list":[]`, func(c *pluginConf) { c.List = []inner{} }},
		{`"matrix":[[1],[],[2,3]]`, func(c *pluginConf) { c.Matrix = [][]int{{1}, {}, {2, 3}} }},
		{`"sysctl":{"b":"2"}`, func(c *pluginConf) { c.Sysctl = map[string]string{"a": "1", "b": "2"} }},
		{`"byName":{"k":{"port":1}}`, func(c *pluginConf) { c.ByName = map[string]inner{"k": {Port: 1}} }},
		{`"mac":"02-00-00-00-00-01"`, func(c *pluginConf) { c.MAC = netconf.MAC{2, 0, 0, 0, 0, 1} }},
		{`"mac":""`, func(*pluginConf) {}},
		{`"ip":"192.0.2.1"`, func(c *pluginConf) { c.IP = net.ParseIP("192.0.2.1") }},
		{`"any":{"a":[1,true]}`, func(c *pluginConf) { c.Any = map[string]any{"a": []any{1.0, true}} }},
		{`"raw":{"n": 9007199254740993}`, func(c *pluginConf) { c.Raw = json.RawMessage(`{"n": 9007199254740993}`) }},
		{`"bytes":"YQ=="`, func(c *pluginConf) { c.Bytes = []byte("a") }},
		{`"small":-128,"float":1e3`, func(c *pluginConf) { c.Small, c.Float = -128, 1000 }},
		{`"Tagless":"x"`, func(c *pluginConf) { c.Tagless = "x" }},
		{`"hidden":"x","Skipped":"x","-":"x"`, func(*pluginConf) {}},
		{`"master":"\u0065th0\n\ud83d\ude00"`, func(c *pluginConf) { c.Master = "eth0\n😀" }},
		{`"m\u0061ster":"eth0"`, func(c *pluginConf) { c.Master = "eth0" }},
		{`"MASTER":"eth0"`, func(c *pluginConf) { c.Master = "eth0" }},
		{`"MASTER":"wrong","master":"right"`, func(c *pluginConf) { c.Master = "right" }},
		{`"master":"right","MASTER":"wrong"`, func(c *pluginConf) { c.Master = "right" }},
		{`"master":"first","master":"last"`, func(c *pluginConf) { c.Master = "last" }},
	} {
		want := defaults()
		c.set(&want)
		got, _, err := decode(t, "ADD", c.members, false)
		check(t, err, 0)
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.members, *got, want)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ members, words string }{
		{`"mtu":"1500"`, `configuration: mtu (line 2, column 7): expected an integer of 64 bits, got a string`},
		{`"mtu":1.5`, `expected an integer of 64 bits, got the number 1.5`},
		{`"mtu":1e400`, `got the number 1e400`},
		{`"mtu":[1500]`, `got an array`},
		{`"mtu":{"a":1}`, `got an object`},
		{`"mtu":true`, `got a boolean`},
		{`"on":"yes"`, `on (line 2, column 6): expected a boolean, got a string`},
		{`"small":128`, `small (line 2, column 9): expected an integer of 8 bits, got the number 128`},
		{`"float":"x"`, `expected a number, got a string`},
		{`"mac":5`, `mac (line 2, column 7): expected an Ethernet address such as 02:00:00:00:00:01, got the number 5`},
		{`"ip":"300.1.1.1"`, `ip (line 2, column 6): invalid IP address: "300.1.1.1"`},
		{`"bytes":"!"`, `bytes (line 2, column 9): illegal base64`},
		{`"sub":[]`, `sub (line 2, column 7): expected an object, got an array`},
		{"\"sub\":{\"name\":5,\n \"port\":-1}", "sub.name (line 2, column 15): expected a string, got the number 5|sub.port (line 3, column 9): expected a non-negative integer of 16 bits, got the number -1"},
		{`"list":{}`, `list (line 2, column 8): expected an array, got an object`},
		{`"list":[{"port":"x"},{"port":1},"y",{"port":70000}]`, `list[0].port|list[2] (line 2, column 33): expected an object, got a string|list[3].port|70000`},
		{`"matrix":[[1],["x"]]`, `matrix[1][0] (line 2, column 16): expected an integer`},
		{`"sysctl":[]`, `sysctl (line 2, column 10): expected an object, got an array`},
		{`"sysctl":{"a":1,"b":"2","c":true}`, `sysctl.a|sysctl.c`},
		{`"byName":{"k":{"port":"x"}}`, `byName.k.port (line 2, column 23)`},
	} {
		_, _, err := decode(t, "ADD", c.members, false)
		check(t, err, 6, strings.Split(c.words, "|")...)
	}
}

// One bad field must not leave the others empty, and all bad ones are told at once.
func TestDecodeReportsAllAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	members := `"mtu":"x","mode":"vepa","list":5,"master":"eth1","small":999,"sysctl":{"b":"2","c":3},"on":1`
	want := defaults()
	want.Mode, want.Master = "vepa", "eth1"
	want.Sysctl = map[string]string{"a": "1", "b": "2", "c": ""}
	got, _, err := decode(t, "ADD", members, false)
	check(t, err, 6, "mtu (", "list (", "small (", "sysctl.c (", "on (")
	got.On, want.On = nil, nil
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("\n got %+v\nwant %+v", *got, want)
	}
	for _, verb := range []string{"DEL", "GC"} {
		conf, warnings, err := decode(t, verb, members, true)
		check(t, err, 0)
		if conf.Mode != "vepa" || conf.MTU != 1500 || len(warnings) != 5 || !strings.HasPrefix(warnings[0], "ignored: configuration: mtu (line 2, column 7)") {
			t.Errorf("%s: %+v, warnings %q", verb, conf, warnings)
		}
	}
}

func TestDecodeOnDelTakesGarbage(t *testing.T) {
	t.Parallel()
	for _, config := range []string{"", "{", "[]", "null", "{}{}", "\xff"} {
		req, err := netconf.Parse(with("DEL").get, strings.NewReader(config))
		check(t, err, 0)
		conf, err := netconf.Decode(req, defaults)
		check(t, err, 0)
		if conf.MTU != 1500 {
			t.Errorf("%q: the default is lost: %+v", config, conf)
		}
	}
}

func TestDecodeUnknownKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ members, words string }{ // no words: nothing is said
		{`"mster":"eth0"`, `unknown key "mster" is ignored; did you mean "master"?`},
		{`"mtuu":5`, `unknown key "mtuu" is ignored; did you mean "mtu"?`},
		{`"ipMask":true`, `did you mean "ipMasq"?`},
		{`"on2":true`, `did you mean "on"?`},
		{`"frobnicate":true`, `line 2, column 1: unknown key "frobnicate" is ignored`},
		{`"sub":{"nmae":"x"}`, `line 2, column 8: unknown key "sub.nmae" is ignored; did you mean "name"?`},
		{`"list":[{"prt":1}]`, `unknown key "list[0].prt" is ignored; did you mean "port"?`},
		{`"Master":"eth0"`, `key "Master" is taken for "master": write it in that case`},
		{`"IPMASQ":true`, `key "IPMASQ" is taken for "ipMasq"`},
		{`"master":"a","master":"b"`, `key "master" is given again: the last one counts`},
		{`"ipam":{"type":"x","subnt":1}`, ""},
		{`"args":{"x":1,"cni":{"y":2}}`, ""},
		{`"runtimeConfig":{"x":1},"capabilities":{"x":true},"dns":{"nameservers":[]}`, ""},
		{`"cni.dev/future":1`, ""},
		{`"any":{"x":1},"raw":{"x":1},"byName":{"x":{}}`, ""},
		{`"prevResult":{"vendor":1}`, ""},
		{`"x-very-long-name-of-a-key-that-nobody-could-ever-have-meant":1`, "is ignored"},
	} {
		_, warnings, err := decode(t, "ADD", c.members, false)
		check(t, err, 0)
		if c.words == "" && len(warnings) > 0 || c.words != "" && (len(warnings) != 1 || !strings.Contains(warnings[0], c.words)) {
			t.Errorf("%s: warnings %q, expected %q", c.members, warnings, c.words)
		}
		_, _, err = decode(t, "ADD", c.members, true)
		if strings.Contains(c.words, "unknown") {
			check(t, err, 2, "unknown key, value ")
		} else if !strings.Contains(c.words, "did you mean") && !strings.Contains(c.words, "is ignored") {
			check(t, err, 0)
		}
	}
	_, _, err := decode(t, "ADD", `"mster":"eth0","sub":{"prt":{"a":1}}`, true)
	check(t, err, 2, `mster (line 2, column 1): unknown key, value "eth0"; did you mean "master"?`, `sub.prt (line 2, column 23): unknown key, value an object; did you mean "port"?`)
}

func TestDecodeDoesNotShowSecrets(t *testing.T) {
	t.Parallel()
	for _, members := range []string{
		`"apiToken":"hunter2"`, `"PASSWORD":"hunter2"`, `"pass":"hunter2"`, `"auth":"hunter2"`, `"privateKey":"hunter2"`,
		`"sub":{"secret":"hunter2"}`, `"credentials":"hunter2"`, `"x":{"y":"hunter2"}`, `"x":["hunter2"]`,
		`"x":"hunter2 hunter2 hunter2 hunter2 hunter2 hunter2"`, `"mtu":"hunter2"`, `"on":"hunter2"`,
	} {
		_, warnings, err := decode(t, "ADD", members, true)
		if err == nil {
			t.Errorf("%s: no error", members)
		} else if strings.Contains(err.Error(), "hunter2") || strings.Contains(fmt.Sprint(warnings), "hunter2") {
			t.Errorf("%s: %v %q", members, err, warnings)
		}
	}
}

type own struct{ text string }

func (o *own) UnmarshalJSON(data []byte) error {
	if string(data) == `"bad"` {
		return fmt.Errorf("own error")
	}
	o.text = string(data)
	return nil
}

type level int

func (l *level) UnmarshalText(text []byte) error {
	if string(text) != "high" {
		return fmt.Errorf("%q is no level: expected high", text)
	}
	*l = 9
	return nil
}

type Base struct {
	A int `json:"a"`
	B int `json:"b"`
}

func TestDecodeTypes(t *testing.T) {
	t.Parallel()
	type conf struct {
		*Base               // made when a key of it comes
		B     string        `json:"b"` // before the embedded one
		Own   own           `json:"own"`
		PO    *own          `json:"po"`
		Level level         `json:"level"`
		By    map[level]int `json:"by"`
		Pair  [2]int        `json:"pair"`
		PP    **int         `json:"pp"`
		Self  *struct {
			Deep []map[string][]inner `json:"deep"`
		} `json:"self"`
	}
	got, err := netconf.DecodeJSON[conf]([]byte(`{"a":1,"b":"x","own":{"k":[1]},"po":5,"level":"high","by":{"high":1},"pair":[1,2],"pp":3,"self":{"deep":[{"k":[{"port":1}]}]}}`), nil)
	check(t, err, 0)
	if got.Base == nil || got.A != 1 || got.B != "x" || got.Own.text != `{"k":[1]}` || got.PO.text != "5" || got.Level != 9 ||
		got.By[9] != 1 || got.Pair != [2]int{1, 2} || **got.PP != 3 || got.Self.Deep[0]["k"][0].Port != 1 {
		t.Errorf("%+v", got)
	}
	_, err = netconf.DecodeJSON[conf]([]byte(`{"own":"bad","level":"low","by":{"low":1},"pair":["x"],"self":{"deep":[{"k":[{"port":"x"}]}]}}`), nil)
	check(t, err, 6, "own (line 1, column 8): own error", `level (line 1, column 22): "low" is no level`, "by (", `"low"`, "pair (", "self.deep[0].k[0].port (")
	// A whole configuration of another kind than a struct.
	m, err := netconf.DecodeJSON[map[string]int]([]byte(`{"a":1}`), nil)
	if check(t, err, 0); (*m)["a"] != 1 {
		t.Errorf("%v", *m)
	}
	if o, err := netconf.DecodeJSON[own]([]byte(` {"a":1}`), nil); err != nil || o.text != `{"a":1}` {
		t.Errorf("%+v, %v", o, err)
	}
	_, err = netconf.DecodeJSON[conf]([]byte(`{"a":1,}`), nil)
	check(t, err, 6, "line 1, column 8")
}

// A type that embeds a pointer to itself ended in endless recursion.
type loop struct {
	*Loop
	X int `json:"x"`
}
type Loop struct{ *Loop2 }
type Loop2 struct {
	*Loop
	Y int `json:"y"`
}

func TestDecodeTypeThatEmbedsItself(t *testing.T) {
	t.Parallel()
	got, err := netconf.DecodeJSON[loop]([]byte(`{"x":1,"y":2}`), nil)
	if check(t, err, 0); got.X != 1 || got.Loop == nil || got.Y != 2 {
		t.Errorf("%+v", got)
	}
}

func TestDecodeManyErrorsAndWarningsAreCut(t *testing.T) {
	t.Parallel()
	_, _, err := decode(t, "ADD", `"matrix":[[`+strings.Repeat(`"x",`, 99_999)+`"x"]]`, false)
	check(t, err, 6, "matrix[0][19]", "and 99980 more errors")
	var many strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&many, `"unknown%d":1,`, i)
	}
	_, warnings, err := decode(t, "ADD", many.String()+`"mtu":1`, false)
	if check(t, err, 0); len(warnings) != 21 || !strings.Contains(warnings[20], "there is more") {
		t.Errorf("%d warnings", len(warnings))
	}
	_, _, err = decode(t, "ADD", many.String()+`"mtu":1`, true)
	check(t, err, 2, "and 19980 more errors")
}
