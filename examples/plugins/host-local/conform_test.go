//go:build linux

package main

import (
	"testing"

	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

func TestConforms(t *testing.T) {
	skeltest.Conform(t, skeltest.Target{Plugin: plugin(), Kind: skel.IPAM, Config: conformConf})
}

const conformConf = `{"cniVersion":"1.1.0","name":"net","type":"host-local",
	"ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}}`
