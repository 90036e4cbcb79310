//go:build linux

package main

import (
	"testing"

	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestConforms(t *testing.T) {
	skeltest.NeedRoot(t)
	path := []string{skeltest.Build(t, "github.com/cnikit/cnikit/examples/plugins/ptp", "github.com/cnikit/cnikit/examples/plugins/host-local")}
	skeltest.Conform(t, skeltest.Target{Plugin: plugin(), Kind: skel.Chained, Config: conformConf, Path: path})
}

const conformConf = `{"cniVersion":"1.1.0","name":"net","plugins":[
	{"type":"ptp","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
	{"type":"sbr"}]}`
