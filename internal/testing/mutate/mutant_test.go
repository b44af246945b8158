package mutate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMutantsApply: every mutant finds its place in the code as it is now and says something else there, and the documentation
// says how many there are.
func TestMutantsApply(t *testing.T) {
	said := map[string]bool{}
	for _, m := range All() {
		_, err := m.apply("../../..")
		assert.NoError(t, err)
		assert.NotEqual(t, m.Old, m.New, m.What)
		key := m.File + m.What
		assert.False(t, said[key], "two mutants of %s: %s", m.File, m.What)
		said[key] = true
	}
	page, err := os.ReadFile("../../../docs/contributing/performance.md")
	require.NoError(t, err)
	figure := fmt.Sprintf("`mutants: %d, caught: %d`", len(said), len(said))
	if !strings.Contains(string(page), figure) { // not assert.Contains, which prints the page
		t.Errorf("docs/contributing/performance.md must say %s", figure)
	}
}

// TestDefectsAreToldApart: a defect that a test notices, one that none notices, and one that shows nothing.
func TestDefectsAreToldApart(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module sum\n\ngo 1.26\n",
		"a/a.go":      "package a\n\n// Add and Sub.\nfunc Add(x, y int) int { return x + y }\nfunc Sub(x, y int) int { return x - y }\n",
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif Add(2, 3) != 5 {\n\t\tt.Fatal()\n\t}\n}\n",
		"b/b.go":      "package b\n",
		"c/c_test.go": "package c\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { t.Fatal() }\n",
		"b/b_test.go": "package b\n\nimport (\n\t\"testing\"\n\t\"sum/a\"\n)\n\nfunc TestSum(t *testing.T) {\n\tif a.Add(1, 1) != 2 {\n\t\tpanic(1)\n\t}\n}\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	mutants := []Mutant{
		{What: "adds wrongly", File: "a/a.go", Old: "x + y", New: "x - 2*y"},
		{What: "adds wrongly, seen from outside", File: "a/a.go", Old: "x + y", New: "x * y", Packages: []string{"b"}, Run: "TestSum"},
		{What: "subtracts wrongly", File: "a/a.go", Old: "x - y", New: "x + y"},
		{What: "does not compile", File: "a/a.go", Old: "x + y", New: "z"},
		{What: "has no place", File: "a/a.go", Old: "int", New: "uint"},
	}
	type seen struct {
		verdict Verdict
		by      string
	}
	got := map[string]seen{}
	require.NoError(t, Run(t.Context(), root, mutants, 2, func(r Result) { got[r.Mutant.What] = seen{r.Verdict, r.By} }))
	assert.Equal(t, seen{Caught, "TestAdd"}, got["adds wrongly"])
	assert.Equal(t, seen{Caught, "TestSum"}, got["adds wrongly, seen from outside"])
	assert.Equal(t, seen{Survived, "every test of ./a passed"}, got["subtracts wrongly"])
	assert.Equal(t, Invalid, got["does not compile"].verdict)
	assert.Contains(t, got["does not compile"].by, "undefined: z")
	assert.Equal(t, Invalid, got["has no place"].verdict)
	assert.Contains(t, got["has no place"].by, "occurs 4 times")

	red := []Mutant{{What: "anything", File: "a/a.go", Old: "x + y", New: "x", Packages: []string{"c"}}}
	assert.ErrorContains(t, Run(t.Context(), root, red, 1, func(Result) { t.Error("nothing is shown by tests that fail anyway") }), "TestBad")
	untested := []Mutant{{What: "anything", File: "a/a.go", Old: "x + y", New: "x", Run: "TestNobodyWrote"}}
	assert.ErrorContains(t, Run(t.Context(), root, untested, 1, func(Result) { t.Error("nothing was tested") }), "no test matches")
}
