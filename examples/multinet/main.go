// Command multinet is a CNI plugin that attaches a pod to several networks: its default network, and one more for each
// that the pod's annotations ask for. It makes no interface itself: it delegates to other plugins. Configuration,
// annotations and statuses are those of multus; see README.md for what is otherwise.
//
// Where to read: add.go is what happens on ADD, from top to bottom; del.go the other verbs; plan.go what a pod
// gets, in what order; config.go the keys; explain.go a look at manifests. Package selection checks what a pod asks for, status says what it got.
package main

import (
	"os"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

func plugin() skel.Plugin[config] {
	return skel.Plugin[config]{
		Name:     "multinet",
		About:    "attaches a pod to its default network and to those that its annotations ask for",
		Kind:     skel.Meta,
		Defaults: defaults,
		Validate: validate,
		Log:      logConfig,
		Steps:    func(_ *netconf.Request, c *config) skel.Steps { return skel.Steps{multinet{c, connect, devices}} },
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "explain" {
		os.Exit(explainMain(os.Args[2:], os.Stdout, os.Stderr))
	}
	skel.Main(plugin())
}
