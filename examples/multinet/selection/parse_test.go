package selection_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/selection"
	"github.com/cnikit/cnikit/netconf"
)

// show writes elements as "ns/name@ifname".
func show(elements []selection.Element) string {
	var all []string
	for _, e := range elements {
		s := e.String()
		if e.Interface != "" {
			s += "@" + e.Interface
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

func TestParse(t *testing.T) {
	t.Parallel()
	for annotation, want := range map[string]string{
		"":                             "",
		" \n":                          "",
		"net-a":                        "ns1/net-a",
		"net-a,net-b":                  "ns1/net-a ns1/net-b",
		" net-a ,\tnet-b\n":            "ns1/net-a ns1/net-b",
		"net-a,net-a":                  "ns1/net-a ns1/net-a",
		"ns2/net-a":                    "ns2/net-a",
		"ns2 / net-a @ foo0":           "ns2/net-a@foo0",
		"net-a@foo0,net-b":             "ns1/net-a@foo0 ns1/net-b",
		"ns2/net-a@foo0,net-b":         "ns2/net-a@foo0 ns1/net-b",
		"net.with.dots":                "ns1/net.with.dots",
		"[]":                           "",
		`[{"name":"net-a"}]`:           "ns1/net-a",
		" [ {\"name\":\"net-a\"} ]\n":  "ns1/net-a",
		`[{"name":"a","unknown":[7]}]`: "ns1/a",
		`[{"name":"a","namespace":"ns2","interface":"x0"},{"name":"b","interfaceRequest":"y0"}]`: "ns2/a@x0 ns1/b@y0",
		`[{"name":"a","interface":"x0","interfaceRequest":"y0"}]`:                                "ns1/a@x0",
		`[{"name":"a","mac":"","infiniband-guid":"","deviceID":"","interface":""}]`:              "ns1/a",
		`[{"name":"a","ips":null,"cni-args":null,"default-route":null}]`:                         "ns1/a",
	} {
		elements, err := selection.Parse(annotation, "ns1")
		if err != nil || show(elements) != want {
			t.Errorf("%q: %q, %v: expected %q", annotation, show(elements), err, want)
		}
	}
}

// What is wrong is said with its place, and nothing of the rest is used.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for annotation, words := range map[string]string{
		"net-a,":                                `item 2, "": empty`,
		"net-a,,net-b":                          `item 2, "": empty`,
		",":                                     `item 1, "": empty`,
		"a/b/c":                                 `item 1, "a/b/c": name "b/c"`,
		"net-a@b@c":                             `item 1, "net-a@b@c": two @`,
		"net-a,Net-A":                           `item 2, "Net-A": name "Net-A": expected a DNS name`,
		"net_a":                                 `name "net_a"`,
		"/net-a":                                "nothing before the slash",
		"ns2/":                                  "no name",
		"ns.2/a":                                `namespace "ns.2": expected a DNS label`,
		"net-a@":                                "interface",
		"net-a@abcdefghijklmnop":                "interface",
		"net-a@lo":                              "lo",
		"net-a@a:b":                             "interface",
		"net-a@%d":                              "interface",
		"../net-a":                              "namespace",
		"-a":                                    "name",
		"a..b":                                  "name",
		strings.Repeat("a.", 130) + "a":         "name",
		strings.Repeat("net-a,", 256) + "net-a": "257 networks",
		`{"name":"net-a"}`:                      "expected a list",
		`"net-a"`:                               "expected a list",
		`[`:                                     "not JSON",
		`[{"name":"a"}],"x":[]`:                 "not JSON",
		`[null]`:                                "item 1: null",
		`["net-a"]`:                             "expected an object",
		`[{"name":7}]`:                          "[0].name (line 1, column 10)",
		"[\n{\"name\":\"a\"},{}]":               "item 2: no name",
		`[{"name":"a","interface":"a b"}]`:      "interface",
		`[{"name":"a","interface":"a/b"}]`:      "interface",
		`[{"name":"a","ips":[]}]`:               "item 1: ips: an empty list",
		`[{"name":"a","ips":"10.0.0.1"}]`:       "item 1: ips: expected an array, got a string",
		`[{"name":"a","ips":[null]}]`:           "ips[0]",
		`[{"name":"a","ips":["10.0.0.999"]}]`:   "ips[0]",
		`[{"name":"a","ips":["10.0.0.1/33"]}]`:  "ips[0]",
		`[{"name":"a","mac":"02:00:00:00:77"}]`: "mac",
		`[{"name":"a","mac":"02:00:00:00:77:09:1:2"}]`:                      "mac",
		`[{"name":"a","mac":7}]`:                                            "mac",
		`[{"name":"a","infiniband-guid":"x"}]`:                              "infinibandGUID",
		`[{"name":"a","portMappings":[{"hostPort":0,"containerPort":80}]}]`: "portMappings[0].hostPort",
		`[{"name":"a","bandwidth":{"ingressBurst":1000}}]`:                  "bandwidth.ingress",
		`[{"name":"a","cni-args":[]}]`:                                      "[0].cni-args",
		`[{"name":"a","default-route":"10.0.0.1"}]`:                         "[0].default-route",
		`[{"name":"a","default-route":["10.0.0.x"]}]`:                       "[0].default-route[0]",
		`[{"name":"a","default-route":[""]}]`:                               "an empty gateway",
		`[{"name":"a","default-route":["0.0.0.0"]}]`:                        "cannot be a gateway",
		`[{"name":"a","default-route":["ff02::1"]}]`:                        "cannot be a gateway",
		`[{"name":"a","default-route":["10.0.0.1","10.0.0.1"]}]`:            "twice",
		`[{"name":"a","ips":["10.0.0.1"],"ipam-claim-reference":"c"}]`:      "ips and ipam-claim-reference",
	} {
		elements, err := selection.Parse(annotation, "ns1")
		if netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), words) || elements != nil {
			t.Errorf("%q: %v, code %d, %v: expected code 7 and %q", annotation, elements, netconf.Code(err), err, words)
		}
	}
}

// What is asked for is as the pod has it, byte for byte, under the capability's name.
func TestParseRequests(t *testing.T) {
	t.Parallel()
	elements, err := selection.Parse(`[{"name":"a", "ips": [ "10.77.0.9/24", "fd77::9" ], "mac":"02:00:00:00:77:09", "infiniband-guid":"c2:11:22:33:44:55:66:77",
		"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp","vendor":9007199254740993}], "bandwidth":{"ingressRate":1000}, "deviceID":"0000:00:01.0",
		"cni-args":{"k":9007199254740993}, "default-route":["10.77.0.1","fd77::1"], "ipam-claim-reference":""}]`, "ns1")
	if err != nil {
		t.Fatal(err)
	}
	e := elements[0]
	for key, want := range map[string]string{
		"ips": `[ "10.77.0.9/24", "fd77::9" ]`, "mac": `"02:00:00:00:77:09"`, "infinibandGUID": `"c2:11:22:33:44:55:66:77"`, "deviceID": `"0000:00:01.0"`,
		"portMappings": `[{"hostPort":8080,"containerPort":80,"protocol":"tcp","vendor":9007199254740993}]`, "bandwidth": `{"ingressRate":1000}`,
	} {
		if got := string(e.Requests[key]); got != want {
			t.Errorf("%s: %s: expected %s", key, got, want)
		}
	}
	if len(e.Requests) != 6 || string(e.Args["k"]) != "9007199254740993" || fmt.Sprint(e.Gateways) != "[10.77.0.1 fd77::1]" {
		t.Errorf("%+v", e)
	}
	elements, err = selection.Parse(`[{"name":"a"},{"name":"b","default-route":[]}]`, "ns1")
	if err != nil || elements[0].Gateways != nil || elements[1].Gateways == nil || len(elements[1].Gateways) != 0 {
		t.Errorf("%v, %v: no key, and an empty list, are two things", elements, err)
	}
}

func TestParseOne(t *testing.T) {
	t.Parallel()
	if e, err := selection.ParseOne("net-a", "kube-system"); err != nil || e.String() != "kube-system/net-a" {
		t.Errorf("%v, %v", e, err)
	}
	for _, annotation := range []string{"", "a,b", "[]", "A"} {
		if e, err := selection.ParseOne(annotation, "ns"); netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
			t.Errorf("%q: %v, %v", annotation, e, err)
		}
	}
}

// Whatever a pod's annotation holds, it is an error or a list that can be used: never a panic, and no name that leaves
// its folder or its URL.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"net-a, ns2/net-b@x0", `[{"name":"a","ips":["10.0.0.1/8"],"default-route":[],"cni-args":{"a":{}}}]`, `[{"name":"a"},null]`, "{", "a@%d", "[]]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, annotation string) {
		elements, err := selection.Parse(annotation, "ns")
		if err != nil {
			if netconf.Code(err) != netconf.CodeInvalidNetworkConfig || elements != nil {
				t.Fatalf("%v, %v", elements, err)
			}
			return
		}
		for _, e := range elements {
			if strings.Trim(e.Namespace+e.Name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || e.Name == "" || strings.Contains(e.Name, "..") || strings.Contains(e.Namespace, ".") {
				t.Fatalf("%+v", e)
			}
			if e.Interface != "" && netconf.CheckIfName(e.Interface) != nil {
				t.Fatalf("%+v", e)
			}
		}
		_ = selection.Routes(elements) // no panic
	})
}
