package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// goFiles parses the files of the repository that people write.
func goFiles(t *testing.T, visit func(path string, fset *token.FileSet, f *ast.File)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && path != ".."):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go"):
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		visit(strings.TrimPrefix(path, "../"), fset, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHousePackageComments holds that a package says once what it is for.
func TestHousePackageComments(t *testing.T) {
	comments := map[string][]string{}
	goFiles(t, func(path string, _ *token.FileSet, f *ast.File) {
		dir := filepath.Dir(path) + " " + f.Name.Name
		if strings.HasSuffix(f.Name.Name, "_test") {
			return
		}
		if _, ok := comments[dir]; !ok {
			comments[dir] = nil
		}
		if f.Doc != nil && strings.HasPrefix(f.Doc.Text(), "Package ") || f.Doc != nil && strings.HasPrefix(f.Doc.Text(), "Command ") {
			comments[dir] = append(comments[dir], path)
		}
	})
	for dir, files := range comments {
		if len(files) != 1 {
			t.Errorf("package %s has %d package comments, want one: %v", dir, len(files), files)
		}
	}
}

// TestHouseOnlyMainExits holds that a library returns errors.
func TestHouseOnlyMainExits(t *testing.T) {
	goFiles(t, func(path string, fset *token.FileSet, f *ast.File) {
		if f.Name.Name == "main" || strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && (x.Name == "os" && s.Sel.Name == "Exit" || x.Name == "log" && strings.HasPrefix(s.Sel.Name, "Fatal")) {
					t.Errorf("%s: %s.%s: only main exits", fset.Position(n.Pos()), x.Name, s.Sel.Name)
				}
			}
			return true
		})
	})
}
