//go:build linux

package main

import (
	"testing"

	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestConforms(t *testing.T) {
	skeltest.Conform(t, skeltest.Target{Plugin: plugin(), Kind: skel.IPAM, Config: conformConf, Stateless: true})
}

const conformConf = `{"cniVersion":"1.1.0","name":"net","type":"static","ipam":{"type":"static"` + lan + `}}`
