package contributing_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	codeSpan    = regexp.MustCompile("`([^`]+)`")
	sourcePath  = regexp.MustCompile(`^[a-z][\w./-]*$`)
	declaration = regexp.MustCompile(`^[A-Za-z]\w*(\.\w+)?$`)
)

// TestArchitecture: each file and directory named in a table of architecture.md exists, and each declaration is in the file
// named before it in the same cell. A single lower-case word is a declaration after a file, and else a directory.
func TestArchitecture(t *testing.T) {
	text, err := os.ReadFile("architecture.md")
	require.NoError(t, err)
	files, names := 0, 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for cell := range strings.SplitSeq(line, "|") {
			var declared map[string]bool
			for _, span := range codeSpan.FindAllStringSubmatch(cell, -1) {
				switch name := span[1]; {
				case strings.HasSuffix(name, ".go"):
					declared = declarations(t, name)
					files++
				case declared != nil && declaration.MatchString(name):
					assert.True(t, declared[name], "%s is not declared where this line says: %s", name, line)
					names++
				case sourcePath.MatchString(name):
					assert.DirExists(t, filepath.Join("../..", name))
				}
			}
		}
	}
	assert.Greater(t, files, 40)
	assert.Greater(t, names, 40)
}

// declarations are what a Go file declares at its top level; a method is "Type.Method".
func declarations(t *testing.T, path string) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", path), nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	found := map[string]bool{}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			found[receiver(d)+d.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					found[spec.Name.Name] = true
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						found[name.Name] = true
					}
				}
			}
		}
	}
	return found
}

// receiver is the type of a method with a dot, and empty for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	kind := f.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	if generic, ok := kind.(*ast.IndexExpr); ok {
		kind = generic.X
	}
	if named, ok := kind.(*ast.Ident); ok {
		return named.Name + "."
	}
	return ""
}

// TestDecisions: decisions.md lists every page of docs/adr.
func TestDecisions(t *testing.T) {
	text, err := os.ReadFile("decisions.md")
	require.NoError(t, err)
	pages, err := filepath.Glob("../adr/[0-9]*.md")
	require.NoError(t, err)
	assert.NotEmpty(t, pages)
	for _, page := range pages {
		listed := strings.Contains(string(text), "]("+filepath.ToSlash(page)+")")
		assert.True(t, listed, "decisions.md does not list %s", page)
	}
}
