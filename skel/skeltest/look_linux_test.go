package skeltest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a folder of the state holds is seen to change, whatever it is and wherever it differs.
func TestLookSeesEachChangeOfTheState(t *testing.T) {
	NeedRoot(t)
	long := strings.Repeat("x", 300)
	for name, change := range map[string]func(dir string) error{
		"the end of a long file":    func(dir string) error { return os.WriteFile(dir+"/file", []byte(long[1:]+"y"), 0o600) },
		"the length of a long file": func(dir string) error { return os.WriteFile(dir+"/file", []byte(long+"x"), 0o600) },
		"an empty folder":           func(dir string) error { return os.Mkdir(dir+"/folder", 0o700) },
		"a symbolic link":           func(dir string) error { return os.Symlink("nowhere", dir+"/link") },
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte(long), 0o600); err != nil {
				t.Fatal(err)
			}
			b := &Bench{Target: Target{State: []string{dir}, Volatile: regexp.MustCompile("^$")}}
			before := b.Look()
			if diff := before.Diff(b.Look()); diff != "" {
				t.Fatalf("nothing was changed:\n%s", diff)
			}
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			if before.Diff(b.Look()) == "" {
				t.Error("no difference is seen")
			}
		})
	}
}
