//go:build linux

package main

import (
	"testing"

	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestConforms(t *testing.T) {
	skeltest.NeedRoot(t)
	target := skeltest.Target{Plugin: plugin(), Config: conformConf, Path: []string{skeltest.Build(t, "github.com/cnikit/cnikit/examples/plugins/host-local")}}
	skeltest.Conform(t, target)
}

const conformConf = `{"cniVersion":"1.1.0","name":"net","type":"tap","mtu":1400,"owner":107,
	"ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}}`
