package netconf_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

var configs = []string{
	minimal, `{"cniVersion":"0.2.0","name":"n","prevResult":{"ip4":{"ip":"10.0.0.1/8","routes":[{"dst":"0.0.0.0/0"}]}}}`,
	`{"name":"n","cni.dev/valid-attachments":[{"containerID":"c","ifname":"e"}],"cni.dev/attachments":null}`,
	`{"name":"n","ipam":{"type":"x"},"args":{"cni":{"mac":"02:00:00:00:00:01"}},"runtimeConfig":{"mac":5},"dns":{"search":["a"]}}`,
	" {\n \"a\" : [ 1.0, {\"b\":\"\\u0061}\"} ] ,\"A\":null}\n", `{"a":1,"a":2}`, `[]`, `{`, "", "\xef\xbb\xbf{}", "{}{}", "null", `{"":{"":""}}`,
}

// coded checks that an error has a code.
func coded(t *testing.T, err error) {
	if err == nil {
		return
	}
	if netconf.Code(err) == 999 {
		t.Errorf("an error without a code: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for i, c := range configs {
		f.Add([]string{"ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION", "?"}[i%7], "c1", "eth0", "A=1;B", c)
	}
	f.Fuzz(func(t *testing.T, command, id, ifname, args, config string) {
		env := call{"CNI_COMMAND": command, "CNI_CONTAINERID": id, "CNI_IFNAME": ifname, "CNI_ARGS": args, "CNI_NETNS": "/n", "CNI_PATH": "/p"}
		req, err := netconf.Parse(env.get, strings.NewReader(config))
		coded(t, err)
		if req == nil || req.Network.CNIVersion == "" && command != "VERSION" {
			t.Fatal("no request, or one without a version")
		}
		coded(t, req.Warnings())
		if command == "DEL" && err != nil && !strings.Contains(err.Error(), "CNI_") {
			t.Errorf("DEL fails for more than its variables: %v", err)
		}
		if err != nil || command != "ADD" {
			return
		}
		req.MAC(nil)
		coded(t, req.Rejected())
		var out bytes.Buffer
		if err := req.EncodeResult(&out); err != nil {
			coded(t, err)
		} else if !json.Valid(out.Bytes()) {
			t.Errorf("not JSON: %s", out.Bytes())
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, c := range configs {
		f.Add([]byte(c), false)
	}
	f.Add([]byte(`{"mtu":"x","list":[{"port":-1},null],"sysctl":{"a":"b"},"sub":{"nmae":1},"on":true,"byName":{"k":{"port":1}},"matrix":[[1]],"mac":"02:00:00:00:00:01"}`), true)
	f.Fuzz(func(t *testing.T, config []byte, strict bool) {
		req := &netconf.Request{Command: netconf.Add, Config: config, Strict: strict}
		got, err := netconf.Decode(req, defaults)
		coded(t, err)
		if got == nil {
			t.Fatal("no configuration")
		}
		// What encoding/json takes is taken, unless an unknown key is no good.
		if std := defaults(); json.Unmarshal(config, &std) == nil && !strict && bytes.HasPrefix(bytes.TrimSpace(config), []byte("{")) && err != nil {
			t.Errorf("encoding/json takes it: %v", err)
		}
		req.Command = netconf.Del
		if _, err := netconf.Decode(req, defaults); err != nil {
			t.Errorf("DEL: %v", err)
		}
	})
}

func FuzzArgs(f *testing.F) {
	for _, s := range []string{"", "A=1", "IgnoreUnknown=1;A=b=c;", ";;=;X", "IgnoreUnknown=maybe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args, err := netconf.ParseArgs(s)
		coded(t, err)
		if again, err := netconf.ParseArgs(args.String()); err != nil || !maps.Equal(again, args) {
			t.Errorf("%q: %v, written and read again %v (%v)", s, args, again, err)
		}
		if err := netconf.CheckIfName(s); err == nil && (len(s) > 15 || strings.ContainsAny(s, "/: \t\n%\x00")) {
			t.Errorf("%q is no link name", s)
		}
	})
}

func FuzzParseResult(f *testing.F) {
	for _, s := range []string{prevText, resultText, `{"ip4":{"ip":"10.0.0.1/8","gateway":"10.0.0.2","routes":[{"dst":"1.0.0.0/8"}]},"ip6":{"ip":"fd00::1/64"}}`,
		`{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.0.0.1/8"}]}`, `{"ips":[null]}`, `{}`} {
		f.Add([]byte(s), "1.1.0")
		f.Add([]byte(s), "0.2.0")
	}
	f.Fuzz(func(t *testing.T, data []byte, assumed string) {
		r, err := netconf.ParseResult(data, assumed)
		coded(t, err)
		if err != nil {
			return
		}
		for _, v := range versions {
			var first, second bytes.Buffer
			err := netconf.EncodeResult(&first, nil, r, v)
			if netconf.Code(err) == 7 && v < "0.3.0" {
				continue // more addresses than the version has room for
			}
			if err != nil {
				t.Fatalf("%s: what was read cannot be written: %v", v, err)
			}
			again, err := netconf.ParseResult(first.Bytes(), "")
			if err != nil {
				t.Fatalf("%s: what was written cannot be read: %v\n%s", v, err, first.Bytes())
			}
			if err := netconf.EncodeResult(&second, nil, again, v); err != nil || first.String() != second.String() {
				t.Errorf("%s: %v, first\n%sagain\n%s", v, err, first.Bytes(), second.Bytes())
			}
		}
	})
}

// The members of an object, in order, as written. Those with the key are left out.
func others(t *testing.T, object []byte, key string) (out []string) {
	d := json.NewDecoder(bytes.NewReader(object))
	token := func() json.Token {
		tok, err := d.Token()
		if err != nil {
			t.Fatalf("%v in %q", err, object)
		}
		return tok
	}
	for token(); d.More(); {
		name := token().(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		if name != key {
			out = append(out, name+"\x00"+string(value))
		}
	}
	return out
}

func FuzzPatch(f *testing.F) {
	for _, c := range configs {
		f.Add([]byte(c), "a", []byte(`{"x":1}`))
		f.Add([]byte(c), "name", []byte(nil))
	}
	f.Fuzz(func(t *testing.T, config []byte, key string, value []byte) {
		if len(value) == 0 {
			value = nil
		}
		out, err := netconf.Patch(config, key, value)
		coded(t, err)
		if err != nil {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("not JSON: %q", out)
		}
		key = strings.ToValidUTF8(key, "\ufffd") // as JSON writes it; a run of bad bytes is one mark here
		if !bytes.Equal([]byte(key), []byte(strings.ToValidUTF8(key, ""))) || strings.Contains(key, "\ufffd") {
			return
		}
		was, is := others(t, config, key), others(t, out, key)
		if strings.Join(was, "\x01") != strings.Join(is, "\x01") {
			t.Errorf("others changed:\n%q\n%q", config, out)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatal(err)
		}
		if set, ok := got[key]; ok != (value != nil) || ok && !bytes.Equal(set, bytes.TrimSpace(value)) {
			t.Errorf("%q: set to %q, expected %q", out, set, value)
		}
	})
}
