//go:build linux

package plugins_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The folder of an example, copied into a module of somebody's own, compiles, its tests too: it imports nothing that only
// this module may.
func TestAnExampleCanBeCopied(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("files of the examples: %q, %v", files, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range file.Imports {
			if path := strings.Trim(of.Path.Value, `"`); strings.Contains(path+"/", "/internal/") {
				t.Errorf("%s imports %s: what it needs belongs into skel/skeltest, or the test into this folder", name, path)
			}
		}
	}
}
