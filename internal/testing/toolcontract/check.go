package toolcontract

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/internal/testing/golden"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
	"github.com/nodefirmware/node-firmware-operator/pkg/vendortool"
)

// CheckReal holds a real tool to the contract, and its answers to the recording of its version in testdata, if there is one. It
// skips the test where the tool is not installed; required says that it has to be, as in an image that ships it.
func CheckReal(t *testing.T, tool Tool, w World, run Runner, required bool) {
	t.Helper()
	version, err := tool.VersionOf(t.Context(), run)
	if errors.Is(err, ErrNotInstalled) && !required {
		t.Skipf("%s is not installed here: only its recorded answers are checked (%v)", tool.Name, err)
	}
	require.NoError(t, err)
	if support, message := judge(tool, version); required {
		assert.Equal(t, vendortool.Tested, support, "%s %s: %s", tool.Name, version, message)
	}
	if os.Geteuid() != 0 && !required {
		t.Skipf("%s %s answers root alone: only its recorded answers are checked", tool.Name, version)
	}
	on := ConditionsOf(t.Context(), run)
	records, err := tool.Run(t.Context(), w, run)
	require.NoError(t, err)
	check(t, "real", tool, on, records)
	if required {
		checkSurroundings(t, records)
	}
	file := filepath.Join(cmp.Or(w.Recordings, "testdata"), tool.Name+"-"+version+suffix(on, "-")+".txt")
	if _, err := os.Stat(file); err != nil && os.Getenv(golden.Update) == "" {
		t.Logf("There is no recording of %s %s%s; run with %s=1 to make it.", tool.Name, version, suffix(on, " "), golden.Update)
		return
	}
	golden.Equal(t, file, Transcript(tool, version, on, records))
}

// CheckSimulated holds a simulated tool to the contract. The conditions are those of the simulated machine.
func CheckSimulated(t *testing.T, tool Tool, w World, run Runner, on ...Condition) {
	t.Helper()
	checkOn(t, "simulated", tool, w, run, on)
	version, err := tool.VersionOf(t.Context(), run)
	require.NoError(t, err)
	support, message := judge(tool, version)
	assert.Equal(t, vendortool.Tested, support, "the simulated %s %s: %s", tool.Name, version, message)
}

// judge says what the daemon makes of a version of a tool.
func judge(tool Tool, version string) (support vendortool.Support, message string) {
	vendors, known := vendortool.Named(tool.Name)
	if !known {
		return vendortool.Unknown, "it is not in the table of package vendortool"
	}
	return vendors.Judge(inventory.Version(version))
}

// CheckOwn holds a tool of this product to the contract, on a kernel of which the conditions are true.
func CheckOwn(t *testing.T, tool Tool, w World, run Runner, on ...Condition) {
	t.Helper()
	checkOn(t, "own", tool, w, run, on)
}

func checkOn(t *testing.T, kind string, tool Tool, w World, run Runner, on []Condition) {
	t.Helper()
	records, err := tool.Run(t.Context(), w, run)
	require.NoError(t, err)
	check(t, kind, tool, on, records)
}

// checkSurroundings fails the test where a tool misses something around it that an image has to provide.
func checkSurroundings(t *testing.T, records []Record) {
	t.Helper()
	for _, r := range records {
		for _, miss := range []string{"Read-only file system", "cannot open shared object file", "command not found", "ModuleNotFoundError", "Permission denied"} {
			assert.NotContains(t, r.Stdout+r.Stderr, miss, r.Name)
		}
	}
}

func check(t *testing.T, kind string, tool Tool, on []Condition, records []Record) {
	t.Helper()
	require.NotEmpty(t, records)
	for _, r := range records {
		assert.Empty(t, r.Complaints(on), "the %s tool, %s: %s\n%s%s", kind, r.Name, commandLine(tool, r.Case), r.Stdout, r.Stderr)
	}
}

// CheckRecorded holds the list of cases to all recordings of the tool, where it is not installed too.
func CheckRecorded(t *testing.T, tool Tool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", tool.Name+"-[0-9]*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "no version of %s was ever recorded", tool.Name)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		records, on, err := parseTranscript(tool, string(text))
		require.NoError(t, err, file)
		for _, c := range tool.Cases {
			r, ok := records[commandLine(tool, c)]
			if !assert.True(t, ok, "%s has no answer to %s: record it again", file, commandLine(tool, c)) {
				continue
			}
			r.Case = c
			assert.Empty(t, r.Complaints(on), "%s: %s", file, commandLine(tool, c))
		}
		assert.Len(t, records, len(tool.Cases), "%s has answers to what is no case", file)
	}
}

// Covers fails the test unless built holds, for each function that makes a command in the Go package in dir, the command lines
// that it makes, and each of them is a case of a tool. The arguments have placeholders where a case has them.
func Covers(t *testing.T, dir string, built map[string][][]string, tools ...Tool) {
	t.Helper()
	builders, err := Builders(dir)
	require.NoError(t, err)
	require.NotEmpty(t, builders)
	for _, b := range builders {
		assert.NotEmpty(t, built[b], "%s makes a command: add what it makes to this test and to the list of cases", b)
	}
	for name, lines := range built {
		assert.Contains(t, builders, name, "no function of this name makes a command")
		for _, argv := range lines {
			assert.True(t, slices.ContainsFunc(tools, func(tool Tool) bool { return tool.knows(argv) }),
				"%s makes %q, which is no case: add it, and record what the real tool answers", name, argv)
		}
	}
}

func (t Tool) knows(argv []string) bool {
	return len(argv) > 0 && argv[0] == t.Name &&
		slices.ContainsFunc(t.Cases, func(c Case) bool { return slices.Equal(c.Args, argv[1:]) })
}
