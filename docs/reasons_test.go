package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reasonsOf are the values of the Reason constants of the API, by name.
func reasonsOf(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../api/v1alpha1/conditions.go", nil, 0)
	require.NoError(t, err)
	out := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		require.True(t, ok, spec.Names[0].Name)
		value, err := strconv.Unquote(literal.Value)
		require.NoError(t, err)
		out[spec.Names[0].Name] = value
		return true
	})
	require.Greater(t, len(out), 60)
	return out
}

// TestEveryReasonIsExplained: whoever searches these pages for a reason finds it.
func TestEveryReasonIsExplained(t *testing.T) {
	var pages strings.Builder
	for _, pattern := range []string{"*.md", "concepts/*.md", "drivers/*.md", "kinds/*.md", "runbooks/*.md"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			pages.Write(text)
		}
	}
	for _, reason := range reasonsOf(t) {
		assert.Regexp(t, "`([A-Za-z]+ )?"+reason+"[` :=]", pages.String(), "no page names %s", reason)
	}
}

// TestReasonsOfKindsExist: what the pages of the kinds name as the reason of a condition is one that a condition can have.
func TestReasonsOfKindsExist(t *testing.T) {
	known := map[string]bool{}
	for _, value := range reasonsOf(t) {
		known[value] = true
	}
	pages, err := filepath.Glob("kinds/*.md")
	require.NoError(t, err)
	named := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, table := range strings.Split(string(text), "\n\n") {
			at := -1
			for _, line := range strings.Split(strings.TrimSpace(table), "\n") {
				row := strings.Split(strings.TrimPrefix(line, "|"), "|")
				if at < 0 {
					at = slices.Index(row, " reason ")
				}
				if at < 0 {
					break
				}
				for _, m := range inCode.FindAllStringSubmatch(row[min(at, len(row)-1)], -1) {
					named++
					assert.True(t, known[m[1]], "%s: %s is no reason of the API", page, m[1])
				}
			}
		}
	}
	require.Greater(t, named, 100)
}

var (
	namedReason = regexp.MustCompile(`v1alpha1\.(Reason\w+)`)
	inCode      = regexp.MustCompile("`([A-Za-z]+)`")
)

// TestSourceReasonsHaveRows: each reason that the operator gives a source is in the table of its kind, and in that of the
// runbook for sources. The reasons of a quarantine have a runbook of their own.
func TestSourceReasonsHaveRows(t *testing.T) {
	values := reasonsOf(t)
	given := map[string]bool{}
	files, err := filepath.Glob("../internal/controller/source/*.go")
	require.NoError(t, err)
	for _, f := range append(files, "../internal/status/source.go") {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range namedReason.FindAllStringSubmatch(string(text), -1) {
			given[values[m[1]]] = true
		}
	}
	// Package artifact names the reasons of the API without importing it.
	text, err := os.ReadFile("../pkg/artifact/file.go")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`\t(\w+) +(?:Reason = "|= Reason\()`).FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, values, "Reason"+m[1], "a condition of a source has a reason that the API does not declare")
		given[m[1]] = true
	}
	require.Greater(t, len(given), 13)
	delete(given, "Succeeded") // needs no row in a runbook

	for _, page := range []string{"kinds/firmwaresource.md", "runbooks/source-not-ready.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		rows := map[string]bool{}
		for _, row := range cells(t, string(text), "reason") {
			for _, m := range inCode.FindAllStringSubmatch(row[0], -1) {
				rows[m[1]] = true
			}
		}
		for reason := range given {
			assert.True(t, rows[reason], "%s has no row for %s", page, reason)
		}
	}
}
