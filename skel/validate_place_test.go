package skel_test

import (
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// What is missing in a section was told of line 1, column 1 of the plugin, whatever stood before the section.
func TestValidateTellsWhereSomethingIsMissing(t *testing.T) {
	t.Parallel()
	p := validated(t)
	p.Validate = func(req *netconf.Request, _ *checked) error {
		return netconf.Join(req.Invalid("ipam.ranges", "missing"), req.Invalid("ipam.routes[0].dst", "missing"), req.Invalid("cable.length", "missing"))
	}
	const text = "{\"name\":\"net\",\"plugins\":[\n{\"type\":\"test\",\n \"ipam\":{\"type\":\"x\",\n  \"routes\":[{}]}}]}"
	const want = "stdin:2:1: plugins[0].cable.length: missing\nstdin:3:9: plugins[0].ipam.ranges: missing\nstdin:4:13: plugins[0].ipam.routes[0].dst: missing\n"
	if exit, _, stdout, _ := p.ByHand([]string{"validate", "-"}, text, false, false); exit != 1 || stdout != want {
		t.Errorf("exit status %d\n%s\nexpected\n%s", exit, stdout, want)
	}
}
