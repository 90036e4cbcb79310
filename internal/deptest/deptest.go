package deptest

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/cnikit/cnikit"

// everywhere is what any room may import: what a call and a result are made of.
var everywhere = []string{
	"github.com/containernetworking/cni/pkg/types",
	"github.com/containernetworking/cni/pkg/types/100",
	"github.com/containernetworking/cni/pkg/version",
}

// forbidden is what no plugin may link, however far down, with the reason. A path that ends in "/"
// stands for all below it.
var forbidden = map[string]string{
	"crypto/":                        "it costs 0.45 MB and its self-tests run at every start: hash/fnv names things as well",
	"testing":                        "it registers flags at every start: skeltest is for tests",
	"regexp":                         "its tables cost size and time at every start: a loop over the bytes does it",
	"net/http":                       "it brings crypto/tls: what talks to an API server lives in a module of its own",
	"text/template":                  "it keeps the linker from dropping any exported method",
	"html/template":                  "it keeps the linker from dropping any exported method",
	"go.opentelemetry.io/":           "it makes 86 packages 205",
	"sigs.k8s.io/knftables":          "it runs nft as a process",
	"github.com/coreos/go-iptables/": "it runs iptables as a process",
	"github.com/containernetworking/cni/pkg/invoke":   "it links OpenTelemetry, loses a failing delegate's stderr and does not keep its own deadline: package delegate does this",
	"github.com/containernetworking/plugins/pkg/ip":   "it pulls in iptables, ethtool and knftables: 0.6 ms at every start",
	"github.com/containernetworking/plugins/pkg/ipam": "it pulls in iptables, ethtool and knftables: 0.6 ms at every start",
	"os/exec": "only delegate starts processes",
}

// Room fails the test where the room in dir breaks a rule of the package comment. allowed names what its
// files may import beyond the standard library and the types of CNI: a room of this module by its
// name ("netconf"), anything else by its import path. "os/exec" in it allows the room, and a plugin made with it,
// to start processes; "os.Stderr" to pass a delegate's stderr on.
func Room(t *testing.T, dir string, allowed ...string) {
	t.Helper()
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	room := filepath.Base(abs)
	for _, problem := range sources(t, dir, room, allowed) {
		t.Error(problem)
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("what a plugin would link is not checked: %v", err)
	}
	for _, problem := range linked(t, dir, room, allowed) {
		t.Error(problem)
	}
}

// sources checks the files of the room.
func sources(t *testing.T, dir, room string, allowed []string) (problems []string) {
	t.Helper()
	fset := token.NewFileSet()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %q (%v)", dir, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a temporary file of an editor
		}
		if err != nil {
			t.Fatal(err)
		}
		at := func(pos token.Pos) string {
			p := fset.Position(pos)
			return fmt.Sprintf("%s:%d", filepath.Base(p.Filename), p.Line)
		}
		problems = append(problems, imports(file, filepath.Base(name), room, allowed, at)...)
		if room != "skel" {
			problems = append(problems, touches(file, room, allowed, at)...)
		}
	}
	return problems
}

// imports checks the imports of one file.
func imports(file *ast.File, name, room string, allowed []string, at func(token.Pos) string) (problems []string) {
	for _, spec := range file.Imports {
		what, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			what = spec.Path.Value
		}
		short, ours := strings.CutPrefix(what, module+"/")
		var reason string
		switch {
		case strings.HasPrefix(what, "github.com/containernetworking/plugins/") && !strings.HasSuffix(name, "_linux.go"):
			reason = "its packages are for Linux: only *_linux.go may have them, or the room does not build elsewhere"
		case slices.Contains(allowed, short), slices.Contains(allowed, what), slices.Contains(everywhere, what):
			continue
		case !strings.Contains(strings.Split(what, "/")[0], "."):
			continue // the standard library; what of it must not be linked is forbidden below
		case ours:
			reason = "rooms are islands: who takes " + room + " must not get " + short + " with it; netconf is the common ground"
		default:
			if _, reason = isForbidden(what); reason == "" {
				reason = "it is not in this room's list: every plugin pays for it at every start; if it is worth that, allow it in deps_test.go with the reason"
			}
		}
		problems = append(problems, fmt.Sprintf("%s: %s must not import %s: %s", at(spec.Pos()), room, what, reason))
	}
	return problems
}

// skelOnly is what only skel may touch, by package.
var skelOnly = map[string][]string{
	"os":      {"Getenv", "LookupEnv", "Environ", "Setenv", "Unsetenv", "Clearenv", "ExpandEnv", "Exit", "Stdin", "Stdout", "Stderr", "Args"},
	"fmt":     {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"syscall": {"Getenv", "Setenv", "Environ", "Exit"},
	"log":     {"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln", "Default", "SetOutput"},
}

// touches finds what belongs to skel, and init functions.
func touches(file *ast.File, room string, allowed []string, at func(token.Pos) string) (problems []string) {
	names := map[string]string{} // of packages in this file
	for _, spec := range file.Imports {
		what := strings.Trim(spec.Path.Value, `"`)
		if names[path.Base(what)] = what; spec.Name != nil {
			names[spec.Name.Name] = what
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.Name == "init" && n.Recv == nil {
				problems = append(problems, fmt.Sprintf("%s: %s must not have an init function: it runs at the start of every plugin, used or not", at(n.Pos()), room))
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(skelOnly[names[x.Name]], n.Sel.Name) && !slices.Contains(allowed, names[x.Name]+"."+n.Sel.Name) {
				problems = append(problems, fmt.Sprintf("%s: %s must not use %s.%s: the environment, the streams and the exit code are skel's; everything else gets them in the request", at(n.Pos()), room, x.Name, n.Sel.Name))
			}
		case *ast.CallExpr:
			if x, ok := n.Fun.(*ast.Ident); ok && (x.Name == "println" || x.Name == "print") {
				problems = append(problems, fmt.Sprintf("%s: %s must not print: stderr is skel's", at(n.Pos()), room))
			}
		}
		return true
	})
	return problems
}

// linked finds what is forbidden among all that a Linux plugin with the room would link.
func linked(t *testing.T, dir, room string, allowed []string) (problems []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOOS=linux", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	by := map[string]string{} // which package imports it
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); err != nil {
			t.Fatalf("go list: %v", err)
		}
		for _, i := range p.Imports {
			by[i] = p.ImportPath
		}
		if name, reason := isForbidden(p.ImportPath); reason != "" && !slices.Contains(allowed, p.ImportPath) && !slices.Contains(allowed, name) {
			problems = append(problems, p.ImportPath+": "+reason)
		}
	}
	for i, p := range problems {
		name, reason, _ := strings.Cut(p, ": ")
		problems[i] = fmt.Sprintf("a plugin with %s would link %s (imported by %s): %s", room, name, by[name], reason)
	}
	return problems
}

// isForbidden looks a path up in forbidden.
func isForbidden(what string) (name, reason string) {
	if reason, ok := forbidden[what]; ok {
		return what, reason
	}
	for name, reason := range forbidden {
		if strings.HasSuffix(name, "/") && strings.HasPrefix(what+"/", name) {
			return name, reason
		}
	}
	return "", ""
}
