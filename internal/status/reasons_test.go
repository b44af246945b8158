package status

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// constants collects the string constants of a directory whose name or type says that they are reasons.
func constants(t *testing.T, dir string, isReason func(name, typeName string) bool) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	out := map[string]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != len(spec.Names) {
				return true
			}
			typeName := ""
			if id, ok := spec.Type.(*ast.Ident); ok {
				typeName = id.Name
			}
			for i, id := range spec.Names {
				if lit, ok := spec.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING && isReason(id.Name, typeName) {
					value, err := strconv.Unquote(lit.Value)
					require.NoError(t, err)
					out[value] = id.Name
				}
			}
			return true
		})
	}
	return out
}

// A package of pkg cannot import the API, so it spells the reasons that it decides itself; each of them is one of the API's. The others use
// those of the API.
func TestReasonsAreThoseOfTheAPI(t *testing.T) {
	known := constants(t, "../../api/v1alpha1", func(name, _ string) bool { return strings.HasPrefix(name, "Reason") })
	require.Greater(t, len(known), 50)
	ofReason := func(_, typeName string) bool { return typeName == "Reason" }
	require.NoError(t, filepath.WalkDir("../..", func(dir string, d fs.DirEntry, err error) error {
		sources, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || !d.IsDir() || len(sources) == 0 || strings.HasSuffix(dir, "pkg/driver/fwupd") { // what keeps a host from taking capsules is no reason of an object
			return err
		}
		for value, name := range constants(t, dir, ofReason) {
			assert.Contains(t, known, value, "%s: %s is not in api/v1alpha1/conditions.go", dir, name)
			assert.True(t, strings.HasPrefix(dir, "../../pkg/"), "%s: %s is declared twice; use v1alpha1.Reason%s", dir, name, value)
		}
		return nil
	}))
}
