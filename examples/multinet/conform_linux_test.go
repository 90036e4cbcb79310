package main

import (
	"testing"

	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// target is this plugin with two networks and no API server: a macvlan with addresses and a second one without.
func target(t *testing.T, plugin skeltest.Plugin, more string) skeltest.Target {
	path, _ := built(t, "macvlan", "host-local")
	return skeltest.Target{
		Plugin: plugin, Kind: skel.Meta, Path: []string{path},
		Config: `{"cniVersion":"1.1.0","name":"outer","type":"multinet","binDir":"` + path + `"` + more + `,"delegates":[
			{"cniVersion":"1.1.0","name":"lan","type":"macvlan","master":"p0","mtu":1400,
				"ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
			{"cniVersion":"1.0.0","name":"wan","plugins":[{"type":"macvlan","master":"p0"}]}]}`,
	}
}

// It conforms with the plugins that are compiled in.
func TestConforms(t *testing.T) {
	skeltest.NeedRoot(t)
	skeltest.Conform(t, target(t, plugin(), ""))
}

// So does the program, with programs.
func TestProgramConforms(t *testing.T) {
	skeltest.NeedRoot(t)
	_, program := built(t)
	skeltest.Conform(t, target(t, skeltest.Binary(program), `,"inProcess":[]`))
}
