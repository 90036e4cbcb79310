package netconf_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
)

const minimal = `{"cniVersion":"1.1.0","name":"n","type":"t"}`

// call is the environment of a call; Parse reads it by get.
type call map[string]string

func (c call) get(key string) string { return c[key] }

// with returns a full environment for a verb, changed by "K=V" pairs; "K=" empties a variable.
func with(verb string, pairs ...string) call {
	c := call{"CNI_COMMAND": verb, "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/c1", "CNI_IFNAME": "eth0", "CNI_PATH": "/opt/cni/bin"}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		c[k] = v
	}
	return c
}

// gc is a configuration as GC needs it, with more members.
func gc(more string) string {
	return `{"cniVersion":"1.1.0","name":"n","type":"t","cni.dev/valid-attachments":[]` + more + `}`
}

// check compares an error with the code and the words it should have; code 0 means no error.
func check(t *testing.T, err error, code uint, words ...string) {
	t.Helper()
	if got := netconf.Code(err); got != code {
		t.Fatalf("code %d, expected %d: %v", got, code, err)
	}
	if err == nil {
		return
	}
	var coded *types.Error
	if !errors.As(err, &coded) || coded.Code != code {
		t.Errorf("under upstream's skel the code is %+v, expected %d", coded, code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestParseEnvironment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		env   call
		code  uint
		words []string
	}{
		{"ADD", with("ADD"), 0, nil},
		{"ADD needs no CNI_PATH", with("ADD", "CNI_PATH="), 0, nil},
		{"ADD needs an id", with("ADD", "CNI_CONTAINERID="), 4, []string{"CNI_CONTAINERID: missing"}},
		{"ADD needs a namespace", with("ADD", "CNI_NETNS="), 4, []string{"CNI_NETNS: missing"}},
		{"ADD needs a name", with("ADD", "CNI_IFNAME="), 4, []string{"CNI_IFNAME: missing"}},
		{"ADD reports all at once", with("ADD", "CNI_IFNAME=a/b", "CNI_CONTAINERID=-x", "CNI_NETNS=", "CNI_ARGS=X"), 4,
			[]string{"CNI_IFNAME", `"a/b"`, "CNI_CONTAINERID", `'-' at position 1`, "CNI_NETNS: missing", "CNI_ARGS", "pair 1 has no '='"}},
		{"id with a slash", with("ADD", "CNI_CONTAINERID=../x"), 4, []string{"CNI_CONTAINERID", "'.' at position 1"}},
		{"id with a blank", with("CHECK", "CNI_CONTAINERID=a b"), 4, []string{"' ' at position 2"}},
		{"CHECK", with("CHECK"), 0, nil},
		{"CHECK needs a namespace", with("CHECK", "CNI_NETNS="), 4, []string{"CNI_NETNS"}},
		{"DEL", with("DEL"), 0, nil},
		{"DEL needs no namespace and no path", with("DEL", "CNI_NETNS=", "CNI_PATH="), 0, nil},
		{"DEL needs an id and a name", with("DEL", "CNI_CONTAINERID=", "CNI_IFNAME="), 4, []string{"CNI_CONTAINERID", "CNI_IFNAME"}},
		{"DEL takes bad arguments", with("DEL", "CNI_ARGS=nonsense"), 0, nil},
		{"GC needs nothing of an attachment", call{"CNI_COMMAND": "GC", "CNI_PATH": "/p"}, 0, nil},
		{"GC needs a path", call{"CNI_COMMAND": "GC"}, 4, []string{"CNI_PATH: missing"}},
		{"GC with an empty path", call{"CNI_COMMAND": "GC", "CNI_PATH": "::"}, 4, []string{"CNI_PATH: missing"}},
		{"STATUS needs nothing", call{"CNI_COMMAND": "STATUS"}, 0, nil},
		{"STATUS does not look at an attachment", call{"CNI_COMMAND": "STATUS", "CNI_IFNAME": "a/b", "CNI_ARGS": "X"}, 0, nil},
		{"VERSION needs nothing", call{"CNI_COMMAND": "VERSION"}, 0, nil},
		{"no verb", with(""), 4, []string{"CNI_COMMAND: missing", "STATUS"}},
		{"unknown verb", with("FROB"), 4, []string{"CNI_COMMAND", `"FROB"`}},
		{"verb in lower case", with("add"), 4, []string{`"add"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			conf := minimal
			if c.env["CNI_COMMAND"] == "GC" {
				conf = gc("")
			}
			req, err := netconf.Parse(c.env.get, strings.NewReader(conf))
			check(t, err, c.code, c.words...)
			if req == nil || req.Network.CNIVersion != "1.1.0" {
				t.Error("the request does not tell the caller's version")
			}
		})
	}
}

func TestParseReportsEnvironmentAndConfigurationTogether(t *testing.T) {
	t.Parallel()
	_, err := netconf.Parse(with("ADD", "CNI_IFNAME=").get, strings.NewReader(`{"name":"no good","ipMasq":"yes","prevResult":{"ips":[{}]}}`))
	check(t, err, 4, "CNI_IFNAME: missing", `name (line 1, column 9): network name: "no good"`,
		"ipMasq (line 1, column 28): expected a boolean, got a string", "prevResult.ips[0].address", "missing")
	_, err = netconf.Parse(with("FROB").get, strings.NewReader("{"))
	check(t, err, 4)
	if strings.Contains(err.Error(), "configuration") {
		t.Errorf("what a configuration must have depends on the verb: %v", err)
	}
}

func TestParseFillsTheRequest(t *testing.T) {
	t.Parallel()
	conf := `{"cniVersion":"1.0.0","name":"n","type":"macvlan","ipMasq":true,"big":9007199254740993,
	 "capabilities":{"mac":true},"runtimeConfig":{"mac":"02:00:00:00:00:01"},"args":{"cni":{"x":1}},
	 "ipam":{"type":"host-local","x":1},"dns":{"nameservers":["192.0.2.1"],"domain":"d"},
	 "prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/c1"}]}}`
	req, err := netconf.Parse(with("ADD", "CNI_PATH=/a::/b", "CNI_ARGS=K=V=;L=").get, strings.NewReader(conf))
	check(t, err, 0)
	n := req.Network
	for name, ok := range map[string]bool{
		"command":       req.Command == netconf.Add,
		"path":          fmt.Sprint(req.Path) == "[/a /b]",
		"args":          req.Args["K"] == "V=" && len(req.Args) == 2,
		"config":        string(req.Config) == conf && string(n.Bytes()) == conf,
		"network":       n.Type == "macvlan" && n.IPMasq && n.Capabilities["mac"] && n.IPAM.Type == "host-local",
		"runtimeConfig": string(n.RuntimeConfig["mac"]) == `"02:00:00:00:00:01"`,
		"args.cni":      string(n.Args["cni"]) == `{"x":1}`,
		"dns":           n.DNS.Nameservers[0] == "192.0.2.1" && n.DNS.Domain == "d",
		"prev":          req.Prev != nil && netconf.Attached(req.Prev, "eth0") == 0 && netconf.Attached(req.Prev, "eth1") == -1,
		"result":        req.Result != nil && netconf.Attached(nil, "eth0") == -1,
		"versions":      n.Is("0.4.0") && n.Is("1.0.0") && !n.Is("1.1.0"),
		"warn":          req.Warn != nil,
	} {
		if !ok {
			t.Errorf("%s is wrong: %+v", name, req)
		}
	}
}

// The texts of people: what is no JSON object is code 6, says where, and hints at the usual mistakes.
func TestParseGarbage(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 100_000)
	for _, c := range []struct{ name, conf, words string }{
		{"hash comment", "{\"cniVersion\":\"1.1.0\",\"name\":\"n\", # parent\n \"mode\":\"bridge\"}", "line 1, column 35|no comments"},
		{"slash comment", "{\"name\":\"n\" // parent\n}", "line 1, column 13|no comments"},
		{"comment after the object", "{} # x", "no comments"},
		{"trailing comma", "{\"name\":\"n\",\n}", "line 2, column 1|comma too many"},
		{"trailing comma in a list", `{"a":[1,]}`, "comma too many"},
		{"two documents", minimal + "\n" + minimal + "\n", "line 2, column 1|one object and nothing after it"},
		{"trailing data", minimal + " x", "column 46|one object and nothing after it"},
		{"a brace too many", "{}}", "column 3|nothing after it"},
		{"byte-order mark", "\xef\xbb\xbf" + minimal, "byte-order mark"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "not JSON"},
		{"empty", "", "empty: expected a JSON object"},
		{"white space alone", " \n\t\n", "empty"},
		{"not closed", `{"name":"n"`, "not closed"},
		{"quote not closed", `{"name":"n`, "not closed"},
		{"array", "[1]", "expected an object, got an array"},
		{"string", ` "x"`, "column 2|expected an object, got a string"},
		{"number", "12", "expected an object, got the number 12"},
		{"null", "null", "expected an object, got null"},
		{"boolean", "true", "expected an object, got a boolean"},
		{"deep arrays", deep, "max depth"},
		{"deep objects", `{"a":` + strings.Repeat(`{"a":`, 100_000), "max depth"},
		{"NUL", "\x00", "not JSON"},
		{"control character in a string", "{\"name\":\"a\nb\"}", "line 1, column 11"},
		{"single quotes", "{'name':'n'}", "line 1, column 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, verb := range []string{"ADD", "CHECK", "GC", "STATUS"} {
				_, err := netconf.Parse(with(verb).get, strings.NewReader(c.conf))
				check(t, err, 6, strings.Split(c.words, "|")...)
			}
			req, err := netconf.Parse(with("DEL").get, strings.NewReader(c.conf))
			check(t, err, 0)
			check(t, req.Warnings(), 6)
			if req.Network.CNIVersion != "0.1.0" {
				t.Errorf("version %q", req.Network.CNIVersion)
			}
		})
	}
	if _, err := netconf.Parse(with("ADD").get, strings.NewReader(minimal+"\n\n \t\n")); err != nil {
		t.Errorf("trailing white space is legal: %v", err)
	}
}

func TestParseSizeAndReadErrors(t *testing.T) {
	t.Parallel()
	huge := func() io.Reader {
		return io.MultiReader(strings.NewReader(`{"a":"`), strings.NewReader(strings.Repeat("x", 17<<20)), strings.NewReader(`"}`))
	}
	broken := func() io.Reader {
		return io.MultiReader(strings.NewReader(`{"na`), iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	_, err := netconf.Parse(with("ADD").get, huge())
	check(t, err, 6, "larger than 16777216 bytes")
	_, err = netconf.Parse(with("ADD").get, broken())
	check(t, err, 5, "stdin: unexpected EOF")
	for code, in := range map[uint]io.Reader{6: huge(), 5: broken()} {
		req, err := netconf.Parse(with("DEL").get, in)
		check(t, err, 0)
		check(t, req.Warnings(), code)
		if req.Network.CNIVersion != "0.1.0" {
			t.Errorf("version %q, expected the oldest", req.Network.CNIVersion)
		}
	}
	req, err := netconf.Parse(with("VERSION").get, strings.NewReader(" \n"))
	check(t, err, 0)
	if len(req.Config) != 0 {
		t.Errorf("config %q", req.Config)
	}
	_, err = netconf.Parse(with("VERSION").get, strings.NewReader("{"))
	check(t, err, 6)
	_, err = netconf.Parse(with("VERSION").get, strings.NewReader(`{"cniVersion":"1.0.0"}`))
	check(t, err, 0)
}

func TestParseVersionKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		value, version string
		code           uint
	}{
		{``, "0.1.0", 0},
		{`"cniVersion":"",`, "0.1.0", 0},
		{`"cniVersion":null,`, "0.1.0", 0},
		{`"cniVersion":"9.9.9",`, "9.9.9", 0}, // the plugin, which knows what it supports, refuses it
		{`"cniVersion":"v1.1.0",`, "v1.1.0", 0},
		{`"cniVersion":"null",`, "null", 0},
		{`"cniVersion":1.1,`, "0.1.0", 6},
		{`"cniVersion":[],`, "0.1.0", 6},
		{`"cniVersion":{},`, "0.1.0", 6},
		{`"cniVersion":true,`, "0.1.0", 6},
	} {
		req, err := netconf.Parse(with("ADD").get, strings.NewReader("{"+c.value+`"name":"n","type":"t"}`))
		if req.Network.CNIVersion != c.version {
			t.Errorf("%s: version %q, expected %q", c.value, req.Network.CNIVersion, c.version)
		}
		if c.code != 0 {
			check(t, err, c.code, "cniVersion (line 1, column 15): expected a string")
		} else {
			check(t, err, 0)
		}
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"1.1.0", "1.1.0", true}, {"1.10.0", "1.9.0", true}, {"0.4.0", "1.0.0", false}, {"1.0.1", "1.0.0", true},
		{"v1.1.0", "1.0.0", false}, {"1.1", "1.1.0", true}, {"", "0.1.0", false}, {"99999999999999999999.0.0", "1.0.0", false}, {"1.-1.0", "1.0.0", true},
	} {
		if got := (netconf.Network{CNIVersion: c.a}).Is(c.b); got != c.want {
			t.Errorf("%q is at least %q: %v", c.a, c.b, got)
		}
	}
}

func TestParseName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{`""`, `"a b"`, `"a/b"`, `".a"`, `"é"`, `null`} {
		for _, verb := range []string{"ADD", "CHECK", "GC", "STATUS"} {
			conf := strings.Replace(gc(""), `"n"`, name, 1)
			_, err := netconf.Parse(with(verb).get, strings.NewReader(conf))
			check(t, err, 7, "name (line 1, column 30): network name")
		}
	}
	_, err := netconf.Parse(with("ADD").get, strings.NewReader(`{"type":"t"}`))
	check(t, err, 7, "configuration: name: network name: missing")
	_, err = netconf.Parse(with("ADD").get, strings.NewReader(`{"name":5}`))
	check(t, err, 6, "expected a string, got the number 5")
	if strings.Contains(err.Error(), "missing") {
		t.Errorf("said twice: %v", err)
	}
}

// A list that is nearly spelled right must not make GC destroy what lives.
func TestParseDoesNotGuessTheListOfGC(t *testing.T) {
	t.Parallel()
	_, err := netconf.Parse(with("GC").get, strings.NewReader(`{"cniVersion":"1.1.0","name":"n","type":"t","CNI.dev/valid-attachments":[]}`))
	check(t, err, 7, "cni.dev/valid-attachments: missing")
}

func TestParseTellsAListFromAPlugin(t *testing.T) {
	t.Parallel()
	list := `{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"macvlan"}]}`
	_, err := netconf.Parse(with("ADD").get, strings.NewReader(list))
	check(t, err, 7, "plugins (line 1, column 46): this is a list of plugins (a conflist)")
	if _, err := netconf.Parse(with("DEL").get, strings.NewReader(list)); err != nil {
		t.Errorf("DEL: %v", err)
	}
	if _, err := netconf.Parse(with("ADD").get, strings.NewReader(`{"cniVersion":"1.1.0","name":"net","type":"meta","plugins":[]}`)); err != nil {
		t.Errorf("a plugin with a key of that name: %v", err)
	}
}

func TestParseGCKeepsWhatItCannotRead(t *testing.T) {
	t.Parallel()
	const key = "cni.dev/valid-attachments"
	list := func(more string) string { return `{"cniVersion":"1.1.0","name":"n"` + more + `}` }
	for _, c := range []struct {
		name, conf string
		code       uint
		want       int // attachments; -1: nil
		words      string
	}{
		{"absent", list(``), 7, -1, key + ": missing"},
		{"null", list(`,"` + key + `":null`), 7, -1, key + " (line 1, column 62): missing"},
		{"both null", list(`,"` + key + `":null,"cni.dev/attachments":null`), 7, -1, "missing"},
		{"empty", list(`,"` + key + `":[]`), 0, 0, ""},
		{"one", list(`,"` + key + `":[{"containerID":"c","ifname":"eth0"}]`), 0, 1, ""},
		{"old key", list(`,"cni.dev/attachments":[{"containerID":"c","ifname":"eth0"}]`), 0, 1, ""},
		{"old key empty", list(`,"cni.dev/attachments":[]`), 0, 0, ""},
		{"new key null, old key there", list(`,"` + key + `":null,"cni.dev/attachments":[{"containerID":"c","ifname":"eth0"}]`), 0, 1, ""},
		{"both the same", list(`,"` + key + `":[{"containerID":"c","ifname":"eth0"}],"cni.dev/attachments":[{"containerID":"c","ifname":"eth0"}]`), 0, 1, ""},
		{"both different: alive is who is in either", list(`,"` + key + `":[],"cni.dev/attachments":[{"containerID":"c","ifname":"eth0"}]`), 0, 1, ""},
		{"both overlap", list(`,"` + key + `":[{"containerID":"c","ifname":"eth0"},{"containerID":"d","ifname":"eth0"}],"cni.dev/attachments":[{"containerID":"c","ifname":"eth0"},{"containerID":"e","ifname":"eth0"}]`), 0, 3, ""},
		{"no containerID", list(`,"` + key + `":[{"containerID":"c","ifname":"eth0"},{"ifname":"eth0"}]`), 7, 2, key + "[1].containerID: missing"},
		{"no ifname", list(`,"` + key + `":[{"containerID":"c"}]`), 7, 1, key + "[0].ifname: missing"},
		{"null entry", list(`,"` + key + `":[null]`), 7, 1, key + "[0].containerID: missing|[0].ifname: missing"},
		{"bad id, old key", list(`,"cni.dev/attachments":[{"containerID":"/","ifname":"eth0"}]`), 7, 1, "cni.dev/attachments[0].containerID (line 1, column 72): \"/\""},
		{"not a list", list(`,"` + key + `":{}`), 6, -1, key + " (line 1, column 62): expected an array, got an object"},
		{"strings", list(`,"` + key + `":["c"]`), 6, 1, key + "[0] (line 1, column 63): expected an object, got a string"},
		{"a number as id", list(`,"` + key + `":[{"containerID":1,"ifname":"e"}]`), 6, 1, key + "[0].containerID"},
		{"what does not concern it", list(`,"` + key + `":[],"ipMasq":"yes","ipam":5,"prevResult":{"ips":[null]}`), 0, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req, err := netconf.Parse(with("GC").get, strings.NewReader(c.conf))
			check(t, err, c.code, strings.Split(c.words, "|")...)
			if c.code == 6 && strings.Contains(err.Error(), "missing") {
				t.Errorf("said twice: %v", err)
			}
			got := len(req.Network.ValidAttachments)
			if req.Network.ValidAttachments == nil {
				got = -1
			}
			if got != c.want {
				t.Errorf("%d attachments, expected %d", got, c.want)
			}
		})
	}
	req, err := netconf.Parse(with("GC").get, strings.NewReader(gc(`,"ipMasq":"yes"`)))
	check(t, err, 0)
	check(t, req.Warnings(), 6, "ipMasq")
}

// A million wrong entries cost a walk each only as far as they are told.
func TestParseManyErrorsAreCut(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`5,`, 200_000) + `5`
	_, err := netconf.Parse(with("GC").get, strings.NewReader(`{"cniVersion":"1.1.0","name":"n","cni.dev/valid-attachments":[`+many+`]}`))
	check(t, err, 6, "cni.dev/valid-attachments[19]", "and 199981 more errors")
	if n := len(err.Error()); n > 10_000 {
		t.Errorf("the error has %d bytes", n)
	}
	many = strings.Repeat(`{},`, 100_000) + `{}`
	_, err = netconf.Parse(with("GC").get, strings.NewReader(`{"cniVersion":"1.1.0","name":"n","cni.dev/valid-attachments":[`+many+`]}`))
	check(t, err, 7, "[9].containerID: missing")
	_, err = netconf.ParseResult([]byte(`{"cniVersion":"1.0.0","ips":[`+many+`]}`), "1.0.0")
	check(t, err, 6, "ips[19].address")
}
