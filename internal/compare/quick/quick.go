// Package quick is a plugin that makes nothing: what is left of a call is the way to it. The benchmarks take it both as a
// program (cmd/quick) and as a Go value, so that the two differ by the way alone.
package quick

import (
	"context"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// RunDir is the environment variable that names the program's folder for locks.
const RunDir = "QUICK_RUN_DIR"

type config struct{}

// Plugin is the plugin, with its locks in runDir. It answers with an interface that is not there.
func Plugin(runDir string) skel.Plugin[config] {
	return skel.Plugin[config]{Name: "quick", About: "makes nothing", Kind: skel.Meta, RunDir: runDir, Steps: func(*netconf.Request, *config) skel.Steps {
		return skel.Steps{step{}}
	}}
}

type step struct{}

func (step) Add(_ context.Context, req *netconf.Request) error {
	req.AddInterface(&types100.Interface{Name: req.IfName, Sandbox: req.Netns})
	return nil
}

func (step) Check(context.Context, *netconf.Request) error { return nil }
func (step) Del(context.Context, *netconf.Request) error   { return nil }
