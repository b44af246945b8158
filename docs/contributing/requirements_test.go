package contributing_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// groups are the groups of requirements with the number of the last one in each.
var groups = []struct {
	name string
	last int
}{{"R000", 70}, {"R001", 24}, {"R002", 77}, {"R003", 56}, {"R004", 40}}

var requirementRow = regexp.MustCompile(`^\| (R\d{3}-\d+) \| (.+) \| (.+) \|$`)

// proving matches the names of functions that can prove something.
var proving = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]`)

// TestRequirements: docs/contributing/requirements.md lists every requirement once and in order, and each test it names exists.
func TestRequirements(t *testing.T) {
	text, err := os.ReadFile("requirements.md")
	require.NoError(t, err)
	tests := testFunctions(t)
	var ids []string
	for line := range strings.Lines(string(text)) {
		row := requirementRow.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			continue
		}
		ids = append(ids, row[1])
		if row[3] == "open" {
			continue
		}
		for proof := range strings.SplitSeq(row[3], ", ") {
			assert.True(t, tests[strings.Trim(proof, "`")], "%s: there is no test %s", row[1], proof)
		}
	}
	var want []string
	for _, g := range groups {
		for i := 1; i <= g.last; i++ {
			want = append(want, fmt.Sprintf("%s-%d", g.name, i))
		}
	}
	assert.Equal(t, want, ids)
}

// testFunctions are the tests, fuzz tests and benchmarks of this repository as "<directory>.<function>".
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		directory, err := filepath.Rel("../..", filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && proving.MatchString(f.Name.Name) {
				found[filepath.ToSlash(directory)+"."+f.Name.Name] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.True(t, found["docs/contributing.TestRequirements"])
	return found
}
