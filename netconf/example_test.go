package netconf_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
)

// A plugin or a daemon that is not written with skel reads its call like this; getenv is os.Getenv there.
func ExampleParse() {
	getenv := func(name string) string {
		return map[string]string{
			"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/c1", "CNI_IFNAME": "eth/0",
		}[name]
	}
	req, err := netconf.Parse(getenv, strings.NewReader(`{"cniVersion":"1.1.0","name":"net","type":"demo","ipMasq":"yes"}`))
	fmt.Println(req.Command, req.Network.Name, "code", netconf.Code(err))
	for problem := range strings.SplitSeq(err.Error(), "; ") {
		fmt.Println(problem)
	}
	// Output:
	// ADD net code 4
	// environment: CNI_IFNAME: "eth/0" has an invalid character '/': a link name has no '/', ':', '%' and no blank
	// configuration: ipMasq (line 1, column 59): expected a boolean, got a string
}

func ExampleDecode() {
	type config struct {
		Master string `json:"master"`
		MTU    int    `json:"mtu"`
	}
	req := &netconf.Request{Command: netconf.Add, Config: []byte(`{"name": "net", "master": "eth1", "mtuu": 9000}`)}
	req.Warn = func(msg string, _ ...any) { fmt.Println("warning:", msg) }
	conf, err := netconf.Decode(req, func() config { return config{MTU: 1500} })
	fmt.Println(conf.Master, conf.MTU, err)
	// Output:
	// warning: configuration: line 1, column 35: unknown key "mtuu" is ignored; did you mean "mtu"?
	// eth1 1500 <nil>
}

// What Kubernetes' runtimes tell of the pod, and what they ask for by capability. The errors of all that is
// asked for come together: skel refuses the call with them before any work is done.
func ExampleRequest_Runtime() {
	getenv := func(name string) string {
		return map[string]string{
			"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/c1", "CNI_IFNAME": "eth0",
			"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-1",
		}[name]
	}
	req, err := netconf.Parse(getenv, strings.NewReader(`{"cniVersion":"1.1.0","name":"net","type":"demo","runtimeConfig":{
  "portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"TCP"}],
  "bandwidth":{"ingressRate":"10M","ingressBurst":8000},
  "infinibandGUID":"c2:11:22:33"}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	pod, ok := req.Pod()
	fmt.Println(pod.Namespace, pod.Name, ok)
	asked := req.Runtime()
	for _, m := range asked.PortMappings {
		fmt.Println(m.Protocol, m.HostPort, "to", m.ContainerPort)
	}
	fmt.Println(asked.Bandwidth.IngressRate, "bits per second")
	fmt.Println(req.Rejected())
	// Output:
	// default web-1 true
	// tcp 8080 to 80
	// 10000000 bits per second
	// configuration: runtimeConfig.infinibandGUID (line 4, column 20): "c2:11:22:33" is not an InfiniBand GUID: expected eight bytes as in c2:11:22:33:44:55:66:77
}

// The highest place in which addresses are asked for counts, as a whole.
func ExampleRequest_IPs() {
	type config struct {
		Addresses []netconf.IP `json:"addresses"`
	}
	req := &netconf.Request{
		Command: netconf.Add,
		Args:    netconf.Args{"IP": "192.0.2.7/24"},
		Config:  []byte(`{"name": "net", "addresses": ["192.0.2.2/24", "2001:db8::2/64"]}`),
	}
	conf, err := netconf.Decode[config](req, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("CNI_ARGS:", req.IPs(conf.Addresses...))
	req.Network.RuntimeConfig = map[string]json.RawMessage{"ips": json.RawMessage(`["192.0.2.9"]`)}
	for _, ip := range req.IPs(conf.Addresses...) {
		fmt.Println("runtimeConfig:", ip.Addr, "with a length:", ip.Prefix.IsValid())
	}
	// Output:
	// CNI_ARGS: [192.0.2.7/24]
	// runtimeConfig: 192.0.2.9 with a length: false
}

// A pod's labels, and what else stands in args.cni.
func ExampleRequest_CNIArgs() {
	network, err := netconf.ParseNetwork([]byte(`{"name":"net","args":{"cni":{"labels":[{"key":"app","value":"web"}],"tier":1}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	args := (&netconf.Request{Network: network}).CNIArgs()
	fmt.Println(args.Labels, string(args.Other["tier"]))
	// Output: [{app web}] 1
}

// Types that say what they expect.
func ExamplePrefix() {
	type config struct {
		Subnet  netconf.Prefix   `json:"subnet"`
		Gateway netconf.Addr     `json:"gateway"`
		Wait    netconf.Duration `json:"wait"`
		Rate    netconf.Quantity `json:"rate"`
	}
	conf, err := netconf.DecodeJSON[config]([]byte(`{"subnet":"10.1.0.0/16","gateway":"10.1.0.1","wait":"1m30s","rate":"1.5Gi"}`), nil)
	fmt.Println(conf.Subnet.Contains(conf.Gateway.Addr), conf.Wait, conf.Rate, err)
	_, err = netconf.DecodeJSON[config]([]byte(`{"subnet":10,"gateway":"10.1.0","wait":"90"}`), nil)
	for problem := range strings.SplitSeq(err.Error(), "; ") {
		fmt.Println(problem)
	}
	// Output:
	// true 1m30s 1610612736 <nil>
	// configuration: subnet (line 1, column 11): expected an IP prefix such as 10.0.0.0/8 or fd00::/64, got the number 10
	// configuration: gateway (line 1, column 24): "10.1.0" is not an IP address: expected an IP address such as 10.0.0.1 or fd00::1
	// configuration: wait (line 1, column 40): "90" is not a duration: expected a duration such as "10s" or "1m30s", or whole seconds
}

// grade is an enumeration of a plugin's own.
type grade string

func (l *grade) UnmarshalText(text []byte) (err error) {
	*l, err = netconf.OneOf[grade](text, "low", "middle", "high")
	return err
}

func ExampleOneOf() {
	_, err := netconf.DecodeJSON[struct {
		Level grade `json:"level"`
	}]([]byte(`{"level": "hihg"}`), nil)
	fmt.Println(netconf.Code(err), err)
	// Output: 7 configuration: level (line 1, column 11): unknown value "hihg": expected low, middle or high; did you mean "high"?
}

// A configuration for a delegate: one key changes, all other bytes stay.
func ExamplePatch() {
	out, err := netconf.Patch([]byte(`{"id": 9007199254740993, "name": "a", "type": "t"}`), "name", json.RawMessage(`"b"`))
	fmt.Println(string(out), err)
	// Output: {"id": 9007199254740993, "type": "t","name":"b"} <nil>
}

func ExampleEncodeResult() {
	req := &netconf.Request{Command: netconf.Add}
	i := req.AddInterface(&types100.Interface{Name: "eth0", Sandbox: "/run/netns/c1"})
	req.AddIP(i, net.IPNet{IP: net.IPv4(192, 0, 2, 2), Mask: net.CIDRMask(24, 32)}, net.IPv4(192, 0, 2, 1))
	if err := netconf.EncodeResult(os.Stdout, nil, req.Result, "0.4.0"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {
	//     "cniVersion": "0.4.0",
	//     "interfaces": [
	//         {
	//             "name": "eth0",
	//             "sandbox": "/run/netns/c1"
	//         }
	//     ],
	//     "ips": [
	//         {
	//             "version": "4",
	//             "interface": 0,
	//             "address": "192.0.2.2/24",
	//             "gateway": "192.0.2.1"
	//         }
	//     ]
	// }
}

// What a delegate answered in an old version is read as a current result.
func ExampleParseResult() {
	r, err := netconf.ParseResult([]byte(`{"cniVersion":"0.2.0","ip4":{"ip":"192.0.2.2/24"}}`), "1.1.0")
	if err != nil {
		fmt.Println(err)
		return
	}
	var out bytes.Buffer
	fmt.Println(r.IPs[0].Address.String(), netconf.EncodeResult(&out, nil, r, "1.1.0"))
	// Output: 192.0.2.2/24 <nil>
}
