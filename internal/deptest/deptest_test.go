package deptest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write makes a room with one file.
func write(t *testing.T, name, text string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "room")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSources(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file, text string
		allowed          []string
		words            string // none: no problem
	}{
		{"std and types", "a.go", `import ("fmt"; "github.com/containernetworking/cni/pkg/types")`, nil, ""},
		{"another room", "a.go", `import "github.com/cnikit/cnikit/skel"`, []string{"netconf"}, "a.go:2: room must not import github.com/cnikit/cnikit/skel: rooms are islands: who takes room must not get skel"},
		{"a subpackage of it", "a.go", `import "github.com/cnikit/cnikit/skel/skeltest"`, []string{"skel"}, "skel/skeltest: rooms are islands"},
		{"allowed room", "a.go", `import "github.com/cnikit/cnikit/netconf"`, []string{"netconf"}, ""},
		{"allowed module", "a.go", `import "golang.org/x/sys/unix"`, []string{"golang.org/x/sys/unix"}, ""},
		{"other module", "a.go", `import "golang.org/x/sys/unix"`, nil, "not in this room's list"},
		{"for another system", "a_windows.go", `import "golang.org/x/sys/windows"`, nil, "not in this room's list"},
		{"invoke", "a.go", `import "github.com/containernetworking/cni/pkg/invoke"`, nil, "OpenTelemetry"},
		{"pkg/ns outside Linux", "a.go", `import "github.com/containernetworking/plugins/pkg/ns"`, []string{"github.com/containernetworking/plugins/pkg/ns"}, "only *_linux.go"},
		{"pkg/ns", "a_linux.go", `import "github.com/containernetworking/plugins/pkg/ns"`, []string{"github.com/containernetworking/plugins/pkg/ns"}, ""},
		{"tests are free", "a_test.go", `import "github.com/cnikit/cnikit/skel"`, nil, ""},
		{"environment", "a.go", `import "os"; var _ = os.Getenv("X")`, nil, "must not use os.Getenv"},
		{"under another name", "a.go", `import sys "os"; func f() { sys.Exit(1) }`, nil, "must not use sys.Exit"},
		{"stdout", "a.go", `import ("fmt"; "os"); func f() { fmt.Fprintln(os.Stdout) }`, nil, "os.Stdout"},
		{"stderr, allowed", "a.go", `import "os"; var _ = os.Stderr`, []string{"os.Stderr"}, ""},
		{"print", "a.go", `import "fmt"; func f() { fmt.Printf("x") }`, nil, "fmt.Printf"},
		{"println", "a.go", `func f() { println("x") }`, nil, "must not print"},
		{"a method of that name", "a.go", `type os struct{}; func f(o os) { o.Exit() }; func (os) Exit() {}`, nil, ""},
		{"init", "a.go", `func init() {}`, nil, "init function"},
		{"a method init", "a.go", `type x int; func (x) init() {}`, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(sources(t, write(t, c.file, "package room\n"+c.text+"\n"), "room", c.allowed), "\n")
			if c.words == "" && got != "" || !strings.Contains(got, c.words) {
				t.Errorf("%q, expected %q", got, c.words)
			}
		})
	}
	if got := sources(t, write(t, "a.go", "package room\nimport \"os\"\nvar _ = os.Stdin\n"), "skel", nil); len(got) > 0 {
		t.Errorf("skel may: %q", got)
	}
}

func TestIsForbidden(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]bool{"crypto": true, "crypto/sha1": true, "regexp": true, "regexp/syntax": false, "hash/fnv": false, "os/exec": true, "os": false, "go.opentelemetry.io/otel/trace": true} {
		if _, reason := isForbidden(what); (reason != "") != want {
			t.Errorf("%s: %q", what, reason)
		}
	}
}

// This package itself starts processes: that is found, with who does it, unless it is allowed.
func TestLinked(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command on the PATH: ", err)
	}
	got := linked(t, ".", "deptest", nil)
	if !slices.ContainsFunc(got, func(p string) bool {
		return strings.HasPrefix(p, "a plugin with deptest would link os/exec (imported by ")
	}) {
		t.Errorf("%q", got)
	}
	for _, p := range linked(t, ".", "deptest", []string{"os/exec", "testing"}) {
		if strings.Contains(p, "os/exec") {
			t.Error(p)
		}
	}
}
