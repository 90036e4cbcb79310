package netconf_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
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
		if _, again := netconf.Parse(env.get, strings.NewReader(config)); fmt.Sprint(err) != fmt.Sprint(again) {
			t.Errorf("first %v, then %v", err, again)
		}
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

// FuzzParseNetwork: what decodes is there whatever else is wrong, and of the two lists of attachments nothing is lost.
func FuzzParseNetwork(f *testing.F) {
	for _, c := range configs {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, config string) {
		n, err := netconf.ParseNetwork([]byte(config))
		coded(t, err)
		if n.CNIVersion == "" || string(n.Bytes()) != config {
			t.Errorf("%q of %q", n.CNIVersion, n.Bytes())
		}
		again, errAgain := netconf.ParseNetwork([]byte(config))
		if !reflect.DeepEqual(n, again) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Errorf("%+v (%v), then %+v (%v)", n, err, again, errAgain)
		}
		for _, a := range n.Attachments {
			if !slices.Contains(n.ValidAttachments, a) {
				t.Errorf("%v is in %v, and not in %v", a, n.Attachments, n.ValidAttachments)
			}
		}
		if err == nil && !json.Valid([]byte(config)) {
			t.Errorf("no error for %q", config)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, c := range configs {
		f.Add([]byte(c), false)
	}
	f.Add([]byte(`{"mtu":"x","list":[{"port":-1},null],"sysctl":{"a":"b"},"sub":{"nmae":1},"on":true,"byName":{"k":{"port":1}},"matrix":[[1]],"mac":"02:00:00:00:00:01"}`), true)
	f.Add([]byte(`{"prefix":"10.0.0.0/8","addr":"::1","ip":"10.0.0.1","mac":"02:00:00:00:00:01","duration":"1m","quantity":"1.5Gi","mode":"l2","modePtr":"l3"}`), true)
	f.Add([]byte(`{"prefix":"::ffff:1.2.3.4/128","addr":"fe80::1%x","ip":"1/1","duration":1e3,"quantity":-0.5e-3,"mode":"","modePtr":null}`), false)
	f.Fuzz(func(t *testing.T, config []byte, strict bool) {
		req := &netconf.Request{Command: netconf.Add, Config: config, Strict: strict}
		decodedAgain(t, config)
		got, err := netconf.Decode(req, defaults)
		coded(t, err)
		if got == nil {
			t.Fatal("no configuration")
		}
		if _, again := netconf.Decode(req, defaults); fmt.Sprint(err) != fmt.Sprint(again) {
			t.Errorf("first %v, then %v", err, again)
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

// decodedAgain checks that what decodes is the same when it is written and read again.
func decodedAgain(t *testing.T, config []byte) {
	first, err := netconf.DecodeJSON[fields](config, func() fields { return fields{Mode: "l2"} })
	coded(t, err)
	if err != nil {
		return
	}
	data, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := netconf.DecodeJSON[fields](data, nil)
	if err != nil || !reflect.DeepEqual(first, again) {
		t.Errorf("%s is %+v, written as %s and read as %+v (%v)", config, first, data, again, err)
	}
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

// FuzzPrevResult passes a prevResult through a chain of two plugins that change nothing: what the first makes of
// it is left as it is by the second, and no unknown member is lost.
func FuzzPrevResult(f *testing.F) {
	for _, s := range []string{prevText, resultText, "{" + vendored + "}", `{"cniVersion":"0.2.0","x":1,"ip4":{"ip":"10.0.0.1/8","y":2,"routes":[{"dst":"1.0.0.0/8","z":3}]}}`,
		`{"interfaces":[{"name":"a","x":1},{"name":"a","x":2}],"Interfaces":[{"name":"b"}],"ips":null}`, `{"dns":{"x":{}}}`, `{"":{"":""},"ips":[{"address":"::/0","":1}]}`} {
		for _, v := range []string{"1.1.0", "0.4.0", "0.2.0"} {
			f.Add([]byte(s), v)
		}
	}
	f.Fuzz(func(t *testing.T, prev []byte, version string) {
		first, ok := passedOn(t, prev, version)
		if !ok {
			return
		}
		second, ok := passedOn(t, first, version)
		if !ok || !bytes.Equal(first, second) {
			t.Errorf("first\n%sagain\n%s", first, second)
		}
		for key, value := range vendors(t, prev) {
			if kept := vendors(t, first)[key]; kept != value {
				t.Errorf("top-level %q: %s became %q in\n%s", key, value, kept, first)
			}
		}
	})
}

// passedOn is what a plugin prints for a prevResult.
func passedOn(t *testing.T, prev []byte, version string) ([]byte, bool) {
	quoted, err := json.Marshal(version)
	if err != nil {
		t.Fatal(err)
	}
	config := `{"cniVersion":` + string(quoted) + `,"name":"n","type":"t","prevResult":` + string(prev) + `}`
	req, err := netconf.Parse(with("ADD").get, strings.NewReader(config))
	coded(t, err)
	if err != nil {
		return nil, false
	}
	var out bytes.Buffer
	err = req.EncodeResult(&out)
	coded(t, err)
	return out.Bytes(), err == nil
}

// vendors is the unknown top-level members of a result, without white space; of one given twice the last.
func vendors(t *testing.T, result []byte) map[string]string {
	var all map[string]json.RawMessage
	out := map[string]string{}
	if json.Unmarshal(result, &all) != nil {
		return nil // null, or two members in place of one object
	}
	for key, value := range all {
		switch strings.ToLower(key) {
		case "cniversion", "interfaces", "ips", "routes", "dns", "ip4", "ip6":
		default:
			out[key] = compact(t, value)
		}
	}
	return out
}

func FuzzRuntimeConfig(f *testing.F) {
	for _, s := range []string{
		`{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"TCP","hostIP":"::"},{"hostPort":0}],"ips":["10.0.0.1","10.0.0.1/8"],"mac":"02:00:00:00:00:01"}`,
		`{"ipRanges":[[{"subnet":"10.0.0.0/8","rangeStart":"10.0.0.9","rangeEnd":"10.0.0.1"}],[]],"bandwidth":{"ingressRate":"1M","ingressBurst":7e9,"egressBurst":1}}`,
		`{"dns":{"servers":["x"]},"aliases":{"n":["a"]},"infinibandGUID":"c2:11:22:33:44:55:66:77","deviceID":"d","cgroupPath":"/","io.kubernetes.cri.pod-annotations":{"a":"b"},"x":1}`,
		`{"aliases":["a"],"mac":"","ips":[]}`, `null`, `[]`, `{"ips":[null]}`,
	} {
		f.Add([]byte(s), []byte(`{"ips":["fd00::1"],"mac":"02-00-00-00-00-02","labels":[{"key":"a","value":"b"}],"y":2}`), "IP=10.0.0.1, ::1;MAC=0200.0000.0001;K8S_POD_NAME=p")
	}
	f.Add([]byte(`{}`), []byte(`null`), "IP=,;MAC=x")
	f.Fuzz(func(t *testing.T, config, cni []byte, args string) {
		text := `{"cniVersion":"1.1.0","name":"n","type":"t","runtimeConfig":` + string(config) + `,"args":{"cni":` + string(cni) + `}}`
		req, err := netconf.Parse(with("ADD", "CNI_ARGS="+args).get, strings.NewReader(text))
		if coded(t, err); err != nil {
			return
		}
		mac, ips, c, a := req.MAC(nil), req.IPs(), req.Runtime(), req.CNIArgs()
		coded(t, req.Rejected())
		if mac != nil && (len(mac) != 6 || mac[0]&1 != 0) {
			t.Errorf("MAC %v", mac)
		}
		seen := map[string]bool{}
		for _, ip := range ips {
			if key := ip.Addr.String(); !ip.Addr.IsValid() || seen[key] || ip.Prefix.IsValid() && ip.Prefix.Addr() != ip.Addr {
				t.Errorf("%v in %v", ip, ips)
			} else {
				seen[key] = true
			}
		}
		for _, m := range c.PortMappings {
			if min(m.HostPort, m.ContainerPort) < 1 || max(m.HostPort, m.ContainerPort) > 65535 || !strings.Contains("tcp udp sctp", m.Protocol) {
				t.Errorf("port mapping %+v", m)
			}
		}
		for _, set := range c.IPRanges {
			if len(set) == 0 || !set[0].Subnet.IsValid() || set[0].Subnet.Masked() != set[0].Subnet.Prefix {
				t.Errorf("ranges %+v", set)
			}
		}
		if c.MAC != nil && mac.String() != c.MAC.String() || c.MAC == nil && req.Rejected() == nil && a.MAC != nil && mac.String() != a.MAC.String() {
			t.Errorf("MAC %v, of the runtime %v, of args.cni %v", mac, c.MAC, a.MAC)
		}
		said := fmt.Sprint(req.Rejected())
		again, err := netconf.Parse(with("ADD", "CNI_ARGS="+args).get, strings.NewReader(text))
		coded(t, err)
		if again.MAC(nil); again.IPs() == nil != (ips == nil) || !reflect.DeepEqual(again.Runtime(), c) || !reflect.DeepEqual(again.CNIArgs(), a) || fmt.Sprint(again.Rejected()) != said {
			t.Errorf("another answer: %v, before %s", again.Rejected(), said)
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
