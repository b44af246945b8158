package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// proofs of docs/drivers/proven.md.
var (
	proofMark  = regexp.MustCompile(`\b[STKN]\d+\b`)
	proofTest  = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`")
	proofCheck = regexp.MustCompile(`"([^"]+)"`)
)

// cells are those of the rows of a table whose first cell has the heading.
func cells(t *testing.T, text, heading string) [][]string {
	t.Helper()
	_, rest, found := strings.Cut(text, "| "+heading+" |")
	require.True(t, found, heading)
	table, _, _ := strings.Cut(rest, "\n\n")
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSuffix(table, "\n"), "\n")[2:] { // the rest of the head, and the rule below it
		row := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		rows = append(rows, row)
	}
	require.NotEmpty(t, rows, heading)
	return rows
}

// TestWhatWasProvenIsThere: each proof that the table for buyers cites is named once, and what it names exists.
func TestWhatWasProvenIsThere(t *testing.T) {
	text, err := os.ReadFile("drivers/proven.md")
	require.NoError(t, err)
	named := map[string]bool{}
	for _, row := range cells(t, string(text), "proof") {
		require.Len(t, row, 3)
		assert.False(t, named[row[0]], "%s is named twice", row[0])
		named[row[0]] = true
		switch row[0][0] {
		case 'S', 'T':
			tests := proofTest.FindAllStringSubmatch(row[2], -1)
			assert.NotEmpty(t, tests, row[0])
			for _, test := range tests {
				assert.True(t, hasTest(t, test[1], test[2]), "%s: there is no test %s in %s", row[0], test[2], test[1])
			}
		case 'K':
			requireChecks(t, "../internal/testing/vm/checks.go", row)
		case 'N':
			requireChecks(t, "../internal/testing/realnode/checks.go", row)
		}
	}
	cited := map[string]bool{}
	for _, row := range cells(t, string(text), "devices") {
		require.Len(t, row, 8, row)
		for i, kind := range []string{"S", "T", "K", "N"} {
			for _, mark := range proofMark.FindAllString(row[3+i], -1) {
				assert.True(t, strings.HasPrefix(mark, kind), "%s is no proof for the column %d of %s", mark, 4+i, row[0])
				assert.True(t, named[mark], "%s cites %s, which is not named", row[0], mark)
				cited[mark] = true
			}
			assert.NotEmpty(t, row[3+i], row[0])
		}
		assert.Equal(t, "nobody yet", row[7], "%s: name who ran it, and change this test with it", row[0])
	}
	assert.Equal(t, named, cited, "a proof that no row cites")
}

func requireChecks(t *testing.T, file string, row []string) {
	t.Helper()
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	checks := proofCheck.FindAllStringSubmatch(row[2], -1)
	assert.NotEmpty(t, checks, row[0])
	for _, check := range checks {
		assert.Contains(t, string(source), `, "`+check[1]+`", `, "%s: there is no such check", row[0])
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	require.NoError(t, err)
	return slices.ContainsFunc(files, func(file string) bool {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		return strings.Contains(string(source), "\nfunc "+name+"(t *testing.T)")
	})
}

// TestEveryDriverHasItsRow: every driver of this repository and every class of devices.
func TestEveryDriverHasItsRow(t *testing.T) {
	text, err := os.ReadFile("drivers/proven.md")
	require.NoError(t, err)
	classes, drivers := map[string]bool{}, map[string]bool{}
	for _, row := range cells(t, string(text), "devices") {
		classes[row[1]], drivers[strings.Trim(row[2], "`")] = true, true
	}
	for _, class := range inventory.Classes() {
		assert.True(t, classes[string(class)], class)
	}
	want := []string{"devlink"}
	for _, d := range driversOfTools(t) {
		want = append(want, d.Name())
	}
	for _, name := range want {
		assert.True(t, drivers[name], name)
	}
}
