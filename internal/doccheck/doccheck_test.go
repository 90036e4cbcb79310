package doccheck

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDocumentation(t *testing.T) {
	t.Parallel()
	problems, err := Check(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	long := strings.Repeat("// x\n", 15)
	for name, text := range map[string]string{
		"good/doc.go":         long + "package good\n",
		"good/a.go":           "package good\n\n// A is.\nfunc A() {}\n\n// Of a group.\nconst (\n\tB = 1\n)\nconst C = 1 // here\ntype t int\nfunc (t) D() {}\n// E is.\ntype E[T any] int\nfunc (*E[T]) String() string { return \"\" }\n",
		"good/a_test.go":      "package good\n\nfunc Example() {}\n",
		"bad/doc.go":          "// Package bad.\npackage bad\n",
		"bad/a_linux.go":      "package bad\n\nfunc A() {}\ntype B int\nfunc (*B) C() {}\nconst D = 1\nvar E, f int\ntype G[T any] int\nfunc (G[T]) H() {}\n",
		"none/a.go":           "package none\n",
		"place/a.go":          long + "package place\n",
		"cmd/x/main.go":       "// Command x.\npackage main\n\nfunc A() {}\n",
		"cmd/y/main.go":       "package main\n",
		"nested/go.mod":       "module nested\n",
		"nested/a.go":         "package nested\n",
		"examples/m/go.mod":   "module m\n",
		"examples/m/p/doc.go": "// Package p is.\npackage p\n",
		"examples/m/p/a.go":   "package p\n\nfunc A() {}\n",
		".ci/a.go":            "package ci\n",
		"good/testdata/a.go":  "not Go",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Check(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"bad: a package comment of 1 lines: expected 15 to 60", "bad: a room without a compiled Example",
		"bad/a_linux.go:3: A has no comment", "bad/a_linux.go:4: B has no comment", "bad/a_linux.go:5: C has no comment",
		"bad/a_linux.go:6: D has no comment", "bad/a_linux.go:7: E has no comment", "bad/a_linux.go:8: G has no comment", "bad/a_linux.go:9: H has no comment",
		"cmd/y: no package comment: what it is, for whom, what it never does, the one trap",
		"examples/m/p/a.go:3: A has no comment",
		"none: no package comment: what it is, for whom, what it never does, the one trap", "none: a room without a compiled Example",
		"place/a.go: the package comment belongs in doc.go", "place: a room without a compiled Example",
	}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}
