package toolcontract

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// spoon is a tool for tests of the contract itself.
func spoon() Tool {
	return Tool{
		Name: "spoon", VersionArgs: []string{"--version"}, VersionText: regexp.MustCompile(`spoon (\d+\.\d+)`),
		Marks: []Mark{{"no such dish", NoDevice}, {"locked", Locked}},
		Cases: []Case{
			{Name: "stir", Args: []string{"stir", "{absent}", "{blank}"}, Want: Want{NoDevice, 1, "{absent}: no such dish"}, On: map[Condition]Want{
				Virtual: {Locked, 3, "locked"},
			}},
			{Name: "rest", Args: []string{"rest"}, Env: []string{"QUIET=1"}, Want: Want{Done, 0, "at rest"}},
		},
	}
}

func table(stir, rest Answer) Runner {
	return func(_ context.Context, argv, env []string) (Answer, error) {
		switch strings.Join(argv[:2], " ") {
		case "spoon stir":
			return stir, nil
		case "spoon rest":
			return rest, nil
		case "spoon --version":
			return Answer{Stdout: "spoon 1.2 of Debian\n"}, nil
		}
		return Answer{}, ErrNotInstalled
	}
}

func TestComplaintsSayWhatDiffers(t *testing.T) {
	w, err := NewWorld(t.TempDir(), "")
	require.NoError(t, err)
	good := Answer{Exit: 1, Stderr: Absent + ": no such dish\n"}
	rest := Answer{Stdout: "at rest\n"}
	for name, c := range map[string]struct {
		stir, rest Answer
		on         []Condition
		want       []string
	}{
		"as wanted":            {good, rest, nil, nil},
		"another class":        {Answer{Exit: 1, Stderr: "locked"}, rest, nil, []string{"its class is Locked, want NoDevice", "it does not print"}},
		"another exit code":    {Answer{Exit: 2, Stderr: good.Stderr}, rest, nil, []string{"it exits with 2, want 1"}},
		"no mark":              {Answer{Exit: 1}, rest, nil, []string{"its class is Unclear", "it does not print"}},
		"on another machine":   {good, rest, []Condition{Virtual}, []string{"its class is NoDevice, want Locked", "exits with 1", "does not print"}},
		"on that machine":      {Answer{Exit: 3, Stdout: "locked"}, rest, []Condition{Virtual}, nil},
		"a condition unnamed":  {good, rest, []Condition{SecureBoot}, nil},
		"done with a bad code": {good, Answer{Exit: 5, Stdout: "at rest"}, nil, []string{"its class is Unclear, want Done", "exits with 5"}},
	} {
		t.Run(name, func(t *testing.T) {
			records, err := spoon().Run(t.Context(), w, table(c.stir, c.rest))
			require.NoError(t, err)
			var got []string
			for _, r := range records {
				got = append(got, r.Complaints(c.on)...)
			}
			require.Len(t, got, len(c.want), got)
			for i, part := range c.want {
				assert.Contains(t, got[i], part)
			}
		})
	}
}

func TestARecordingCanBeReadBack(t *testing.T) {
	dir := t.TempDir()
	w, err := NewWorld(dir, "/inside")
	require.NoError(t, err)
	run := table(Answer{Exit: 1, Stderr: Absent + ": no such dish\nin /inside/blank\n"}, Answer{Stdout: "at rest\n"})
	version, err := spoon().VersionOf(t.Context(), run)
	require.NoError(t, err)
	assert.Equal(t, "1.2", version)
	records, err := spoon().Run(t.Context(), w, run)
	require.NoError(t, err)
	text := Transcript(spoon(), version, []Condition{Virtual}, records)
	assert.NotContains(t, text, dir)
	assert.NotContains(t, text, "/inside")
	got, on, err := parseTranscript(spoon(), text)
	require.NoError(t, err)
	assert.Equal(t, []Condition{Virtual}, on)
	require.Len(t, got, 2)
	for _, r := range records {
		back, ok := got[commandLine(spoon(), r.Case)]
		require.True(t, ok, text)
		assert.Equal(t, r.Class, back.Class)
		assert.Equal(t, r.Answer, back.Answer)
	}
	_, _, err = parseTranscript(spoon(), "fork 1.2\n")
	require.ErrorContains(t, err, "not about spoon")
	_, _, err = parseTranscript(spoon(), "spoon 1.2\n\n$ spoon stir\nwell\n")
	require.Error(t, err)
}

func TestAToolThatIsNotThereIsTold(t *testing.T) {
	const missing = "no-tool-has-this-name"
	for _, run := range []Runner{Exec(), Exec("nice")} {
		_, err := run(t.Context(), []string{missing}, nil)
		require.ErrorIs(t, err, ErrNotInstalled)
	}
	a, err := Exec("nice")(t.Context(), []string{"sh", "-c", "echo $QUIET $LC_ALL; exit 7"}, []string{"QUIET=1"})
	require.NoError(t, err)
	assert.Equal(t, Answer{Exit: 7, Stdout: "1 C\n"}, a, "behind a prefix a tool gets its environment and gives its exit code")
}

// A function that makes a command is found wherever it is, and one that returns none with an error is not.
func TestFindsBuildersInSource(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"argv.go": "package p\nfunc read() command.Command { return command.Command{Argv: argv} }\n" +
			"func (d *D) deep() { for { go func() { run(command.Command{Argv: x}) }() } }\n" +
			"func fails() (command.Command, error) { return command.Command{}, err }\nfunc other() { _ = other.Command{Argv: 1} }\n",
		"list.go":      "package p\nvar all = []command.Command{{Argv: a}}\nfunc calls() { _ = []command.Command{read()} }\n",
		"argv_test.go": "package p\nfunc inTest() { _ = command.Command{Argv: x} }\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	got, err := Builders(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"a variable", "deep", "read"}, got)
	assert.True(t, spoon().knows([]string{"spoon", "rest"}))
	assert.False(t, spoon().knows([]string{"spoon", "rest", "more"}))
	assert.False(t, spoon().knows([]string{"fork", "rest"}))
}
