package skeltest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
	"github.com/cnikit/cnikit/skel/skeltest/testdata/meta"
)

const metaPackage = "github.com/cnikit/cnikit/skel/skeltest/testdata/meta/meta-plugin"

// metaTarget is a plugin that has macvlan, with host-local, called.
func metaTarget(t *testing.T, plugin skeltest.Plugin) skeltest.Target {
	path := skeltest.Build(t, "github.com/cnikit/cnikit/examples/plugins/macvlan", "github.com/cnikit/cnikit/examples/plugins/host-local")
	return skeltest.Target{
		Plugin: plugin, Kind: skel.Meta, Path: []string{path},
		Config: `{"cniVersion":"1.1.0","name":"net","type":"meta-plugin","delegate":{"type":"macvlan","master":"p0","mtu":1400,
			"ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}}}`,
	}
}

// A plugin that makes nothing but has others called conforms, in this process.
func TestMetaConforms(t *testing.T) {
	skeltest.NeedRoot(t)
	if testbin.Guest() {
		t.Skip("builds a plugin, and there is no go command in a guest; it is no matter of the kernel")
	}
	skeltest.Conform(t, metaTarget(t, meta.Plugin("/var/lib/cni/meta-plugin")))
}

// So does its program, in what only a program can break; in all of it with CNIKIT_SOAK in the environment, whatever its value.
func TestMetaProgramConforms(t *testing.T) {
	skeltest.NeedRoot(t)
	if testbin.Guest() {
		t.Skip("builds a plugin, and there is no go command in a guest; it is no matter of the kernel")
	}
	target := metaTarget(t, skeltest.Binary(filepath.Join(skeltest.Build(t, metaPackage), "meta-plugin")))
	if _, all := os.LookupEnv("CNIKIT_SOAK"); !all {
		target.Only = regexp.MustCompile(`^(env|stdin|stdout|ipam|concurrency|kill)/|^del/all$|^add/terminated$`)
	}
	skeltest.Conform(t, target)
}
