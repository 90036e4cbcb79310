package skeltest

import (
	"os"
	"path/filepath"
	"testing"
)

// What a run has made for the state goes with it, but not what was there, what is not empty, or what another run uses.
func TestStateFolderThatWasNotThereIsRemoved(t *testing.T) {
	t.Parallel()
	there := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	root := t.TempDir()
	in := func(path string) string { return filepath.Join(root, path) }
	if err := os.Mkdir(in("old"), 0o755); err != nil {
		t.Fatal(err)
	}
	first := stateFolders([]string{in("new/deep/state"), in("new/deep/state") + "/", in("new/deep/state/inner"), in("old"), in("full"), in("shared")})
	second := stateFolders([]string{in("shared")})
	for _, dir := range []string{"new/deep/state/inner", "full", "shared"} {
		if !there(in(dir)) {
			t.Errorf("%s was not made", dir)
		}
	}
	if err := os.WriteFile(in("full/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first()
	for dir, want := range map[string]bool{"new": false, "old": true, "full": true, "shared": true} {
		if there(in(dir)) != want {
			t.Errorf("%s is there: %v, expected %v", dir, !want, want)
		}
	}
	second()
	stateFolders([]string{"/run/skeltest-none", "/var/lib/cni/skeltest-none"})()
	if !covered("/run/x/y") || !covered("/var/lib/cni/x") || covered("/var/lib/cni") || covered("/opt/x") {
		t.Error("covered is wrong")
	}
}
