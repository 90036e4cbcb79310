package doccheck

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The README shows the macvlan plugin and counts its lines: both are true.
func TestReadmeShowsThePlugin(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	readme, plugin := read("README.md"), read("examples/plugins/macvlan/main.go")
	_, block, _ := strings.Cut(readme, "```go\n")
	block, _, found := strings.Cut(block, "```")
	if !found || !strings.HasSuffix(plugin, block) {
		t.Error("the first Go text of README.md is not the end of examples/plugins/macvlan/main.go")
	}
	lines := 0
	for line := range strings.Lines(plugin) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines++
		}
	}
	if lines > 45 {
		t.Errorf("the macvlan plugin has %d lines of code: it must not have more than 45", lines)
	}
	if !strings.Contains(readme, fmt.Sprintf("| %d, GC and STATUS included |", lines)) {
		t.Errorf("README.md does not say that the macvlan plugin has %d lines of code", lines)
	}
}
