package hack_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTestsDoNotSleep: a test waits for what it waits for. Only under testing/synctest, whose clock costs no time, may
// it sleep, and in a line that says why in a comment beginning with "sleeps:".
func TestTestsDoNotSleep(t *testing.T) {
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, line := range sleeps(files, file) {
			assert.Fail(t, "a test sleeps", "%s:%d: use testing/synctest, an injected clock or require.Eventually", path, line)
		}
		return nil
	})
	require.NoError(t, err)
}

func TestSleepsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   int
	}{
		"plain":          {"package p\nimport \"time\"\nfunc f() { time.Sleep(1) }", 1},
		"under synctest": {"package p\nimport (\"time\"; _ \"testing/synctest\")\nfunc f() { time.Sleep(1) }", 0},
		"explained":      {"package p\nimport \"time\"\nfunc f() { time.Sleep(1) } // sleeps: plays a tool that hangs", 0},
	} {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, "p_test.go", c.source, parser.ParseComments)
		require.NoError(t, err)
		assert.Len(t, sleeps(files, file), c.want, name)
	}
}

// sleeps are the lines of a file that sleep without leave.
func sleeps(files *token.FileSet, file *ast.File) []int {
	if slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` }) {
		return nil
	}
	explained := map[int]bool{}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			explained[files.Position(comment.Pos()).Line] = strings.HasPrefix(comment.Text, "// sleeps:")
		}
	}
	var lines []int
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok || selector.Sel.Name != "Sleep" {
			return true
		}
		if name, ok := selector.X.(*ast.Ident); ok && name.Name == "time" {
			if line := files.Position(selector.Pos()).Line; !explained[line] {
				lines = append(lines, line)
			}
		}
		return true
	})
	return lines
}

// TestEachBenchmarkRuns: a package with benchmarks runs them once in its tests, or `make bench` breaks unnoticed.
func TestEachBenchmarkRuns(t *testing.T) {
	has, runs := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		dir := filepath.Dir(path)
		has[dir] = has[dir] || bytes.Contains(text, []byte("\nfunc Benchmark"))
		runs[dir] = runs[dir] || bytes.Contains(text, []byte("\nfunc TestBenchmarks(t *testing.T) { bench.Once(t) }\n"))
		return err
	})
	require.NoError(t, err)
	require.True(t, has["../pkg/artifact"])
	assert.Equal(t, has, runs)
}
