package libcni_test

import (
	"path/filepath"
	"testing"

	"github.com/cnikit/cnikit/internal/e2e/libcni"
	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// The calls that runtimes seldom make: the package's TestMain is skeltest.Main.
func Example() {
	_ = func(t *testing.T) { // TestGC
		ns := skeltest.NewNS(t)
		net := libcni.New(t, `{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"ptp","ipam":{"type":"host-local","subnet":"10.1.0.0/24"}}]}`,
			filepath.Dir(testbin.Plugin(t, "ptp")), testbin.Reference(t, testbin.HostLocal))
		kept, err := net.Add("c1", ns.Path, "eth0")
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{net.Status(), net.Check(kept), net.GC(kept), net.Check(kept), net.Del(kept)} {
			if err != nil {
				t.Error(err)
			}
		}
	}
}
