package netconf_test

import (
	"io"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// realistic is what a runtime sends to a chained plugin of a pod.
const realistic = `{"cniVersion":"1.0.0","name":"podnet","type":"macvlan","master":"eth0","mode":"bridge","mtu":1450,
 "capabilities":{"mac":true,"portMappings":true},"runtimeConfig":{"mac":"02:00:00:00:00:01","portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]},
 "ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/16","rangeStart":"10.1.1.1","gateway":"10.1.0.1"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]},
 "dns":{"nameservers":["10.1.0.10"],"search":["svc.cluster.local","cluster.local"]},
 "prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"br0","mac":"02:00:00:00:00:10"},{"name":"vethab","mac":"02:00:00:00:00:11"},{"name":"eth0","mac":"02:00:00:00:00:12","sandbox":"/run/netns/cni-1234"}],
  "ips":[{"interface":2,"address":"10.1.1.5/16","gateway":"10.1.0.1"},{"interface":2,"address":"fd00:1::5/64","gateway":"fd00:1::1"}],"routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}],"dns":{"nameservers":["10.1.0.10"]}}}`

type realisticConf struct {
	Master string      `json:"master"`
	Mode   string      `json:"mode"`
	MTU    int         `json:"mtu"`
	MAC    netconf.MAC `json:"mac"`
	InNS   bool        `json:"linkInContainer"`
}

func BenchmarkParse(b *testing.B) {
	env := with("ADD", "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-1;K8S_POD_INFRA_CONTAINER_ID=0123456789abcdef")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := netconf.Parse(env.get, strings.NewReader(realistic)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	req, err := netconf.Parse(with("ADD").get, strings.NewReader(realistic))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := netconf.Decode[realisticConf](req, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeResult(b *testing.B) {
	req, err := netconf.Parse(with("ADD").get, strings.NewReader(realistic))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := req.EncodeResult(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
