//go:build linux

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// A container has one lo, whatever CNI_IFNAME is: what is asked of plugins that make an interface for each does not apply,
// and it is held to what those in a list are. The containers of the suite have lo up; the plugin before sets it down.
func TestConforms(t *testing.T) {
	skeltest.NeedRoot(t)
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "lo-down"), []byte(loDown), 0o755); err != nil {
		t.Fatal(err)
	}
	skeltest.Conform(t, skeltest.Target{Plugin: plugin(), Kind: skel.Chained, Config: conformConf, Path: []string{path}, Only: judged()})
}

// judged are all requirements but one, that a list works in 0.1.0, which has no lists: TestResultOfEachVersion is about the
// result without one.
func judged() *regexp.Regexp {
	var ids []string
	for _, r := range skeltest.Requirements() {
		if r.ID != "protocol/result" {
			ids = append(ids, regexp.QuoteMeta(r.ID))
		}
	}
	return regexp.MustCompile("^(" + strings.Join(ids, "|") + ")$")
}

// loDown is a plugin that only an ADD is wanted of.
const loDown = `#!/bin/sh
nsenter --net="$CNI_NETNS" ip link set lo down || exit 1
echo '{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"'"$CNI_NETNS"'"}],"ips":[{"interface":0,"address":"10.1.0.2/24"}]}'
`

const conformConf = `{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"lo-down"},{"type":"loopback"}]}`
