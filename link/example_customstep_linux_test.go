package link_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// TestExampleCustomStep: the step that authors copy holds what every kind of this package is held to.
func TestExampleCustomStep(t *testing.T) {
	uplink(t)
	ns := space(t)
	before := unchanged(t, ns)
	p := plugin(vxlan{Parent: "p0", VNI: 7}, ipam("10.1.0.2/24"), link.Addresses{})
	a := add(ns, "a").Run(t.Context(), t, p).OK(t)
	if l := ns.Run("ip", "-d", "link", "show", "eth0"); !strings.Contains(l, "vxlan id 7") || !strings.Contains(l, "alias cni:net:a:eth0") {
		t.Error(l)
	}
	check := add(ns, "a").With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, p).OK(t)
	check.Run(t.Context(), t, plugin(vxlan{Parent: "p0", VNI: 8})).Fails(t, netconf.CodeDifferent, "eth0", "VNI 8")

	live := unchanged(t, ns)
	add(ns, "a").Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "eth0")
	live("after a second ADD")
	add(ns, "a").Run(t.Context(), t, plugin(vxlan{Parent: "nosuch", VNI: 7})).Fails(t, netconf.CodeExists, "eth0")
	live("after a second ADD whose parent is missing")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	add(ns, "a").Run(cancelled, t, p).Fails(t, netconf.CodeTryAgainLater)
	live("after a second ADD that was cancelled")
	other := add(ns, "b").With(netconf.Del)
	other.Run(t.Context(), t, p).OK(t)
	live("after another container's DEL")

	del := add(ns, "a").With(netconf.Del)
	del.Config = "{"
	for range 2 {
		del.Run(t.Context(), t, p).OK(t)
		before("after DEL with a configuration that cannot be read")
	}
	ns.Remove()
	del.Run(t.Context(), t, p).OK(t)
	del.Netns = ""
	del.Run(t.Context(), t, p).OK(t)

	ns = space(t)
	add(ns, "a").Run(t.Context(), t, plugin(vxlan{Parent: "nosuch"})).Fails(t, netconf.CodeInvalidNetworkConfig, "nosuch")
	skeltest.Walk(t, p, add(ns, "a"), ns, nil)
}
