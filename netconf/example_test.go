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
