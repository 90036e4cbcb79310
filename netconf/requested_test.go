package netconf_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// ask is a call with members added to the configuration.
func ask(t testing.TB, members string, args string) *netconf.Request {
	t.Helper()
	req, err := netconf.Parse(with("ADD", "CNI_ARGS="+args).get, strings.NewReader(strings.TrimSuffix(minimal, "}")+members+"}"))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// rejected compares what Reject noted with the code and the words it should have, separated by '|'; code 0: nothing.
func rejected(t *testing.T, req *netconf.Request, code uint, words string) {
	t.Helper()
	check(t, req.Rejected(), code, strings.Split(words, "|")...)
}

func TestMACPrecedence(t *testing.T) {
	t.Parallel()
	const runtime, cni, env, own = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03", "02:00:00:00:00:04"
	for _, c := range []struct {
		members, args, own, want string
		code                     uint
		words                    string
	}{
		{`,"runtimeConfig":{"mac":"` + runtime + `"},"args":{"cni":{"mac":"` + cni + `"}}`, "MAC=" + env, own, runtime, 0, ""},
		{`,"args":{"cni":{"mac":"` + cni + `"}}`, "MAC=" + env, own, cni, 0, ""},
		{``, "MAC=" + env, own, env, 0, ""},
		{``, ``, own, own, 0, ""},
		{``, ``, ``, ``, 0, ""},
		{`,"runtimeConfig":{"mac":""},"args":{"cni":{"mac":""}}`, "MAC=", own, own, 0, ""}, // empty is not set
		{`,"runtimeConfig":{"mac":null},"args":{"cni":null}`, ``, own, own, 0, ""},
		{`,"args":{"cni":"text"}`, ``, own, own, 0, ""}, // args may be ignored
		{`,"runtimeConfig":{"mac":"02-00-00-00-00-01"}`, ``, ``, runtime, 0, ""},
		{`,"runtimeConfig":{"mac":"0200.0000.0001"}`, ``, ``, runtime, 0, ""},
		{`,"runtimeConfig":{"mac":"` + runtime + `"},"args":{"cni":{"mac":5}}`, "MAC=x", own, runtime, 0, ""}, // the lower ones are not looked at
		{`,"runtimeConfig":{"mac":5}`, "MAC=" + env, own, own, 6, "runtimeConfig.mac (line 1, column 68): expected an Ethernet address such as 02:00:00:00:00:01, got the number 5"},
		{`,"runtimeConfig":{"mac":"01:00:00:00:00:01"}`, ``, own, own, 7, `runtimeConfig.mac (line 1, column 68): "01:00:00:00:00:01" is a multicast`},
		{`,"runtimeConfig":{"mac":"02:00:00:00:00"}`, ``, own, own, 7, `"02:00:00:00:00" is not an Ethernet address`},
		{`,"args":{"cni":{"mac":"nonsense"}}`, ``, own, own, 7, `args.cni.mac (line 1, column 66): a text of 8 bytes is not an Ethernet address`},
		{``, "MAC=nonsense", own, own, 4, `environment: CNI_ARGS: MAC: a text of 8 bytes is not an Ethernet address`},
	} {
		t.Run(c.members+c.args, func(t *testing.T) {
			t.Parallel()
			req := ask(t, c.members, c.args)
			var own netconf.MAC
			check(t, own.UnmarshalText([]byte(c.own)), 0)
			for range 2 { // asked again it says the same, once
				if got := req.MAC(own).String(); got != c.want {
					t.Errorf("%q, expected %q", got, c.want)
				}
			}
			rejected(t, req, c.code, c.words)
			if err := req.Rejected(); err != nil && strings.Contains(err.Error(), "; configuration") {
				t.Errorf("said twice: %v", err)
			}
		})
	}
}

func TestDefaultMetric(t *testing.T) {
	t.Parallel()
	for members, c := range map[string]struct {
		want  int
		code  uint
		words string
	}{
		``:                                       {},
		`,"args":{"cni":{"defaultMetric":4097}}`: {want: 4097},
		`,"args":{"cni":{"defaultMetric":4294967295}}`: {want: 4294967295},
		`,"args":{"cni":{"defaultMetric":null}}`:       {},
		`,"args":{"cni":"text"}`:                       {},
		`,"args":{"cni":{"defaultMetric":-1}}`:         {0, 6, "args.cni.defaultMetric"},
		`,"args":{"cni":{"defaultMetric":4294967296}}`: {0, 6, "args.cni.defaultMetric"},
		`,"args":{"cni":{"defaultMetric":"x"}}`:        {0, 6, "args.cni.defaultMetric"},
	} {
		t.Run(members, func(t *testing.T) {
			t.Parallel()
			req := ask(t, members, "")
			if got := req.DefaultMetric(); got != c.want {
				t.Errorf("%d: expected %d", got, c.want)
			}
			if c.code != 0 {
				rejected(t, req, c.code, c.words)
			}
		})
	}
}

func TestIPsPrecedence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		members, args, want string
		code                uint
		words               string
	}{
		{`,"runtimeConfig":{"ips":["10.0.0.1/24","fd00::1"]},"args":{"cni":{"ips":["10.0.0.2"]}}`, "IP=10.0.0.3", "[10.0.0.1/24 fd00::1]", 0, ""},
		{`,"args":{"cni":{"ips":["10.0.0.2"]}}`, "IP=10.0.0.3", "[10.0.0.2]", 0, ""},
		{`,"args":{"cni":{"ips":["10.0.0.2"]}},"runtimeConfig":{"ips":[]}`, "", "[10.0.0.2]", 0, ""},
		{``, "IP=10.0.0.3/8", "[10.0.0.3/8]", 0, ""},
		{``, "IP=10.0.0.3/8, fd00::3/64", "[10.0.0.3/8 fd00::3/64]", 0, ""},
		{``, "", "[192.0.2.9/24]", 0, ""},
		{``, "IP=", "[192.0.2.9/24]", 0, ""},
		{`,"runtimeConfig":{"ips":null},"args":{"cni":{"ips":[]}}`, "", "[192.0.2.9/24]", 0, ""},
		{`,"args":{"cni":["x"]}`, "", "[192.0.2.9/24]", 0, ""},
		{`,"runtimeConfig":{"ips":["10.0.0.1"]},"args":{"cni":{"ips":5}}`, "IP=x", "[10.0.0.1]", 0, ""},
		{`,"runtimeConfig":{"ips":["10.0.0.1/24","10.0.0.1/24"]}`, "", "[10.0.0.1/24]", 0, ""},
		{`,"runtimeConfig":{"ips":["10.0.0.1/24","10.0.0.1/16"]}`, "", "[192.0.2.9/24]", 7, "runtimeConfig.ips[1] (line 1, column 83): 10.0.0.1/16 is asked for already, as 10.0.0.1/24"},
		{`,"runtimeConfig":{"ips":["10.0.0.1","10.0.0.1/16"]}`, "", "[192.0.2.9/24]", 7, "asked for already, as 10.0.0.1"},
		{`,"runtimeConfig":{"ips":"10.9.0.80/24"}`, "IP=10.0.0.3", "[192.0.2.9/24]", 6, "runtimeConfig.ips (line 1, column 68): expected an array, got a string"},
		{`,"runtimeConfig":{"ips":["10.9.0.1",5]}`, "", "[192.0.2.9/24]", 6, "runtimeConfig.ips[1] (line 1, column 80): expected an IP address with or without a prefix length, such as 10.0.0.5/24 or fd00::5, got the number 5"},
		{`,"runtimeConfig":{"ips":["10.9.0.300"]}`, "", "[192.0.2.9/24]", 7, `runtimeConfig.ips[0] (line 1, column 69): "10.9.0.300" is not an IP address`},
		{`,"runtimeConfig":{"ips":["10.9.0.1/33"]}`, "", "[192.0.2.9/24]", 7, `"10.9.0.1/33" has a bad prefix length: expected 0 to 32`},
		{`,"runtimeConfig":{"ips":[null]}`, "", "[192.0.2.9/24]", 7, "runtimeConfig.ips[0] (line 1, column 69): missing: expected an IP address"},
		{`,"runtimeConfig":{"ips":[""]}`, "", "[192.0.2.9/24]", 7, "missing"},
		{`,"runtimeConfig":{"ips":["0.0.0.0/24"]}`, "", "[192.0.2.9/24]", 7, "0.0.0.0/24 cannot be the address of an interface"},
		{`,"args":{"cni":{"ips":["ff02::1"]}}`, "", "[192.0.2.9/24]", 7, "args.cni.ips[0] (line 1, column 67): ff02::1 cannot be"},
		{``, "IP=10.0.0.300", "[192.0.2.9/24]", 4, `environment: CNI_ARGS: IP: "10.0.0.300" is not an IP address`},
		{``, "IP=10.0.0.3,", "[192.0.2.9/24]", 4, "CNI_ARGS: IP: address 2: missing"},
	} {
		t.Run(c.members+c.args, func(t *testing.T) {
			t.Parallel()
			var own netconf.IP
			check(t, own.UnmarshalText([]byte("192.0.2.9/24")), 0)
			req := ask(t, c.members, c.args)
			for range 2 {
				if got := fmt.Sprint(req.IPs(own)); got != c.want {
					t.Errorf("%s, expected %s", got, c.want)
				}
			}
			rejected(t, req, c.code, c.words)
		})
	}
	if ips := ask(t, "", "").IPs(); ips != nil {
		t.Errorf("nobody asked: %v", ips)
	}
}

func TestCNIArgs(t *testing.T) {
	t.Parallel()
	req := ask(t, `,"args":{"other":1,"cni":{"ips":["10.0.0.1","fd00::1/64"],"mac":"02:00:00:00:00:01","labels":[{"key":"app","value":"x"}],"big":9007199254740993}}`, "")
	c := req.CNIArgs()
	rejected(t, req, 0, "")
	if fmt.Sprint(c.IPs) != "[10.0.0.1 fd00::1/64]" || c.MAC.String() != "02:00:00:00:00:01" || !reflect.DeepEqual(c.Labels, []netconf.Label{{Key: "app", Value: "x"}}) ||
		len(c.Other) != 1 || string(c.Other["big"]) != "9007199254740993" {
		t.Errorf("%+v", c)
	}
	// The request keeps what it got.
	if !strings.Contains(string(req.Network.Args["cni"]), "labels") || len(req.CNIArgs().Other) != 1 {
		t.Errorf("%s", req.Network.Args["cni"])
	}
	for _, none := range []string{``, `,"args":null`, `,"args":{}`, `,"args":{"cni":null}`, `,"args":{"cni":[]}`, `,"args":{"cni":"x"}`, `,"args":{"cni":{}}`} {
		req := ask(t, none, "")
		if c := req.CNIArgs(); !reflect.DeepEqual(c, netconf.CNIArgs{}) || req.Rejected() != nil {
			t.Errorf("%s: %+v, %v", none, c, req.Rejected())
		}
	}
	bad := `,"args":{"cni":{"ips":["x"],"mac":5,"labels":[{"key":1}]}}`
	req = ask(t, bad, "")
	if c := req.CNIArgs(); !reflect.DeepEqual(c, netconf.CNIArgs{}) {
		t.Errorf("%+v", c)
	}
	rejected(t, req, 7, "args.cni.ips[0] (line 1, column 67)|args.cni.mac (line 1, column 78)|args.cni.labels[0].key (line 1, column 97): expected a string, got a number")
	req = ask(t, bad, "") // nobody asks for labels
	req.MAC(nil)
	if err := req.Rejected(); strings.Contains(err.Error(), "labels") || strings.Contains(err.Error(), "ips") {
		t.Errorf("said of what nobody asked for: %v", err)
	}
}

func TestPod(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		pod netconf.Pod
		ok  bool
	}{
		"IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=p;K8S_POD_INFRA_CONTAINER_ID=c;K8S_POD_UID=u": {netconf.Pod{Namespace: "ns", Name: "p", UID: "u", SandboxID: "c"}, true},
		"K8S_POD_NAMESPACE=ns;K8S_POD_NAME=p": {netconf.Pod{Namespace: "ns", Name: "p"}, true},
		"K8S_POD_NAMESPACE=ns;K8S_POD_NAME=":  {netconf.Pod{Namespace: "ns"}, false},
		"K8S_POD_NAME=p":                      {netconf.Pod{Name: "p"}, false}, // podman sends the name alone
		"":                                    {},
		"k8s_pod_name=p;k8s_pod_namespace=ns;K8S_POD_U=": {},
	} {
		pod, ok := ask(t, "", args).Pod()
		if pod != want.pod || ok != want.ok {
			t.Errorf("%q: %+v, %v", args, pod, ok)
		}
	}
	if pod, ok := new(netconf.Request).Pod(); ok || pod != (netconf.Pod{}) {
		t.Errorf("by hand: %+v", pod)
	}
}

// DEL goes on with what is good; skel makes warnings of what is noted.
func TestRequestedByHandAndOnDel(t *testing.T) {
	t.Parallel()
	req := &netconf.Request{Command: netconf.Del, Network: netconf.Network{RuntimeConfig: map[string]json.RawMessage{
		"mac": json.RawMessage(`"02:00:00:00:00:01"`), "ips": json.RawMessage(`[`), "deviceID": json.RawMessage(` "d" `),
	}}}
	if m := req.MAC(nil); m.String() != "02:00:00:00:00:01" {
		t.Errorf("%v", m)
	}
	if ips := req.IPs(); ips != nil {
		t.Errorf("%v", ips)
	}
	rejected(t, req, 6, "configuration: runtimeConfig.ips: not JSON")
	if d := req.Runtime().DeviceID; d != "d" {
		t.Errorf("device %q", d)
	}
	// A delegate's request has its own network, and so its own runtimeConfig.
	if d := req.For(netconf.Network{}, "").Runtime().DeviceID; d != "" {
		t.Errorf("the delegate's device is %q", d)
	}
	if d := req.As(netconf.Add).Runtime().DeviceID; d != "d" {
		t.Errorf("the same call's device is %q", d)
	}
}
