package skeltest

import (
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
)

// Build builds Go programs and returns the folder that holds them, which can be a CNI_PATH: other plugins that a test
// calls, or the tested one, which is ".". The packages are named as for go build in the folder of the test's package; its
// module must require those of other modules, and have them in the module cache, since tests have no network.
//
// The folder is in the user's cache and belongs to the test's package. A second run builds only what has changed (70 ms to
// see that nothing has); the processes that [Conform] starts find what the test that called it has built.
func Build(t testing.TB, packages ...string) (dir string) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if testbin.Guest() { // nothing is compiled there
		packages = slices.Clone(packages)
		for i := range packages {
			if packages[i] == "." {
				packages[i] = filepath.Base(here)
			}
		}
		return testbin.Tools(t, "", nil, packages...)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("where to build programs for tests: %v", err)
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(here)) // a hash takes all
	dir = filepath.Join(cache, "cnikit", fmt.Sprintf("%016x", sum.Sum64()))
	if id, _ := asked(""); id != "" {
		return dir
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	build(t, dir, packages)
	return dir
}

// build lets one build at a time write into the folder: tests of one package may run at once.
func build(t testing.TB, dir string, packages []string) {
	t.Helper()
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	// Without the state of the checkout, which git does not tell root of another user's.
	cmd := exec.Command("go", slices.Concat([]string{"build", "-buildvcs=false", "-o", dir + "/"}, packages)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %q: %v\n%s", packages, err, out)
	}
}
