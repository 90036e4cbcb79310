package skel_test

import (
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// One wrong example tag took the whole example out of the help, and nothing said which.
func TestCheckExampleTellsWhichTagIsWrong(t *testing.T) {
	t.Parallel()
	if err := validated(t).CheckExample(); err != nil {
		t.Error(err)
	}
	type wrong struct {
		MTU    int    `json:"mtu" example:"large"`
		Colour colour `json:"colour" example:"green"`
	}
	p := skel.Plugin[wrong]{Name: "test", Steps: func(*netconf.Request, *wrong) skel.Steps { return nil }}
	if _, _, stdout, _ := p.ByHand([]string{"help"}, "", false, false); strings.Contains(stdout, "Example:") {
		t.Errorf("a wrong example is shown: %s", stdout)
	}
	err := p.CheckExample()
	if netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
		t.Fatal(err)
	}
	for _, want := range []string{"example:7:", "plugins[0].mtu: expected an integer", "plugins[0].colour: unknown colour", `"mtu": "large"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
	if err := (skel.Plugin[wrong]{}).CheckExample(); err == nil {
		t.Error("a Plugin without a name")
	}
}
