package doccheck

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
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

// What the README shows of the plugin when it is started by hand is what it says: between two lines of dots, and
// after validate all of it.
func TestReadmeShowsWhatThePluginSays(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("the plugin is not built: %v", err)
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(readme), "```console\n$ ./macvlan help\n...\n")
	help, validated, found := strings.Cut(block, "...\n$ ./macvlan validate net.conflist\n")
	validated, _, closed := strings.Cut(validated, "```")
	if !found || !closed || help == "" || validated == "" {
		t.Fatal("README.md does not show ./macvlan help and ./macvlan validate net.conflist")
	}
	run := func(args ...string) (string, int) {
		cmd := exec.Command(testbin.Plugin(t, "macvlan"), args...)
		cmd.Dir = t.TempDir()
		text := "{\n  \"cniVersion\": \"1.1.0\",\n  \"name\": \"net\",\n  \"plugins\": [\n    {\n      \"type\": \"macvlan\",\n" +
			"      \"mode\": \"brigde\",\n      \"mtuu\": 1400\n    }\n  ]\n}\n"
		if err := os.WriteFile(filepath.Join(cmd.Dir, "net.conflist"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if said, exit := run("help"); exit != 0 || !strings.Contains(said, help) {
		t.Errorf("exit status %d, and the help has no %q:\n%s", exit, help, said)
	}
	if said, exit := run("validate", "net.conflist"); exit != 1 || said != validated {
		t.Errorf("exit status %d, README.md shows\n%sit says\n%s", exit, validated, said)
	}
}

// The help of each example plugin has an example, which validate finds nothing wrong with; so do the conflists beside them.
func TestExamplePluginsHaveAnExample(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("the plugins are not built: %v", err)
	}
	conflists, err := filepath.Glob(filepath.Join("..", "..", "examples", "plugins", "*", "*.conflist"))
	if err != nil || len(conflists) == 0 {
		t.Fatalf("no conflist beside an example plugin (%v)", err)
	}
	for _, conflist := range conflists {
		plugin := testbin.Plugin(t, filepath.Base(filepath.Dir(conflist)))
		if out, err := exec.Command(plugin, "validate", "-strict", conflist).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		help, err := exec.Command(plugin, "help").Output()
		if err != nil || !strings.Contains(string(help), "\nExample: ") {
			t.Errorf("%v: the help has no example: %s", err, help)
		}
	}
}
