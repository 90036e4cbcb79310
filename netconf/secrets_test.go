package netconf_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
)

// TestNoSecretIsPrinted puts secrets of several shapes wherever a value can stand, and looks for them in
// all that is said about it.
func TestNoSecretIsPrinted(t *testing.T) {
	t.Parallel()
	texts := []string{
		"hunter2-hunter2", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "AKIAIOSFODNN7EXAMPLE/wJalrXUtnFEMI", "abcdef.0123456789abcdef",
		"deadbeefdeadbeefdeadbeef", "6f1ed002-ab5d-4a3f-8c11-0123456789ab", "correct horse battery staple", strings.Repeat("0123456789abcdef", 100),
	}
	places := []string{ // @ is the secret
		// the specification's keys, of the wrong kind or the wrong form
		`"cniVersion":{"x":"@"}`, `"name":["@"]`, `"type":{"x":"@"}`, `"capabilities":"@"`, `"capabilities":{"mac":"@"}`, `"ipMasq":"@"`, `"dns":"@"`, `"dns":{"search":"@"}`, `"dns":{"nameservers":[{"x":"@"}]}`,
		`"ipam":"@"`, `"ipam":["@"]`, `"ipam":{"type":["@"],"password":"@"}`, `"ipam":{"type":"x","unknown":{"deep":["@"]}}`,
		`"args":"@"`, `"args":{"@x":1,"cni":"@"}`, `"args":{"cni":{"ips":"@","mac":"@","labels":"@"}}`, `"args":{"cni":{"ips":["@"],"mac":{"x":"@"},"labels":["@",{"key":5,"value":["@"]}],"token":"@"}}`,
		`"runtimeConfig":"@"`, `"runtimeConfig":{"portMappings":"@","ipRanges":"@","ips":"@","mac":"@","bandwidth":"@","dns":"@","aliases":{"n":"@"},"infinibandGUID":"@","deviceID":["@"],"cgroupPath":["@"],"io.kubernetes.cri.pod-annotations":"@","vendor":"@"}`,
		`"runtimeConfig":{"portMappings":[{"hostPort":"@","protocol":"x@","hostIP":"@"}],"ipRanges":[[{"subnet":"@","rangeStart":"@","gateway":"@"}]],"ips":["@"],"mac":["@"],"bandwidth":{"ingressRate":"@","egressBurst":"@"},"dns":{"servers":"@"},"aliases":"@","io.kubernetes.cri.pod-annotations":{"token":["@"]}}`,
		`"cni.dev/valid-attachments":"@"`, `"cni.dev/valid-attachments":[{"containerID":["@"],"ifname":["@"]}]`, `"cni.dev/future":"@"`,
		`"prevResult":"@"`, `"prevResult":{"ips":"@"}`, `"prevResult":{"ips":[{"address":"@","gateway":"@","interface":"@"}]}`, `"prevResult":{"interfaces":[{"name":["@"],"mac":["@"],"mtu":"@"}],"routes":[{"dst":"@","gw":"@","table":"@"}],"dns":"@","vendor":"@"}`,
		`"prevResult":{"ip4":{"ip":"@"},"vendor":{"token":"@"}}`,
		// the plugin's
		`"prefix":"@"`, `"addr":"@"`, `"ip":"@"`, `"mac":"@"`, `"duration":"@"`, `"quantity":"@"`, `"mode":"x@"`, `"modePtr":["@"]`, `"number":"@"`, `"on":"@"`, `"list":"@"`, `"list":[{"x":"@"}]`, `"sub":"@"`, `"sub":{"unknown":"@"}`, `"net":"@"`, `"cidr":"@"`, `"apiToken":{"x":"@"}`,
		`"unknown":"@"`, `"unknown":["@"]`, `"unknown":{"@x":"@"}`, `"token":"@"`, `"text":"a","text":"@"`, `"TEXT":"@"`,
		// what is not JSON
		`"text":"@`, `"text":"@",`, `"text":@`, `"text":"@"} "@`,
	}
	for _, place := range places {
		for i, secret := range texts {
			t.Run(fmt.Sprint(place, i), func(t *testing.T) {
				t.Parallel()
				config := strings.TrimSuffix(minimal, "}") + "," + strings.ReplaceAll(place, "@", secret) + "}"
				args := "IgnoreUnknown=1;TOKEN=a;" + secret + ";IP=" + secret + ";MAC=" + secret
				for _, said := range append(everything(t, config, ""), everything(t, config, args)...) {
					if leaks(said, secret) {
						t.Errorf("%q is in %.300q", secret, said)
					}
				}
			})
		}
	}
}

// leaks tells whether a text shows a secret, or a good part of it.
func leaks(text, secret string) bool {
	return strings.Contains(text, secret) || len(secret) > 24 && strings.Contains(text, secret[:24])
}

// everything is all that is said about a call, by each verb, strict or not.
func everything(t *testing.T, config, args string) (said []string) {
	type conf struct {
		fields
		Number int             `json:"number"`
		On     bool            `json:"on"`
		List   []string        `json:"list"`
		Sub    struct{ A int } `json:"sub"`
		Net    types.IPNet     `json:"net"`
		CIDR   types.IPNet     `json:"cidr"`
		Text   string          `json:"text"`
		Token  string          `json:"apiToken"`
	}
	hear := func(err error) {
		if err == nil {
			return
		}
		said = append(said, err.Error())
		var coded *types.Error
		if errors.As(err, &coded) {
			said = append(said, coded.Msg, coded.Details)
		}
	}
	for _, verb := range []string{"ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"} {
		req, err := netconf.Parse(with(verb, "CNI_ARGS="+args).get, strings.NewReader(config))
		hear(err)
		hear(req.Warnings())
		req.Warn = func(msg string, args ...any) { said = append(said, msg+fmt.Sprint(args...)) }
		for _, req.Strict = range []bool{false, true} {
			_, err = netconf.Decode[conf](req, nil)
			hear(err)
		}
		req.MAC(nil)
		req.IPs()
		req.CNIArgs()
		req.Runtime()
		req.Pod()
		hear(req.Rejected())
	}
	return said
}

// Texts that came by the environment and are not names show at most their beginning.
func TestNoLongNameIsPrinted(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("/0123456789abcdef", 5000)
	for _, variable := range []string{"CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME"} {
		_, err := netconf.Parse(with("ADD", variable+"="+long).get, strings.NewReader(minimal))
		check(t, err, 4, variable)
		if len(err.Error()) > 300 {
			t.Errorf("%s: an error of %d bytes", variable, len(err.Error()))
		}
	}
	config := strings.TrimSuffix(minimal, "}") + `,"` + long + `":1,"byName":{"` + long + `":"x"},"prevResult":{"cniVersion":"` + long + `"}}`
	_, err := netconf.Parse(with("ADD").get, strings.NewReader(config))
	check(t, err, 1)
	if len(err.Error()) > 500 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
	req := &netconf.Request{Command: netconf.Add, Config: []byte(config), Strict: true}
	_, err = netconf.Decode[oddConf](req, nil)
	check(t, err, 2, "unknown key", "byName./0123")
	if len(err.Error()) > 1500 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

// A password can be as short as a word: what stands under a key that nobody knows is not shown, whatever its length.
func TestAShortPasswordUnderAnUnknownKeyIsNotShown(t *testing.T) {
	t.Parallel()
	type conf struct {
		Master string `json:"master"`
		APIKey string `json:"apiKey"`
		Number int    `json:"simPIN"`
	}
	for _, c := range []struct{ member, shown, hidden string }{
		{`"wifi":"hunter2"`, "a string", "hunter2"}, {`"psk":"hunter2"`, "a string", "hunter2"}, {`"pwd":"a"`, "a string", `"a"`}, {`"x":""`, "a string", `""`},
		{`"apiKye":"hunter2"`, `a string; did you mean "apiKey"?`, "hunter2"}, {`"maste":"hunter2-hunter2"`, "a string", "hunter2"},
		{`"pin":1234`, "a number", "1234"}, {`"userPin":1234`, "a number", "1234"}, {`"USER_PIN":1234`, "a number", "1234"}, {`"pin":{"x":1234}`, "an object", "1234"}, {`"credit":[1234]`, "an array", "1234"},
		{`"dbPwd":1234`, "a number", "1234"}, {`"wpaPsk":1234`, "a number", "1234"}, {`"authId":1234`, "a number", "1234"}, {`"otp":123456`, "a number", "123456"}, {`"credNo":1234`, "a number", "1234"},
		{`"mster":"eth0"`, `value "eth0"; did you mean "master"?`, "?!"}, {`"mapping":5`, "value 5", "?!"}, {`"spinning":true`, "value true", "?!"}, {`"x":null`, "value null", "?!"},
		{`"simPIN":"x"`, "got a string", `"x"`}, {`"simPIN":1.25`, "got a number", "1.25"},
	} {
		req := &netconf.Request{Command: netconf.Add, Strict: true, Config: []byte("{" + c.member + "}")}
		_, err := netconf.Decode[conf](req, nil)
		if err == nil || !strings.Contains(err.Error(), c.shown) || strings.Contains(err.Error(), c.hidden) {
			t.Errorf("%s: %v, expected %q and no %q", c.member, err, c.shown, c.hidden)
		}
	}
}

// The types of the standard library repeat in their errors what they could not read.
func TestErrorOfAForeignTypeShowsNoSecret(t *testing.T) {
	t.Parallel()
	type conf struct {
		Addr   netip.Addr            `json:"addr"`
		Prefix netip.Prefix          `json:"prefix"`
		Port   netip.AddrPort        `json:"port"`
		Time   time.Time             `json:"time"`
		Big    *big.Int              `json:"big"`
		Level  slog.Level            `json:"level"`
		ByAddr map[netip.Addr]string `json:"byAddr"`
		Since  struct{ time.Time }   `json:"since"`
	}
	for _, c := range []struct{ member, shown string }{
		{`"addr":"@"`, "addr (line 1, column 9): invalid netip.Addr: a text of "}, {`"prefix":"@"`, "invalid netip.Prefix: a text of "}, {`"prefix":"10.0.0.0/@"`, "a text of "},
		{`"port":"@"`, "invalid netip.AddrPort"}, {`"time":"@"`, "invalid time.Time: a text of "}, {`"big":"@"`, "invalid big.Int: a text of "}, {`"big":{"x":["@"]}`, "invalid big.Int: an object"},
		{`"since":"@"`, ": a text of "}, {`"level":"@"`, "invalid slog.Level: a text of "}, {`"byAddr":{"@":"x"}`, "invalid map[netip.Addr]string: an object"},
		{`"addr":"10.0.0.256"`, `invalid netip.Addr: "10.0.0.256"`}, // what could be an address is none
	} {
		for _, secret := range []string{"hunter2-hunter2", "hunter2", `a\"quoted\"\u00e9 one`, strings.Repeat("0123456789abcdef", 100)} {
			config := "{" + strings.ReplaceAll(c.member, "@", secret) + "}"
			_, err := netconf.DecodeJSON[conf]([]byte(config), nil)
			check(t, err, 6, c.shown)
			var text string
			if json.Unmarshal([]byte(`"`+secret+`"`), &text) != nil || leaks(fmt.Sprint(err), text) || leaks(fmt.Sprint(err), secret) {
				t.Errorf("%s: %v", config, err)
			}
		}
	}
}
