package main

import (
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// TestMacvlanErrorsNameTheKey: the error about a parent that is not there once named the link, and not the key to be changed.
func TestMacvlanErrorsNameTheKey(t *testing.T) {
	t.Parallel()
	req := &netconf.Request{Command: netconf.Add, IfName: "net1"}
	l, ok := macvlanSteps(req, &macvlan{Master: "gone0"})[0].(link.Macvlan)
	if !ok || l.Parent.Key != "master" || l.Parent.Name != "gone0" {
		t.Errorf("parent %+v, expected that of the key \"master\"", l.Parent)
	}
}
