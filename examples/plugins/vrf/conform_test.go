//go:build linux

package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// The suite, on a kernel that has VRFs: that of a guest in most cases, where all of it would take many minutes.
func TestConforms(t *testing.T) {
	needed(t)
	path := []string{skeltest.Build(t, "github.com/cnikit/cnikit/examples/plugins/ptp", "github.com/cnikit/cnikit/examples/plugins/host-local")}
	target := skeltest.Target{Plugin: plugin(), Kind: skel.Chained, Config: conformConf, Path: path}
	if _, guest := os.LookupEnv("CNIKIT_TEST_PREBUILT"); guest {
		target.Only = regexp.MustCompile(`^(add/twice|del/(all|twice|stale-netns|no-netns|own-netns)|check/(fresh|gone)|gc/(live|stale)|status/ready)$`)
	}
	skeltest.Conform(t, target)
}

const conformConf = `{"cniVersion":"1.1.0","name":"net","plugins":[
	{"type":"ptp","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
	{"type":"vrf","vrfname":"red"}]}`
