package doccheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The length of a package comment, in lines.
const minLines, maxLines = 15, 60

// Check returns what is missing in the packages of the module at root, a line each. Folders whose name
// begins with '.' or '_', testdata, and modules inside the module are passed over, but not those of examples: people
// learn from them as from the rest.
func Check(root string) (problems []string, err error) {
	err = filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		if rel != "." {
			_, err := os.Stat(filepath.Join(dir, "go.mod"))
			nested := err == nil && !below(rel, "examples")
			if strings.ContainsRune("._", rune(d.Name()[0])) || d.Name() == "testdata" || nested {
				return fs.SkipDir
			}
		}
		found, err := checkDir(root, rel)
		problems = append(problems, found...)
		return err
	})
	return problems, err
}

// checkDir checks the package in one folder, if there is one.
func checkDir(root, rel string) (problems []string, err error) {
	names, err := filepath.Glob(filepath.Join(root, rel, "*.go"))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	example, doc, program := false, "", false
	for _, name := range names {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, "_test.go") {
			example = example || slices.ContainsFunc(file.Decls, isExample)
			continue
		}
		program = program || file.Name.Name == "main"
		if comment := file.Doc.Text(); comment != "" && (doc == "" || filepath.Base(name) == "doc.go") {
			doc = comment
			if filepath.Base(name) != "doc.go" && file.Name.Name != "main" {
				problems = append(problems, fmt.Sprintf("%s: the package comment belongs in doc.go", filepath.Join(rel, filepath.Base(name))))
			}
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, nil
	}
	lines := strings.Count(doc, "\n")
	short := program || below(rel, "internal") || below(rel, "examples")
	switch {
	case doc == "":
		problems = append(problems, rel+": no package comment: what it is, for whom, what it never does, the one trap")
	case !short && (lines < minLines || lines > maxLines):
		problems = append(problems, fmt.Sprintf("%s: a package comment of %d lines: expected %d to %d", rel, lines, minLines, maxLines))
	}
	if room := rel != "." && !strings.ContainsRune(rel, filepath.Separator); room && !program && !example {
		problems = append(problems, rel+": a room without a compiled Example")
	}
	for _, file := range files {
		if file.Name.Name != "main" {
			problems = append(problems, undocumented(root, fset, file)...)
		}
	}
	return problems, nil
}

func below(rel, dir string) bool { return strings.HasPrefix(rel, dir+string(filepath.Separator)) }

func isExample(d ast.Decl) bool {
	f, ok := d.(*ast.FuncDecl)
	return ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Example")
}

// obvious are methods whose interface says what they do.
var obvious = []string{"Error", "String", "Unwrap", "Is", "As", "MarshalText", "UnmarshalText", "MarshalJSON", "UnmarshalJSON", "Close", "Read", "Write"}

// undocumented finds exported names of a file without a comment.
func undocumented(root string, fset *token.FileSet, file *ast.File) (problems []string) {
	missing := func(name *ast.Ident) {
		p := fset.Position(name.Pos())
		at, err := filepath.Rel(root, p.Filename)
		if err != nil {
			at = p.Filename
		}
		problems = append(problems, fmt.Sprintf("%s:%d: %s has no comment", at, p.Line, name.Name))
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || exported(d.Recv) && !slices.Contains(obvious, d.Name.Name)) {
				missing(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				for _, name := range names(spec, d.Doc != nil) {
					missing(name)
				}
			}
		}
	}
	return problems
}

// names lists the exported names of a declaration without a comment; grouped says that the group has one.
func names(spec ast.Spec, grouped bool) (out []*ast.Ident) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && !grouped {
			out = append(out, s.Name)
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() && s.Doc == nil && s.Comment == nil && !grouped {
				out = append(out, name)
			}
		}
	}
	return out
}

// exported tells whether the receiver's type is.
func exported(recv *ast.FieldList) bool {
	t := recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}
