package status

import (
	"go/ast"
	"go/parser"
	"go/token"
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

// The packages below the API have reasons of their own, which conditions show as they are.
func TestReasonsOfLowerPackagesAreReasonsOfTheAPI(t *testing.T) {
	known := constants(t, "../../api/v1alpha1", func(name, _ string) bool { return strings.HasPrefix(name, "Reason") })
	require.Greater(t, len(known), 50)
	for _, dir := range []string{"../../pkg/artifact", "../../pkg/step", "../../pkg/plan", "../schedule"} {
		reasons := constants(t, dir, func(_, typeName string) bool { return typeName == "Reason" })
		require.NotEmpty(t, reasons, dir)
		for value, name := range reasons {
			assert.Contains(t, known, value, "%s: %s is not in api/v1alpha1/conditions.go", dir, name)
		}
	}
}
