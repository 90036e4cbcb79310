package skel

import (
	"os"
	"path/filepath"
	"testing"
)

// Between the opening of a lock file and the lock its holder may have removed it, and somebody else made it
// anew: then the lock that was got is on a file that nobody else will ever open.
func TestLockOnAFileThatWasReplacedDoesNotCount(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !stillAt(f, path) {
		t.Error("the file that is there does not count")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if stillAt(f, path) {
		t.Error("a removed file counts")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if stillAt(f, path) {
		t.Error("a replaced file counts")
	}
}
