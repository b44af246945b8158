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

// standing is how far a requirement is proven.
type standing string

const (
	proven     standing = "proven in full"
	partly     standing = "proven in part"
	decided    standing = "done otherwise, by decision"
	unproven   standing = "open"
	missing             = "; missing: "
	countsForm          = "**%d of %d are proven in full, %d in part; for %d the product does otherwise, by decision; %d are open.**"
)

var decisionLink = regexp.MustCompile(`^\[ADR \d+\]\(\.\./adr/(\d{4}-[a-z0-9-]+\.md)\)$`)

// TestRequirements: docs/contributing/requirements.md lists every requirement once and in order, each proof has one of the forms
// that the head of the page explains, the tests and decisions it names exist, and the page states the right numbers.
func TestRequirements(t *testing.T) {
	text, err := os.ReadFile("requirements.md")
	require.NoError(t, err)
	tests := testFunctions(t)
	var ids []string
	counts := map[standing]int{}
	for line := range strings.Lines(string(text)) {
		row := requirementRow.FindStringSubmatch(strings.TrimSpace(line))
		if row == nil {
			continue
		}
		ids = append(ids, row[1])
		how, named, adr, err := parseProof(row[3])
		assert.NoError(t, err, row[1])
		counts[how]++
		for _, test := range named {
			assert.True(t, tests[test], "%s: there is no test %s", row[1], test)
		}
		if adr != "" {
			assert.FileExists(t, "../adr/"+adr, row[1])
		}
	}
	var want []string
	for _, g := range groups {
		for i := 1; i <= g.last; i++ {
			want = append(want, fmt.Sprintf("%s-%d", g.name, i))
		}
	}
	assert.Equal(t, want, ids)
	head := fmt.Sprintf(countsForm, counts[proven], len(ids), counts[partly], counts[decided], counts[unproven])
	assert.Contains(t, string(text), "\n"+head+"\n", "the head of the page must say\n%s", head)
}

// parseProof reads the proof of a row: the tests it names, and the page of the decision.
func parseProof(proof string) (how standing, tests []string, adr string, err error) {
	how = proven
	switch rest, isPart := strings.CutPrefix(proof, "part: "); {
	case proof == "open":
		return unproven, nil, "", nil
	case isPart:
		shown, lacks, said := strings.Cut(rest, missing)
		if !said || strings.TrimSpace(lacks) == "" {
			return partly, nil, "", fmt.Errorf("a proof in part must say what is missing: %q", proof)
		}
		how, proof = partly, shown
	case strings.HasPrefix(proof, "decided: "):
		link, others, _ := strings.Cut(strings.TrimPrefix(proof, "decided: "), ", ")
		page := decisionLink.FindStringSubmatch(link)
		if page == nil {
			return decided, nil, "", fmt.Errorf("a decision must be linked: %q", link)
		}
		if how, adr, proof = decided, page[1], others; proof == "" {
			return how, nil, adr, nil
		}
	}
	for test := range strings.SplitSeq(proof, ", ") {
		name, ok := strings.CutPrefix(test, "`")
		if !ok || !strings.HasSuffix(name, "`") {
			return how, nil, adr, fmt.Errorf("this is no form of a proof: %q", test)
		}
		tests = append(tests, strings.TrimSuffix(name, "`"))
	}
	return how, tests, adr, nil
}

func TestFormsOfAProof(t *testing.T) {
	for proof, want := range map[string]struct {
		how   standing
		tests []string
		adr   string
		fails bool
	}{
		"`a.TestB`, `a.TestC`":                               {how: proven, tests: []string{"a.TestB", "a.TestC"}},
		"part: `a.TestB`; missing: the rest":                 {how: partly, tests: []string{"a.TestB"}},
		"part: `a.TestB`":                                    {how: partly, fails: true},
		"part: `a.TestB`; missing: ":                         {how: partly, fails: true},
		"decided: [ADR 4](../adr/0004-ledger.md)":            {how: decided, adr: "0004-ledger.md"},
		"decided: [ADR 4](../adr/0004-ledger.md), `a.TestB`": {how: decided, adr: "0004-ledger.md", tests: []string{"a.TestB"}},
		"decided: `a.TestB`":                                 {how: decided, fails: true},
		"open":                                               {how: unproven},
		"see the code":                                       {how: proven, fails: true},
	} {
		how, tests, adr, err := parseProof(proof)
		assert.Equal(t, want.how, how, proof)
		assert.Equal(t, want.tests, tests, proof)
		assert.Equal(t, want.adr, adr, proof)
		assert.Equal(t, want.fails, err != nil, "%s: %v", proof, err)
	}
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
