//go:build linux

package main

import (
	"hash/fnv"
	"io"
	"net/netip"
	"slices"
	"testing"

	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestConforms(t *testing.T) {
	skeltest.NeedRoot(t)
	path := []string{skeltest.Build(t, "github.com/cnikit/cnikit/examples/plugins/ptp", "github.com/cnikit/cnikit/examples/plugins/host-local")}
	skeltest.Conform(t, skeltest.Target{Plugin: own(), Kind: skel.Chained, Config: conformConf, Path: path})
}

// own is the plugin with an address of the host for each container, as a runtime sends each its own ports: the suite
// makes many attachments with one configuration, and two that want the same port are refused.
func own() skel.Plugin[config] {
	p := plugin()
	steps := p.Steps
	p.Steps = func(req *netconf.Request, c *config) skel.Steps {
		m := steps(req, c)[0].(nat.PortMap)
		sum := fnv.New32a()
		_, _ = io.WriteString(sum, req.ContainerID) // a hash takes all
		h := sum.Sum32()
		m.Mappings = slices.Clone(m.Mappings)
		for i := range m.Mappings {
			m.Mappings[i].HostIP.Addr = netip.AddrFrom4([4]byte{127, byte(h), byte(h >> 8), byte(h>>16)%250 + 1})
		}
		return skel.Steps{m}
	}
	return p
}

const conformConf = `{"cniVersion":"1.1.0","name":"net","plugins":[
	{"type":"ptp","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
	{"type":"portmap","runtimeConfig":{"portMappings":[
		{"hostPort":8080,"containerPort":80,"protocol":"tcp"},{"hostPort":5353,"containerPort":53,"protocol":"udp"}]}}]}`
