package delegate_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What this room may import besides the standard library. It serves plugins, runtimes and daemons, none of
// which wants the others' weight with it.
var allowed = []string{
	"github.com/containernetworking/cni/pkg/types",
	"github.com/containernetworking/cni/pkg/types/100",
	"github.com/cnikit/cnikit/netconf",
}

// What of the standard library must not get into a plugin, and why.
var forbidden = map[string]string{
	"crypto":   "0.45 MB of a binary and its start-up time",
	"regexp":   "compiled patterns cost start-up time in a process that lives 3 ms",
	"net/http": "2 MB of a binary that calls no web server",
}

func TestImports(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(path, ".") && !slices.Contains(allowed, path) {
				t.Errorf("%s imports %q: this room knows what a call is (netconf) and how to start a process, and nothing of kernels, entries or addresses", file, path)
			}
			for what, why := range forbidden {
				if path == what || strings.HasPrefix(path, what+"/") {
					t.Errorf("%s imports %q: %s", file, path, why)
				}
			}
		}
	}
}
