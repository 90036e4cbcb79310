package skel_test

import (
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// Upstream's route reads itself, so the help called it a value, without dst and gw.
func TestHelpTellsTheKeysOfARoute(t *testing.T) {
	t.Parallel()
	type config struct {
		Routes []*types.Route `json:"routes" doc:"routes of the container"`
		One    *types.Route   `json:"one"`
	}
	p := skel.Plugin[config]{Name: "test", Steps: func(*netconf.Request, *config) skel.Steps { return nil }}
	_, _, stdout, _ := p.ByHand([]string{"help"}, "", false, false)
	for _, want := range []string{"  routes             list of object: routes of the container\n", "  routes[].dst       IP prefix: the network", "  routes[].gw        IP address: the router", "  routes[].scope ", "  one.dst "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%s\ndoes not say %q", stdout, want)
		}
	}
}
